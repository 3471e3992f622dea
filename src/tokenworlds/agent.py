"""An agent: a world and a behaviour that act and imagine together."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import cast

import numpy as np
import torch
from jaxtyping import Bool, UInt8
from safetensors.torch import load_file, save_file
from torch import Generator, Tensor, nn

from tokenworlds.behaviours.imagination import ImaginedStep, imagine
from tokenworlds.core.description import from_json, to_json
from tokenworlds.core.errors import UserError
from tokenworlds.core.precision import Precision, computing, insist_on_precision
from tokenworlds.core.protocols import Behaviour, GivesStates, LearnsFromStates, World
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
from tokenworlds.runs.folder import RunFolder
from tokenworlds.runs.recipe import Recipe
from tokenworlds.runs.spec import RunSpec

Array = np.ndarray
BEHAVIOUR, JOINT = "behaviour", "agent"
"""Names of learners; a world names its own."""
CONFIG, WEIGHTS, FORMAT = "config.json", "weights.safetensors", 1


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
        behaviour = recipe.behaviour.build(feature_shape=world.feature_shape, **dimensions)
        agent = Agent(world, behaviour, frame_shape, action_space, precision).eval()
        agent.recipe = recipe
        return agent

    def save(self, folder: str | Path) -> Path:
        """Write weights and configuration to a folder of its own; `load` reads it."""
        if self.recipe is None:
            raise UserError("this agent has no recipe to save: create it with Agent.build or load")
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        weights = {name: each.cpu().contiguous() for name, each in self.state_dict().items()}
        save_file(weights, path / WEIGHTS)
        names = ("recipe", "frame_shape", "action_space")
        document = {name: to_json(getattr(self, name)) for name in names}
        (path / CONFIG).write_text(json.dumps({"format": FORMAT, **document}, indent=2) + "\n")
        return path

    @staticmethod
    def load(
        folder: str | Path,
        modules: Mapping[str, ModuleType] | None = None,
        device: str | None = None,
    ) -> "Agent":
        """The agent that `save` wrote, or that of a run's newest checkpoint.

        `modules` holds your own code by module name, if the recipe uses any. Without `device`,
        the agent of a run goes to the device it was trained on; on another device it computes in
        float32.
        """
        if (Path(folder) / CONFIG).is_file():
            return Agent._load_saved(Path(folder), modules or {}).to(device or "cpu")
        run = RunFolder.open(Path(folder))
        spec = run.spec(lambda _: modules or {})
        if device is not None:
            spec = replace(spec, device=device, precision="float32")
        return Agent.restore(spec, run.insist_on_newest()[0].tensors["weights"])

    @staticmethod
    def _load_saved(folder: Path, modules: Mapping[str, ModuleType]) -> "Agent":
        document = json.loads((folder / CONFIG).read_text())
        if document.pop("format", None) != FORMAT:
            raise UserError(f"{folder / CONFIG} has another format than {FORMAT}: save it again")
        agent = Agent.build(**from_json(document, modules))
        agent.load_state_dict(load_file(folder / WEIGHTS))
        return agent

    @staticmethod
    def restore(spec: RunSpec, weights: Mapping[str, Tensor]) -> "Agent":
        """The agent of a run specification with these weights."""
        insist_on_precision(spec.precision, spec.device)
        torch.set_num_threads(spec.threads)
        env = spec.env.make(evaluation=True)
        agent = Agent.build(spec.recipe, env.frame_shape, env.action_space, spec.precision)
        env.close()
        agent.load_state_dict(dict(weights))
        return agent.to(spec.device)

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
    ) -> Iterator[ImaginedStep[View]]:
        """Dream on from the last step of a segment, with given actions [B, steps] or its own."""
        given = None if actions is None else iter(actions.to(self.device).unbind(1))
        memory = self.behaviour.initial(len(segment.first))

        def act(view: View) -> Tensor:
            nonlocal memory
            if given is not None:
                return next(given)
            action, memory = self.behaviour.act(view, memory, generator)
            return action

        start = self.world.start(segment.to(self.device), steps)
        return imagine(
            self.world, start, read=lambda view: view, act=act, steps=steps, generator=generator
        )


def joint_losses(
    world: GivesStates, behaviour: LearnsFromStates, generator: Generator | None, segment: Segment
) -> Losses:
    """The losses of world and behaviour on one segment, with dreams from each of its states."""
    losses, states = world.losses_and_states(segment)
    dreamer = cast(World, world)
    return losses | behaviour.losses_from_states(dreamer, states, segment, generator)
