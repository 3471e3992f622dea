"""What a run keeps of every replay step beside the step itself: tokens, or latents.

An epoch of IRIS reads hundreds of batches from the same replay while its tokenizer does not change:
the token cache encodes each frame once. DreamerV3 starts its sequences from stored states.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from tokenworlds.core.protocols import CachesTokens, KeepsLatents
from tokenworlds.core.types import Segment


class TokenCache:
    """Tokens by environment and time, valid until the tokenizer learns. Part of a checkpoint."""

    def __init__(self, world: CachesTokens, device: torch.device) -> None:
        self.world = world
        self.device = device
        self.clear()

    def clear(self) -> None:
        """Forget all tokens, because the tokenizer has changed."""
        self._known = np.zeros((0, 0), np.bool_)
        size = (0, 0, self.world.tokens)
        self._tokens = torch.zeros(size, dtype=torch.int32, device=self.device)

    def complete(self, segment: Segment, starts: Int[np.ndarray, "B 2"]) -> Segment:
        """The segment that starts at these (environment, time), with its tokens.

        All of its steps are encoded, whether read or not: later segments will ask for them. The
        token is -1 where it depends on frames before the segment and no other segment gave it.
        """
        time = starts[:, 1:] + np.arange(segment.first.shape[1])
        env = np.broadcast_to(starts[:, :1], time.shape)
        self._make_room(int(env.max()) + 1, int(time.max()) + 1)
        wanted = self._unknown(env, time)
        if wanted.any():
            tokens = self.world.tokens_of(segment, torch.from_numpy(wanted).to(self.device))
            places = self._places(env[wanted], time[wanted])
            self._tokens[places] = tokens.to(self._tokens.dtype)
            self._known[env[wanted], time[wanted]] = True
        return replace(segment, tokens=self._tokens[self._places(env, time)].long())

    def _unknown(
        self, env: Int[np.ndarray, "B T"], time: Int[np.ndarray, "B T"]
    ) -> Bool[np.ndarray, "B T"]:
        """The frames to encode, each at one of its places in the segment."""
        wanted: NDArray[np.bool_] = ~self._known[env, time]
        wanted[:, : self.world.token_context] = False
        rows, steps = np.nonzero(wanted)
        places = np.stack([env[rows, steps], time[rows, steps]])
        _, once = np.unique(places, axis=1, return_index=True)
        chosen = np.zeros_like(wanted)
        chosen[rows[once], steps[once]] = True
        return chosen

    def _places(
        self, env: Int[np.ndarray, "*shape"], time: Int[np.ndarray, "*shape"]
    ) -> tuple[Int[Tensor, "*shape"], ...]:
        return tuple(torch.tensor(each, device=self.device) for each in (env, time))

    def _make_room(self, envs: int, steps: int) -> None:
        rows, columns = (
            max(wanted - has, 0)
            for wanted, has in zip((envs, steps), self._known.shape, strict=True)
        )
        if rows or columns:
            self._known = np.pad(self._known, ((0, rows), (0, columns)))
            self._tokens = functional.pad(self._tokens, (0, 0, 0, columns, 0, rows), value=-1)

    def state(self) -> dict[str, Tensor]:
        """All tokens; -1 where they are unknown."""
        return {"tokens": self._tokens}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        self._tokens = state["tokens"].to(self.device, copy=True)
        self._known = (state["tokens"] >= 0).any(-1).cpu().numpy()


class LatentStore:
    """The world's state at each replay step: the one it acted on, then that of later updates."""

    def __init__(self, world: KeepsLatents, num_envs: int) -> None:
        self.world = world
        self._latents = np.zeros((num_envs, 0, world.latent_size), np.float32)
        self._length = 0

    def append(self, latents: Float[Tensor, "N D"]) -> None:
        """Add the states of one step of every environment."""
        if self._length == self._latents.shape[1]:
            room = max(1024, self._length)
            self._latents = np.pad(self._latents, ((0, 0), (0, room), (0, 0)))
        self._latents[:, self._length] = latents.cpu().numpy()
        self._length += 1

    def complete(self, segment: Segment, starts: Int[np.ndarray, "B 2"]) -> Segment:
        """The segment with the state of its first step."""
        found = torch.from_numpy(self._latents[starts[:, 0], starts[:, 1]])
        return replace(segment, latent=found.to(segment.first.device))

    def write(self, latents: Float[Tensor, "B t D"], starts: Int[np.ndarray, "B 2"]) -> None:
        """Replace the states after the first step of each segment.

        Where segments overlap, the last row counts, so that a run can be repeated exactly.
        """
        time = starts[:, 1:] + 1 + np.arange(latents.shape[1])
        self._latents[starts[:, :1], time] = latents.detach().cpu().numpy()

    def state(self) -> dict[str, Tensor]:
        return {"latents": torch.from_numpy(self._latents[:, : self._length].copy())}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        self._latents = state["latents"].numpy().copy()
        self._length = self._latents.shape[1]
