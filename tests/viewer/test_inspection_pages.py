"""The pages of tokens and of dream and reality side by side, in headless Chromium."""

import re
from urllib.parse import urljoin

from playwright.sync_api import Page, expect
from viewer_pages import PATIENCE, is_dark, nameless_controls, no_sideways_scrolling

pytest_plugins = ("viewer_fixtures",)


def fits_a_phone_in_the_dark(page: Page) -> bool:
    page.set_viewport_size({"width": 360, "height": 740})
    page.emulate_media(color_scheme="dark")
    return is_dark(page) and no_sideways_scrolling(page)


def test_an_episode_is_scrubbed_with_its_tokens_surprise_and_saliency(
    page: Page, viewer: str
) -> None:
    page.goto(urljoin(viewer, "tokens?run=."))
    expect(page.locator("#frame")).to_be_visible(timeout=PATIENCE)
    expect(page.locator("#status")).to_contain_text(re.compile(r"Episode \d+ of replay: \d+ steps"))
    first = page.locator("#frame").get_attribute("src")
    expect(page.locator("#no-nll")).to_have_text("Nothing predicts the first frame.")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#step")).to_have_text("step 2")
    assert page.locator("#frame").get_attribute("src") != first
    expect(page.locator("#error")).to_contain_text(re.compile(r"error 0\.\d"))
    expect(page.locator("#tokens-note")).to_contain_text("of 4 changed")
    expect(page.locator("#nll-note")).to_contain_text(
        re.compile(r"mean [\d.]+, scale to [\d.]+ nats")
    )
    expect(page.locator("#usage")).to_contain_text("this episode")
    expect(page.locator("figure[data-metric=nll] canvas")).to_be_visible()
    page.get_by_label("What the agent looks at").check()
    expect(page.locator("#saliency-note")).to_contain_text("nats")
    expect(page.locator("#veil")).to_have_attribute("aria-label", re.compile("most at row"))
    page.locator("#way").select_option("patches")
    expect(page.locator("#veil")).to_have_attribute("aria-label", re.compile("of 8, column"))
    expect(page.locator("#way-note")).to_contain_text("the agent never saw")
    assert nameless_controls(page) == []
    assert fits_a_phone_in_the_dark(page)


def test_dream_and_reality_are_compared_and_the_plot_grows(page: Page, viewer: str) -> None:
    page.goto(urljoin(viewer, "compare?run=."))
    expect(page.locator("#parting")).to_contain_text("part", timeout=PATIENCE)
    expect(page.locator("#dreamed")).to_be_visible()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#tokens-note")).to_contain_text("of 4 differ")
    page.get_by_role("button", name="Dream from many starts").click()
    plot = page.locator("#horizon .plot")
    expect(plot).to_have_attribute("aria-label", re.compile("dream: .* after 1 step"))
    counted = re.compile(r"(\d+) of \1 dreams")
    expect(page.locator("#many-status")).to_have_text(counted, timeout=PATIENCE)
    assert nameless_controls(page) == []
    assert fits_a_phone_in_the_dark(page)
