"""The memory that `show` predicts is the memory that updates take."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from measured_memory import FAMILIES, SPACE, small

from tokenworlds.benchmarking.hollow_cpu import HollowCPU
from tokenworlds.benchmarking.memory import replay_size
from tokenworlds.cli import main
from tokenworlds.core.types import FrameShape
from tokenworlds.replay.store import ReplayStore

HERE = Path(__file__).parent
TOLERANCE = 0.15


@pytest.fixture(scope="module")
def memory() -> Any:
    words = [sys.executable, str(HERE / "measured_memory.py")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_peak_of_an_update_is_predicted(name: str, memory: Any) -> None:
    measured, predicted = memory[name]["measured"], memory[name]["predicted"]
    assert predicted["resident"] == measured["resident"]
    assert predicted["added"].keys() == measured["added"].keys()
    for learner, added in measured["added"].items():
        found = predicted["resident"] + predicted["added"][learner]
        assert found == pytest.approx(measured["resident"] + added, rel=TOLERANCE), learner


def test_tensors_count_while_they_are_alive() -> None:
    with HollowCPU() as tensors:
        kept = torch.zeros(1000)
        for _ in range(3):
            torch.ones(500)
        view = kept[:10]
        kept.add_(1)
    assert view.shape == (10,)
    assert tensors.now == 4000
    assert tensors.most == 6000


def test_replay_takes_on_disk_what_is_predicted(tmp_path: Path) -> None:
    recipe = small("storm")
    shape = FrameShape(8, 8, 3)
    predicted = replay_size(recipe, shape, SPACE)
    store = ReplayStore(tmp_path, frame_shape=shape, action_space=SPACE, num_envs=1)
    bytes_of_step = 8 * 8 * 3 + store.records.dtype.itemsize
    assert predicted.disk == recipe.steps * bytes_of_step


def test_show_tells_what_a_run_will_take(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "ppo", "--env", "catch"]) == 0
    shown = capsys.readouterr().out
    section = shown.partition("\nmemory, as predicted for float32\n")[2].partition("\n\n")[0]
    lines = dict(line.strip().rsplit("  ", 1) for line in section.splitlines())
    assert [name.strip() for name in lines] == [
        "weights, optimisers, gradients",
        "an update of behaviour adds",
        "peak",
        "replay on disk",
        "replay in memory",
    ]
    assert all(size.endswith("MB") for size in lines.values())
