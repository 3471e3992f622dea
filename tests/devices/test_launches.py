"""`bench --launches` counts operations and waits without a card, and names where a wait is."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tokenworlds.cli import main

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def counted() -> Any:
    """In a process of its own, which keeps the pretended device."""
    words = [sys.executable, str(HERE / "counted_launches.py")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def test_tensors_without_numbers_launch_what_tensors_with_numbers_do(counted: Any) -> None:
    assert counted["hollow"].keys() == {"world", "behaviour", "dream step"}
    assert counted["hollow"] == counted["computed"]


def test_an_update_waits_for_its_loss_and_a_dream_for_nothing(counted: Any) -> None:
    found = counted["hollow"]
    assert [place.split(":")[0] for place in found["world"]["waits"]] == ["nets/optimisers.py"]
    assert found["dream step"]["waits"] == {}
    assert found["behaviour"]["operations"] > 2 * found["dream step"]["operations"]


def test_a_planted_wait_is_counted_at_its_line(counted: Any) -> None:
    before, after = counted["hollow"]["dream step"], counted["planted"]["dream step"]
    ((place, count),) = after["waits"].items()
    # The line in a test file is outside the package: the caller's is named.
    assert place.startswith("worlds/latent.py:")
    assert count == 1
    # The sum and the comparison; reading the number is an operation too.
    assert after["operations"] == before["operations"] + 3


@pytest.mark.parametrize("option", ["--scaling", "--seconds=3", "--chart=a.png"])
def test_options_of_measurements_are_refused(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "storm", "--launches", option]) == 2
    name = option.split("=")[0]
    assert f"--launches counts and measures nothing: it takes no {name}" in capsys.readouterr().err
