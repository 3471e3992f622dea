"""How many parameters each component has, nested as the components are."""

from typing import Any

from torch import nn

from tokenworlds.nets.codebook import Codebook


def parameter_tree(module: nn.Module) -> dict[str, Any]:
    """Trainable parameters of every component, each with its total; layers are not split up."""
    tree: dict[str, Any] = {"total": count(module)}
    for name, parameter in module.named_parameters(recurse=False):
        tree[name] = parameter.numel()
    for name, child in module.named_children():
        if count(child):
            tree[name] = parameter_tree(child) if is_component(child) else count(child)
    return tree


def is_component(module: nn.Module) -> bool:
    """Whether a module is made of named parts worth telling apart."""
    names = [name for name, _ in module.named_children()]
    return bool(names) and not all(name.isdigit() or name == "layers" for name in names)


def count(module: nn.Module) -> int:
    """Trainable parameters, all of them."""
    return sum(p.numel() for p in module.parameters() if p.requires_grad)


def discretisation(world: nn.Module) -> int:
    """The path from the encoder's map to codes and back, and the prior over them.

    This is what STEP-VQ counts; its codebook is in it, although moving averages train it.
    """
    tokenizer, prior = world.get_submodule("tokenizer"), world.get_submodule("prior")
    between = [child for name, child in tokenizer.named_children() if name not in CONVOLUTIONS]
    codebooks = [child.vectors.numel() for child in between if isinstance(child, Codebook)]
    return sum(map(count, between)) + sum(codebooks) + count(prior)


CONVOLUTIONS = ("encoder", "decoder")
