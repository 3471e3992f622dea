"""An agent: a world and a behaviour that act and imagine together."""

import json
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Bool, UInt8
from safetensors.torch import save
from torch import Generator, Tensor, nn

from tokenworlds.behaviours.imagination import ImaginedStep, imagine
from tokenworlds.core import files
from tokenworlds.core.capabilities import GivesStates, HasCells, LearnsFromStates
from tokenworlds.core.description import from_json, to_json
from tokenworlds.core.errors import UserError
from tokenworlds.core.files import DamagedFile
from tokenworlds.core.precision import Precision, computing, insist_on_precision
from tokenworlds.core.protocols import Behaviour, World
from tokenworlds.core.storage import compress, expand
from tokenworlds.core.trees import where_rows
from tokenworlds.core.types import (
    ActionSpace,
    Carry,
    FrameShape,
    Losses,
    Segment,
    Trainable,
    View,
)
from tokenworlds.envs.catalogue import EnvSpec
from tokenworlds.pretrained import resolve
from tokenworlds.runs.checkpoint import Checkpoint, physical_memory, read_tensors
from tokenworlds.runs.folder import LAST, LONGEST_RUN, RunFolder
from tokenworlds.runs.own_code import Trust, own_files
from tokenworlds.runs.recipe import Recipe
from tokenworlds.runs.spec import RunSpec

Array = np.ndarray
BEHAVIOUR, JOINT = "behaviour", "agent"
"""Names of learners; a world names its own."""
CONFIG, WEIGHTS, FORMAT = "config.json", "weights.safetensors", 1
TARGET, SOURCE = "behaviour.slow_critic.", "behaviour.critic."
"""Weights that only training reads, and those that they follow."""


@dataclass(frozen=True, slots=True)
class Training:
    """What a saved agent says of the run that it comes from."""

    recipe: str
    size: str
    seed: int
    steps: int


@dataclass(frozen=True, slots=True)
class AgentCarry:
    """The world's carry, the behaviour's carry and the last action."""

    world: Carry
    behaviour: Carry
    action: Tensor


class Agent(nn.Module):
    """Observes with the world and acts with the behaviour. The carry is passed in and returned."""

    world: World
    behaviour: Behaviour

    def __init__(
        self,
        world: World,
        behaviour: Behaviour,
        frame_shape: FrameShape,
        action_space: ActionSpace,
        precision: Precision = "float32",
    ) -> None:
        super().__init__()
        self.precision = precision
        self.world = world
        self.behaviour = behaviour
        self.frame_shape = frame_shape
        self.action_space = action_space
        self.recipe: Recipe | None = None

    @staticmethod
    def build(
        recipe: Recipe,
        frame_shape: FrameShape,
        action_space: ActionSpace,
        precision: Precision = "float32",
    ) -> "Agent":
        """A recipe's agent with fresh weights."""
        dimensions = {"frame_shape": frame_shape, "action_space": action_space}
        world = recipe.world.build(**dimensions)
        cells = world.cells if isinstance(world, HasCells) else None
        behaviour = recipe.behaviour.build_from(
            feature_shape=world.feature_shape, cells=cells, **dimensions
        )
        agent = Agent(world, behaviour, frame_shape, action_space, precision).eval()
        agent.recipe = recipe
        return agent

    def save(
        self,
        folder: str | Path,
        env: EnvSpec | None = None,
        training: Training | None = None,
        compact: bool = False,
    ) -> Path:
        """Write weights and configuration to a folder of its own; `load` reads it.

        `env` is the environment that the agent was trained on, `training` its run, if they are
        known. `compact` rounds large weights to bytes and leaves out the target networks.
        """
        if self.recipe is None:
            raise UserError("this agent has no recipe to save: create it with Agent.build or load")
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        weights = {name: each.cpu().contiguous() for name, each in self.state_dict().items()}
        targets = [name for name in weights if compact and name.startswith(TARGET)]
        kept = {name: each for name, each in weights.items() if name not in targets}
        content = save(compress(kept) if compact else weights)
        files.replace_file(path / WEIGHTS, content)
        names = ("recipe", "frame_shape", "action_space")
        document = {name: to_json(getattr(self, name)) for name in names}
        document |= {"env": to_json(env), "training": to_json(training)}
        document |= {"targets": not targets}
        own = {"own_files": own_files(self.recipe), "weights": files.sha256(content)}
        document = {"format": FORMAT, **document, **own}
        signed = {**document, files.CHECKSUM: files.checksum(document)}
        files.replace_file(path / CONFIG, (json.dumps(signed, indent=2) + "\n").encode())
        return path

    @staticmethod
    def load(
        folder: str | Path,
        modules: Mapping[str, ModuleType] | None = None,
        device: str | None = None,
        *,
        checkpoint: str | int = LAST,
        trust: bool = False,
        strict: bool = False,
    ) -> "Agent":
        """The agent that `save` wrote, or that of a checkpoint of a run.

        `checkpoint` is "last", "best" (the highest evaluation during training) or a step.

        `modules` holds your own code by module name, if the recipe uses any; with `trust`, the
        files that the folder names are executed instead. If the newest checkpoint is damaged, an
        older one is loaded with a warning; with `strict` that is an error. Without `device`, the
        agent of a run goes to the device it was trained on; on another device it computes in
        float32.
        """
        trusted = Trust(modules or {}, everything=trust)
        return open_agent(folder, trusted, device, str(checkpoint), strict).agent

    @staticmethod
    def restore(spec: RunSpec, checkpoint: Checkpoint) -> "Agent":
        """The agent of a run's checkpoint. No environment is created."""
        insist_on_precision(spec.precision, spec.device)
        torch.set_num_threads(spec.threads)
        state = checkpoint.state
        described = {
            "recipe": spec.recipe,
            "frame_shape": from_json(state.get("frame_shape")),
            "action_space": from_json(state.get("action_space")),
            "precision": spec.precision,
        }
        weights = checkpoint.tensors.get("weights", {})
        return with_weights(described, weights, checkpoint.place, spec.device)

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def initial(self, batch: int) -> AgentCarry:
        """The carry before the first observation."""
        last_action = self.action_space.zeros(batch, device=self.device)
        return AgentCarry(None, self.behaviour.initial(batch), last_action)

    @torch.no_grad()
    def act(
        self,
        frame: UInt8[Tensor | Array, "B H W C"],
        first: Bool[Tensor | Array, " B"],
        carry: AgentCarry | None = None,
        generator: Generator | None = None,
        temperature: float = 1.0,
    ) -> tuple[Tensor, AgentCarry]:
        """Choose an action for each frame. Where `first` is set, history is reset."""
        frame, first = (torch.as_tensor(each).to(self.device) for each in (frame, first))
        carry = carry or self.initial(len(frame))
        if carry.world is None:
            first = torch.ones_like(first)
        memory = where_rows(first, self.behaviour.initial(len(frame)), carry.behaviour)
        with computing(self.device, self.precision):
            world = self.world.observe(frame, carry.action, first, carry.world, generator)
            view = self.world.view(world)
            action, memory = self.behaviour.act(view, memory, generator, temperature)
        return action, AgentCarry(world, memory, action)

    def trainables(self, generator: Generator | None) -> dict[str, Trainable]:
        """What learns, by the name of its learner. Dreams are sampled from the generator.

        Where world and behaviour can share an update, the learner "agent" trains both at once.
        """
        world, behaviour = self.world, self.behaviour
        dreaming = partial(behaviour.losses, world, generator=generator)
        found = {**world.trainables(), BEHAVIOUR: Trainable(cast(nn.Module, behaviour), dreaming)}
        if isinstance(world, GivesStates) and isinstance(behaviour, LearnsFromStates):
            found[JOINT] = Trainable(self, partial(joint_losses, world, behaviour, generator))
        return found

    def imagine(
        self,
        segment: Segment,
        steps: int,
        actions: Tensor | None = None,
        generator: Generator | None = None,
        temperature: float = 1.0,
    ) -> Iterator[ImaginedStep[View]]:
        """Dream on from the last step of a segment, with given actions [B, steps] or its own."""
        given = None if actions is None else iter(actions.to(self.device).unbind(1))
        memory = self.behaviour.initial(len(segment.first))

        def act(view: View) -> Tensor:
            nonlocal memory
            if given is not None:
                return next(given)
            action, memory = self.behaviour.act(view, memory, generator, temperature)
            return action

        start = self.world.start(segment.to(self.device), steps)
        return imagine(
            self.world, start, read=lambda view: view, act=act, steps=steps, generator=generator
        )


@dataclass(frozen=True, slots=True)
class OpenedAgent:
    """An agent, the environment it was trained on, and the run and checkpoint it comes from.

    An agent that `save` wrote has no run, but `folder` and `training` if they are known.
    """

    agent: Agent
    env: EnvSpec | None = None
    run: RunFolder | None = None
    spec: RunSpec | None = None
    checkpoint: Checkpoint | None = None
    folder: Path | None = None
    training: Training | None = None


def open_agent(
    folder: str | Path,
    trust: Trust,
    device: str | None = None,
    checkpoint: str = LAST,
    strict: bool = False,
) -> OpenedAgent:
    """The agent of a folder, as `Agent.load` describes it, with what the folder says of it."""
    try:
        folder = resolve(folder)
        if (folder / CONFIG).is_file():
            return open_saved(folder, trust, device or "cpu")
        return open_run(RunFolder.open(folder), trust, device, checkpoint, strict)
    except OSError as error:
        raise UserError(f"cannot use {error.filename or folder}: {error.strerror}") from error


def open_run(
    run: RunFolder, trust: Trust, device: str | None, checkpoint: str, strict: bool
) -> OpenedAgent:
    spec = run.spec(trust)
    if device is not None:
        spec = replace(spec, device=device, precision="float32")
    chosen = run.chosen(checkpoint)
    for text in chosen.skipped:
        if strict:
            raise UserError(f"{text}; without strict=True an older one is loaded")
        warnings.warn(text, stacklevel=4)
    agent = Agent.restore(spec, chosen.checkpoint)
    return OpenedAgent(agent, spec.env, run, spec, chosen.checkpoint)


def open_saved(folder: Path, trust: Trust, device: str) -> OpenedAgent:
    document = files.read_signed_json(folder, CONFIG, LONGEST_RUN)
    content = files.read_bytes(folder, WEIGHTS, physical_memory())
    if files.sha256(content) != document.pop("weights", None):
        raise DamagedFile(folder / WEIGHTS, "it is not as it was written")
    weights = expand(read_tensors(content, folder / WEIGHTS))
    if document.pop("targets", True) is False:
        weights |= targets_of(weights)
    if document.pop("format", None) != FORMAT:
        raise UserError(f"{folder / CONFIG} has another format than {FORMAT}: save it again")
    hints = document.pop("own_files", {})
    hints = hints if isinstance(hints, dict) else {}
    env, training = (from_json(document.pop(name, None)) for name in ("env", "training"))
    described = from_json(document, trust.modules_for(folder, document, hints))
    agent = with_weights(described, weights, folder, device)
    return OpenedAgent(
        agent,
        env if isinstance(env, EnvSpec) else None,
        folder=folder,
        training=training if isinstance(training, Training) else None,
    )


def targets_of(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Target networks that were left out begin as copies of what they follow."""
    followed = {name: each for name, each in weights.items() if name.startswith(SOURCE)}
    return {TARGET + name.removeprefix(SOURCE): each for name, each in followed.items()}


def with_weights(
    described: Any, weights: Mapping[str, Tensor], place: Path, device: str = "cpu"
) -> Agent:
    """The agent of a description, whose weights must have the shapes that it asks for."""
    try:
        check_shapes(described, weights)
        agent = Agent.build(**described)
        agent.load_state_dict(dict(weights))
        return agent.to(device)
    except (TypeError, ValueError, AttributeError, RuntimeError, ArithmeticError) as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        raise UserError(f"{place} does not fit its recipe: {reason}") from error


def check_shapes(described: Any, weights: Mapping[str, Tensor]) -> None:
    """Raise `ValueError` for other shapes, before the memory for an agent is taken."""
    try:
        with torch.device("meta"):
            expected = Agent.build(**described).state_dict()
    except NotImplementedError:  # A user's own part reads values of its tensors.
        return
    if {name: each.shape for name, each in expected.items()} != {
        name: each.shape for name, each in weights.items()
    }:
        raise ValueError("its weights have other shapes")


def joint_losses(
    world: GivesStates, behaviour: LearnsFromStates, generator: Generator | None, segment: Segment
) -> Losses:
    """The losses of world and behaviour on one segment, with dreams from each of its states."""
    losses, states = world.losses_and_states(segment)
    dreamer = cast(World, world)
    return losses | behaviour.losses_from_states(dreamer, states, segment, generator)
