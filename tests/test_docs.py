"""The pages name files that exist, and the reading lists are short."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "tokenworlds"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_have_targets(page: Path) -> None:
    links = re.findall(r"\]\(((?!http|#)[^)#]+)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_files_of_the_source_and_of_tests_exist(page: Path) -> None:
    packages = "|".join(path.name for path in SOURCE.iterdir() if path.is_dir())
    named = re.findall(rf"(?<![\w/])(?:(?:{packages})|tests|scripts)/[\w/]+\.py", page.read_text())
    found = [name for name in named if (SOURCE / name).exists() or (ROOT / name).exists()]
    assert set(named) == set(found)


def test_five_files_are_enough_for_the_loss_of_a_world() -> None:
    text = (ROOT / "docs" / "design.md").read_text()
    rows = text.partition("## Reading lists")[2].partition("\n## ")[0].splitlines()
    losses = [row.split("|")[2] for row in rows if ".py" in row and row.startswith("|")]
    assert losses
    assert all(len(re.findall(r"\.py", loss)) <= 5 for loss in losses)
