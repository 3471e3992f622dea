"""The interleaved schedule: debts are paid exactly, and a resumed one goes on."""

from itertools import islice

import pytest

from tokenworlds.training.schedule import Interleaved, Progress


def build(warm_up: int = 10, **updates: float) -> Interleaved:
    return Interleaved.Config(warm_up=warm_up, updates=updates).build()


def test_random_play_first_then_updates() -> None:
    first, second, *_ = islice(build(world=1.0).phases(Progress(), streams=1), 5)
    assert (first.collect, first.random, dict(first.updates)) == (10, True, {})
    assert (second.collect, second.random, dict(second.updates)) == (1, False, {"world": 1})


@pytest.mark.parametrize(
    ("ratio", "streams"), [(1.0, 1), (0.25, 4), (1 / 3, 2), (2.5, 3), (0.1, 7)]
)
def test_updates_follow_the_ratio_without_drift(ratio: float, streams: int) -> None:
    steps, done = 0, 0
    for phase in islice(build(warm_up=0, world=ratio).phases(Progress(), streams), 300):
        steps += phase.collect * streams
        done += phase.updates.get("world", 0)
    assert done == int(steps * ratio + 1e-9)


@pytest.mark.parametrize("stop", [1, 2, 7, 30])
def test_a_resumed_schedule_goes_on_where_it_was(stop: int) -> None:
    whole = list(islice(build(world=0.3, behaviour=1.7).phases(Progress(), 4), 60))
    steps, done = 0, {"world": 0, "behaviour": 0}
    for phase in whole[:stop]:
        steps += phase.collect * 4
        for name, count in phase.updates.items():
            done[name] += count
    resumed = build(world=0.3, behaviour=1.7).phases(Progress(steps, done), 4)
    assert list(islice(resumed, 60 - stop)) == whole[stop:]
