"""`tokenworlds play` without a run: a pretrained agent, and a choice among them."""

import pytest
from playwright.sync_api import Page, expect
from viewer_pages import serving

from tokenworlds.agent import open_agent
from tokenworlds.cli import main
from tokenworlds.core.errors import missing_extra
from tokenworlds.envs.catalogue import EnvSpec
from tokenworlds.pretrained import DEFAULT, names
from tokenworlds.runs.own_code import Trust
from tokenworlds.viewer.dream import Dream
from tokenworlds.viewer.source import Source

pytest_plugins = ("viewer_fixtures",)
PATIENCE = 60_000


def test_a_dream_opens_at_once_and_another_agent_can_be_chosen(page: Page) -> None:
    other = next(name for name in names() if name.startswith("dreamer-v3"))
    with serving("play", "--no-browser") as link:
        page.goto(link)
        expect(page.locator("#frame")).to_be_visible(timeout=PATIENCE)
        chosen = page.locator("#chosen")
        expect(chosen).to_have_value(DEFAULT)
        assert chosen.locator("option").all_text_contents() == names()
        page.keyboard.press("ArrowLeft")
        expect(page.locator("#step")).to_have_text("step 1")
        chosen.select_option(other)
        expect(page.locator("#about")).to_contain_text("minatar:breakout", timeout=PATIENCE)
        expect(page.locator("#frame")).to_be_visible(timeout=PATIENCE)
        expect(chosen).to_have_value(other)


@pytest.mark.parametrize("name", names())
def test_without_its_environment_an_agent_dreams_from_the_steps_saved_with_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(spec: EnvSpec, evaluation: bool = False) -> None:
        raise missing_extra(spec.name, "minatar")

    monkeypatch.setattr(EnvSpec, "make", refuse)
    dream = Dream(Source(open_agent(name, Trust()), Trust()))
    first = dream.start("reset")
    assert first["frame"].startswith("data:image/png;base64,")
    second = dream.step(first["number"])
    assert second["frame"] != first["frame"]


def test_a_name_that_is_no_agent_lists_those_that_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["play", "nothing"]) == 2
    text = capsys.readouterr().err
    assert "'nothing' is not the folder of a run or of a saved agent" in text
    assert DEFAULT in text
