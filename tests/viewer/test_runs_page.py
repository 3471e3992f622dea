"""The page of runs in headless Chromium."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from dream_runs import TINY
from playwright.sync_api import BrowserContext, Page, expect
from viewer_pages import PATIENCE, is_dark, nameless_controls, no_sideways_scrolling, serving
from viewer_runs import append, event, write_run

pytest_plugins = ("viewer_fixtures",)

LOSSES = {"world__loss__total": 2.0, "world__loss__dynamics": 1.0, "behaviour__loss__actor": -0.5}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs with curves and a damaged one."""
    root = tmp_path_factory.mktemp("viewer")
    for name, seed in (("iris-pong-s0", 0), ("iris-pong-s1", 1)):
        run = write_run(root / name, seed=seed)
        for step in range(100, 1000, 100):
            returns = {"collect__return": step / 100.0 - 21.0, "evaluation__return": -20.0 + seed}
            append(run, event(step, **returns, **LOSSES))
    write_run(root / "broken")
    (root / "broken" / "run.json").write_text("{")
    return root


@pytest.fixture(scope="module")
def link(runs: Path) -> Iterator[str]:
    with serving("view", str(runs)) as link:
        yield link


def chart(page: Page, metric: str) -> str:
    """What a screen reader says of a chart."""
    found = page.locator(f'figure[data-metric="{metric}"] [role="img"]').get_attribute("aria-label")
    assert found is not None
    return found


def open_runs(page: Page, link: str) -> None:
    page.goto(link)
    expect(page.locator("figure canvas").first).to_be_visible()


def painted(page: Page, metric: str) -> str:
    """The picture of a chart."""
    canvas = f"document.querySelector('figure[data-metric=\"{metric}\"] canvas').toDataURL()"
    found: str = page.evaluate(canvas)
    return found


def test_the_page_lists_runs_and_draws_returns_and_every_loss(page: Page, link: str) -> None:
    open_runs(page, link)
    expect(page.locator("#runs tbody tr")).to_have_count(3)
    expect(page.locator('tr[data-run="broken"]')).to_contain_text("is damaged")
    metrics = [name.replace("__", "/") for name in LOSSES]
    for metric in ["collect/return", "evaluation/return", *metrics]:
        expect(page.locator(f'figure[data-metric="{metric}"] canvas')).to_be_visible()
    assert "published iris: 14.6" in chart(page, "evaluation/return")
    assert "iris-pong-s1: -19 at step 900" in chart(page, "evaluation/return")


def test_curves_move_while_a_run_writes_metrics(page: Page, link: str, runs: Path) -> None:
    open_runs(page, link)
    metric = "world/loss/total"
    before = painted(page, metric)
    append(runs / "iris-pong-s0", event(1500, world__loss__total=0.25))
    figure = page.locator(f'figure[data-metric="{metric}"] [role="img"]')
    expect(figure).to_have_attribute("aria-label", re.compile(r"iris-pong-s0: 0\.25 at step 1,500"))
    expect(page.locator('tr[data-run="iris-pong-s0"]')).to_contain_text("1,500 of")
    assert painted(page, metric) != before


def test_curves_move_while_an_agent_trains(page: Page, tmp_path: Path) -> None:
    """The run itself writes; Ctrl-C ends it, and the page says so."""
    words = [f"--set={name}={json.dumps(value)}" for name, value in TINY.items()]
    command = [sys.executable, "-m", "tokenworlds", "train", "--run", str(tmp_path / "run"), *words]
    command += ["--steps", "1000000", "--threads", "1", "--set=housekeeping.log_every=16"]
    with serving("view", str(tmp_path)) as link, subprocess.Popen(command) as training:
        try:
            page.goto(link)
            row = page.locator('tr[data-run="run"]')
            expect(row).to_contain_text("running", timeout=PATIENCE)
            expect(page.locator("figure canvas").first).to_be_visible(timeout=PATIENCE)
            before = chart(page, "world/loss/total")
            figure = page.locator('figure[data-metric="world/loss/total"] [role="img"]')
            expect(figure).not_to_have_attribute("aria-label", before, timeout=PATIENCE)
        finally:
            training.send_signal(signal.SIGINT)
        assert training.wait() == 130
        expect(row).to_contain_text("stopped")


def test_a_run_that_starts_appears_by_itself_and_a_deleted_one_disappears(
    page: Page, link: str, runs: Path
) -> None:
    open_runs(page, link)
    new = write_run(runs / "late", recipe="storm")
    expect(page.locator('tr[data-run="late"]')).to_contain_text("storm nano")
    new.rename(runs.parent / "gone")
    expect(page.locator('tr[data-run="late"]')).to_have_count(0)


def test_runs_are_ticked_by_keyboard(page: Page, link: str) -> None:
    open_runs(page, link)
    box = page.locator('tr[data-run="iris-pong-s1"] input')
    expect(box).to_be_checked()
    box.focus()
    page.keyboard.press("Space")
    expect(box).not_to_be_checked()
    expect(box).to_be_focused()
    figure = page.locator('figure[data-metric="collect/return"] [role="img"]')
    expect(figure).not_to_have_attribute("aria-label", re.compile("iris-pong-s1"))


def test_smoothing_and_log_scale_change_the_picture(page: Page, link: str) -> None:
    open_runs(page, link)
    plain = painted(page, "collect/return")
    page.get_by_label("Smoothing").fill("0.9")
    smoothed = painted(page, "collect/return")
    assert smoothed != plain
    total = painted(page, "world/loss/total")
    page.get_by_label("Log scale").check()
    assert painted(page, "world/loss/total") != total
    # A logarithm of returns below 0 does not exist.
    expect(page.locator('figure[data-metric="collect/return"] .note')).to_contain_text("linear")


@pytest.mark.parametrize("width", [360, 800, 1920])
def test_the_page_fits_its_width(page: Page, link: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    open_runs(page, link)
    assert no_sideways_scrolling(page)
    plot = page.locator("figure .plot").first.bounding_box()
    assert plot is not None
    assert plot["x"] >= 0
    assert plot["x"] + plot["width"] <= width


def test_dark_mode_turns_page_and_charts_dark(page: Page, link: str) -> None:
    page.emulate_media(color_scheme="light")
    open_runs(page, link)
    light = painted(page, "collect/return")
    page.emulate_media(color_scheme="dark")
    assert is_dark(page)
    expect(page.locator("figure canvas").first).to_be_visible()
    page.wait_for_function(
        "old => document.querySelector('figure[data-metric=\"collect/return\"] canvas')"
        ".toDataURL() !== old",
        arg=light,
    )


def test_every_control_has_a_name(page: Page, link: str) -> None:
    open_runs(page, link)
    assert nameless_controls(page) == []


def test_a_viewer_that_stopped_is_announced(context: BrowserContext, runs: Path) -> None:
    page = context.new_page()
    with serving("view", str(runs)) as link:
        open_runs(page, link)
    expect(page.locator("#live")).to_contain_text("does not answer")
