"""In bfloat16 every recipe learns what it learns in float32; its metrics are float32."""

from functools import partial
from typing import Any, get_args

import pytest
import torch
from rough_products import RoughProducts
from same_draws import Draws
from torch import Tensor

from tokenworlds.agent import Agent
from tokenworlds.behaviours.ppo import PPO
from tokenworlds.benchmarking.workloads import random_segment
from tokenworlds.core.config import variant
from tokenworlds.core.precision import Precision, computing, lack_of_bfloat16
from tokenworlds.core.trees import named_tensors
from tokenworlds.core.types import ActionSpace, FrameShape, Segment
from tokenworlds.recipes.catalogue import RECIPES, load
from tokenworlds.runs.recipe import Recipe
from tokenworlds.training.learner import Learner

LACK = lack_of_bfloat16("cpu")
SPACE = ActionSpace(4)
pytestmark = pytest.mark.skipif(bool(LACK), reason=LACK or "bfloat16 is available")


class Case:
    """The smallest size of a recipe, and segments for its learners."""

    def __init__(self, name: str, precision: Precision) -> None:
        recipe = load(name, "nano").recipe
        self.recipe: Recipe = variant(recipe, {"behaviour.horizon": 3})
        self.shape = FrameShape(recipe.resolution, recipe.resolution, 1 if recipe.grey else 3)
        torch.manual_seed(0)
        self.precision: Precision = precision
        self.agent: Agent = Agent.build(self.recipe, self.shape, SPACE, precision)

    def segment(self, batch: int, steps: int) -> Segment:
        return random_segment(self.shape, SPACE, batch, steps, torch.Generator().manual_seed(1))

    def learners(self) -> dict[str, Learner]:
        trainables = self.agent.trainables(torch.Generator().manual_seed(2))
        learning = self.recipe.learning
        context = partial(computing, self.agent.device, self.precision)
        return {name: Learner(name, learning[name], trainables[name], context) for name in learning}

    def update(self, learner: Learner) -> dict[str, Tensor]:
        torch.manual_seed(3)
        with RoughProducts():
            metrics, _ = learner.update(self.segment(2, min(6, learner.learning.length)))
        return metrics


LEARNERS = [(name, part) for name in RECIPES for part in load(name, "nano").recipe.learning]


@pytest.mark.parametrize(("name", "part"), LEARNERS)
def test_losses_and_gradients_are_close_to_those_of_float32(name: str, part: str) -> None:
    cases = Case(name, "float32"), Case(name, "bfloat16")
    exact, rough = (case.learners()[part] for case in cases)
    draws = Draws()
    with draws.written_down():
        expected = cases[0].update(exact)
    with draws.once_more():
        found = cases[1].update(rough)
    assert {term for term in found if found[term].dtype != torch.float32} == set()
    # Rounding decides which steps PPO clips, and clipped steps have no gradient.
    clips = isinstance(cases[0].recipe.behaviour, PPO.Config) and part == "behaviour"
    for term in found:
        if "/loss/" in term or (term.endswith("gradient_norm") and not clips):
            close = pytest.approx(expected[term].item(), rel=0.05, abs=0.005)
            assert found[term].item() == close, term
    assert found != expected
    # A weight without a gradient has no state.
    assert rough.optimiser.state().keys() == exact.optimiser.state().keys()
    assert float_types(rough.optimiser.state()) == {torch.float32}
    assert float_types(dict(cases[1].agent.state_dict())) == {torch.float32}


@pytest.mark.parametrize(
    "name", ["step-vq-m", "step-vq-t", "git-storm", "iris", "delta-iris", "swm", "dreamer-v3"]
)
def test_carries_keep_their_types(name: str) -> None:
    exact, rough = (carried_types(Case(name, precision)) for precision in get_args(Precision))
    assert exact == rough


@torch.no_grad()
def carried_types(case: Case) -> list[dict[str, torch.dtype]]:
    """The types of the carries after acting twice, and before and after an imagined step."""
    agent, segment, generator = case.agent, case.segment(2, 4), torch.Generator()
    carry, world = agent.initial(2), agent.world
    with RoughProducts():
        for step in range(2):
            seen = segment.frame[:, step], segment.first[:, step]
            _, carry = agent.act(*seen, carry, generator)
        with computing(agent.device, case.precision):
            start = world.start(segment, 1)
            imagined, _ = world.step(start, segment.action[:, -1], generator)
    return [{name: leaf.dtype for name, leaf in named_tensors(t)} for t in (carry, start, imagined)]


def float_types(tensors: dict[str, Any]) -> set[torch.dtype]:
    return {tensor.dtype for tensor in tensors.values() if tensor.is_floating_point()}
