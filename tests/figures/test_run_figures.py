"""The numbers behind figures of runs: tokens, divergences, probabilities, dreams."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from figure_runs import train_run

from tokenworlds.cli import main
from tokenworlds.core.errors import UserError
from tokenworlds.envs.catalogue import EnvSpec
from tokenworlds.evaluation.results import FILE, read_result
from tokenworlds.figures import (
    dynamics_kl,
    prior_probabilities,
    random_tokens,
    score_bars,
    token_changes,
)
from tokenworlds.figures.picture import Request, RunSource
from tokenworlds.figures.runs import choose_episode, episodes, load_run, read
from tokenworlds.runs.folder import RunFolder

Runs = dict[str, Path]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands write into the current folder."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    folder = tmp_path_factory.mktemp("runs")
    names = ("step-vq-m", "storm", "git-storm", "delta-iris", "ppo")
    found = {name: train_run(folder, name) for name in names}
    return {**found, "storm-s1": train_run(folder, "storm", seed=1)}


def source(path: Path) -> RunSource:
    folder = RunFolder.open(path)
    return RunSource(path.name, folder, folder.spec())


def request(runs: Runs, *names: str, **options: Any) -> Request:
    return Request(runs=[source(runs[name]) for name in names], **options)


@pytest.mark.parametrize(
    ("name", "used"),
    [
        ("step-vq-8", ["step-vq-m"]),
        ("step-vq-7", ["storm"]),
        ("step-vq-10", ["delta-iris"]),
        ("git-storm-16", ["git-storm", "storm", "storm-s1"]),
        ("git-storm-17", ["git-storm", "storm"]),
        ("delta-iris-3", ["delta-iris"]),
    ],
)
def test_figures_of_runs_are_written_and_leave_the_runs_alone(
    name: str, used: list[str], runs: Runs, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [runs[each] for each in used]
    before = [sorted(folder.rglob("*")) for folder in folders]
    words = [word for folder in folders for word in ("--run", str(folder))]
    assert main(["figure", name, *words, "--theme", "dark"]) == 0
    out = capsys.readouterr().out
    assert f"file    {name}.png" in out
    assert "(size nano) on toy:catch, seed 0" in out
    assert Path(f"{name}.png").stat().st_size > 1000
    assert [sorted(folder.rglob("*")) for folder in folders] == before


def test_an_episode_never_crosses_into_the_next(runs: Runs) -> None:
    replay = load_run(source(runs["step-vq-m"]), Request()).replay
    found = list(episodes(replay))
    assert sum(map(len, found)) == replay.num_envs * replay.length
    for each in found:
        first = replay.records["first"][each.env, each.start : each.end]
        assert not first[1:].any()
    longest = max(map(len, found))
    chosen = choose_episode(replay, 10 * longest, np.random.default_rng(0))
    assert len(chosen) == longest


def test_changes_compare_each_step_with_the_one_before(runs: Runs) -> None:
    data = token_changes.make(request(runs, "step-vq-m", seed=3)).data
    grids = np.array(data["shown_tokens"])
    changed = (grids[1:] != grids[:-1]).sum(axis=(1, 2))
    begin = data["episode_step"][0]
    shown = [data["changed"][step - begin] for step in data["shown"]]
    assert shown[1:] == changed.tolist()
    assert data["changed"][0] == 0
    assert (data["tokens"], data["grid"]) == (4, [2, 2])
    assert data["run"]["agent_steps"] == 64


def test_the_changes_of_a_still_frame_are_none(runs: Runs) -> None:
    run = load_run(source(runs["step-vq-m"]), Request())
    segment = read(run.replay, next(episodes(run.replay)), 0, 3)
    segment.frame[:] = segment.frame[:, :1].clone()
    assert not token_changes.encode(run, segment).changed.any()


def test_a_run_without_tokens_is_refused(runs: Runs) -> None:
    with pytest.raises(UserError, match="trains ppo, which has no discrete tokens to show"):
        token_changes.make(request(runs, "ppo"))
    with pytest.raises(UserError, match="shows one run, not 2: give --run once"):
        token_changes.make(request(runs, "step-vq-m", "storm"))


def logged(path: Path) -> dict[int, float]:
    events = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    name = dynamics_kl.METRIC
    return {event["agent_steps"]: event[name] for event in events if name in event}


def test_the_divergence_is_the_logged_loss(runs: Runs) -> None:
    (curve,) = dynamics_kl.make(request(runs, "git-storm")).data["curves"]
    assert dict(zip(curve["steps"], curve["mean"], strict=True)) == logged(runs["git-storm"])
    assert curve["seeds"] == [0]


def test_runs_of_a_recipe_are_averaged_and_the_band_spans_them(runs: Runs) -> None:
    picture = dynamics_kl.make(request(runs, "storm", "storm-s1"))
    (curve,) = picture.data["curves"]
    ends = [list(logged(runs[name]).values())[-1] for name in ("storm", "storm-s1")]
    assert curve["seeds"] == [0, 1]
    assert curve["mean"][-1] == pytest.approx(np.mean(ends))
    assert (curve["low"][-1], curve["high"][-1]) == (min(ends), max(ends))
    assert "The band spans the runs" in picture.caption
    with pytest.raises(UserError, match="trains ppo, which has no KL divergence"):
        dynamics_kl.make(request(runs, "ppo"))


def test_probabilities_of_a_prior_are_a_density(runs: Runs) -> None:
    data = prior_probabilities.make(request(runs, "git-storm", "storm", steps=2)).data
    width = np.diff(data["bin_edges"])
    for dream in data["dreams"]:
        density = np.array(dream["density"])
        np.testing.assert_allclose((density * width).sum(axis=1), 1.0)
        # The mean of all probabilities is one over the number of values.
        assert all(1 / 4 < highest <= 1 for highest in dream["highest"])
        assert all(1 <= perplexity <= 4 for perplexity in dream["perplexity"])


@pytest.mark.parametrize("name", ["storm", "git-storm"])
def test_an_indifferent_prior_has_the_perplexity_of_its_vocabulary(name: str, runs: Runs) -> None:
    run = load_run(source(runs[name]), Request())
    prior: Any = run.agent.world
    with torch.no_grad():
        for parameter in prior.prior.parameters():
            parameter.zero_()
    segment = prior_probabilities.context_of([run], 2, seed=0)
    dream = prior_probabilities.dream(run, segment, 2, seed=0)
    np.testing.assert_allclose(dream.perplexity, 4.0, rtol=1e-5)
    np.testing.assert_allclose(dream.highest, 0.25, rtol=1e-5)
    assert np.count_nonzero(dream.density) == 2


def test_priors_are_compared_on_the_same_recorded_steps_only(runs: Runs) -> None:
    with pytest.raises(UserError, match="have other frames or actions: choose runs of one"):
        prior_probabilities.make(request(runs, "storm", "delta-iris"))
    with pytest.raises(UserError, match="has no episode of 24 recorded steps"):
        prior_probabilities.make(request(runs, "storm", steps=20))
    with pytest.raises(UserError, match="trains delta-iris, which has no prior over tokens"):
        prior_probabilities.make(request(runs, "delta-iris", steps=1))


def test_both_dreams_start_from_the_recorded_frame(runs: Runs) -> None:
    run = load_run(source(runs["delta-iris"]), Request())
    dreams = random_tokens.dream(run, 3, seed=0)
    real = dreams.frames(dreams.rows.real)
    for frames in (dreams.random, dreams.rows.dream):
        np.testing.assert_array_equal(dreams.frames(frames)[:, 0], real[:, 0])
    assert dreams.error(dreams.rows.real).tolist() == [0.0, 0.0, 0.0]
    shifted = dreams.rows.real.copy()
    shifted[:] = np.where(shifted < 128, shifted + 10, shifted - 10)
    assert dreams.error(shifted).tolist() == [10.0, 10.0, 10.0]


def test_the_seed_determines_the_dreams(runs: Runs) -> None:
    pictures = [random_tokens.make(request(runs, "delta-iris", seed=seed)) for seed in (1, 1, 2)]
    same, other, third = (picture.data["error"] for picture in pictures)
    assert same == other != third
    with pytest.raises(UserError, match="trains storm, which has no Δ-tokens: choose a run of"):
        random_tokens.make(request(runs, "storm"))


def test_a_run_on_one_of_the_games_is_a_diamond(runs: Runs) -> None:
    folder = RunFolder.open(runs["step-vq-m"])
    spec = replace(folder.spec(), env=EnvSpec("atari:Boxing", "", 64, False))
    source = RunSource("mine", folder, spec)
    picture = score_bars.make(Request(runs=[source]))
    result = read_result(runs["step-vq-m"] / FILE)
    assert result is not None
    (run,) = picture.data["runs"]
    assert run["score"] == result.score.mean
    # Mnih et al. (2015): random 0.1, human 4.3.
    assert run["normalised"] == pytest.approx((run["score"] - 0.1) / 4.2)
    assert "step-vq-m (nano) on atari:Boxing, seed 0" in picture.caption
    with pytest.raises(UserError, match="mine plays toy:catch; swm-8 shows runs on Atari"):
        score_bars.make(Request(runs=[RunSource("mine", folder, folder.spec())]))
    other = RunSource("mine", folder, replace(spec, env=EnvSpec("atari:Zaxxon", "", 64, False)))
    with pytest.raises(UserError, match="unknown game of mine 'Zaxxon'"):
        score_bars.make(Request(runs=[other]))
