"""Checkpoints: written completely or not at all, and refused when damaged."""

from pathlib import Path

import pytest
import torch

from tokenworlds.core import files
from tokenworlds.core.files import DamagedFile
from tokenworlds.runs import checkpoint as checkpoints
from tokenworlds.runs.checkpoint import Checkpoint


def example(value: float = 1.0) -> Checkpoint:
    return Checkpoint({"weights": {"a.b": torch.full((3, 2), value)}}, {"steps": 7, "list": [1, 2]})


def test_round_trip(tmp_path: Path) -> None:
    manifest = checkpoints.write(tmp_path, 7, example())
    found = checkpoints.read(tmp_path / "step-000000007")
    assert found.manifest == manifest
    assert torch.equal(found.tensors["weights"]["a.b"], torch.ones(3, 2))
    assert found.state == {"steps": 7, "list": [1, 2]}


@pytest.mark.parametrize("name", ["weights.safetensors", "state.json", "manifest.json"])
@pytest.mark.parametrize("how", ["cut", "changed", "missing"])
def test_damage_is_detected(tmp_path: Path, name: str, how: str) -> None:
    checkpoints.write(tmp_path, 7, example())
    path = tmp_path / "step-000000007" / name
    content = path.read_bytes()
    if how == "missing":
        path.unlink()
    elif how == "cut":
        path.write_bytes(content[: len(content) // 2])
    else:
        path.write_bytes(content[:-2] + bytes([content[-2] ^ 1]) + content[-1:])
    with pytest.raises(DamagedFile):
        checkpoints.read(path.parent)


def test_a_failed_write_leaves_the_old_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints.write(tmp_path, 7, example(1.0))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "sync", full)
    with pytest.raises(OSError, match="No space"):
        checkpoints.write(tmp_path, 8, example(2.0))
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000007"]
    assert torch.equal(
        checkpoints.read(tmp_path / "step-000000007").tensors["weights"]["a.b"], torch.ones(3, 2)
    )


def test_prune_keeps_the_newest_checkpoints(tmp_path: Path) -> None:
    for step in (5, 50, 500):
        checkpoints.write(tmp_path, step, example())
    checkpoints.prune(tmp_path, 500, keep=2)
    names = [path.name for path in checkpoints.newest_first(tmp_path)]
    assert names == ["step-000000500", "step-000000050"]


def test_checkpoints_after_the_saved_step_are_set_aside(tmp_path: Path) -> None:
    """They were damaged when the run went on from an earlier one."""
    for step in (5, 50, 500):
        checkpoints.write(tmp_path, step, example())
    checkpoints.prune(tmp_path, 50, keep=1)
    assert {path.name for path in tmp_path.iterdir()} == {
        "step-000000050",
        "damaged-step-000000500",
    }


def test_what_a_killed_process_left_is_deleted_by_the_next_write(tmp_path: Path) -> None:
    for name in (".partial-step-000000003", ".deleting-step-000000002"):
        (tmp_path / name).mkdir()
    checkpoints.write(tmp_path, 7, example())
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000007"]


def test_a_folder_with_another_name_is_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "step-abc").mkdir()
    (tmp_path / "step-7").mkdir()
    assert checkpoints.newest_first(tmp_path) == []
