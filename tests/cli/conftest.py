"""Fixtures of the command tests."""

from pathlib import Path

import pytest
from tiny_runs import train

from tokenworlds.cli import main
from tokenworlds.commands import show
from tokenworlds.evaluation import processes
from tokenworlds.training import session


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands write into the current folder."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def _one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test replaces in this process would not be replaced in others."""
    monkeypatch.setattr(processes, "cores", lambda: 1)


@pytest.fixture(autouse=True)
def _no_prediction_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes longer than the rest of `show`; tests/benchmarking/test_memory.py looks at it."""
    monkeypatch.setattr(show, "memory_document", lambda recipe, summary: {})


@pytest.fixture
def _no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the report, which takes longer than a tiny run."""
    skip_report(monkeypatch)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted run without a report; read-only."""
    run = tmp_path_factory.mktemp("runs") / "finished"
    with pytest.MonkeyPatch.context() as monkeypatch:
        skip_report(monkeypatch)
        assert main(train(run)) == 0
    return run


def skip_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "add_report", lambda *run: run[-1])
