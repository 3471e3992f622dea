import subprocess
import sys

import numpy as np
import pytest

from tokenworlds.envs.minatar import GAMES, MinAtar, MinAtarProtocol, render

pytest.importorskip("minatar")
NOTHING = 0


def test_all_channels_and_pairs_of_channels_have_different_colours() -> None:
    pairs = [(first, second) for first in range(10) for second in range(first, 10)]
    cells = np.zeros((1, 1, 10), bool)
    colours = set()
    for pair in pairs:
        cells[:] = False
        cells[..., list(pair)] = True
        colours.add(tuple(render(cells, 8)[0, 0]))
    colours.add(tuple(render(np.zeros((1, 1, 10), bool), 8)[0, 0]))
    assert len(colours) == len(pairs) + 1


def test_cells_are_rendered_in_place_with_sharp_edges() -> None:
    cells = np.zeros((10, 10, 4), bool)
    cells[2, 7, 1] = True
    frame = render(cells, 64)
    rows, columns = np.nonzero((frame != frame[0, 0]).any(axis=-1))
    assert len(np.unique(frame.reshape(-1, 3), axis=0)) == 2
    assert (rows.min(), rows.max()) == (13, 18)
    assert (columns.min(), columns.max()) == (45, 50)


@pytest.mark.parametrize("game", GAMES)
def test_every_game_can_be_played(game: str) -> None:
    env = MinAtar(game)
    env.reset(0)
    rewards = []
    generator = np.random.default_rng(0)
    for seed in range(300):
        step = env.step(generator.integers(env.action_space.size))
        rewards.append(step.reward)
        if step.over:
            env.reset(seed)
    assert game == "freeway" or any(rewards)


def test_actions_are_sticky_only_if_the_protocol_says_so() -> None:
    """With sticky actions, a paddle that should stay sometimes repeats its last move."""
    left, stay = 1, 0
    moved = {}
    for name, protocol in {"off": MinAtarProtocol(), "on": MinAtarProtocol(sticky=0.5)}.items():
        env = MinAtar("breakout", protocol=protocol, size=10)
        places = []
        for seed in range(20):
            env.reset(seed)
            env.step(left)
            frame = env.step(stay).frame
            places.append(int(np.argwhere((frame[9] == 255).all(axis=-1))[0, 0]))
        moved[name] = len(set(places))
    assert moved["off"] == 1
    assert moved["on"] > 1


def test_the_clock_of_freeway_truncates() -> None:
    env = MinAtar("freeway", size=10)
    env.reset(0)
    steps = 1
    while not (step := env.step(NOTHING)).over:
        steps += 1
    assert (step.terminated, step.truncated) == (False, True)
    assert 2500 <= steps <= 2502


def test_the_protocol_truncates_long_games() -> None:
    env = MinAtar("freeway", size=10, protocol=MinAtarProtocol(steps=7))
    env.reset(0)
    assert [env.step(NOTHING).truncated for _ in range(7)] == [False] * 6 + [True]


def test_it_prints_nothing_and_keeps_logging_unchanged_without_the_plotting_packages() -> None:
    code = (
        "import sys, logging; sys.modules['seaborn'] = sys.modules['pandas'] = None;"
        "from tokenworlds.envs import make; make('minatar:breakout').reset(0);"
        "assert not logging.getLogger().handlers; assert logging.root.manager.disable == 0"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
