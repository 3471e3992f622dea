"""Which runs are compared with which."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tokenworlds.core.errors import UserError
from tokenworlds.evaluation.comparison.description import Description
from tokenworlds.evaluation.comparison.grouping import Comparison, group
from tokenworlds.evaluation.comparison.loading import Run

SETTINGS: dict[str, Any] = {
    "steps": 1000,
    "world": {"type": "tokenworlds.worlds.latent:Latent.Config", "width": 16},
    "housekeeping": {"log_every": 10},
    "evaluation": {"every": 100, "episodes": 2, "temperature": 0.0},
}


def a_run(agent: str = "mine", task: str = "Pong", seed: int = 0, **changes: Any) -> Run:
    settings = {**SETTINGS, **changes.pop("settings", {})}
    about = Description(
        recipe=agent,
        size="nano",
        env=f"atari:{task}",
        protocol="atari100k",
        seed=seed,
        steps=1000,
        temperature=0.0,
        precision="float32",
        device="cpu",
        settings=settings,
    )
    run = Run(
        agent=agent,
        benchmark="atari",
        task=task,
        protocol="atari100k",
        source=Path(f"{agent}-{task}-s{seed}"),
        score=float(seed),
        finished=True,
        seed=seed,
        step=1000,
        steps=1000,
        description=about,
    )
    return replace(run, **changes)


def test_seeds_of_one_agent_are_pooled() -> None:
    (found,), notes = group([a_run(seed=seed) for seed in range(3)])
    assert found.scores("mine") == {"Pong": [0.0, 1.0, 2.0]}
    assert notes == []


def test_runs_whose_recipes_differ_are_different_agents() -> None:
    wider = {"world": {**SETTINGS["world"], "width": 32}}
    (found,), _ = group([a_run(), a_run(seed=1, settings=wider)])
    assert found.agents == ["mine, world.width=16", "mine, world.width=32"]


def test_logs_and_evaluations_during_training_make_no_other_agent() -> None:
    often = {"housekeeping": {"log_every": 1}, "evaluation": {**SETTINGS["evaluation"], "every": 5}}
    (found,), _ = group([a_run(), a_run(seed=1, settings=often)])
    assert found.agents == ["mine"]


def test_recipes_may_differ_between_tasks() -> None:
    adapted = {"world": {**SETTINGS["world"], "width": 32}}
    (found,), _ = group([a_run(), a_run(task="Boxing", settings=adapted)])
    assert found.agents == ["mine"]


def test_many_differing_settings_still_tell_agents_apart() -> None:
    many = [{"world": {f"part{i}": i * step for i in range(6)}} for step in (1, 2, 3)]
    runs = [a_run(seed=seed, settings=settings) for seed, settings in enumerate(many)]
    (found,), _ = group(runs)
    assert len(found.agents) == 3
    assert all("more settings" in agent for agent in found.agents)


def test_a_repeated_seed_is_no_further_sample() -> None:
    copy = a_run(source=Path("copy"), step=500, finished=False)
    (found,), notes = group([copy, a_run()])
    assert [run.source for run in found.runs] == [Path("mine-Pong-s0")]
    assert notes == [
        "copy is left out: mine-Pong-s0 has the same agent, task and seed 0",
    ]


def test_runs_without_seeds_are_all_kept() -> None:
    (found,), notes = group([a_run(seed=0), a_run(seed=1)])
    anonymous = [replace(run, seed=None) for run in found.runs]
    (kept,), notes = group(anonymous)
    assert len(kept.runs) == 2
    assert notes == []


def test_benchmarks_are_compared_apart() -> None:
    other = a_run(task="catch", benchmark="toy", protocol="toy")
    found, _ = group([a_run(), other])
    assert [comparison.benchmark for comparison in found] == ["atari", "toy"]


def test_other_protocols_are_refused_or_said() -> None:
    runs = [a_run(), a_run("other", protocol="storm")]
    with pytest.raises(UserError, match=r"their protocols differ: atari100k .*, storm"):
        group(runs)
    (found,), _ = group(runs, mix_protocols=True)
    assert found.mixed == (
        "their protocols differ: atari100k (mine-Pong-s0), storm (other-Pong-s0)",
    )


def test_unfinished_runs_may_have_another_length() -> None:
    unfinished = a_run("other", steps=9999, finished=False)
    (found,), _ = group([a_run(), unfinished])
    assert found.scores("other") == {}
    with pytest.raises(UserError, match=r"agent steps on Pong differ: 1,000 .*, 9,999"):
        group([a_run(), replace(unfinished, finished=True)])


def test_aggregates_cover_the_tasks_that_all_agents_finished() -> None:
    runs = (
        a_run(),
        a_run(task="Boxing"),
        a_run("other"),
        a_run("other", task="Boxing", finished=False),
        a_run("late", finished=False),
    )
    assert Comparison("atari", runs).common_tasks == ["Pong"]
