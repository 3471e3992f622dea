"""A replay that is read while a run goes on writing to it."""

import json
import os
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replay_streams import assert_holds, contents, make_streams, open_store, record


@pytest.fixture(autouse=True, scope="module")
def _no_waiting_for_the_disk() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@settings(max_examples=25, deadline=None)
@given(saved=st.integers(0, 20), since=st.integers(0, 20), chunk=st.integers(1, 9))
def test_looking_back_shows_a_state_and_leaves_what_was_written_since(
    tmp_path_factory: pytest.TempPathFactory, saved: int, since: int, chunk: int
) -> None:
    folder, num_envs = tmp_path_factory.mktemp("running"), make_streams(2, 40)
    running = open_store(folder, chunk=chunk)
    record(running, num_envs, 0, saved)
    state = json.loads(json.dumps(running.state()))
    record(running, num_envs, saved, saved + since)
    running.flush()
    for path in folder.rglob("*.bin"):
        path.write_bytes(path.read_bytes() + b"just being written")
    before = contents(folder)
    visitor = open_store(folder, chunk=chunk)
    visitor.load(state)
    assert_holds(visitor, num_envs, saved)
    assert contents(folder) == before
