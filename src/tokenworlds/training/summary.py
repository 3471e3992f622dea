"""A recipe in an environment: frame shape, actions and parameter counts."""

from typing import Any

from torch import nn

from tokenworlds.agent import Agent
from tokenworlds.core.capabilities import HasPrior
from tokenworlds.envs.catalogue import EnvSpec
from tokenworlds.nets.codebooks import Codebook
from tokenworlds.runs.recipe import Recipe
from tokenworlds.training.dry_run import dry_run, naming_mismatches

CONVOLUTIONS = ("encoder", "decoder")


def summarise(recipe: Recipe, env_name: str, protocol: str = "") -> dict[str, Any]:
    """Frame shape, actions and the parameters of every component, as JSON can hold them."""
    spec = EnvSpec(env_name, protocol, recipe.resolution, recipe.grey)
    env = spec.make()
    shape, space = env.frame_shape, env.action_space
    env.close()
    with naming_mismatches():
        agent = Agent.build(recipe, shape, space)
        dry_run(agent, recipe, shape)
    world = agent.world
    path = {"discretisation": discretisation(world)} if isinstance(world, HasPrior) else {}
    return {
        "env": spec.name,
        "frame": [shape.height, shape.width, shape.channels],
        "actions": {"size": space.size, "kind": "discrete" if space.discrete else "continuous"},
        "parameters": {**path, **parameter_tree(agent)},
    }


def parameter_tree(module: nn.Module) -> dict[str, Any]:
    """Trainable parameters of every component, nested, each with its total."""
    tree: dict[str, Any] = {"total": count(module)}
    for name, parameter in module.named_parameters(recurse=False):
        tree[name] = parameter.numel()
    for name, child in module.named_children():
        if count(child):
            tree[name] = parameter_tree(child) if is_component(child) else count(child)
    return tree


def component_parameters(agent: Agent) -> dict[str, int]:
    """Trainable parameters of world and behaviour, and their total."""
    parts = {name: count(child) for name, child in agent.named_children()}
    return {"total": count(agent), **parts}


def is_component(module: nn.Module) -> bool:
    """Whether a module has named children, other than a stack of layers."""
    names = [name for name, _ in module.named_children()]
    return bool(names) and not all(name.isdigit() or name == "layers" for name in names)


def count(module: nn.Module) -> int:
    """Trainable parameters."""
    return sum(p.numel() for p in module.parameters() if p.requires_grad)


def discretisation(world: HasPrior) -> int:
    """Parameters between encoder and decoder, and those of the prior, as STEP-VQ counts them.

    The codebook counts too, although it learns by moving averages.
    """
    children = world.tokenizer.named_children()
    between = [child for name, child in children if name not in CONVOLUTIONS]
    inside = [module for child in between for module in child.modules()]
    codebooks = [module.vectors.numel() for module in inside if isinstance(module, Codebook)]
    return sum(map(count, between)) + sum(codebooks) + count(world.prior)
