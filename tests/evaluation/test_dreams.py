from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from counting_agent import ACTIONS, SIDE, counting_agent, counting_segment, recipe_agent
from torch import Generator, Tensor

from tokenworlds.core.types import FrameShape, Outcome
from tokenworlds.evaluation.dreams import (
    RANDOM_DREAM,
    EpisodeSpan,
    dream_rows,
    find_changed,
    sample_segment,
    to_grid,
)
from tokenworlds.replay.store import ReplayStore


def test_a_perfect_world_dreams_the_recorded_frames_and_rewards() -> None:
    segment = counting_segment([{0, 5}, set()], steps=8)
    rows = dream_rows(counting_agent(), segment, horizon=6, generator=None)
    np.testing.assert_array_equal(rows.real, segment.frame.numpy())
    np.testing.assert_array_equal(rows.dream, rows.real)
    np.testing.assert_array_equal(rows.predicted_reward[0, 1:5], rows.reward[0, 1:5])
    np.testing.assert_array_equal(rows.predicted_reward[0, 6:], rows.reward[0, 6:])
    np.testing.assert_array_equal(rows.predicted_reward[1, 1:], rows.reward[1, 1:])


def test_a_dream_depends_on_no_frame_after_the_context() -> None:
    segment = counting_segment([{0}], steps=8)
    changed = segment.frame.clone()
    changed[:, 3:] = 200
    rows = dream_rows(counting_agent(), segment, horizon=5, generator=None)
    blind = dream_rows(counting_agent(), replace(segment, frame=changed), horizon=5, generator=None)
    np.testing.assert_array_equal(blind.dream, rows.dream)
    assert (blind.real[:, 3:] == 200).all()


def test_a_wrong_world_affects_only_the_dream() -> None:
    segment = counting_segment([{0}], steps=6)
    rows = dream_rows(counting_agent(gain=0), segment, horizon=4, generator=None)
    level = int(segment.frame[0, 1, 0, 0, 0])
    np.testing.assert_array_equal(rows.dream[0, 2:, 0, 0, 0], level + np.arange(1, 5))
    np.testing.assert_array_equal(rows.real, segment.frame.numpy())


def test_a_new_episode_starts_with_its_own_context() -> None:
    segment = counting_segment([{3}, {0, 1}], steps=6)
    rows = dream_rows(counting_agent(), segment, horizon=4, generator=None)
    assert rows.spans == (
        EpisodeSpan(0, start=0, dream=2, end=3),
        EpisodeSpan(0, start=3, dream=5, end=6),
        EpisodeSpan(1, start=0, dream=1, end=1),
        EpisodeSpan(1, start=1, dream=3, end=6),
    )
    predicted = ~np.isnan(rows.predicted_reward)
    np.testing.assert_array_equal(predicted[0], [False, True, True, False, True, True])
    np.testing.assert_array_equal(predicted[1], [True, False, True, True, True, True])


def test_padding_is_neither_context_nor_imagined() -> None:
    segment = counting_segment([{0}], steps=6)
    mask = torch.tensor([[False, True, True, True, False, True]])
    rows = dream_rows(counting_agent(), replace(segment, mask=mask), horizon=5, generator=None)
    assert rows.spans == (EpisodeSpan(0, 1, 2, 4), EpisodeSpan(0, 5, 6, 6))


def test_a_dream_needs_a_context_frame() -> None:
    with pytest.raises(ValueError, match="horizon of 6"):
        dream_rows(counting_agent(), counting_segment([{0}], 6), horizon=6, generator=None)


def test_a_world_without_a_tokenizer_has_no_tokens_to_show() -> None:
    segment = counting_segment([{0}], 4)
    rows = dream_rows(counting_agent(), segment, horizon=2, generator=None)
    assert rows.tokens is None
    assert rows.kinds == ["real", "dream"]


@pytest.mark.parametrize("name", ["step-vq-m", "cb-t"])
def test_the_shown_tokens_decode_to_the_reconstruction(name: str) -> None:
    agent, segment = recipe_agent(name), counting_segment([{0}, {2}], 5)
    rows = dream_rows(agent, segment, horizon=3, generator=torch.Generator().manual_seed(0))
    assert rows.tokens is not None
    assert rows.kinds == ["real", "reconstruction", "tokens", "changed tokens", "dream"]
    assert rows.random_dream is None
    tokenizer = agent.world.tokenizer  # type: ignore[attr-defined]
    shown = rows.tokens.grid.reshape(2, 5, -1)[..., : tokenizer.tokens]
    decoded = tokenizer.decode(tokenizer.look_up(torch.from_numpy(shown)))
    pixels = decoded.detach().movedim(-3, -1).numpy() * 255
    np.testing.assert_allclose(rows.tokens.reconstruction, pixels, atol=0.51)
    assert rows.tokens.vocabulary == tokenizer.vocabulary
    np.testing.assert_array_equal(rows.dream[0, :2], rows.real[0, :2])
    assert (rows.dream[0, 2:] != rows.real[0, 2:]).any()


def test_the_generator_determines_the_dream() -> None:
    agent, segment = recipe_agent("step-vq-m"), counting_segment([{0}], 8)
    dreams = [
        dream_rows(agent, segment, horizon=6, generator=torch.Generator().manual_seed(seed)).dream
        for seed in (0, 0, 1)
    ]
    np.testing.assert_array_equal(dreams[0], dreams[1])
    assert (dreams[0] != dreams[2]).any()


def test_tokens_change_between_frames_of_one_episode() -> None:
    tokens = [[1, 2], [1, 3], [4, 3], [5, 5], [5, 6]]
    grid = np.array(tokens).reshape(1, 5, 1, 2)
    spans = (EpisodeSpan(0, start=0, dream=1, end=3), EpisodeSpan(0, start=3, dream=4, end=5))
    changed = find_changed(grid, spans)[0, :, 0].tolist()
    assert changed == [[False, False], [False, True], [True, False], [False] * 2, [False, True]]


def test_tokens_after_a_frame_without_tokens_are_unchanged() -> None:
    grid = np.array([[-1, -1], [0, 7], [3, 7]]).reshape(1, 3, 1, 2)
    changed = find_changed(grid, (EpisodeSpan(0, start=0, dream=1, end=3),))[0, :, 0].tolist()
    assert changed == [[False, False], [False, False], [True, False]]


def test_delta_iris_has_a_second_dream_with_random_tokens() -> None:
    agent, segment = recipe_agent("delta-iris", 32), counting_segment([{0, 4}], 7, side=32)
    rows, again = (
        dream_rows(agent, segment, horizon=5, generator=torch.Generator().manual_seed(0))
        for _ in range(2)
    )
    assert rows.kinds == [
        "real",
        "reconstruction",
        "tokens",
        "changed tokens",
        "dream",
        RANDOM_DREAM,
    ]
    assert rows.tokens is not None
    assert rows.random_dream is not None
    # The first frame of an episode has no tokens; it is shown as recorded.
    blank = (rows.tokens.grid[0] < 0).all(axis=(1, 2))
    assert blank.tolist() == [True, False, False, False, True, False, False]
    assert not rows.tokens.changed[0, [0, 1, 4, 5]].any()
    for frames in (rows.dream, rows.random_dream):
        np.testing.assert_array_equal(frames[0, [0, 1, 4, 5]], rows.real[0, [0, 1, 4, 5]])
    assert (rows.random_dream[0, 2] != rows.dream[0, 2]).any()
    np.testing.assert_array_equal(again.dream, rows.dream)
    np.testing.assert_array_equal(again.random_dream, rows.random_dream)


def test_a_random_dream_has_the_context_and_actions_of_the_dream() -> None:
    agent = counting_agent()

    def guess(carry: Tensor, action: Tensor, generator: Generator | None) -> tuple[Tensor, Outcome]:
        return agent.world.step(carry, action, generator)

    agent.world.step_with_random_tokens = guess  # type: ignore[attr-defined]
    rows = dream_rows(agent, counting_segment([{0, 5}], 8), horizon=6, generator=None)
    np.testing.assert_array_equal(rows.random_dream, rows.dream)


def test_tokens_fill_their_grid_row_by_row() -> None:
    np.testing.assert_array_equal(to_grid(np.arange(6), (2, 3)), [[0, 1, 2], [3, 4, 5]])


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [(1, (1, 1)), (2, (1, 2)), (16, (4, 4)), (20, (4, 5)), (32, (6, 6)), (37, (6, 7))],
)
def test_tokens_without_a_grid_are_laid_out_in_a_near_square(
    tokens: int, expected: tuple[int, int]
) -> None:
    grid = to_grid(np.arange(tokens)[None])
    assert grid.shape == (1, *expected)
    assert grid.flatten().tolist() == [*range(tokens), *[-1] * (grid.size - tokens)]


def fill(folder: Path, starts: set[int], steps: int) -> ReplayStore:
    """Steps of one environment; each frame holds its time."""
    store = ReplayStore(
        folder, num_envs=1, frame_shape=FrameShape(SIDE, SIDE), action_space=ACTIONS
    )
    never = np.zeros(1, bool)
    for time in range(steps):
        frame = np.full((1, SIDE, SIDE, 3), time, np.uint8)
        first = np.array([time in starts])
        store.append(frame, first, np.zeros(1, np.int64), np.zeros(1, np.float32), never, never)
    return store


def test_segments_are_sampled_late_and_from_the_start_of_an_episode(tmp_path: Path) -> None:
    store = fill(tmp_path, set(range(0, 60, 6)), 60)
    segment = sample_segment(store, count=20, length=8, generator=np.random.default_rng(0))
    assert segment.first.shape == (20, 8)
    assert segment.first[:, 0].all()
    starts = set(segment.frame[:, 0, 0, 0, 0].tolist())
    assert len(starts) > 2
    assert starts <= set(range(24, 60, 6))


def test_segments_of_long_episodes_start_anywhere(tmp_path: Path) -> None:
    store = fill(tmp_path, {0}, 60)
    segment = sample_segment(store, count=20, length=8, generator=np.random.default_rng(0))
    starts = segment.frame[:, 0, 0, 0, 0]
    assert not segment.first.any()
    assert starts.min() >= 26
    assert len(set(starts.tolist())) > 5
