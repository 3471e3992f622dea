"""A run without a model: PPO on real steps, with several gradient steps in each update."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from stopped_runs import begin_or_resume

from tokenworlds.behaviours.ppo import PPO
from tokenworlds.envs.catalogue import EnvSpec
from tokenworlds.evaluation.results import FILE, read_result
from tokenworlds.nets.optimisers import Optimiser
from tokenworlds.nets.policy_networks import FrameNetwork
from tokenworlds.replay.sampling import Latest
from tokenworlds.runs.events import read_metrics
from tokenworlds.runs.folder import RunFolder
from tokenworlds.runs.recipe import Evaluation, Housekeeping, Learning, Recipe
from tokenworlds.runs.spec import RunSpec
from tokenworlds.training.loop import Loop
from tokenworlds.training.schedules.interleaved import Interleaved
from tokenworlds.training.session import finish, start
from tokenworlds.worlds.real import Real

ENVS, HORIZON, UPDATES, EPOCHS = 2, 8, 3, 2
MINIBATCHES = EPOCHS * 3
"""Minibatches of 6 out of 16 steps, the last of them smaller."""
NETWORK = FrameNetwork.Config(filters=(4,), kernels=(4,), strides=(4,), width=8)
RECIPE = Recipe(
    paper="",
    steps=ENVS * (1 + HORIZON * UPDATES),
    resolution=16,
    num_envs=ENVS,
    world=Real.Config(frames=1),
    behaviour=PPO.Config(experience="real", network=NETWORK, epochs=EPOCHS, minibatch=6),
    learning={
        "behaviour": Learning(
            batch=ENVS,
            length=HORIZON + 1,
            scales={"policy": 1.0, "value": 0.5, "entropy": 0.01},
            optimiser=Optimiser.Config(kind="adam", rate=1e-3, epsilon=1e-8),
        )
    },
    sampler=Latest.Config(),
    # One step more, because the last step of a segment only gives a value.
    schedule=Interleaved.Config(warm_up=ENVS, updates={"behaviour": 1 / (ENVS * HORIZON)}),
    evaluation=Evaluation(every=0, episodes=1, final_episodes=1),
    housekeeping=Housekeeping(log_every=ENVS, save_every=ENVS * 5),
)
SPEC = RunSpec(
    recipe_name="mine",
    size="nano",
    recipe=RECIPE,
    env=EnvSpec("catch", size=16),
    seed=0,
    threads=1,
)


class NoScreen:
    def event(self, event: Mapping[str, Any]) -> None: ...

    def progress(
        self, steps: int, rates: Mapping[str, float], seconds_left: float | None, share: float
    ) -> None: ...

    def note(self, text: str) -> None:
        raise AssertionError(text)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    folder = RunFolder(tmp_path_factory.mktemp("runs") / "straight")
    start(SPEC, folder, NoScreen(), lambda: False)
    return folder


def test_gradient_steps_are_those_of_the_optimiser(finished: RunFolder) -> None:
    events = read_metrics(finished.path)[0]
    learned = [event for event in events if "behaviour/loss/policy" in event]
    assert [event["gradient_steps"] for event in learned] == [
        MINIBATCHES,
        2 * MINIBATCHES,
        3 * MINIBATCHES,
    ]
    assert {event["imagined_steps"] for event in events} == {0}


def test_the_result_holds_gradient_steps_and_can_be_read_again(finished: RunFolder) -> None:
    result = read_result(finished.path / FILE)
    assert result is not None
    assert (result.updates, result.gradient_steps) == (UPDATES, UPDATES * MINIBATCHES)
    again = finish(SPEC, finished, lambda: False, print)
    assert again is not None
    assert again.result == result
    assert again.page is not None


def test_a_run_resumed_at_every_save_logs_the_same(tmp_path: Path, finished: RunFolder) -> None:
    place, done = RunFolder.create(tmp_path / "stopped", SPEC), False
    while not done:
        loop = Loop(SPEC, place, NoScreen())
        begin_or_resume(loop)
        asked = iter([False] * 7)
        done = loop.run(lambda asked=asked: next(asked, True))  # type: ignore[misc]
        loop.close()
    ours, theirs = (path / "metrics.jsonl" for path in (place.path, finished.path))
    assert ours.read_text() == theirs.read_text()
