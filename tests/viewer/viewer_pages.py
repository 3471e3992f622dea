"""A viewer in a process of its own, and what holds for all of its pages."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Page


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
    wide: int = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    return wide <= 0
