"""A viewer in a process of its own, and what holds for all of its pages."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Page
from playwright.sync_api import TimeoutError as PlaywrightTimeout

PATIENCE = 60_000
"""Milliseconds until an agent is loaded on a busy machine."""
NAMELESS = """[...document.querySelectorAll("input, select, button, a, progress, [role=img]")]
    .filter((each) => !(each.labels?.length || each.textContent.trim()
        || each.getAttribute("aria-label"))).map((each) => each.outerHTML)"""


@contextmanager
def serving(*words: str) -> Iterator[str]:
    """The link that a command of the viewer prints; the server is stopped afterwards."""
    command = [sys.executable, "-m", "tokenworlds", *words, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[-1]
        finally:
            process.terminate()


def no_sideways_scrolling(page: Page) -> bool:
    """Charts follow a new width of the window in a later frame, so wait for them."""
    try:
        page.wait_for_function("document.documentElement.scrollWidth <= innerWidth")
    except PlaywrightTimeout:
        return False
    return True


def is_dark(page: Page) -> bool:
    background: str = page.evaluate("getComputedStyle(document.body).backgroundColor")
    colours: list[int] = json.loads(f"[{background[4:-1]}]")
    return max(colours) < 64


def nameless_controls(page: Page) -> list[str]:
    """What a screen reader could not name."""
    found: list[str] = page.evaluate(NAMELESS)
    return found
