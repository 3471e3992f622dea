"""A trained agent in three lines: load it, let it act, let it imagine."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import torch
from jaxtyping import Bool, UInt8
from torch import Tensor

from tokenworlds.core.precision import insist_on_precision
from tokenworlds.core.types import Dream, Segment
from tokenworlds.evaluation.player import Player, PlayerCarry
from tokenworlds.training.judgement import load_player
from tokenworlds.training.run_folder import RunFolder
from tokenworlds.training.spec import RunSpec


class Agent:
    """The player of a run's newest checkpoint, with the description it was trained by."""

    def __init__(self, player: Player, spec: RunSpec, seed: int = 0) -> None:
        self.player = player
        self.spec = spec
        self._generator = torch.Generator(player.device).manual_seed(seed)

    @staticmethod
    def load(
        run: str | Path,
        modules: Mapping[str, ModuleType] | None = None,
        device: str | None = None,
    ) -> "Agent":
        """From a run folder; `modules` holds your own code, if the recipe was your own.

        Without a device named, the agent goes where it was trained; elsewhere it takes float32.
        """
        folder = RunFolder.open(Path(run))
        spec = folder.spec(lambda _: modules or {})
        if device is not None:
            spec = replace(spec, device=device, precision="float32")
        insist_on_precision(spec.precision, spec.device)
        return Agent(load_player(folder, spec).player, spec)

    def act(
        self,
        frame: UInt8[np.ndarray, "N H W C"],
        first: Bool[np.ndarray, " N"],
        carry: PlayerCarry | None = None,
        temperature: float = 0.0,
    ) -> tuple[np.ndarray, PlayerCarry]:
        """Actions for frames; give the carry back with the next ones, and say where games begin."""
        carry = carry or self.player.initial(len(frame))
        seen = torch.from_numpy(frame), torch.from_numpy(first)
        action, carry = self.player.act(*seen, carry, self._generator, temperature)
        return action.cpu().numpy(), carry

    def imagine(
        self, segment: Segment, steps: int, actions: Tensor | None = None
    ) -> Iterator[Dream]:
        """Dream on from the last step of a segment, with given actions [B, steps] or its own."""
        world, behaviour = self.player.world, self.player.behaviour
        carry = world.start(segment.to(self.player.device), steps)
        view, memory = world.view(carry), behaviour.initial(len(segment.first))
        for step in range(steps):
            if actions is None:
                action, memory = behaviour.act(view, memory, self._generator)
            else:
                action = actions[:, step].to(self.player.device)
            carry, dream = world.step(carry, action, self._generator)
            view = dream
            yield dream
