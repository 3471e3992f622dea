"""A dream that a person plays: states that can be returned to, and what the agent thinks of each.

Every state keeps its own copy of the world's carry, because caches are written in place. Stepping
from an earlier state begins a branch.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tokenworlds.core.errors import UserError
from tokenworlds.core.inspection import AssessesStates, Assessment
from tokenworlds.core.seeding import torch_generator
from tokenworlds.core.trees import map_tensors, named_tensors
from tokenworlds.core.types import ActionSpace, Carry, Outcome
from tokenworlds.evaluation.dreams import to_uint8
from tokenworlds.nets.policies import choose
from tokenworlds.viewer.documents import (
    describe_assessment,
    describe_outcome,
    describe_tokens,
    to_data_url,
)
from tokenworlds.viewer.source import Source
from tokenworlds.worlds.real import Real

KEPT_BYTES = 2**29
"""Memory for states; the oldest are dropped, and the dream cannot go on from them."""
ALTERNATIVES = 4


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

    def __init__(self, source: Source, seed: int = 0) -> None:
        self.source, self.agent = source, source.opened.agent
        if isinstance(self.agent.world, Real):
            raise UserError("this agent has no world model to dream with")
        self._generator = torch_generator(seed, "viewer", device=str(self.agent.device))
        self._rng = np.random.default_rng(seed)
        self._states: OrderedDict[int, State] = OrderedDict()
        self._count = 0

    @torch.no_grad()
    def start(self, source: str, step: int | None = None) -> dict[str, Any]:
        """Begin after a recorded step (a random one without a number), or at a reset."""
        real = self.source
        segment = real.reset(self._rng) if source == "reset" else real.recorded(step, self._rng)
        room = max(self.agent.behaviour.horizon, 1)
        carry = self.agent.world.start(segment.to(self.agent.device), room)
        self._states.clear()
        return self._add(0, carry, self.agent.behaviour.initial(1), None)

    @torch.no_grad()
    def step(self, number: int, action: Any = None) -> dict[str, Any]:
        """The state after an action, or after the agent's own."""
        return self._sample(number, action, 1)[0]

    @torch.no_grad()
    def alternatives(self, number: int, action: Any = None) -> list[dict[str, Any]]:
        """Samples of the same step after the same action. The dream may go on from each."""
        return self._sample(number, action, ALTERNATIVES)

    def _sample(self, number: int, action: Any, count: int) -> list[dict[str, Any]]:
        state = self._states.get(number)
        if state is None:
            raise UserError(
                "this step is too far back to go on from it: rewind less, or start anew"
            )
        own, memory = self._act(state)
        taken = own if action is None else read_action(action, self.agent.action_space)
        # Caches are written in place; the state must stay as it is.
        before = map_tensors(lambda leaf: leaf.repeat_interleave(count, 0), state.carry)
        actions = torch.stack([taken.to(self.agent.device)] * count)
        after = self.agent.world.step(before, actions, self._generator)
        parent = {"parent": number, "action": taken.tolist()}
        documents = []
        for row in range(count):
            carry, outcome = take_row(after, row)
            documents.append({**self._add(state.step + 1, carry, memory, outcome), **parent})
        return documents

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
            **describe_tokens(self.agent.world, carry),
            **describe_assessment(assessment),
            **describe_outcome(outcome),
        }

    def _kept_bytes(self) -> int:
        return sum(state.size for state in self._states.values())


def take_row(tree: Any, row: int) -> Any:
    """A row of a batch, with memory of its own."""
    return map_tensors(lambda leaf: leaf[row : row + 1].clone(), tree)


def read_action(action: Any, space: ActionSpace) -> Tensor:
    if space.discrete:
        if type(action) is not int or not 0 <= action < space.size:
            raise UserError(f"action {action!r:.40}: choose from 0 to {space.size - 1}")
        return torch.tensor(action)
    values = action if isinstance(action, list) else []
    right = all(type(each) in (int, float) and -1 <= each <= 1 for each in values)
    if len(values) != space.size or not right:
        raise UserError(f"action {action!r:.40}: it takes {space.size} numbers from -1 to 1")
    return torch.tensor(values, dtype=torch.float32)
