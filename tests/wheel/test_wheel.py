"""The built wheel holds what an installed package needs, and works without the repository."""

import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from email import message_from_string
from email.message import Message
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"


def wheel_check(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts" / "wheel_check"), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    folder = tmp_path_factory.mktemp("wheel")
    done = wheel_check("--only-build", "--out", str(folder))
    assert done.returncode == 0, done.stderr
    (path,) = folder.glob("*.whl")
    with zipfile.ZipFile(path) as opened:
        yield opened


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> Message:
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return message_from_string(wheel.read(name).decode())


def package_files() -> set[str]:
    """Every file of the package, code and data."""
    files = (path for path in (SOURCE / "tokenworlds").rglob("*") if path.is_file())
    return {
        path.relative_to(SOURCE).as_posix() for path in files if "__pycache__" not in path.parts
    }


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    held = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert held == package_files()
    assert "tokenworlds/py.typed" in held
    assert "tokenworlds/published/data/references.json" in held


def test_files_in_the_wheel_are_those_of_the_checkout(wheel: zipfile.ZipFile) -> None:
    assert all(wheel.read(name) == (SOURCE / name).read_bytes() for name in package_files())


def test_the_wheel_is_for_every_declared_python(metadata: Message) -> None:
    declared = {each.rpartition(" ")[2] for each in metadata.get_all("Classifier", [])}
    assert {"3.11", "3.12", "3.13"} <= declared
    assert metadata["Requires-Python"] == ">=3.11"


def test_the_wheel_brings_its_licence_and_its_command(wheel: zipfile.ZipFile) -> None:
    named = {name.partition(".dist-info/")[2]: name for name in wheel.namelist()}
    assert wheel.read(named["licenses/LICENSE"]) == (ROOT / "LICENSE").read_bytes()
    assert b"tokenworlds = tokenworlds.cli:main" in wheel.read(named["entry_points.txt"])


def test_the_workflow_runs_every_declared_python(metadata: Message) -> None:
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    versions = re.findall(r"python: \[(.*)\]", workflow)
    declared = re.findall(r"Python :: (3\.\d+)", "\n".join(metadata.get_all("Classifier", [])))
    assert len(versions) == 2
    assert all(re.findall(r'"([\d.]+)"', each) == declared for each in versions)


def test_the_citation_names_the_version_and_the_licence(metadata: Message) -> None:
    citation = (ROOT / "CITATION.cff").read_text().splitlines()
    assert f"version: {metadata['Version']}" in citation
    assert f"license: {metadata['License-Expression']}" in citation


@pytest.mark.slow
def test_a_new_environment_trains_evaluates_and_reports_with_the_wheel() -> None:
    done = wheel_check("--shared-dependencies")
    assert done.returncode == 0, done.stderr
    assert "works in an environment of its own" in done.stdout
