"""Count what an agent asks of a device: operations, and points where the host waits for it.

On a card each operation launches a kernel or a few, and at a wait the host cannot launch the next
ones ahead. The count is made on the hollow pretended device: at any size without a card.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor
from torch.utils._pytree import tree_leaves

from tokenworlds.agent import BEHAVIOUR, JOINT, Agent
from tokenworlds.benchmarking import hollow, pretended_device
from tokenworlds.benchmarking.pretended_device import Watch
from tokenworlds.benchmarking.workloads import dream, random_segment
from tokenworlds.core.capabilities import CachesTokens
from tokenworlds.core.seeding import seed_everything, torch_generator
from tokenworlds.core.types import ActionSpace, FrameShape, Segment
from tokenworlds.envs.catalogue import EnvSpec
from tokenworlds.runs.recipe import Recipe
from tokenworlds.training.learner import Learner

aten = torch.ops.aten
NO_KERNEL = {
    *(aten._unsafe_view.default, aten.lift_fresh.default),
    *(aten.empty.memory_format, aten.empty_strided.default, aten.empty_like.default),
    *(aten.new_empty.default, aten.new_empty_strided.default),
}
"""Operations beside views that compute nothing."""
WAITING = {
    *(aten._local_scalar_dense.default, aten.equal.default, aten.nonzero.default),
    *(aten.masked_select.default, aten.repeat_interleave.Tensor, aten.unique_dim.default),
    *(aten._unique2.default, aten.unique_consecutive.default),
}
"""Operations whose result, or its shape, the host must know."""
PACKAGE = Path(__file__).parents[1]
OWN = {str(Path(module.__file__ or "")) for module in (hollow, pretended_device)} | {__file__}
DREAM_STEP = "dream step"
SHORT, LONG = 2, 4
"""Steps of the two dreams whose difference is the cost of a step."""


@dataclass(slots=True)
class Launches(Watch):
    """Operations, views aside, and waits by the source line that causes them."""

    operations: float = 0
    waits: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)

    def fused(self, name: str) -> None:
        self.operations += 1
        self.kinds[name] += 1

    def operation(self, func: Any, args: Any, kwargs: Mapping[str, Any]) -> None:
        if waits(func, args, kwargs):
            self.waits[source_line()] += 1
        if not is_view(func) and func not in NO_KERNEL:
            self.operations += 1
            self.kinds[func.overloadpacket.__name__] += 1

    def per_step(self, shorter: "Launches", steps: int) -> "Launches":
        """What one more step costs, from two dreams that differ by `steps`."""
        return Launches(
            (self.operations - shorter.operations) / steps,
            each_by(self.waits - shorter.waits, steps),
            each_by(self.kinds - shorter.kinds, steps),
        )


def each_by(counts: Counter[str], steps: int) -> Counter[str]:
    return Counter({name: -(-count // steps) for name, count in counts.items()})


@cache
def is_view(func: Any) -> bool:
    """Whether the result shares memory with an argument that is not written."""
    aliases = [each.alias_info for each in func._schema.returns]
    return bool(aliases) and all(each is not None and not each.is_write for each in aliases)


def waits(func: Any, args: Any, kwargs: Mapping[str, Any]) -> bool:
    """Whether the host waits here: it reads a number, a mask's size, or copies without pinning."""
    if func in WAITING:
        return True
    if func in hollow.MASKED:
        return any(each is not None and each.dtype == torch.bool for each in args[1])
    if func not in pretended_device.TRANSFERS:
        return False
    ahead = kwargs.get("non_blocking") or (func is aten.copy_.default and args[2:] == (True,))
    return not ahead and crosses(func, args, kwargs)


def crosses(func: Any, args: Any, kwargs: Mapping[str, Any]) -> bool:
    """Whether a copy leads from one device to the other."""
    sides = {each.device.type for each in tree_leaves(args) if isinstance(each, Tensor)}
    target = kwargs.get("device")
    return len(sides if target is None else sides | {torch.device(target).type}) > 1


def source_line() -> str:
    """The innermost line of this package that led here."""
    frame = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        if path not in OWN and path.startswith(str(PACKAGE)):
            return f"{Path(path).relative_to(PACKAGE)}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return "backward pass"


@dataclass(frozen=True, slots=True)
class Counted:
    """The launches of one update of a learner, or of one step of a dream."""

    name: str
    launches: Launches


def count_in(recipe: Recipe, env: EnvSpec) -> Iterator[Counted]:
    """`count_launches` with the frames and actions of an environment."""
    example = env.make()
    shape, space = example.frame_shape, example.action_space
    example.close()
    return count_launches(recipe, shape, space)


def count_launches(
    recipe: Recipe, shape: FrameShape, space: ActionSpace, *, hollow: bool = True
) -> Iterator[Counted]:
    """One update of each learner in its own batch size, then one step of a dream.

    If not `hollow`, numbers are computed, on the CPU.
    """
    running = Launches()

    def counted(task: Callable[[], object]) -> Launches:
        running.operations, running.waits, running.kinds = 0, Counter(), Counter()
        task()
        return Launches(running.operations, running.waits, running.kinds)

    with pretended_device.pretended_device(running, hollow=hollow) as device:
        seed_everything(0)
        agent = Agent.build(recipe, shape, space).to(device)
        generator = torch_generator(0, "launches", device=device)
        trainables = agent.trainables(generator)
        for name, learning in recipe.learning.items():
            learner = Learner(name, learning, trainables[name])
            segment = segment_for(agent, learning.batch, learning.length)
            learner.update(segment)  # The first update makes the state of the optimiser.
            yield Counted(name, counted(partial(learner.update, segment)))
        if agent.behaviour.horizon:
            yield Counted(DREAM_STEP, count_dream(agent, recipe, generator, counted))


def count_dream(
    agent: Agent,
    recipe: Recipe,
    generator: Generator,
    counted: Callable[[Callable[[], object]], Launches],
) -> Launches:
    learning = recipe.learning[JOINT if JOINT in recipe.learning else BEHAVIOUR]
    segment = segment_for(agent, learning.batch, learning.length)
    runs = [
        counted(partial(dream, agent, segment, horizon=steps, generator=generator))
        for steps in (SHORT, LONG)
    ]
    return runs[1].per_step(runs[0], LONG - SHORT)


def segment_for(agent: Agent, batch: int, length: int) -> Segment:
    """Noise on the agent's device."""
    tokens = agent.world.tokens if isinstance(agent.world, CachesTokens) else 0
    small = random_segment(
        agent.frame_shape, agent.action_space, batch, length, torch.Generator(), tokens
    )
    return small.to(agent.device)


def to_document(recipe: str, size: str, counted: Counted) -> dict[str, Any]:
    """As JSON can hold it."""
    launches = counted.launches
    return {
        "recipe": recipe,
        "size": size,
        "name": counted.name,
        "operations": launches.operations,
        "waits": dict(launches.waits),
        "kinds": dict(launches.kinds.most_common()),
    }
