from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from counting_agent import ACTIONS, SIDE, counting_agent, counting_segment, recipe_agent
from torch import Generator, Tensor

from tokenworlds.core.types import Dream, FrameShape
from tokenworlds.evaluation.dreams import (
    AT_RANDOM,
    Stretch,
    choose_segment,
    dream_rows,
    find_changed,
    lay_out,
)
from tokenworlds.replay.store import ReplayStore


def test_the_dream_of_a_world_that_knows_the_game_is_the_record() -> None:
    segment = counting_segment([{0, 5}, set()], steps=8)
    rows = dream_rows(counting_agent(), segment, horizon=6, generator=None)
    np.testing.assert_array_equal(rows.real, segment.frame.numpy())
    np.testing.assert_array_equal(rows.dream, rows.real)
    np.testing.assert_array_equal(rows.dreamt_reward[0, 1:5], rows.reward[0, 1:5])
    np.testing.assert_array_equal(rows.dreamt_reward[0, 6:], rows.reward[0, 6:])
    np.testing.assert_array_equal(rows.dreamt_reward[1, 1:], rows.reward[1, 1:])


def test_a_dream_goes_on_from_the_frames_that_were_seen_and_hears_of_no_other() -> None:
    segment = counting_segment([{0}], steps=8)
    changed = segment.frame.clone()
    changed[:, 3:] = 200
    rows = dream_rows(counting_agent(), segment, horizon=5, generator=None)
    blind = dream_rows(counting_agent(), replace(segment, frame=changed), horizon=5, generator=None)
    np.testing.assert_array_equal(blind.dream, rows.dream)
    assert (blind.real[:, 3:] == 200).all()


def test_a_world_that_is_wrong_shows_it_in_the_dream_alone() -> None:
    segment = counting_segment([{0}], steps=6)
    rows = dream_rows(counting_agent(gain=0), segment, horizon=4, generator=None)
    level = int(segment.frame[0, 1, 0, 0, 0])
    np.testing.assert_array_equal(rows.dream[0, 2:, 0, 0, 0], level + np.arange(1, 5))
    np.testing.assert_array_equal(rows.real, segment.frame.numpy())


def test_an_episode_that_opens_is_seen_again_before_it_is_dreamt_on() -> None:
    segment = counting_segment([{3}, {0, 1}], steps=6)
    rows = dream_rows(counting_agent(), segment, horizon=4, generator=None)
    assert rows.stretches == (
        Stretch(0, begin=0, dream=2, end=3),
        Stretch(0, begin=3, dream=5, end=6),
        Stretch(1, begin=0, dream=1, end=1),
        Stretch(1, begin=1, dream=3, end=6),
    )
    unseen = ~np.isnan(rows.dreamt_reward)
    np.testing.assert_array_equal(unseen[0], [False, True, True, False, True, True])
    np.testing.assert_array_equal(unseen[1], [True, False, True, True, True, True])


def test_padding_is_neither_seen_nor_dreamt() -> None:
    segment = counting_segment([{0}], steps=6)
    mask = torch.tensor([[False, True, True, True, False, True]])
    rows = dream_rows(counting_agent(), replace(segment, mask=mask), horizon=5, generator=None)
    assert rows.stretches == (Stretch(0, 1, 2, 4), Stretch(0, 5, 6, 6))


def test_a_dream_needs_a_frame_to_start_from() -> None:
    with pytest.raises(ValueError, match="horizon of 6"):
        dream_rows(counting_agent(), counting_segment([{0}], 6), horizon=6, generator=None)


def test_a_world_without_a_tokenizer_has_no_codes_to_show() -> None:
    segment = counting_segment([{0}], 4)
    rows = dream_rows(counting_agent(), segment, horizon=2, generator=None)
    assert rows.coded is None
    assert rows.kinds == ["real", "dream"]


@pytest.mark.parametrize("name", ["step-vq-m", "cb-t"])
def test_the_reconstruction_is_what_the_shown_codes_decode_to(name: str) -> None:
    agent, segment = recipe_agent(name), counting_segment([{0}, {2}], 5)
    rows = dream_rows(agent, segment, horizon=3, generator=torch.Generator().manual_seed(0))
    assert rows.coded is not None
    assert rows.kinds == ["real", "reconstruction", "codes", "changed", "dream"]
    assert rows.at_random is None
    tokenizer = agent.world.tokenizer  # type: ignore[attr-defined]
    shown = rows.coded.tiles.reshape(2, 5, -1)[..., : tokenizer.tokens]
    decoded = tokenizer.decode(tokenizer.look_up(torch.from_numpy(shown)))
    pixels = decoded.detach().movedim(-3, -1).numpy() * 255
    np.testing.assert_allclose(rows.coded.reconstruction, pixels, atol=0.51)
    assert rows.coded.vocabulary == tokenizer.vocabulary
    np.testing.assert_array_equal(rows.dream[0, :2], rows.real[0, :2])
    assert (rows.dream[0, 2:] != rows.real[0, 2:]).any()


def test_the_generator_decides_what_is_dreamt() -> None:
    agent, segment = recipe_agent("step-vq-m"), counting_segment([{0}], 8)
    dreams = [
        dream_rows(agent, segment, horizon=6, generator=torch.Generator().manual_seed(seed)).dream
        for seed in (0, 0, 1)
    ]
    np.testing.assert_array_equal(dreams[0], dreams[1])
    assert (dreams[0] != dreams[2]).any()


def test_codes_change_from_one_frame_to_the_next_of_an_episode() -> None:
    codes = [[1, 2], [1, 3], [4, 3], [5, 5], [5, 6]]
    tiles = np.array(codes).reshape(1, 5, 1, 2)
    stretches = (Stretch(0, begin=0, dream=1, end=3), Stretch(0, begin=3, dream=4, end=5))
    changed = find_changed(tiles, stretches)[0, :, 0].tolist()
    assert changed == [[False, False], [False, True], [True, False], [False] * 2, [False, True]]


def test_what_has_no_codes_before_it_did_not_change() -> None:
    tiles = np.array([[-1, -1], [0, 7], [3, 7]]).reshape(1, 3, 1, 2)
    changed = find_changed(tiles, (Stretch(0, begin=0, dream=1, end=3),))[0, :, 0].tolist()
    assert changed == [[False, False], [False, False], [True, False]]


def test_a_world_of_changes_dreams_once_more_with_codes_at_random() -> None:
    agent, segment = recipe_agent("delta-iris", 32), counting_segment([{0, 4}], 7, side=32)
    rows, again = (
        dream_rows(agent, segment, horizon=5, generator=torch.Generator().manual_seed(0))
        for _ in range(2)
    )
    assert rows.kinds == ["real", "reconstruction", "codes", "changed", "dream", AT_RANDOM]
    assert rows.coded is not None
    assert rows.at_random is not None
    # Openings follow no frame: they have no codes, and are shown as they are.
    blank = (rows.coded.tiles[0] < 0).all(axis=(1, 2))
    assert blank.tolist() == [True, False, False, False, True, False, False]
    assert not rows.coded.changed[0, [0, 1, 4, 5]].any()
    for frames in (rows.dream, rows.at_random):
        np.testing.assert_array_equal(frames[0, [0, 1, 4, 5]], rows.real[0, [0, 1, 4, 5]])
    assert (rows.at_random[0, 2] != rows.dream[0, 2]).any()
    np.testing.assert_array_equal(again.dream, rows.dream)
    np.testing.assert_array_equal(again.at_random, rows.at_random)


def test_a_dream_at_random_starts_where_the_dream_did_and_hears_the_same_actions() -> None:
    agent = counting_agent()

    def guess(carry: Tensor, action: Tensor, generator: Generator | None) -> tuple[Tensor, Dream]:
        return agent.world.step(carry, action, generator)

    agent.world.step_at_random = guess  # type: ignore[attr-defined]
    rows = dream_rows(agent, counting_segment([{0, 5}], 8), horizon=6, generator=None)
    np.testing.assert_array_equal(rows.at_random, rows.dream)


def test_codes_lie_on_their_grid_row_by_row() -> None:
    np.testing.assert_array_equal(lay_out(np.arange(6), (2, 3)), [[0, 1, 2], [3, 4, 5]])


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [(1, (1, 1)), (2, (1, 2)), (16, (4, 4)), (20, (4, 5)), (32, (6, 6)), (37, (6, 7))],
)
def test_codes_without_a_grid_lie_in_a_square_or_nearly(
    tokens: int, expected: tuple[int, int]
) -> None:
    tiles = lay_out(np.arange(tokens)[None])
    assert tiles.shape == (1, *expected)
    assert tiles.flatten().tolist() == [*range(tokens), *[-1] * (tiles.size - tokens)]


def fill(folder: Path, opens: set[int], steps: int) -> ReplayStore:
    """One stream whose frames tell their time."""
    store = ReplayStore(
        folder, num_envs=1, frame_shape=FrameShape(SIDE, SIDE), action_space=ACTIONS
    )
    no = np.zeros(1, bool)
    for time in range(steps):
        frame = np.full((1, SIDE, SIDE, 3), time, np.uint8)
        first = np.array([time in opens])
        store.append(frame, first, np.zeros(1, np.int64), np.zeros(1, np.float32), no, no)
    return store


def test_segments_are_chosen_late_and_from_the_opening_of_an_episode(tmp_path: Path) -> None:
    store = fill(tmp_path, set(range(0, 60, 6)), 60)
    segment = choose_segment(store, count=20, length=8, generator=np.random.default_rng(0))
    assert segment.first.shape == (20, 8)
    assert segment.first[:, 0].all()
    begins = set(segment.frame[:, 0, 0, 0, 0].tolist())
    assert len(begins) > 2
    assert begins <= set(range(24, 60, 6))


def test_segments_of_long_episodes_are_chosen_anywhere(tmp_path: Path) -> None:
    store = fill(tmp_path, {0}, 60)
    segment = choose_segment(store, count=20, length=8, generator=np.random.default_rng(0))
    begins = segment.frame[:, 0, 0, 0, 0]
    assert not segment.first.any()
    assert begins.min() >= 26
    assert len(set(begins.tolist())) > 5
