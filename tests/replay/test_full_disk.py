"""A failing disk: no data is lost, neither on disk nor in memory."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from replay_examples import assert_holds, contents, open_store, random_play, record

LIMITED = """
import resource, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from replay_examples import assert_holds, random_play, open_store, record

played = random_play(2, 40)
store = open_store(Path(sys.argv[1]), chunk=16)
record(store, played, 0, 10)
state = store.state()
record(store, played, 10, 16)
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (12 * 72 + 5, hard))
for act in (store.flush, lambda: record(store, played, 16, 17)):
    try:
        act()
    except OSError:
        continue
    raise SystemExit("no error beyond the limit")
assert_holds(store, played, 16)
store.verify(state)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
record(store, played, 16, 40)
assert_holds(store, played, 40)
store.flush()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on file sizes")
def test_a_flush_that_failed_can_be_repeated(tmp_path: Path) -> None:
    here = str(Path(__file__).parent)
    command = [sys.executable, "-c", LIMITED, str(tmp_path / "limited"), here]
    subprocess.run(command, check=True)
    calm = open_store(tmp_path / "calm", chunk=16)
    record(calm, random_play(2, 40), 0, 40)
    calm.flush()
    assert contents(tmp_path / "limited") == contents(tmp_path / "calm")


@pytest.mark.parametrize("failing", range(12))
def test_the_bytes_are_right_in_the_end_whichever_file_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    played = random_play(2, 20)
    store = open_store(tmp_path / "failing")
    calls = iter(range(100))

    def sync(descriptor: int) -> None:
        if next(calls) == failing:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", sync)
    record(store, played, 0, 8)
    with pytest.raises(OSError, match="No space left"):
        record(store, played, 8, 9)
    assert_holds(store, played, 8)
    record(store, played, 8, 20)
    assert_holds(store, played, 20)
    calm = open_store(tmp_path / "calm")
    record(calm, played, 0, 20)
    assert store.state() == calm.state()
    assert contents(tmp_path / "failing") == contents(tmp_path / "calm")


def test_a_state_is_on_disk_when_it_is_returned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: dict[int, int] = {}

    def sync(descriptor: int) -> None:
        status = os.fstat(descriptor)
        synced[status.st_ino] = status.st_size

    monkeypatch.setattr(os, "fsync", sync)
    store = open_store(tmp_path / "replay")
    record(store, random_play(2, 21), 0, 21)
    store.state()
    paths = [tmp_path / "replay", *(tmp_path / "replay").rglob("*")]
    assert len(paths) == 1 + 2 + 2 * 2 * 3
    for path in paths:
        assert path.stat().st_ino in synced
        assert path.is_dir() or synced[path.stat().st_ino] == path.stat().st_size
