"""One run for all tests of the API. Test modules name this file in `pytest_plugins`."""

import pytest
from api_runs import run_without_report

import tokenworlds as tw


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> tw.Run:
    """A finished run on catch; read-only."""
    return run_without_report(tmp_path_factory.mktemp("runs") / "run")


@pytest.fixture
def agent(run: tw.Run) -> tw.Agent:
    return run.agent()
