"""Collects steps and updates learners: environments, replay, agent, learners and generators.

`TokenCache` keeps the tokens of every replay step beside the step itself.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from tokenworlds.agent import BEHAVIOUR, JOINT, Agent
from tokenworlds.core.capabilities import CachesTokens, ChoosesStarts, Compilable, KeepsLatents
from tokenworlds.core.errors import UserError, unknown
from tokenworlds.core.group import ALONE, Group
from tokenworlds.core.precision import computing
from tokenworlds.core.progress import Phase, Progress
from tokenworlds.core.seeding import (
    global_states,
    insist_on_determinism,
    numpy_generator,
    restore_global_states,
    seed_everything,
    torch_generator,
)
from tokenworlds.core.sharing import check_shares
from tokenworlds.core.types import Segment
from tokenworlds.envs.vector import Finished, VectorEnv
from tokenworlds.replay.sampling import Windows, draw_offsets, gather
from tokenworlds.replay.store import CHUNK, ReplayStore
from tokenworlds.runs.checkpoint import Checkpoint, physical_memory
from tokenworlds.runs.recipe import Recipe
from tokenworlds.runs.spec import RunSpec
from tokenworlds.training.collector import Collector, LatentStore
from tokenworlds.training.learner import Compiler, Learner, LossContext

TOKENS, LATENTS, OPTIMISER, LAST_WEIGHTS = "tokens", "latents", "optimiser_", "last_weights_"
"""Names of checkpoint files; the last two are followed by a learner's name."""


def progress_of(checkpoint: Checkpoint) -> Progress:
    """The progress of a checkpoint; optimisers count their own steps."""
    sets, state = checkpoint.tensors, checkpoint.state
    counts = [sets[name]["updates"] for name in sets if name.startswith(OPTIMISER)]
    return Progress(state["steps"], state["updates"], sum(int(count) for count in counts))


@contextmanager
def explaining_memory(recipe: Recipe) -> Iterator[None]:
    """Name `num_envs` where memory is short; checked first, since making them may take hours."""
    short = UserError(
        f"num_envs={recipe.num_envs} environments do not fit into memory: choose fewer"
    )
    channels = 1 if recipe.grey else 3
    if recipe.num_envs * CHUNK * recipe.resolution**2 * channels > physical_memory():
        raise short
    try:
        yield
    except MemoryError as error:
        raise short from error


class Trainer:
    """Collects steps and updates learners. `note` receives sentences for the user."""

    def __init__(
        self,
        spec: RunSpec,
        folder: Path,
        note: Callable[[str], None] = lambda text: None,
        group: Group = ALONE,
    ) -> None:
        spec = replace(spec, device=group.place(spec.device))
        torch.set_num_threads(spec.threads)
        insist_on_determinism(spec.device)
        seed_everything(spec.seed)
        self.spec = spec
        self.group = group
        self.progress = Progress()
        num_envs = spec.recipe.num_envs
        with explaining_memory(spec.recipe):
            self.envs = VectorEnv(spec.env, num_envs=num_envs, seed=spec.seed, group=group)
        shapes = {"frame_shape": self.envs.frame_shape, "action_space": self.envs.action_space}
        self.agent = Agent.build(spec.recipe, **shapes, precision=spec.precision).to(spec.device)
        with explaining_memory(spec.recipe):
            self.replay = ReplayStore(folder / "replay", num_envs=num_envs, group=group, **shapes)
        self.generators = {
            name: torch_generator(spec.seed, name, device=spec.device) for name in ("act", "dream")
        }
        self.rng = numpy_generator(spec.seed, "replay")
        world, device = self.agent.world, self.agent.device
        self.tokens = TokenCache(world, device, group) if isinstance(world, CachesTokens) else None
        self.latents = LatentStore(world, num_envs) if isinstance(world, KeepsLatents) else None
        self.collector = Collector(
            self.envs,
            self.replay,
            self.agent,
            self.generators["act"],
            spec.recipe.collection,
            self.latents,
            group,
        )
        self._add_learners(spec.recipe, self._loss_context(note))

    def _loss_context(self, note: Callable[[str], None]) -> LossContext:
        """Where losses are computed: in the run's precision, compiled if the run asks for it."""
        agent, precision = self.agent, self.spec.precision
        if not self.spec.compiled:
            return partial(computing, agent.device, precision)
        compiler = Compiler(agent.device, note)
        for part in (agent.world, agent.behaviour):
            if isinstance(part, Compilable):
                part.compile_with(compiler.compile)
        return partial(compiler.working, precision)

    def _add_learners(self, recipe: Recipe, context: LossContext) -> None:
        batches = {name: learning.batch for name, learning in recipe.learning.items()}
        self.sampler = recipe.sampler.build(batches=batches)
        trainables = self.agent.trainables(self.generators["dream"])
        for name in recipe.learning:
            if name not in trainables:
                raise unknown("learner", name, trainables)
        for name, batch in batches.items():
            check_shares(self.group, batch, f"learning.{name}.batch")
        self.learners = {
            name: Learner(name, learning, trainables[name], context, self.group)
            for name, learning in recipe.learning.items()
        }

    def collect(self, phase: Phase) -> list[Finished]:
        """Take the real steps of a phase; returns the games that ended.

        If an environment fails, the steps before the failure count, and a checkpoint can be taken:
        schedules continue a phase that was cut short.
        """
        before = len(self.replay)
        try:
            return self.collector.collect(phase.collect, phase.random)
        finally:
            steps = self.progress.steps + len(self.replay) - before
            self.progress = replace(self.progress, steps=steps)

    def update(self, name: str) -> dict[str, Tensor]:
        learner, learning = self.learners[name], self.spec.recipe.learning[name]
        windows = Windows.of(self.replay, learning.length)
        starts = self.sampler.sample(name, windows, learning.batch, self.rng)
        rows = learner.share.rows
        shift = (learning.shift, learning.shift_step)
        offsets = draw_offsets(self.rng, learning.batch, *shift) if learning.shift else None
        segment = gather(
            self.replay,
            starts[rows],
            learning.length,
            self.spec.device,
            None if offsets is None else offsets[rows],
        )
        metrics, latents = learner.update(self._complete(name, segment, starts, rows))
        if self.latents is not None and latents is not None:
            self.latents.write(self.group.concatenate(latents), starts)
        done = {**self.progress.updates, name: self.progress.updates.get(name, 0) + 1}
        taken = sum(learner.optimiser.updates for learner in self.learners.values())
        self.progress = replace(self.progress, updates=done, gradient_steps=taken)
        return metrics

    def _complete(
        self, learner: str, segment: Segment, starts: Int[np.ndarray, "B 2"], rows: slice
    ) -> Segment:
        """Add cached tokens and latents to these rows of a batch.

        The tokenizer's own update invalidates the tokens.
        """
        if self.latents is not None:
            segment = self.latents.complete(segment, starts[rows])
        if self.tokens is None:
            return segment
        if learner == self.tokens.world.tokenizer_learner:
            self.tokens.clear()
            return segment
        with computing(self.agent.device, self.spec.precision):
            return self.tokens.complete(segment, starts, rows)

    @property
    def imagined_steps(self) -> dict[str, int]:
        """Imagined steps of one update of each learner that dreams."""
        behaviour, starts = self.agent.behaviour, {}
        every = isinstance(behaviour, ChoosesStarts) and behaviour.dreams_from_every
        for name, learning in self.spec.recipe.learning.items():
            if name == BEHAVIOUR:
                starts[name] = learning.batch * (learning.length if every else 1)
            elif name == JOINT:
                starts[name] = learning.batch * (learning.length - 1)
        return {name: count * behaviour.horizon for name, count in starts.items()}

    def checkpoint(self, **more: Any) -> Checkpoint:
        """All state needed to resume exactly, and `more` state of the caller."""
        carry, collector = self.collector.state()
        generators = {name: g.get_state() for name, g in self.generators.items()}
        tensors: dict[str, Mapping[str, Tensor]] = {
            "weights": self.agent.state_dict(),
            "carry": carry,
            "generators": {**generators, **global_states(self.agent.device)},
            "sampler": {k: torch.from_numpy(v) for k, v in self.sampler.state().items()},
        }
        if self.tokens is not None:
            tensors[TOKENS] = self.tokens.state()
        if self.latents is not None:
            tensors[LATENTS] = self.latents.state()
        for name, learner in self.learners.items():
            tensors[f"{OPTIMISER}{name}"] = learner.optimiser.state()
            if learner.learning.average:
                tensors[f"{LAST_WEIGHTS}{name}"] = learner.average.state()
        state = {
            "steps": self.progress.steps,
            "updates": dict(self.progress.updates),
            "collector": collector,
            "replay": self.replay.state(),
            "rng": self.rng.bit_generator.state,
            **more,
        }
        return Checkpoint(tensors, state)

    def checksum(self) -> str:
        """A number that changes with any weight, to compare ranks."""
        sums = [each.double().sum() for each in self.agent.state_dict().values()]
        return str(torch.stack(sums).tolist())

    def agent_checkpoint(self, **more: Any) -> Checkpoint:
        """All that an evaluation of the agent needs: weights, progress and what replay held."""
        counts = {
            f"{OPTIMISER}{name}": {"updates": torch.tensor(learner.optimiser.updates)}
            for name, learner in self.learners.items()
        }
        state = {
            "steps": self.progress.steps,
            "updates": dict(self.progress.updates),
            "replay": self.replay.state(),
            **more,
        }
        return Checkpoint({"weights": self.agent.state_dict(), **counts}, state)

    def restore(self, checkpoint: Checkpoint, with_replay: bool = True) -> list[str]:
        """Go back to a checkpoint; returns notes about environments.

        Without replay, what belongs to its steps starts empty too.
        """
        tensors, state = checkpoint.tensors, checkpoint.state
        if with_replay:
            self._restore_replay(tensors, state["replay"])
        else:
            self.replay.clear()
        self.agent.load_state_dict(dict(tensors["weights"]))
        for name, learner in self.learners.items():
            learner.optimiser.restore(tensors[f"{OPTIMISER}{name}"])
            learner.average.restore(tensors.get(f"{LAST_WEIGHTS}{name}"))
        self.progress = progress_of(checkpoint)
        notes = self.collector.restore(tensors["carry"], state["collector"])
        self.rng.bit_generator.state = state["rng"]
        for name, generator in self.generators.items():
            generator.set_state(tensors["generators"][name])
        restore_global_states(tensors["generators"], self.agent.device)
        return notes

    def _restore_replay(
        self, tensors: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, Any]
    ) -> None:
        self.replay.restore(state)
        self.sampler.restore({k: v.numpy() for k, v in tensors["sampler"].items()})
        if self.tokens is not None:
            self.tokens.restore(tensors[TOKENS])
        if self.latents is not None:
            self.latents.restore(tensors[LATENTS])

    def collect_anew(self, steps: int) -> None:
        """Fill an empty replay with steps of every environment, which do not count."""
        longest = max(learning.length for learning in self.spec.recipe.learning.values())
        self.collector.collect(max(steps, longest), random=False)

    def close(self) -> None:
        self.envs.close()


class TokenCache:
    """Tokens by environment and time, valid until the tokenizer learns. Part of a checkpoint.

    An epoch of IRIS reads hundreds of batches from the same replay while its tokenizer does not
    change: each frame is encoded once.
    """

    def __init__(self, world: CachesTokens, device: torch.device, group: Group = ALONE) -> None:
        self.world = world
        self.device = device
        self.group = group
        self.clear()

    def clear(self) -> None:
        """Forget all tokens, because the tokenizer has changed."""
        self._known = np.zeros((0, 0), np.bool_)
        size = (0, 0, self.world.tokens)
        self._tokens = torch.zeros(size, dtype=torch.int32, device=self.device)

    def complete(
        self, segment: Segment, starts: Int[np.ndarray, "B 2"], rows: slice = slice(None)
    ) -> Segment:
        """A segment with its tokens: these rows of a batch that starts at (environment, time).

        All of its steps are encoded, whether read or not: later segments will ask for them. The
        token is -1 where it depends on frames before the segment and no other segment gave it.
        """
        time = starts[:, 1:] + np.arange(segment.first.shape[1])
        env = np.broadcast_to(starts[:, :1], time.shape)
        self._make_room(int(env.max()) + 1, int(time.max()) + 1)
        wanted = self._unknown(env, time)
        if wanted.any():
            here = torch.from_numpy(wanted[rows]).to(self.device)
            # Each rank encodes the frames of its own rows, and all ranks keep all tokens.
            tokens = self.group.concatenate(self.world.tokens_of(segment, here))
            places = self._places(env[wanted], time[wanted])
            self._tokens[places] = tokens.to(self._tokens.dtype)
            self._known[env[wanted], time[wanted]] = True
        return replace(segment, tokens=self._tokens[self._places(env[rows], time[rows])].long())

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
