"""Films of an agent in the real game: its frames, enlarged, with the return so far."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import UInt8
from PIL import Image, ImageDraw

from tokenworlds.agent import Agent
from tokenworlds.core.seeding import torch_generator
from tokenworlds.envs.catalogue import EnvSpec
from tokenworlds.envs.vector import CheckedEnv
from tokenworlds.evaluation.dream_picture import enlarge
from tokenworlds.evaluation.episodes import episode_seed, one_thread
from tokenworlds.evaluation.pictures import DARK, Theme, font, minus

CELL = 448
"""Approximate size of the game in pixels; frames are enlarged by an integer factor."""
TEXT, GAP = 20, 14
HOLD = 1.0
"""Seconds for which the last frame of an episode stays."""


@dataclass(frozen=True, slots=True)
class Shot:
    """A frame of an episode, after `step` actions; `cut` if the film leaves the episode there."""

    frame: UInt8[np.ndarray, "H W C"]
    episode: int
    step: int
    reward: float
    score: float
    over: bool
    cut: bool = False


def play_episodes(
    agent: Agent, env: EnvSpec, *, episodes: int, seed: int, temperature: float, longest: int
) -> Iterator[Shot]:
    """Play whole games, or their first `longest` steps."""
    generator = torch_generator(seed, "film", device=str(agent.device))
    game = CheckedEnv(env.name, env.make(evaluation=True))
    with one_thread(), contextlib.closing(game):
        for episode in range(episodes):
            game.begin(episode_seed(seed, episode), episode)
            yield Shot(game.frame, episode, 0, 0.0, 0.0, over=False)
            carry, over = None, False
            while not over and game.length < longest:
                frames, first = torch.from_numpy(game.frame[None]), torch.tensor([game.first])
                action, carry = agent.act(frames, first, carry, generator, temperature)
                step = game.advance(action[0].cpu().numpy())
                over = bool(step.over)
                now = (game.frame, episode, game.length, float(step.reward), game.score)
                yield Shot(*now, over=over, cut=not over and game.length == longest)


class Reel:
    """Renders shots. Every image has the same size."""

    def __init__(self, title: str, episodes: int, fps: int, theme: Theme = DARK) -> None:
        self.title, self.episodes, self.theme = title, episodes, theme
        self._held = max(round(HOLD * fps), 1)
        self._font, self._small = font(TEXT), font(TEXT - 4)
        self._returns: list[str] = []

    def images(
        self, shots: Iterable[Shot], told: Callable[[Shot], None] = lambda shot: None
    ) -> Iterator[Image.Image]:
        for shot in shots:
            ends = shot.over or shot.cut
            if ends:
                self._returns.append(format_return(shot.score) + ("…" if shot.cut else ""))
            image = self.render(shot)
            yield from [image] * (self._held if ends else 1)
            told(shot)

    def render(self, shot: Shot) -> Image.Image:
        """The title, the game, the state of the episode, and the returns of those before it."""
        frame = shot.frame if shot.frame.shape[-1] == 3 else shot.frame[..., :1].repeat(3, -1)
        game = Image.fromarray(enlarge(frame, max(1, round(CELL / max(frame.shape[:2])))))
        line, theme = TEXT + GAP // 2, self.theme
        size = (max(game.width, CELL) + 2 * GAP, game.height + 3 * line + 3 * GAP)
        left, right = GAP, size[0] - GAP
        image = Image.new("RGB", size, theme.background)
        canvas = ImageDraw.Draw(image)
        canvas.text((left, GAP), self._fit(self.title, right - left), theme.text, self._font, "la")
        corner = ((size[0] - game.width) // 2, GAP + line)
        image.paste(game, corner)
        edge = (corner[0] - 1, corner[1] - 1, corner[0] + game.width, corner[1] + game.height)
        canvas.rectangle(edge, outline=theme.grid)
        y = corner[1] + game.height + GAP // 2
        state = f"episode {shot.episode + 1} of {self.episodes}, step {shot.step:,}"
        canvas.text((left, y), state, theme.muted, self._font, "la")
        total = f"return {format_return(shot.score)}"
        canvas.text((right, y), total, theme.text, self._font, "ra")
        if shot.reward:
            gain, won = minus(f"{shot.reward:+.3g}"), shot.reward > 0
            colour = theme.best if won else theme.soft
            end = right - self._font.getlength(total) - TEXT
            canvas.text((end, y), gain, colour, self._font, "ra")
        returns = self._fit(f"returns {', '.join(self._returns)}" if self._returns else "", right)
        canvas.text((left, y + line), returns, theme.muted, self._small, "la")
        return image

    def _fit(self, text: str, room: int) -> str:
        while len(text) > 1 and self._font.getlength(text) > room:
            text = text.removesuffix("…")[:-1] + "…"
        return text


def format_return(value: float) -> str:
    return minus(f"{value:,.2f}".rstrip("0").rstrip("."))
