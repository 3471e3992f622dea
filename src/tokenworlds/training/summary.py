"""What a recipe amounts to in an environment: the sizes it meets there, and its parameters."""

from typing import Any, cast

from torch import nn

from tokenworlds.agent import Agent
from tokenworlds.envs.spec import EnvSpec
from tokenworlds.runs.recipe import Recipe
from tokenworlds.training.dry_run import telling_what_does_not_fit
from tokenworlds.training.parameters import discretisation, parameter_tree


def anatomy(recipe: Recipe, env_name: str) -> dict[str, Any]:
    """Frames, actions and the parameters of every component, as JSON can hold them."""
    spec = EnvSpec(env_name, "", recipe.resolution, recipe.grey)
    env = spec.make()
    shape, space = env.frame_shape, env.action_space
    env.close()
    with telling_what_does_not_fit():
        agent = Agent.build(recipe, shape, space)
    world = cast(nn.Module, agent.world)
    # Tokens in line are foreseen by the sequence model: there is no prior to count.
    path = {"discretisation": discretisation(world)} if hasattr(world, "prior") else {}
    return {
        "env": spec.name,
        "frame": [shape.height, shape.width, shape.channels],
        "actions": {"size": space.size, "kind": "discrete" if space.discrete else "continuous"},
        "parameters": {**path, **parameter_tree(agent)},
    }
