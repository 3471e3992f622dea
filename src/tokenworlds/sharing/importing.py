"""Agents from the weights of other implementations, in a file that the user has."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tokenworlds.agent import Agent, OpenedAgent, with_weights
from tokenworlds.core.errors import UserError, unknown
from tokenworlds.core.types import ActionSpace, FrameShape
from tokenworlds.envs.catalogue import EnvSpec
from tokenworlds.recipes.catalogue import load
from tokenworlds.sharing.layouts import LAYOUTS
from tokenworlds.sharing.layouts.layout import Layout

OPTIMISERS = "optimizer_"


def import_agent(name: str, files: Sequence[Path], env: str, protocol: str = "") -> OpenedAgent:
    """The agent whose weights are in files of the released implementation.

    All weights must be there with their shapes, nothing else may be, and the environment must have
    as many actions as the agent.
    """
    if name not in LAYOUTS:
        raise unknown("layout of weights", name, LAYOUTS)
    layout = LAYOUTS[name]
    if len(files) != layout.files:
        raise UserError(f"{len(files)} files were given for {layout.files}: {layout.source}")
    recipe = load(layout.recipe, layout.size, env).recipe
    spec = EnvSpec(env, protocol, recipe.resolution, recipe.grey)
    place = " and ".join(map(str, files))
    found = layout.prepare(read_all(files))
    check_names(found, layout, place)
    actions = action_space(spec, len(found[layout.actions]), place)
    shape = FrameShape(spec.size, spec.size, 1 if spec.grey else 3)
    described: dict[str, Any] = {"recipe": recipe, "frame_shape": shape, "action_space": actions}
    with torch.device("meta"):
        wanted = Agent.build(**described).state_dict()
    weights = mapped(found, wanted, layout, place) | fresh_weights(described, layout)
    return OpenedAgent(with_weights(described, weights, files[0]), spec)


def fresh_weights(described: Mapping[str, Any], layout: Layout) -> dict[str, Tensor]:
    """Initial weights of what the files do not suffice for, the same at each import."""
    if not layout.fresh:
        return {}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        whole = Agent.build(**described).state_dict()
    return {name: each for name, each in whole.items() if name.startswith(layout.fresh)}


def read_all(files: Sequence[Path]) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for path in files:
        more = read_weights(path)
        if twice := found.keys() & more.keys():
            raise UserError(f"{path} has {min(twice)[:80]}, which another file has too")
        found |= more
    return found


def read_weights(path: Path) -> Mapping[str, Tensor]:
    """The named tensors of a file. torch unpickles nothing but tensors and containers."""
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from error
    # A file that is no archive, is damaged, or names other classes.
    except Exception as error:
        reason = type(error).__name__
        raise UserError(f"{path} is no file of tensors that torch wrote: {reason}") from error
    if not isinstance(found, dict):
        raise UserError(f"{path} holds a value of type {type(found).__name__}, not weights by name")
    if any(str(name).startswith(OPTIMISERS) for name in found):
        raise UserError(f"{path} holds optimisers, not weights: choose the file beside it")
    for name, value in found.items():
        if not isinstance(name, str) or not isinstance(value, Tensor):
            kind = type(value).__name__
            raise UserError(f"{path} holds {str(name)[:80]!r} of type {kind}, not weights by name")
    return found


def check_names(found: Mapping[str, Tensor], layout: Layout, place: str) -> None:
    """Raise unless the file has every name of the layout and no other."""
    wanted = {name for names in layout.table.values() for name in names}
    problems = {
        "lacks": [name for name in sorted(wanted) if name not in found],
        "has unknown": [
            name
            for name in sorted(found)
            if name not in wanted and not layout.ignored.fullmatch(name)
        ],
    }
    texts = [f"{verb} {listed(names)}" for verb, names in problems.items() if names]
    if texts:
        raise UserError(f"{place} is not {layout.source}: it {' and '.join(texts)}")


def listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{names[0][:80]}{more}"


def action_space(spec: EnvSpec, actions: int, place: str) -> ActionSpace:
    env = spec.make()
    try:
        space = env.action_space
    finally:
        env.close()
    if space != ActionSpace(actions):
        theirs = f"{space.size} {'discrete' if space.discrete else 'continuous'} actions"
        raise UserError(f"{place} is for {actions} discrete actions, but {spec.name} has {theirs}")
    return space


def mapped(
    found: Mapping[str, Tensor], wanted: Mapping[str, Tensor], layout: Layout, place: str
) -> dict[str, Tensor]:
    """Our weights by name. The file's names and shapes must fit."""
    weights = {}
    for name, like in wanted.items():
        if name in layout.zeros:
            weights[name] = torch.zeros(like.shape, dtype=like.dtype)
            continue
        sources = layout.table[name]
        shape = tuple(like.shape)
        if len(sources) > 1:
            shape = (shape[0] // len(sources), *shape[1:])
        part = torch.empty(shape, dtype=like.dtype, device="meta")
        parts = [checked(found[source], source, part, place) for source in sources]
        weights[name] = (torch.cat(parts) if len(parts) > 1 else parts[0]).to(like.dtype)
    return weights


def checked(tensor: Tensor, name: str, like: Tensor, place: str) -> Tensor:
    same_kind = tensor.is_floating_point() == like.is_floating_point()
    if tensor.shape != like.shape or not same_kind:
        here, wanted = (f"{shape_text(each)} ({kind_text(each)})" for each in (tensor, like))
        raise UserError(f"{place} has {name} of {here}, instead of {wanted}")
    return tensor


def shape_text(tensor: Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "one number"


def kind_text(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
