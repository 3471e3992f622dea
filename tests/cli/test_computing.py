"""A run keeps its device, precision and compilation; unsupported ones are an error."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_runs import final_weights, sentence, train

from tokenworlds.cli import main
from tokenworlds.commands.choices import choose_precision
from tokenworlds.core import precision
from tokenworlds.runs.folder import RunFolder


def described(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "run.json").read_text())
    return found


def copy_as(finished: Path, run: Path, **changes: Any) -> Path:
    """Copy a run with other values in run.json, or without those that are None."""
    shutil.copytree(finished, run)
    whole = described(run)
    changed = {**whole["run"], **changes}
    kept = {
        name: value for name, value in changed.items() if value is not None or name not in changes
    }
    (run / "run.json").write_text(json.dumps({**whole, "run": kept}))
    return run


@pytest.mark.usefixtures("_no_report")
def test_a_run_that_cannot_be_compiled_warns_once_and_ends_with_the_same_bits(
    finished: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: Any, **choices: Any) -> None:
        raise RuntimeError("not on this system")

    monkeypatch.setattr(torch, "compile", refuse)
    assert main([*train(Path("run")), "--compile"]) == 0
    assert capsys.readouterr().err.count("note: torch cannot compile everything") == 1
    assert described(Path("run"))["run"]["compiled"] is True
    assert final_weights(Path("run")) == final_weights(finished)


def test_precision_and_compilation_default_to_float32_and_off(finished: Path) -> None:
    spec = RunFolder.open(copy_as(finished, Path("old"), precision=None, compiled=None)).spec()
    assert (spec.precision, spec.compiled) == ("float32", False)


def test_a_run_in_bfloat16_is_refused_where_bfloat16_would_crash(
    finished: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = copy_as(finished, Path("rough"), precision="bfloat16")
    monkeypatch.setattr(precision, "tiles_are_misreported", lambda: True)
    for command in ("resume", "evaluate", "dream"):
        assert main([command, str(run)]) == 2
        assert "bfloat16' is not available: this processor" in sentence(capsys.readouterr().err)


def test_a_precision_is_chosen_by_name_or_by_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "tiles_are_misreported", lambda: False)
    assert choose_precision("auto", "cpu") == "float32"
    assert choose_precision("bfloat16", "cpu") == "bfloat16"
