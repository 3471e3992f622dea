"""What the tests of the commands share."""

from pathlib import Path

import pytest
from tiny_runs import train

from tokenworlds.cli import main
from tokenworlds.training import session


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands write into the folder they are run in."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def _no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures take longer than a tiny run; one test makes them."""
    leave_out_pictures(monkeypatch)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was never stopped, without pictures; to be read only."""
    run = tmp_path_factory.mktemp("runs") / "finished"
    with pytest.MonkeyPatch.context() as monkeypatch:
        leave_out_pictures(monkeypatch)
        assert main(train(run)) == 0
    return run


def leave_out_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "add_report", lambda *run: run[-1])
