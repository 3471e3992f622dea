"""The progress of a run, and the next phase of its work."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Phase:
    """Collect this many steps of every environment, then update each learner this many times."""

    collect: int
    updates: Mapping[str, int]
    random: bool = False


@dataclass(frozen=True, slots=True)
class Progress:
    """Agent steps of all environments, and updates of each learner.

    `gradient_steps` count the steps of all optimisers; a goal has none, because an update of PPO
    makes several.
    """

    steps: int = 0
    updates: Mapping[str, int] = field(default_factory=dict)
    gradient_steps: int = 0

    @property
    def update_count(self) -> int:
        return sum(self.updates.values())

    def left(self, goal: "Progress") -> "Progress":
        due = {name: max(n - self.updates.get(name, 0), 0) for name, n in goal.updates.items()}
        return Progress(max(goal.steps - self.steps, 0), due)

    def reaches(self, goal: "Progress") -> bool:
        left = self.left(goal)
        return not left.steps and not left.update_count
