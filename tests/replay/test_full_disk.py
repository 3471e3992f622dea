"""A disk that fails: nothing that was flushed is lost, nothing in memory either."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from replay_streams import assert_holds, contents, make_streams, open_store, record

LIMITED = """
import resource, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from replay_streams import assert_holds, make_streams, open_store, record

environments = make_streams(2, 40)
store = open_store(Path(sys.argv[1]), chunk=16)
record(store, environments, 0, 10)
state = store.state()
record(store, environments, 10, 16)
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (12 * 72 + 5, hard))
for act in (store.flush, lambda: record(store, environments, 16, 17)):
    try:
        act()
    except OSError:
        continue
    raise SystemExit("the limit was not felt")
assert_holds(store, environments, 16)
store.verify(state)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
record(store, environments, 16, 40)
assert_holds(store, environments, 40)
store.flush()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="limits the size of files")
def test_a_flush_that_was_cut_short_can_be_repeated(tmp_path: Path) -> None:
    here = str(Path(__file__).parent)
    command = [sys.executable, "-c", LIMITED, str(tmp_path / "limited"), here]
    subprocess.run(command, check=True)
    calm = open_store(tmp_path / "calm", chunk=16)
    record(calm, make_streams(2, 40), 0, 40)
    calm.flush()
    assert contents(tmp_path / "limited") == contents(tmp_path / "calm")


@pytest.mark.parametrize("failing", range(12))
def test_whichever_file_fails_the_bytes_are_right_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    num_envs = make_streams(2, 20)
    store = open_store(tmp_path / "failing")
    calls = iter(range(100))

    def sync(descriptor: int) -> None:
        if next(calls) == failing:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", sync)
    record(store, num_envs, 0, 8)
    with pytest.raises(OSError, match="No space left"):
        record(store, num_envs, 8, 9)
    assert_holds(store, num_envs, 8)
    record(store, num_envs, 8, 20)
    assert_holds(store, num_envs, 20)
    calm = open_store(tmp_path / "calm")
    record(calm, num_envs, 0, 20)
    assert store.state() == calm.state()
    assert contents(tmp_path / "failing") == contents(tmp_path / "calm")


def test_a_state_is_on_disk_when_it_is_handed_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: dict[int, int] = {}

    def sync(descriptor: int) -> None:
        status = os.fstat(descriptor)
        synced[status.st_ino] = status.st_size

    monkeypatch.setattr(os, "fsync", sync)
    store = open_store(tmp_path / "replay")
    record(store, make_streams(2, 21), 0, 21)
    store.state()
    paths = [tmp_path / "replay", *(tmp_path / "replay").rglob("*")]
    assert len(paths) == 1 + 2 + 2 * 2 * 3
    for path in paths:
        assert path.stat().st_ino in synced
        assert path.is_dir() or synced[path.stat().st_ino] == path.stat().st_size
