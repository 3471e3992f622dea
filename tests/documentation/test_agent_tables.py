"""Pages of agents show recipes, published scores, receipts and figures as they are."""

import re
from pathlib import Path

import agent_pages
import data_flow
import pytest

from tokenworlds.core.errors import UserError
from tokenworlds.recipes.catalogue import RECIPES

SECTIONS = ("## How it works", "## Equations", "## Recipe", "## Published scores", "## Own scores")
PAGES = [path for path in sorted(agent_pages.PAGES.glob("*.md")) if path.stem != "index"]


def test_the_pages_are_what_the_generators_give() -> None:
    stale = [path.name for path, text in agent_pages.pages().items() if path.read_text() != text]
    assert stale == [], "run 'make results'"


def test_the_figures_have_the_numbers_of_the_recipes() -> None:
    stale = [path.name for path, text in data_flow.pictures().items() if path.read_text() != text]
    assert stale == [], "run 'python scripts/documentation/data_flow.py'"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_its_sections_and_its_figure(page: Path) -> None:
    text = page.read_text()
    assert [section for section in SECTIONS if f"\n{section}\n" not in text] == []
    assert re.search(r"!\[[^\]]+\]\(\.\./images/agents/[\w-]+\.svg\)", text)
    assert "```math\n" in text


def test_every_recipe_is_on_a_page() -> None:
    text = "".join(page.read_text() for page in PAGES)
    assert [name for name in RECIPES if f"`{name}`" not in text] == []


def test_a_wrong_part_is_named() -> None:
    with pytest.raises(UserError, match="did you mean 'settings'"):
        agent_pages.fill("<!-- agent:begin setings storm -->\n<!-- agent:end -->")
    with pytest.raises(UserError, match="has no end"):
        agent_pages.fill("<!-- agent:begin settings storm -->\n")


def test_text_around_a_part_stays() -> None:
    text = "before\n<!-- agent:begin settings ppo -->\nold\n<!-- agent:end -->\nafter\n"
    filled = agent_pages.fill(text)
    assert filled.startswith("before\n")
    assert filled.endswith("after\n")
    assert "old" not in filled
    assert "| `behaviour.clip` | `0.1` |" in filled
