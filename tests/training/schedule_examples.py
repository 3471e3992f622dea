"""Small schedules, and their progress phase by phase."""

from collections.abc import Iterable, Iterator

from tokenworlds.core.progress import Phase, Progress
from tokenworlds.training.schedules.epochs import Epochs
from tokenworlds.training.schedules.iterations import Iterations

SMALL = Epochs.Config(
    steps=30,
    first_steps=70,
    random_first=True,
    final_epochs=2,
    updates={"world": 25, "behaviour": 12},
    first_updates={"world": 31},
    start_after={"behaviour": 2},
)
SMALL_ITERATIONS = Iterations.Config(
    steps=30,
    first_steps=70,
    warm_up_updates=23,
    epochs=(3, 2),
    sequences=2,
    length=3,
    intervals=(2, 12),
    batches=(12, 0, 5),
)


def after(progress: Progress, phase: Phase, num_envs: int) -> Progress:
    done = dict(progress.updates)
    for name, count in phase.updates.items():
        done[name] = done.get(name, 0) + count
    return Progress(progress.steps + phase.collect * num_envs, done)


def course(phases: Iterable[Phase], num_envs: int) -> Iterator[Progress]:
    """The progress before each phase and after the last."""
    progress = Progress()
    for phase in phases:
        yield progress
        progress = after(progress, phase, num_envs)
    yield progress
