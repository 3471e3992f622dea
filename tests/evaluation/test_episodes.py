"""Episodes are functions of their seeds, whoever plays them."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tokenworlds.agent import Agent
from tokenworlds.core.trees import map_tensors
from tokenworlds.core.types import ActionSpace, FrameShape
from tokenworlds.envs.catalogue import EnvSpec
from tokenworlds.evaluation import processes
from tokenworlds.evaluation.episodes import (
    GROUP,
    Episode,
    EvaluationStopped,
    Player,
    episode_seed,
    evaluate,
    groups_of,
)
from tokenworlds.evaluation.processes import Team
from tokenworlds.recipes.catalogue import load

CATCH = EnvSpec("catch", size=16)


def small_agent(name: str = "dreamer-v3") -> Agent:
    torch.manual_seed(0)
    recipe = load(name, "nano").recipe
    return Agent.build(recipe, FrameShape(16, 16), ActionSpace(3))


def play(count: int, seed: int = 0, **rest: Any) -> list[Episode]:
    (played,) = evaluate([None], CATCH, episodes=count, seed=seed, temperature=1.0, **rest)
    return played


def test_every_episode_has_its_own_seed_return_and_length() -> None:
    played = play(20)
    assert [episode.seed for episode in played] == [episode_seed(0, index) for index in range(20)]
    assert len({episode.seed for episode in played}) == 20
    assert {episode.score for episode in played} == {-1.0, 1.0}
    assert {episode.length for episode in played} == {7}


def test_the_seed_determines_the_episodes() -> None:
    assert play(12, seed=3) == play(12, seed=3)
    assert play(12, seed=3) != play(12, seed=4)


def test_groups_are_equal_and_hold_every_episode_once() -> None:
    groups = list(groups_of(0, 20))
    assert [(group.first, group.last) for group in groups] == [(0, 9), (10, 19)]
    assert [(group.first, group.last) for group in groups_of(0, 3)] == [(0, 1), (2, 2)]
    assert [(group.first, group.last) for group in groups_of(0, 1)] == [(0, 0)]
    assert all(group.last - group.first < GROUP for group in groups_of(0, 101))


def test_another_process_plays_the_same_episodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The helper plays all groups but the first, which waits for the others here."""
    agent = small_agent()
    games: dict[str, Any] = {"episodes": 2 * GROUP, "seed": 5, "temperature": 1.0}
    alone = evaluate([agent, None], CATCH, **games)
    helped: list[Any] = []
    exchange: Callable[..., None] = Team._exchange
    play: Callable[..., Any] = Player.play

    def count(team: Team[Any, Any], *given: Any) -> None:
        exchange(team, *given)
        helped[:] = team._results

    def wait_for_the_others(player: Player, group: Any, check: Callable[[], None]) -> Any:
        while len(helped) < 3:
            check()
        return play(player, group, check)

    monkeypatch.setattr(processes, "PATIENCE", 0.0)
    monkeypatch.setattr(Team, "_exchange", count)
    monkeypatch.setattr(Player, "play", wait_for_the_others)
    assert evaluate([agent, None], CATCH, processes=2, **games) == alone
    assert len(helped) == 3


def test_a_helper_that_dies_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It dies with the group that it was given; this process plays it."""
    give: Callable[..., None] = processes.Helper.give
    killed: list[Any] = []

    def give_and_kill(helper: Any, job: Any) -> None:
        give(helper, job)
        helper._process.kill()
        killed.append(job)

    played: Callable[..., Any] = Player.play

    def wait_for_the_kill(player: Player, group: Any, check: Callable[[], None]) -> Any:
        while not killed:
            check()
        return played(player, group, check)

    alone = play(2 * GROUP)
    monkeypatch.setattr(processes, "PATIENCE", 0.0)
    monkeypatch.setattr(processes.Helper, "give", give_and_kill)
    monkeypatch.setattr(Player, "play", wait_for_the_kill)
    assert play(2 * GROUP, processes=2) == alone


@pytest.mark.parametrize("name", ["step-vq-m", "iris", "swm", "dreamer-v3"])
def test_an_episode_that_leaves_the_batch_does_not_change_the_others(name: str) -> None:
    torch.manual_seed(0)
    recipe = load(name, "nano").recipe
    shape = FrameShape(recipe.resolution, recipe.resolution, 1 if recipe.grey else 3)
    agent = Agent.build(recipe, shape, ActionSpace(9))
    size = (6, 3, shape.height, shape.width, shape.channels)
    frames = torch.randint(256, size, dtype=torch.uint8)
    first, kept, carry = torch.tensor([True] * 3), torch.tensor([0, 2]), None
    for frame in frames[:3]:
        _, carry = agent.act(frame, first, carry, temperature=0.0)
        first = torch.zeros_like(first)
    fewer = map_tensors(lambda tensor: tensor[kept], carry)
    for frame in frames[3:]:
        action, carry = agent.act(frame, first, carry, temperature=0.0)
        same, fewer = agent.act(frame[kept], first[kept], fewer, temperature=0.0)
        assert same.tolist() == action[kept].tolist()


def test_an_evaluation_can_be_stopped_between_steps() -> None:
    asked = iter([False] * 10)
    with pytest.raises(EvaluationStopped):
        play(8, should_stop=lambda: next(asked, True))


def test_the_number_of_threads_does_not_matter_and_is_restored() -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        two = evaluate([small_agent()], CATCH, episodes=4, seed=1, temperature=1.0)
        assert torch.get_num_threads() == 2
        torch.set_num_threads(1)
        assert evaluate([small_agent()], CATCH, episodes=4, seed=1, temperature=1.0) == two
    finally:
        torch.set_num_threads(before)
