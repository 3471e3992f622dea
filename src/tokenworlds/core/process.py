"""The process as a whole: memory that is not given back, and a processor that misreports itself."""

import ctypes
import os
import re
import sys
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
TILE_PALETTES = 0x1D
ISA_LIMIT = "ONEDNN_MAX_CPU_ISA"
WITHOUT_TILES = "AVX512_CORE_FP16"
M_TRIM_THRESHOLD = -1
M_MMAP_MAX = -4


def prepare_process() -> None:
    """To be called before the first tensor is computed; does nothing where nothing is amiss."""
    avoid_broken_tiles()
    keep_memory()


def avoid_broken_tiles(cpuinfo: Path = CPUINFO) -> None:
    """Keep oneDNN from tile registers that it could not set up; a user's own limit stays."""
    if tiles_are_misreported(cpuinfo):
        os.environ.setdefault(ISA_LIMIT, WITHOUT_TILES)


def tiles_are_misreported(cpuinfo: Path = CPUINFO) -> bool:
    """Whether the processor has AMX while its virtual machine hides the tiles' description.

    oneDNN then switches the tiles off and uses them all the same: bfloat16 ends the process.
    """
    try:
        text = cpuinfo.read_text()
    except OSError:
        return False
    level = re.search(r"^cpuid level\s*:\s*(\d+)", text, re.MULTILINE)
    return "amx_tile" in text and level is not None and int(level[1]) < TILE_PALETTES


def keep_memory() -> bool:
    """Have glibc keep freed memory, which an update asks for again; True where there is a glibc.

    Each update would otherwise fetch its large tensors from the kernel page by page.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(M_MMAP_MAX, 0) and mallopt(M_TRIM_THRESHOLD, 2**31 - 1))
