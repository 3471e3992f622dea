"""Process settings: output streams, memory, and processors that misreport their tile registers."""

import codecs
import ctypes
import io
import os
import re
import sys
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
TILE_PALETTES = 0x1D
ISA_LIMIT = "ONEDNN_MAX_CPU_ISA"
WITHOUT_TILES = "AVX512_CORE_FP16"
PLAIN = {
    **{"±": "+/-", "Δ": "Delta", "─": "-", "│": "|"},
    **dict.fromkeys("╭╮╰╯", "+"),
    **dict(zip("▁▂▃▄▅▆▇█", "12345678", strict=True)),
}
"""Spellings for terminals that cannot show a character."""
M_TRIM_THRESHOLD = -1
M_MMAP_MAX = -4


def prepare_process() -> None:
    """Call before the first tensor is computed."""
    avoid_broken_tiles()
    keep_memory()


def prepare_streams() -> None:
    """Spell characters that standard output or error cannot encode, instead of failing."""
    codecs.register_error("plain", spell_plainly)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and not can_encode(stream.encoding):
            stream.reconfigure(errors="plain")


def can_encode(encoding: str) -> bool:
    try:
        "".join(PLAIN).encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def spell_plainly(error: UnicodeError) -> tuple[str, int]:
    """An error handler of `codecs`."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end]
    return "".join(PLAIN.get(character, "?") for character in missing), error.end


def avoid_broken_tiles(cpuinfo: Path = CPUINFO) -> None:
    """Keep oneDNN from using broken tile registers; a user's own limit stays."""
    if tiles_are_misreported(cpuinfo):
        os.environ.setdefault(ISA_LIMIT, WITHOUT_TILES)


def tiles_are_misreported(cpuinfo: Path = CPUINFO) -> bool:
    """Whether the processor has AMX while its virtual machine hides the tiles' description.

    oneDNN then disables the tiles but still uses them, and bfloat16 kills the process.
    """
    try:
        text = cpuinfo.read_text()
    except OSError:
        return False
    level = re.search(r"^cpuid level\s*:\s*(\d+)", text, re.MULTILINE)
    return "amx_tile" in text and level is not None and int(level[1]) < TILE_PALETTES


def keep_memory() -> bool:
    """Let glibc keep freed memory; returns whether there is a glibc.

    Otherwise each update gets its large tensors from the kernel page by page.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(M_MMAP_MAX, 0) and mallopt(M_TRIM_THRESHOLD, 2**31 - 1))
