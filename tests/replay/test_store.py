import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replay_examples import (
    CONTINUOUS,
    DISCRETE,
    assert_holds,
    contents,
    open_store,
    random_play,
    record,
)

from tokenworlds.core.errors import UserError
from tokenworlds.core.files import DamagedFile
from tokenworlds.core.types import ActionSpace, FrameShape
from tokenworlds.replay.store import ReplayStore


@pytest.fixture(autouse=True, scope="module")
def _no_fsync() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.mark.parametrize("actions", [DISCRETE, CONTINUOUS])
@pytest.mark.parametrize("length", [1, 7, 8, 9, 16, 37])
def test_appended_steps_are_read_back(tmp_path: Path, actions: ActionSpace, length: int) -> None:
    played = random_play(3, length, actions)
    store = open_store(tmp_path, num_envs=3, actions=actions)
    record(store, played, 0, length)
    assert_holds(store, played, length)
    assert len(store) == 3 * length


def test_the_caller_may_reuse_its_buffers(tmp_path: Path) -> None:
    played = random_play(1, 3)
    store = open_store(tmp_path, num_envs=1)
    record(store, played, 0, 3)
    kept = played.frame.copy()
    played.frame[:] = 0
    out = np.zeros_like(kept[0])
    store.read_frames(0, 0, out)
    np.testing.assert_array_equal(out, kept[0])


@pytest.mark.parametrize(("env", "start", "count"), [(0, -1, 1), (0, 9, 2), (2, 0, 1), (-1, 0, 1)])
def test_reading_outside_an_environment_is_an_error(
    tmp_path: Path, env: int, start: int, count: int
) -> None:
    played = random_play(2, 10)
    store = open_store(tmp_path)
    record(store, played, 0, 10)
    with pytest.raises(IndexError):
        store.read_frames(env, start, np.zeros_like(played.frame[0, :count]))


@settings(max_examples=25, deadline=None)
@given(saved=st.integers(0, 20), lost=st.integers(0, 20), chunk=st.integers(1, 9))
def test_restoring_removes_every_trace_of_a_crash(
    tmp_path_factory: pytest.TempPathFactory, saved: int, lost: int, chunk: int
) -> None:
    folder, calm = tmp_path_factory.mktemp("crashed"), tmp_path_factory.mktemp("calm")
    played, other = random_play(2, 45), random_play(2, 45, seed=1)
    crashed = open_store(folder, chunk=chunk)
    record(crashed, played, 0, saved)
    state = json.loads(json.dumps(crashed.state()))
    record(crashed, other, saved, saved + lost)
    crashed.flush()
    for path in folder.rglob("*.bin"):
        path.write_bytes(path.read_bytes() + b"torn")

    resumed = open_store(folder, chunk=chunk)
    resumed.restore(state)
    assert_holds(resumed, played, saved)
    record(resumed, played, saved, 45)
    assert_holds(resumed, played, 45)

    undisturbed = open_store(calm, chunk=chunk)
    record(undisturbed, played, 0, 45)
    assert resumed.state() == undisturbed.state()
    assert contents(folder) == contents(calm)


@settings(max_examples=25, deadline=None)
@given(saved=st.integers(0, 20), since=st.integers(0, 20), chunk=st.integers(1, 9))
def test_loading_a_state_leaves_later_steps_on_disk(
    tmp_path_factory: pytest.TempPathFactory, saved: int, since: int, chunk: int
) -> None:
    folder, played = tmp_path_factory.mktemp("running"), random_play(2, 40)
    running = open_store(folder, chunk=chunk)
    record(running, played, 0, saved)
    state = json.loads(json.dumps(running.state()))
    record(running, played, saved, saved + since)
    running.flush()
    for path in folder.rglob("*.bin"):
        path.write_bytes(path.read_bytes() + b"just being written")
    before = contents(folder)
    reader = open_store(folder, chunk=chunk)
    reader.load(state)
    assert_holds(reader, played, saved)
    assert contents(folder) == before


def test_a_store_in_use_can_be_restored_to_an_earlier_state(tmp_path: Path) -> None:
    played, other = random_play(2, 60), random_play(2, 60, seed=1)
    store = open_store(tmp_path)
    record(store, other, 0, 10)
    state = store.state()
    record(store, other, 10, 60)
    assert_holds(store, other, 60)  # Every chunk has been mapped by now.
    store.restore(state)
    played.frame[:, :10] = other.frame[:, :10]
    for name, values in played.fields.items():
        values[:, :10] = other.fields[name][:, :10]
    record(store, played, 10, 60)
    assert_holds(store, played, 60)


def test_later_steps_do_not_change_a_state(tmp_path: Path) -> None:
    played = random_play(2, 12)
    store = open_store(tmp_path)
    record(store, played, 0, 5)
    state = store.state()
    copy = json.dumps(state)
    record(store, played, 5, 12)
    store.flush()
    assert json.dumps(state) == copy


DAMAGED = [
    "env-000/frames-000000.bin",
    "env-001/frames-000001.bin",
    "env-000/steps-000001.bin",
    "env-001/steps-000000.bin",
]


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("name", DAMAGED)
@pytest.mark.parametrize("damage", ["first byte", "last byte", "shorter", "missing"])
def test_a_damaged_file_is_named(tmp_path: Path, name: str, damage: str) -> None:
    store = open_store(tmp_path)
    record(store, random_play(2, 13), 0, 13)
    state = store.state()
    path = tmp_path / name
    if damage == "missing":
        path.unlink()
    elif damage == "shorter":
        os.truncate(path, path.stat().st_size - 1)
    else:
        flip(path, 0 if damage == "first byte" else -1)
    before = contents(tmp_path)
    for act in (store.verify, open_store(tmp_path).restore):
        with pytest.raises(DamagedFile, match=name) as caught:
            act(state)
        assert caught.value.path == path
    assert contents(tmp_path) == before


@pytest.mark.parametrize("kind", ["frames", "steps"])
def test_an_older_state_is_valid_although_later_bytes_are_damaged(
    tmp_path: Path, kind: str
) -> None:
    played = random_play(2, 15)
    store = open_store(tmp_path)
    record(store, played, 0, 11)
    older = store.state()
    record(store, played, 11, 15)
    newer = store.state()
    flip(tmp_path / f"env-001/{kind}-000001.bin", -1)
    with pytest.raises(DamagedFile):
        store.verify(newer)
    store.verify(older)
    resumed = open_store(tmp_path)
    resumed.restore(older)
    assert_holds(resumed, played, 11)


def test_verify_changes_nothing(tmp_path: Path) -> None:
    played = random_play(2, 30)
    store = open_store(tmp_path)
    record(store, played, 0, 5)
    state = store.state()
    record(store, played, 5, 30)
    store.flush()
    before = contents(tmp_path)
    store.verify(state)
    assert contents(tmp_path) == before
    assert_holds(store, played, 30)


def test_clear_removes_only_replay_files(tmp_path: Path) -> None:
    played = random_play(2, 30)
    record(open_store(tmp_path), played, 0, 30)
    (tmp_path / "notes.txt").write_text("mine")
    store = open_store(tmp_path)
    store.clear()
    assert contents(tmp_path) == {"notes.txt": b"mine"}
    record(store, played, 0, 9)
    assert_holds(store, played, 9)


@pytest.mark.parametrize(
    "other",
    [{"num_envs": 3}, {"chunk": 4}, {"actions": CONTINUOUS}],
)
def test_a_state_of_another_layout_is_an_error(tmp_path: Path, other: dict[str, int]) -> None:
    store = open_store(tmp_path)
    record(store, random_play(2, 3), 0, 3)
    with pytest.raises(UserError, match=str(tmp_path)):
        open_store(tmp_path, **other).restore(store.state())  # type: ignore[arg-type]


def test_a_hundred_thousand_atari_frames_take_less_than_1_3_gib(tmp_path: Path) -> None:
    steps = 300
    store = ReplayStore(
        tmp_path,
        frame_shape=FrameShape(64, 64, 3),
        action_space=ActionSpace(18),
        num_envs=1,
        chunk=128,
    )
    frames = np.zeros((1, 64, 64, 3), np.uint8)
    no = np.zeros(1, bool)
    for _ in range(steps):
        store.append(frames, no, np.zeros(1, np.int64), np.zeros(1, np.float32), no, no)
    store.flush()
    used = sum(len(content) for content in contents(tmp_path).values())
    assert used == steps * (64 * 64 * 3 + store.records.dtype.itemsize)
    assert used / steps * 100_000 < 1.3 * 2**30


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts descriptors in /proc")
def test_many_chunks_keep_few_file_descriptors_open(tmp_path: Path) -> None:
    played = random_play(2, 200)
    store = open_store(tmp_path, chunk=1)
    before = len(os.listdir("/proc/self/fd"))
    record(store, played, 0, 200)
    assert_holds(store, played, 200)
    assert len(os.listdir("/proc/self/fd")) - before < 200


def test_a_new_store_overwrites_older_files_completely(tmp_path: Path) -> None:
    record(old := open_store(tmp_path / "used"), random_play(2, 8, seed=1), 0, 8)
    old.flush()
    for folder in ("used", "fresh"):
        store = open_store(tmp_path / folder)
        record(store, random_play(2, 8), 0, 5)
        store.flush()
    assert contents(tmp_path / "used") == contents(tmp_path / "fresh")
