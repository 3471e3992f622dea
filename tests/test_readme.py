"""The links of the README have targets, and its table has every recipe."""

import re
from pathlib import Path

from tokenworlds.recipes.catalogue import RECIPES

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_links_have_targets() -> None:
    links = re.findall(r"\]\(((?!http)[^)#]+)\)", README)
    assert links
    assert all((ROOT / link).is_file() for link in links)


def test_every_recipe_is_in_the_table() -> None:
    assert all(f"`{name}`" in README for name in RECIPES)
