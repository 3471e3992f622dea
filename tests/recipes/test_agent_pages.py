"""The options on the pages of agents apply to their recipes."""

import re
from pathlib import Path

import pytest

from tokenworlds.core.errors import UserError
from tokenworlds.core.overrides import override
from tokenworlds.recipes.catalogue import load

PAGES = Path(__file__).parents[2] / "docs" / "agents"
# A page's options belong to one of these; the last has the two-hot rewards of Δ-IRIS.
AGENTS = {
    "step_vq": [("step-vq-m", "atari:Pong")],
    "git_storm": [("git-storm", "atari:Pong"), ("storm", "atari:Pong")],
    "smaller_world_models": [("swm", "atari:Pong"), ("ppo", "atari:Pong")],
    "delta_iris": [("iris", "atari:Pong"), ("delta-iris", "atari:Pong"), ("delta-iris", "crafter")],
}


def applies(name: str, env: str, assignments: list[str]) -> bool:
    try:
        override(load(name, "paper", env).recipe, assignments)
    except UserError:
        return False
    return True


@pytest.mark.parametrize("page", AGENTS)
def test_every_option_on_a_page_applies(page: str) -> None:
    text = " ".join((PAGES / f"{page}.md").read_text("utf-8").split())
    options = re.findall(r"`(--set [^`]*)`", text)
    assert options
    for option in options:
        assignments = [words.strip() for words in option.split("--set ") if words.strip()]
        assert any(applies(*agent, assignments) for agent in AGENTS[page]), option
