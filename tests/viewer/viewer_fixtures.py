"""Pages in headless Chromium, and a run to play with."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from dream_runs import train_tiny
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    expect,
    sync_playwright,
)
from viewer_pages import serving

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
NO_CHROMIUM = "Chromium is not installed; on Debian: apt-get install chromium"


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    found = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if found is None:
        pytest.skip(NO_CHROMIUM)
    with sync_playwright() as playwright:
        # Chromium's sandbox does not run as root.
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=found, args=arguments)
        yield browser
        browser.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    context.set_default_timeout(20_000)
    expect.set_options(timeout=20_000)
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """A page that must not write errors or warnings to its console."""
    page = context.new_page()
    problems: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            problems.append(message.text)

    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", note)
    yield page
    assert problems == []


@pytest.fixture(scope="session")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny run; read-only."""
    folder = tmp_path_factory.mktemp("played") / "catch"
    train_tiny(folder)
    return folder


@pytest.fixture(scope="session")
def viewer(played: Path) -> Iterator[str]:
    """The link to the player of the tiny run; the viewer's other pages are beside it."""
    with serving("play", str(played), "--no-browser") as link:
        yield link
