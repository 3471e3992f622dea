"""A dream that a person plays: states that can be returned to, and what the agent thinks of each.

Every state keeps its own copy of the world's carry, because caches are written in place. Stepping
from an earlier state begins a branch.
"""

import base64
import io
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import UInt8
from PIL import Image
from torch import Tensor

from tokenworlds.agent import BEHAVIOUR, JOINT, Agent, OpenedAgent
from tokenworlds.core.errors import UserError
from tokenworlds.core.inspection import AssessesStates, Assessment
from tokenworlds.core.seeding import torch_generator
from tokenworlds.core.trees import map_tensors, named_tensors
from tokenworlds.core.types import Carry, Outcome, Segment, TokenFeature, View
from tokenworlds.evaluation.dreams import to_uint8
from tokenworlds.nets.policies import choose
from tokenworlds.replay.sampling import gather
from tokenworlds.replay.store import ReplayStore
from tokenworlds.runs.own_code import Trust
from tokenworlds.training.evaluation import open_replay
from tokenworlds.viewer.action_names import action_names
from tokenworlds.worlds.real import Real

KEPT_BYTES = 2**29
"""Memory for states; the oldest are dropped, and the dream cannot go on from them."""
LONGEST_SIDE = 256


@dataclass(frozen=True, slots=True)
class State:
    """A state of the dream: the world's carry, and the behaviour's memory.

    A behaviour that assesses states has read this one: its memory is that after it.
    """

    step: int
    carry: Carry
    memory: Carry
    assessment: Assessment | None
    size: int


class Dream:
    """The states of one player's dream, by number."""

    def __init__(self, opened: OpenedAgent, trust: Trust, seed: int = 0) -> None:
        if isinstance(opened.agent.world, Real):
            raise UserError("this agent has no world model to dream with")
        self.opened, self.agent, self._trust = opened, opened.agent, trust
        self._generator = torch_generator(seed, "viewer", device=str(self.agent.device))
        self._rng = np.random.default_rng(seed)
        self._states: OrderedDict[int, State] = OrderedDict()
        self._count = 0
        self._replay: ReplayStore | None = None

    def describe(self) -> dict[str, Any]:
        """What a page must know before the first state."""
        space, env = self.agent.action_space, self.opened.env
        spec = self.opened.spec
        return {
            "env": "" if env is None else env.name,
            "recipe": "" if spec is None else f"{spec.recipe_name} {spec.size}",
            "discrete": space.discrete,
            "actions": action_names("" if env is None else env.name, space),
            "replay_steps": self.replay_steps,
            "height": self.agent.frame_shape.height,
            "width": self.agent.frame_shape.width,
        }

    @property
    def replay_steps(self) -> int:
        """Recorded steps that a dream may start from; 0 for an agent without its run."""
        replay = self.replay
        return 0 if replay is None else replay.num_envs * replay.length

    @property
    def replay(self) -> ReplayStore | None:
        opened = self.opened
        if opened.run is None or opened.spec is None or opened.checkpoint is None:
            return None
        if self._replay is None:
            self._replay = open_replay(opened.run, opened.spec, self.agent, opened.checkpoint)
        return self._replay

    @torch.no_grad()
    def start(self, source: str, step: int | None = None) -> dict[str, Any]:
        """Begin after a recorded step (a random one without a number), or at a reset."""
        segment = self._from_reset() if source == "reset" else self._from_replay(step)
        room = max(self.agent.behaviour.horizon, 1)
        carry = self.agent.world.start(segment.to(self.agent.device), room)
        self._states.clear()
        return self._add(0, carry, self.agent.behaviour.initial(1), None)

    def _from_replay(self, step: int | None) -> Segment:
        replay = self.replay
        if replay is None or not self.replay_steps:
            raise UserError("this agent has no replay to dream from: start from a reset")
        chosen = int(self._rng.integers(self.replay_steps)) if step is None else step
        if not 0 <= chosen < self.replay_steps:
            raise UserError(f"replay has the steps 0 to {self.replay_steps - 1:,}, not {chosen:,}")
        env, time = divmod(chosen, replay.length)
        begin = max(time + 1 - context_of(self.agent), 0)
        return gather(replay, np.array([[env, begin]]), time + 1 - begin)

    def _from_reset(self) -> Segment:
        env = self.opened.env
        if env is None:
            raise UserError("this agent does not know its environment: start from replay")
        place = self.opened.run.path if self.opened.run else None
        self._trust.check_env(place or Path("this agent"), env.name)
        game = env.make(evaluation=True)
        try:
            frame = game.reset(int(self._rng.integers(2**31)))
        finally:
            game.close()
        flag = torch.zeros(1, 1, dtype=torch.bool)
        action = self.agent.action_space.zeros(1, 1)
        frames = torch.from_numpy(np.ascontiguousarray(frame))[None, None]
        return Segment(frames, ~flag, action, torch.zeros(1, 1), flag, flag, ~flag)

    @torch.no_grad()
    def step(self, number: int, action: Any = None) -> dict[str, Any]:
        """The state after an action, or after the agent's own."""
        state = self._states.get(number)
        if state is None:
            raise UserError(
                "this step is too far back to go on from it: rewind less, or start anew"
            )
        own, memory = self._act(state)
        taken = own if action is None else self._read_action(action)
        # Caches are written in place; the state must stay as it is.
        before = map_tensors(Tensor.clone, state.carry)
        carry, outcome = self.agent.world.step(before, taken[None], self._generator)
        shown = self._add(state.step + 1, carry, memory, outcome)
        return {**shown, "parent": number, "action": taken.tolist()}

    def _act(self, state: State) -> tuple[Tensor, Carry]:
        """The agent's action, and its memory after the state."""
        recipe = self.agent.recipe
        temperature = 1.0 if recipe is None else recipe.evaluation.temperature
        policy: Any = None if state.assessment is None else state.assessment.policy
        if policy is not None:
            return choose(policy, temperature, self._generator)[0], state.memory
        view = self.agent.world.view(state.carry)
        args = (view, state.memory, self._generator, temperature)
        action, memory = self.agent.behaviour.act(*args)
        return action[0], memory

    def _read_action(self, action: Any) -> Tensor:
        space = self.agent.action_space
        if space.discrete:
            if type(action) is not int or not 0 <= action < space.size:
                raise UserError(f"action {action!r:.40}: choose from 0 to {space.size - 1}")
            return torch.tensor(action, device=self.agent.device)
        numbers = action if isinstance(action, list) else []
        right = all(isinstance(each, int | float) and -1 <= each <= 1 for each in numbers)
        if len(numbers) != space.size or not right:
            raise UserError(f"action {action!r:.40}: it takes {space.size} numbers from -1 to 1")
        return torch.tensor(numbers, dtype=torch.float32, device=self.agent.device)

    def _add(
        self, step: int, carry: Carry, memory: Carry, outcome: Outcome | None
    ) -> dict[str, Any]:
        view, behaviour = self.agent.world.view(carry), self.agent.behaviour
        assessment = None
        if isinstance(behaviour, AssessesStates):
            assessment, memory = behaviour.assess(view, memory)
        size = sum(leaf.nbytes for _, leaf in named_tensors((carry, memory)))
        number, self._count = self._count, self._count + 1
        self._states[number] = State(step, carry, memory, assessment, size)
        while len(self._states) > 1 and self._kept_bytes() > KEPT_BYTES:
            self._states.popitem(last=False)
        return {
            "number": number,
            "step": step,
            "oldest": next(iter(self._states)),
            "frame": to_data_url(to_uint8(view.frame)[0]),
            **self._tokens(carry, view),
            **described(assessment, outcome),
        }

    def _kept_bytes(self) -> int:
        return sum(state.size for state in self._states.values())

    def _tokens(self, carry: Carry, view: View) -> dict[str, Any]:
        """The tokens of the state where the policy reads them, else those of its frame."""
        feature = view.compact_feature if hasattr(carry, "index") else None
        tokenizer = getattr(self.agent.world, "tokenizer", None)
        grid = getattr(tokenizer, "grid", None)
        if isinstance(feature, TokenFeature):
            return {"tokens": feature.index[0].tolist(), "grid": grid, "encoded_again": False}
        again = self.agent.world.reconstruct(self._segment_of(view))
        if again is None:
            return {"tokens": None, "grid": None, "encoded_again": False}
        return {"tokens": again.index[0, -1].tolist(), "grid": again.grid, "encoded_again": True}

    def _segment_of(self, view: View) -> Segment:
        frame = torch.from_numpy(to_uint8(view.frame)).to(self.agent.device)
        length = max(self.agent.world.frames, 1)
        frames = frame[:, None].expand(-1, length, -1, -1, -1).contiguous()
        flag = torch.zeros(1, length, dtype=torch.bool, device=frame.device)
        action = self.agent.action_space.zeros(1, length, device=frame.device)
        return Segment(frames, flag, action, flag.float(), flag, flag, ~flag)


def context_of(agent: Agent) -> int:
    """As many real steps before a dream as when the policy learned."""
    learning = {} if agent.recipe is None else agent.recipe.learning
    found = learning.get(BEHAVIOUR) or learning.get(JOINT)
    return max(agent.world.frames, found.length if found else 1)


def described(assessment: Assessment | None, outcome: Outcome | None) -> dict[str, Any]:
    policy = None if assessment is None or assessment.policy is None else assessment.policy.mean
    return {
        "value": None if assessment is None else float(assessment.value[0]),
        "policy": None if policy is None else [float(each) for each in policy[0]],
        "reward": None if outcome is None else float(outcome.reward[0]),
        "terminated": None if outcome is None else float(outcome.terminated[0]),
    }


def to_data_url(frame: UInt8[np.ndarray, "H W C"]) -> str:
    picture = Image.fromarray(frame[..., 0] if frame.shape[-1] == 1 else frame)
    written = io.BytesIO()
    picture.save(written, "PNG", compress_level=1)
    return f"data:image/png;base64,{base64.b64encode(written.getvalue()).decode()}"
