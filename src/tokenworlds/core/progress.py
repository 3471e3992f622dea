"""How far a run is, and what it is to do next."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Phase:
    """Collect this many steps of every stream, then update each learner this many times."""

    collect: int
    updates: Mapping[str, int]
    random: bool = False


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is: agent steps of all environments, and updates of each learner.

    `gradient_steps` are those of all optimisers. An update makes one or many: a goal names none.
    """

    steps: int = 0
    updates: Mapping[str, int] = field(default_factory=dict)
    gradient_steps: int = 0

    @property
    def update_count(self) -> int:
        """Updates of all learners together."""
        return sum(self.updates.values())

    def left(self, goal: "Progress") -> "Progress":
        """What is still to do on the way to a goal."""
        due = {name: max(n - self.updates.get(name, 0), 0) for name, n in goal.updates.items()}
        return Progress(max(goal.steps - self.steps, 0), due)

    def reaches(self, goal: "Progress") -> bool:
        """Whether nothing is left to do."""
        left = self.left(goal)
        return not left.steps and not left.update_count
