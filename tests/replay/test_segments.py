import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from replay_examples import CONTINUOUS, DISCRETE, open_store, random_play, record
from torch import Tensor

from tokenworlds.core.errors import UserError
from tokenworlds.core.trees import map_tensors
from tokenworlds.core.types import ActionSpace
from tokenworlds.replay.sampling import Uniform, Windows, draw_offsets, gather


@pytest.fixture(autouse=True, scope="module")
def _no_fsync() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@settings(max_examples=25, deadline=None)
@given(
    steps=st.integers(1, 30),
    chunk=st.integers(1, 9),
    actions=st.sampled_from([DISCRETE, CONTINUOUS]),
    data=st.data(),
)
def test_gathering_equals_indexing_step_by_step(
    tmp_path_factory: pytest.TempPathFactory,
    steps: int,
    chunk: int,
    actions: ActionSpace,
    data: st.DataObject,
) -> None:
    played = random_play(3, steps, actions)
    store = open_store(tmp_path_factory.mktemp("s"), num_envs=3, chunk=chunk, actions=actions)
    record(store, played, 0, steps)
    length = data.draw(st.integers(1, steps))
    places = st.tuples(st.integers(0, 2), st.integers(0, steps - length))
    starts = np.array(data.draw(st.lists(places, min_size=1, max_size=6)))
    segment = gather(store, starts, length)
    naive = {"frame": played.frame, **played.fields}
    for name, values in naive.items():
        expected = [[values[s, t + i] for i in range(length)] for s, t in starts]
        np.testing.assert_array_equal(getattr(segment, name).numpy(), np.array(expected))
    assert segment.mask.all()


def test_segments_have_the_dtypes_that_models_expect(tmp_path: Path) -> None:
    for actions, dtype in ((DISCRETE, torch.int64), (CONTINUOUS, torch.float32)):
        store = open_store(tmp_path / str(dtype), actions=actions)
        record(store, random_play(2, 4, actions), 0, 4)
        segment = gather(store, np.array([[0, 0]]), 3)
        assert segment.action.dtype == dtype
        assert segment.reward.dtype == torch.float32


def test_changing_a_segment_does_not_change_replay(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    record(store, random_play(2, 20), 0, 20)
    starts = np.array([[0, 0], [1, 15]])
    map_tensors(torch.Tensor.zero_, gather(store, starts, 5))
    again = gather(store, starts, 5)
    assert again.frame.any()
    assert again.reward.all()
    assert again.mask.all()


@pytest.mark.parametrize("start", [[0, 7], [2, 0], [-1, 0], [0, -1]])
def test_a_window_outside_its_environment_is_an_error(tmp_path: Path, start: list[int]) -> None:
    store = open_store(tmp_path)
    record(store, random_play(2, 10), 0, 10)
    with pytest.raises(IndexError):
        gather(store, np.array([start]), 4)


def test_a_restored_store_returns_the_same_segments(tmp_path: Path) -> None:
    played = random_play(2, 40)
    store = open_store(tmp_path)
    record(store, played, 0, 29)
    state = store.state()
    before = sampled_frames(store_length=29, folder=tmp_path, state=state)
    record(store, played, 29, 40)
    store.flush()
    after = sampled_frames(store_length=29, folder=tmp_path, state=state)
    assert torch.equal(before, after)


def sampled_frames(*, store_length: int, folder: Path, state: dict[str, object]) -> torch.Tensor:
    store = open_store(folder)
    store.restore(state)
    assert store.length == store_length
    sampler = Uniform.Config().build(batches={"world": 4})
    starts = sampler.sample("world", Windows.of(store, 6), 4, np.random.default_rng(5))
    return gather(store, starts, 6).frame


def test_windows_are_numbered_environment_by_environment() -> None:
    windows = Windows(num_envs=2, steps=5, length=4)
    assert len(windows) == 4
    assert windows.locate(np.arange(4)).tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]


@pytest.mark.parametrize("length", [0, 6])
def test_a_length_that_does_not_fit_is_a_user_error(length: int) -> None:
    with pytest.raises(UserError, match=f"{length} steps does not fit"):
        Windows(num_envs=2, steps=5, length=length)


def test_segments_go_to_cuda_asynchronously_from_pinned_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records the calls to torch instead of using CUDA."""
    store, calls, empty, send = open_store(tmp_path), list[Any](), torch.empty, Tensor.to
    record(store, random_play(2, 4), 0, 4)

    def allocate(size: Any, dtype: torch.dtype, pin_memory: bool) -> Tensor:
        calls.append((dtype, pin_memory))
        return empty(size, dtype=dtype)

    def to(tensor: Tensor, device: torch.device, non_blocking: bool) -> Tensor:
        calls.append((tensor.dtype, device.type, non_blocking))
        return send(tensor, "cpu")

    def pin(tensor: Tensor) -> Tensor:
        calls.append(tensor.dtype)
        return tensor

    monkeypatch.setattr(torch, "empty", allocate)
    monkeypatch.setattr(Tensor, "pin_memory", pin)
    monkeypatch.setattr(Tensor, "to", to)
    gather(store, np.array([[1, 0]]), 3, "cuda:0")
    pinned, sent = calls[1:7], calls[7:]
    assert calls[0] == (torch.uint8, True)
    assert sent[0] == (torch.uint8, "cuda", True)
    assert sorted(map(str, pinned)) == sorted(str(kind) for kind, *_ in sent[1:])
    assert all(how == ["cuda", True] for _, *how in sent)


def test_all_frames_of_a_window_are_shifted_alike_and_edges_are_repeated(tmp_path: Path) -> None:
    store, played = open_store(tmp_path), random_play(2, 9)
    record(store, played, 0, 9)
    starts, offsets = np.array([[0, 2], [1, 0], [1, 4]]), np.array([[1, -2], [0, 0], [-3, 5]])
    segment = gather(store, starts, 5, offsets=offsets)
    for row, ((env, time), (down, right)) in enumerate(zip(starts, offsets, strict=True)):
        frames = played.frame[env, time : time + 5]
        wide = np.pad(frames, ((0, 0), (5, 5), (5, 5), (0, 0)), mode="edge")
        expected = wide[:, 5 - down : 9 - down, 5 - right : 11 - right]
        np.testing.assert_array_equal(segment.frame[row].numpy(), expected)
        np.testing.assert_array_equal(segment.reward[row], played.fields["reward"][env, time:][:5])


@pytest.mark.parametrize(
    ("most", "step", "expected"), [(4, 4, [-4, 0, 4]), (5, 2, [-4, -2, 0, 2, 4])]
)
def test_shifts_are_multiples_of_a_step(most: int, step: int, expected: list[int]) -> None:
    offsets = draw_offsets(np.random.default_rng(0), 500, most, step)
    assert offsets.shape == (500, 2)
    for direction in offsets.T:
        assert np.unique(direction).tolist() == expected
