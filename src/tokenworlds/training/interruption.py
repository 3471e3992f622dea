"""Ctrl-C and requests to end, heard at the next good moment; a second one is obeyed at once."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """Whether the run was asked to stop, and by which signal."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self._told: Callable[[], None] = lambda: None

    def __call__(self) -> bool:
        """Whether to stop."""
        return self.signal is not None

    @property
    def exit_code(self) -> int:
        """What the shell is told: 130 after Ctrl-C, 143 after a request to end."""
        return 0 if self.signal is None else 128 + self.signal

    @contextlib.contextmanager
    def listening(self, told: Callable[[], None]) -> Iterator[None]:
        """Take signals until the block is left; `told` is called in a handler at the first."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self._told = told
        before = {number: signal.signal(number, self._hear) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.signal is not None:
            raise KeyboardInterrupt
        self.signal = number
        self._told()
