import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from tokenworlds.core.files import CHECKSUM, DamagedFile, checksum, replace_file
from tokenworlds.evaluation.results import (
    FILE,
    Result,
    Score,
    read_result,
    score_of,
    to_document,
    write_result,
)

RESULT = Result(
    recipe="step-vq-m",
    size="nano",
    env="toy:catch",
    protocol="toy",
    seed=3,
    agent_steps=5000,
    updates=1250,
    gradient_steps=5000,
    temperature=0.5,
    returns=(1.0, 1.0, -1.0, 1.0),
    random_returns=(-1.0, -1.0, 1.0, -1.0),
)


def test_a_score_is_the_mean_and_its_standard_error() -> None:
    # The sample variance of 2, 4, 9 is 13.
    score = score_of([2.0, 4.0, 9.0])
    assert score.mean == 5.0
    assert score.error == pytest.approx((13 / 3) ** 0.5)
    assert score.episodes == 3
    assert str(Score(5.0, 0.126, 3)) == "5.00 ± 0.13"


def test_one_episode_has_no_standard_error_and_no_episodes_have_no_score() -> None:
    assert score_of([2.0]) == Score(2.0, None, 1)
    assert str(score_of([2.0])) == "2.00"
    with pytest.raises(ValueError, match="at least one episode"):
        score_of([])


def test_a_result_survives_writing_and_reading(tmp_path: Path) -> None:
    path = write_result(tmp_path / FILE, RESULT)
    assert path == tmp_path / "evaluation.json"
    assert read_result(path) == RESULT
    alone = replace(RESULT, random_returns=())
    assert read_result(write_result(path, alone)) == alone
    assert alone.random_score is None


def test_an_edited_result_is_refused(tmp_path: Path) -> None:
    path = write_result(tmp_path / FILE, RESULT)
    path.write_text(path.read_text().replace("-1.0", "1.0", 1))
    with pytest.raises(DamagedFile, match="its values do not have its checksum"):
        read_result(path)


def test_the_file_contains_every_return_the_protocol_and_both_scores(tmp_path: Path) -> None:
    document = json.loads(write_result(tmp_path / FILE, RESULT).read_text())
    assert document["returns"] == [1.0, 1.0, -1.0, 1.0]
    assert (document["env"], document["protocol"]) == ("toy:catch", "toy")
    assert (document["agent_steps"], document["temperature"]) == (5000, 0.5)
    assert document["score"] == {"mean": 0.5, "error": 0.5, "episodes": 4}
    assert document["random_score"]["mean"] == -0.5


def test_a_run_without_evaluation_has_no_result(tmp_path: Path) -> None:
    assert read_result(tmp_path / FILE) is None


@pytest.mark.parametrize("content", ["", '{"env": "toy', "[]", '{"env": "toy:catch"}', "3"])
def test_the_error_about_an_unreadable_file_names_it(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE).write_text(content)
    with pytest.raises(DamagedFile, match=r"evaluation\.json is damaged"):
        read_result(tmp_path / FILE)


@pytest.mark.parametrize("value", ["null", '"3"', "true", "NaN", "Infinity"])
def test_a_return_that_is_no_number_is_refused(tmp_path: Path, value: str) -> None:
    document = to_document(replace(RESULT, returns=(12345.0,)))
    signed = json.dumps({**document, CHECKSUM: checksum(document)}).replace("12345.0", value, 1)
    changed = json.loads(signed)
    changed.pop(CHECKSUM)
    (tmp_path / FILE).write_text(json.dumps({**changed, CHECKSUM: checksum(changed)}))
    with pytest.raises(DamagedFile, match=r"evaluation\.json is damaged"):
        read_result(tmp_path / FILE)


def test_a_failed_write_leaves_only_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = replace_file(tmp_path / "a.txt", b"old")
    write = os.pwrite

    def fill_disk(descriptor: int, data: memoryview, offset: int) -> int:
        write(descriptor, data[:1], offset)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", fill_disk)
    with pytest.raises(OSError, match="No space"):
        replace_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
