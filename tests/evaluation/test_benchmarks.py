"""Benchmarks name environments that exist, and tell comparable results from others."""

import json
from dataclasses import replace

import pytest
from test_results import RESULT

from tokenworlds.cli import main
from tokenworlds.core.errors import UserError
from tokenworlds.envs.catalogue import EnvSpec, canonical, families
from tokenworlds.evaluation.benchmarks import (
    BENCHMARKS,
    Benchmark,
    benchmark,
    benchmark_of,
    deviations,
    differences,
    task_of,
)
from tokenworlds.published.references import reference_sets


@pytest.mark.parametrize("found", BENCHMARKS.values(), ids=BENCHMARKS)
def test_tasks_and_protocols_are_those_of_the_environments(found: Benchmark) -> None:
    assert [canonical(task) for task in found.tasks] == list(found.tasks)
    assert len(set(found.tasks)) == len(found.tasks)
    protocols = families()[found.family].protocols
    assert [found.protocol.env, *found.variants] == list(protocols)
    assert ("sticky actions 0." in protocols[found.protocol.env]) == bool(found.protocol.sticky)


def test_the_benchmarks_have_as_many_tasks_and_frames_as_in_the_papers() -> None:
    tasks = {name: len(found.tasks) for name, found in BENCHMARKS.items()}
    assert tasks == {"atari100k": 26, "crafter-1m": 1, "dmc-vision": 20, "minatar": 5, "toys": 2}
    frames = {name: found.frames for name, found in BENCHMARKS.items()}
    assert frames == {
        "atari100k": 400_000,
        "crafter-1m": 1_000_000,
        "dmc-vision": 1_000_000,
        "minatar": None,
        "toys": None,
    }


def test_every_game_of_atari100k_has_reference_scores_in_each_set() -> None:
    atari = benchmark("atari100k")
    assert set(atari.protocol.references) <= set(reference_sets())
    for name in atari.protocol.references:
        assert {task_of(task) for task in atari.tasks} == set(reference_sets()[name])


def test_the_benchmark_of_a_run_depends_on_its_protocol() -> None:
    assert benchmark_of("atari:Pong", "atari100k") is benchmark("atari100k")
    assert benchmark_of("atari:Pong", "storm") is None
    assert benchmark_of("atari:Venture", "atari100k") is None
    spec = EnvSpec("catch")
    assert benchmark_of(spec.name, spec.protocol) is benchmark("toys")
    with pytest.raises(UserError, match="did you mean 'atari100k'"):
        benchmark("atari-100k")


def test_results_are_comparable_if_protocol_and_training_are_the_same() -> None:
    pong = replace(RESULT, env="atari:Pong", protocol="atari100k", agent_steps=100_000)
    other = replace(pong, env="atari:Alien", temperature=1.0, returns=(3.0,), seed=9)
    assert differences(pong, other) == []
    assert differences(pong, replace(other, protocol="storm")) == ["protocols atari100k and storm"]
    assert differences(pong, replace(other, agent_steps=50_000)) == [
        "100,000 and 50,000 agent steps"
    ]
    assert differences(pong, RESULT)[0] == "environments of atari and toy"


def test_a_result_says_where_it_deviates_from_its_benchmark() -> None:
    pong = replace(RESULT, env="atari:Pong", protocol="atari100k", agent_steps=100_000)
    assert deviations(replace(pong, returns=(1.0,) * 100)) == []
    assert deviations(replace(pong, agent_steps=2500)) == [
        "2,500 agent steps instead of 100,000",
        "4 episodes instead of 100",
    ]
    assert deviations(RESULT) == ["4 episodes instead of 100"]
    assert deviations(replace(pong, protocol="storm")) == []


def test_envs_lists_the_benchmarks(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["envs"]) == 0
    assert (
        "  benchmark atari100k        26 tasks, 100,000 agent steps (400,000 frames), 100 episodes;"
        in capsys.readouterr().out
    )
    assert main(["envs", "--json"]) == 0
    found = {family["name"]: family for family in json.loads(capsys.readouterr().out)}
    (crafter,) = found["crafter"]["benchmarks"]
    assert (crafter["tasks"], crafter["protocol"]["steps"]) == (["crafter"], 1_000_000)
