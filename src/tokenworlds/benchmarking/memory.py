"""Memory of this process: what it holds, the most it held, and how much there is left.

Linux tells all of it. Elsewhere the most that was ever held stands for the rest, and nothing is
known of what is left.
"""

import ctypes
import re
import resource
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

PROC = Path("/proc")
CGROUP = Path("/sys/fs/cgroup")
RESET_PEAK = "5"
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes held `before` some work and at its `peak`, and those `available` for it if known."""

    before: int
    peak: int
    available: int | None

    @property
    def growth(self) -> int:
        """What the work took."""
        return max(self.peak - self.before, 0)

    def full(self, factor: float) -> int:
        """The peak of so many times the work, if all that grew grows with it."""
        return self.before + round(self.growth * factor)

    def allows(self, factor: float) -> bool:
        """Whether so many times the work takes less than half of what is available."""
        return self.available is None or 2 * self.growth * factor <= self.available


def watch(act: Callable[[], Made]) -> tuple[Made, Memory]:
    """Act, and see what it takes."""
    give_back()
    before, left = resident(), available()
    begin_peak()
    made = act()
    return made, Memory(before, peak(), left)


def give_back() -> None:
    """Return what is freed to the system, so that it is not held against the next."""
    if sys.platform.startswith("linux"):
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def begin_peak() -> None:
    """Forget how much was held before, where the system allows it."""
    try:
        (PROC / "self" / "clear_refs").write_text(RESET_PEAK)
    except OSError:
        return


def resident() -> int:
    """Bytes held now."""
    return told(PROC / "self" / "status", "VmRSS") or highest()


def peak() -> int:
    """The most bytes held since `begin_peak`."""
    return told(PROC / "self" / "status", "VmHWM") or highest()


def highest() -> int:
    """The most bytes ever held."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def available() -> int | None:
    """Bytes that may still be taken: of the machine, or of the container if that is less."""
    known = (told(PROC / "meminfo", "MemAvailable"), left_of_container())
    return min((number for number in known if number is not None), default=None)


def left_of_container() -> int | None:
    """What a control group has left of its limit, if it has one."""
    try:
        limit = int((CGROUP / "memory.max").read_text())
        return max(limit - int((CGROUP / "memory.current").read_text()), 0)
    except (OSError, ValueError):
        return None


def told(path: Path, name: str) -> int | None:
    """A line of a file of the kernel's, in bytes."""
    try:
        found = re.search(rf"^{name}:\s*(\d+) kB", path.read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) * 1024 if found else None
