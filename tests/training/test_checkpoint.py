"""Checkpoints: written completely or not at all, and refused when damaged."""

from pathlib import Path

import pytest
import torch

from tokenworlds.runs import checkpoint as checkpoints
from tokenworlds.runs.checkpoint import Checkpoint, DamagedCheckpoint


def example(value: float = 1.0) -> Checkpoint:
    return Checkpoint({"weights": {"a.b": torch.full((3, 2), value)}}, {"steps": 7, "list": [1, 2]})


def test_round_trip(tmp_path: Path) -> None:
    path = checkpoints.write(tmp_path, 7, example())
    found = checkpoints.read(path)
    assert torch.equal(found.tensors["weights"]["a.b"], torch.ones(3, 2))
    assert found.state == {"steps": 7, "list": [1, 2]}


@pytest.mark.parametrize("name", ["weights.safetensors", "state.json", "manifest.json"])
@pytest.mark.parametrize("how", ["cut", "changed", "missing"])
def test_damage_is_detected(tmp_path: Path, name: str, how: str) -> None:
    path = checkpoints.write(tmp_path, 7, example()) / name
    content = path.read_bytes()
    if how == "missing":
        path.unlink()
    elif how == "cut":
        path.write_bytes(content[: len(content) // 2])
    else:
        path.write_bytes(content[:-2] + bytes([content[-2] ^ 1]) + content[-1:])
    with pytest.raises(DamagedCheckpoint):
        checkpoints.read(path.parent)


def test_a_failed_write_leaves_the_old_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints.write(tmp_path, 7, example(1.0))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoints, "sync", full)
    with pytest.raises(OSError, match="No space"):
        checkpoints.write(tmp_path, 8, example(2.0))
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000007"]
    assert torch.equal(
        checkpoints.read(tmp_path / "step-000000007").tensors["weights"]["a.b"], torch.ones(3, 2)
    )


def test_prune_keeps_the_newest_checkpoints(tmp_path: Path) -> None:
    for step in (5, 50, 500):
        checkpoints.write(tmp_path, step, example())
    checkpoints.prune(tmp_path, keep=2)
    names = [path.name for path in checkpoints.newest_first(tmp_path)]
    assert names == ["step-000000500", "step-000000050"]
