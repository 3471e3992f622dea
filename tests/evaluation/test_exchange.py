"""Scores in the formats of other projects."""

import builtins
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tokenworlds.core.errors import UserError
from tokenworlds.evaluation.exchange import (
    CrafterEpisode,
    crafter_episodes,
    crafter_info,
    read_crafter_stats,
    read_scores,
    to_frame,
    to_rliable,
    write_algorithms,
    write_crafter_stats,
    write_scores,
)
from tokenworlds.evaluation.results import crafter_score

SCORES = {"Pong": [1.0, -20.5, 3.0], "Qbert": [100.0, 250.0, 75.5]}


def test_a_flat_file_is_called_as_the_file(tmp_path: Path) -> None:
    path = write_scores(tmp_path / "mine.json", SCORES)
    assert json.loads(path.read_text()) == SCORES
    assert read_scores(path) == {"mine": SCORES}


def test_several_algorithms_share_a_file(tmp_path: Path) -> None:
    algorithms = {"a": SCORES, "b": {"Pong": [2.0]}}
    assert read_scores(write_algorithms(tmp_path / "x.json", algorithms)) == algorithms


def test_whole_numbers_are_scores_too(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"Pong": [1, 2]}')
    (runs,) = read_scores(path)["x"].values()
    assert runs == [1.0, 2.0]
    assert all(isinstance(run, float) for run in runs)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1, 2]", "must hold an object"),
        ("{}", "must hold an object"),
        ('{"Pong": 3}', "Pong must have a list of numbers"),
        ('{"Pong": ["3"]}', "Pong must have a list of numbers"),
        ('{"Pong": [true]}', "Pong must have a list of numbers"),
        ('{"Pong": []}', "Pong in .* has no scores"),
        ('{"Pong": [NaN]}', "NaN is not JSON"),
        ('{"Pong": [1e999]}', "a score of Pong in .* is inf"),
        ('{"a": {}}', "an algorithm without tasks"),
        ('{"Pong": [1', "it is not JSON"),
        ('{"Pong": [1' + 400 * "0" + "]}", "Pong must have a list of numbers"),
    ],
)
def test_bad_files_are_refused_in_a_sentence(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(UserError, match=message):
        read_scores(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no file"):
        read_scores(tmp_path / "none.json")
    with pytest.raises(UserError, match="is no file"):
        read_scores(tmp_path)


def test_scores_that_are_not_finite_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="a score of Pong is nan"):
        write_scores(tmp_path / "x.json", {"Pong": [float("nan")]})
    assert list(tmp_path.iterdir()) == []


def test_the_stats_of_crafters_own_recorder_are_read_and_written_alike(tmp_path: Path) -> None:
    crafter = pytest.importorskip("crafter")
    env = crafter.Recorder(
        crafter.Env(area=(16, 16), length=20, seed=1),
        tmp_path,
        save_video=False,
        save_episode=False,
    )
    generator = np.random.default_rng(0)
    for _ in range(2):
        env.reset()
        done = False
        while not done:
            done = env.step(int(generator.integers(17)))[2]
    # The recorder leaves its file open.
    env._file.close()
    theirs = tmp_path / "stats.jsonl"
    episodes = read_crafter_stats(theirs)
    assert [episode.length for episode in episodes] == [20, 20]
    assert len(episodes[0].achievements) == 22
    ours = write_crafter_stats(tmp_path / "ours.jsonl", episodes)
    assert ours.read_text() == theirs.read_text()


def test_episodes_of_an_evaluation_keep_their_crafter_score(tmp_path: Path) -> None:
    info = {"achievement/eat_cow": (2.0, 0.0), "achievement/sleep": (0.0, 0.0)}
    episodes = crafter_episodes([3.1, 0.1], [100, 200], info)
    path = write_crafter_stats(tmp_path / "stats.jsonl", episodes)
    again = read_crafter_stats(path)
    assert again == [
        CrafterEpisode(3.1, 100, {"eat_cow": 2, "sleep": 0}),
        CrafterEpisode(0.1, 200, {"eat_cow": 0, "sleep": 0}),
    ]
    assert crafter_score(crafter_info(again)) == crafter_score(info)


def test_a_line_that_is_no_episode_is_named(tmp_path: Path) -> None:
    path = tmp_path / "stats.jsonl"
    good = '{"length": 1, "reward": 0.1}\n'
    for bad in ('{"length": 1}', '{"length": 1, "rew', '{"length": 1, "reward": 1e999}', "[]"):
        path.write_text(good + bad)
        with pytest.raises(UserError, match="line 2 is no episode"):
            read_crafter_stats(path)
    path.write_text("")
    with pytest.raises(UserError, match="has no episodes"):
        read_crafter_stats(path)


def test_matrices_have_a_row_for_each_run_and_a_column_for_each_task() -> None:
    turned = dict(reversed(SCORES.items()))
    found = to_rliable({"a": SCORES, "b": turned})
    assert found["a"].tolist() == [[1.0, 100.0], [-20.5, 250.0], [3.0, 75.5]]
    assert np.array_equal(found["a"], found["b"])


def test_what_is_no_matrix_is_refused_in_a_sentence() -> None:
    with pytest.raises(UserError, match="a has 1 runs of one task and 2 of another"):
        to_rliable({"a": {"Pong": [1.0], "Qbert": [1.0, 2.0]}})
    with pytest.raises(
        UserError, match="b has other tasks than the first algorithm: they differ in Pong"
    ):
        to_rliable({"a": {"Pong": [1.0]}, "b": {"Qbert": [1.0]}})


def test_a_data_frame_has_a_row_for_each_run() -> None:
    frame = to_frame({"a": SCORES, "b": {"Pong": [7.0]}})
    assert list(frame.columns) == ["algorithm", "task", "run", "score"]
    assert len(frame) == 7
    assert frame.groupby("algorithm").score.max().to_dict() == {"a": 250.0, "b": 7.0}


def test_without_pandas_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def without(name: str, *rest: Any, **options: Any) -> Any:
        if name == "pandas":
            raise ModuleNotFoundError("No module named 'pandas'", name="pandas")
        return original(name, *rest, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UserError, match=r"pip install 'tokenworlds\[pandas\]'"):
        to_frame({"a": SCORES})
