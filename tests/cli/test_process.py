"""Set-up of the process before the first tensor."""

import io
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from tokenworlds.core.process import (
    avoid_broken_tiles,
    keep_memory,
    prepare_streams,
    tiles_are_misreported,
)

TILES = "flags : avx512f amx_bf16 amx_tile amx_int8\ncpuid level\t: {}\n"


@pytest.mark.parametrize(
    ("text", "misreported"),
    [
        (TILES.format(28), True),
        (TILES.format(29), False),
        (TILES.format(32), False),
        ("flags : avx2\ncpuid level\t: 13\n", False),
        ("", False),
    ],
)
def test_tile_registers_without_a_description_are_avoided(
    text: str, misreported: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(text)
    assert tiles_are_misreported(cpuinfo) == misreported
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    avoid_broken_tiles(cpuinfo)
    assert os.environ.get("ONEDNN_MAX_CPU_ISA") == ("AVX512_CORE_FP16" if misreported else None)


def test_a_limit_set_by_the_user_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cpuinfo").write_text(TILES.format(28))
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    avoid_broken_tiles(tmp_path / "cpuinfo")
    assert os.environ["ONEDNN_MAX_CPU_ISA"] == "AVX2"


def test_a_system_without_cpuinfo(tmp_path: Path) -> None:
    assert not tiles_are_misreported(tmp_path / "nothing")


def test_freed_memory_is_kept_with_glibc() -> None:
    assert keep_memory() == (platform.libc_ver()[0] == "glibc")


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [("ascii", "1.00 +/- 0.50 Delta ?"), ("latin-1", "1.00 ± 0.50 Delta ?"), ("utf-8", None)],
)
def test_characters_that_a_stream_lacks_are_spelled(
    encoding: str, expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, text = io.BytesIO(), "1.00 ± 0.50 Δ 字"
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(stream, encoding=encoding))
    prepare_streams()
    print(text, end="", flush=True)
    assert stream.getvalue().decode(encoding) == (expected or text)


def test_commands_print_to_ascii_terminals() -> None:
    words = [sys.executable, "-m", "tokenworlds", "agents"]
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(words, capture_output=True, env=ascii_only)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"Delta-IRIS" in done.stdout
