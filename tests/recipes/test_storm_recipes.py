"""STORM and GIT-STORM against the numbers of their released code."""

import math
from typing import Any, cast

import pytest
import torch
from torch import nn
from torch.nn import functional

from tokenworlds.agent import Agent
from tokenworlds.core.types import ActionSpace, FrameShape
from tokenworlds.recipes.catalogue import RECIPES, load
from tokenworlds.training.dry_run import check_segments, dry_run
from tokenworlds.training.summary import count, parameter_tree
from tokenworlds.worlds.latent import Latent

# Counted from the released networks; GIT-STORM without STORM's prior, which it leaves unused.
WORLDS = {
    ("storm", 18): 16_513_155,
    ("storm", 6): 16_507_011,
    ("storm", 3): 16_505_475,
    ("git-storm", 18): 16_446_627,
}
PARTS = {
    "mixer": 797_696,
    "sequence": 4_235_264,
    "prior": 525_312,
    "reward": 657_151,
    "termination": 526_849,
}
TOKENIZER = {"encoder": 690_624, "posterior": 4_195_328}
DECODER = 4_884_931
FAMILIES = ("step-vq", "cb", "drama", "storm", "git-storm")
LATENT = [name for name in RECIPES if name.startswith(FAMILIES)]


def agent(name: str, size: str = "paper", space: ActionSpace | None = None) -> Agent:
    recipe = load(name, size).recipe
    shape = FrameShape(recipe.resolution, recipe.resolution)
    return Agent.build(recipe, shape, space or ActionSpace(18))


@pytest.mark.parametrize(("case", "expected"), WORLDS.items())
def test_world(case: tuple[str, int], expected: int) -> None:
    name, actions = case
    world: Any = agent(name, space=ActionSpace(actions)).world
    assert count(world) == expected


def test_components_of_the_world() -> None:
    tree = parameter_tree(agent("storm"))["world"]
    totals = {k: v if isinstance(v, int) else v["total"] for k, v in tree.items()}
    assert {name: totals[name] for name in PARTS} == PARTS
    tokenizer = tree["tokenizer"]
    assert {name: tokenizer[name] for name in TOKENIZER} == TOKENIZER
    assert tokenizer["expand"] + tokenizer["norm"] + tokenizer["decoder"] == DECODER


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        (ActionSpace(18), 1_059_858),
        (ActionSpace(6), 1_053_702),
        (ActionSpace(6, discrete=False), 1_056_780),
        (ActionSpace(1, discrete=False), 1_051_650),
    ],
)
def test_actor_and_critic(space: ActionSpace, expected: int) -> None:
    behaviour: Any = agent("storm", space=space).behaviour
    assert count(behaviour.actor) == expected
    assert count(behaviour.critic) == 1_181_439


@pytest.mark.parametrize("name", LATENT)
def test_every_latent_recipe_runs_on_continuous_actions(name: str) -> None:
    """Acting and every loss, at `nano`."""
    found = load(name, "nano").recipe
    shape = FrameShape(found.resolution, found.resolution)
    torch.manual_seed(0)
    built = Agent.build(found, shape, ActionSpace(3, discrete=False))
    dry_run(built, found, shape)
    carry = built.initial(2)
    frame = torch.zeros(2, shape.height, shape.width, 3, dtype=torch.uint8)
    generator = torch.Generator().manual_seed(0)
    action, _ = built.act(frame, torch.ones(2, dtype=torch.bool), carry, generator)
    assert action.shape == (2, 3)
    assert action.abs().max() <= 1


@pytest.mark.parametrize("size", ["nano", "small", "paper"])
@pytest.mark.parametrize("name", LATENT)
def test_the_first_updates_find_enough_steps(name: str, size: str) -> None:
    for env in ("dmc:walker-walk", "steer", "atari:Pong"):
        check_segments(load(name, size, env).recipe)


def test_deepmind_control_has_the_numbers_of_the_paper() -> None:
    """500k steps of 16 environments, one update of each learner per sixteen steps."""
    recipe: Any = load("git-storm", "paper", "dmc:walker-walk").recipe
    assert (recipe.steps, recipe.num_envs) == (500_000, 16)
    assert recipe.schedule.updates == {"world": 1 / 16, "behaviour": 1 / 16}
    assert load("git-storm", "paper", "atari:Pong").recipe.steps == 100_000


@pytest.mark.parametrize("size", ["nano", "tiny"])
def test_the_transformer_recovers_from_targets_that_ignore_its_input(size: str) -> None:
    """Tokens say nothing before the tokenizer has learned. At the rate of the rest of the world,
    post-norm blocks then ignore their input for hundreds of updates more."""
    recipe = load("storm", size).recipe
    optimiser, world = recipe.learning["world"].optimiser, cast(Latent.Config, recipe.world)
    torch.manual_seed(0)
    sequence: Any = world.sequence.build_from()
    tokens, vocabulary, actions, width = 8, 8, 3, sequence.width
    sizes = {"tokens": tokens, "vocabulary": vocabulary, "actions": actions, "width": width}
    mixer: Any = world.mixer.build(**sizes)
    head = nn.Linear(width, tokens * vocabulary)
    rest = [*mixer.parameters(), *head.parameters()]
    groups = [
        {"params": list(sequence.parameters()), "lr": optimiser.rates["sequence"]},
        {"params": rest, "lr": optimiser.rate},
    ]
    adam = torch.optim.Adam(groups)
    marginal = torch.softmax(torch.linspace(0, 4, vocabulary), 0)
    loss = torch.tensor(0.0)
    for update in range(280):
        index = torch.randint(vocabulary, (8, 16, tokens))
        action = functional.one_hot(torch.randint(actions, (8, 16)), actions).float()
        first = torch.zeros(8, 16, dtype=torch.bool)
        hidden, _ = sequence.scan(mixer.look_up(index, action), first, sequence.initial(8, 16))
        unrelated = torch.multinomial(marginal, index.numel(), replacement=True)
        target = unrelated if update < 200 else index.roll(1, -1).flatten()
        loss = functional.cross_entropy(head(hidden).view(-1, vocabulary), target)
        adam.zero_grad()
        loss.backward()
        adam.step()
    assert loss < 0.5 * math.log(vocabulary)
