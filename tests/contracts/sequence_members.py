"""Small instances of every sequence model; members are found by walking the package."""

import dataclasses
import inspect
from typing import Any

import torch
from torch import Tensor

from tokenworlds import sequence
from tokenworlds.core.overrides import import_member, is_component, module_names
from tokenworlds.core.trees import map_tensors, named_tensors, where_rows

SMALL = {"width": 16, "layers": 2, "heads": 2, "feedforward": 24, "state": 3}
SMALL_MAPS = {"channels": 5, "kernel": 3}
MAPS = {"inputs": 3, "actions": 2, "grid": (3, 2)}
MAP_SHAPE = (5, 3, 2)
REACH = {
    "short": {"window": 5, "chunk": 4, "positions": 5},
    "long": {"window": 50, "chunk": 64, "positions": 50},
}


def found() -> list[type[Any]]:
    modules = [import_member(sequence, name) for name in module_names(sequence)]
    values = [(value, module) for module in modules for value in vars(module).values()]
    return [value for value, module in values if is_component(value, module)]


def shrink(config: Any, **changes: Any) -> Any:
    """A copy with changes to the fields that exist."""
    names = {field.name for field in dataclasses.fields(config)}
    return dataclasses.replace(config, **{k: v for k, v in changes.items() if k in names})


def reads_maps(owner: type[Any]) -> bool:
    return "grid" in inspect.signature(owner).parameters


def build(owner: type[Any], reach: str = "short", dtype: torch.dtype = torch.float64) -> Any:
    torch.manual_seed(0)
    config = shrink(owner.Config(), **SMALL, **SMALL_MAPS, **REACH[reach])
    return config.build(**MAPS if reads_maps(owner) else {}).to(dtype).eval()


def inputs(model: Any, batch: int, steps: int) -> Tensor:
    shape = MAP_SHAPE if reads_maps(type(model)) else (model.width,)
    return torch.randn(batch, steps, *shape, dtype=next(model.parameters()).dtype)


def no_reset(x: Tensor) -> Tensor:
    return torch.zeros(x.shape[:2], dtype=torch.bool)


def repeat_step(model: Any, x: Tensor, reset: Tensor, carry: Any) -> tuple[Tensor, Any]:
    """The plain form of `scan`."""
    outputs, blank = [], like(model, carry)
    for t in range(x.shape[1]):
        carry = where_rows(reset[:, t], blank, carry)
        y, carry = model.step(x[:, t], carry)
        outputs.append(y)
    return torch.stack(outputs, 1), carry


def like(model: Any, carry: Any) -> Any:
    """An empty history in a carry of the same size."""
    shapes = [leaf.shape for _, leaf in named_tensors(carry)]
    for steps in (None, *range(1, 60)):
        blank = model.initial(shapes[0][0], steps)
        if [leaf.shape for _, leaf in named_tensors(blank)] == shapes:
            return blank
    raise AssertionError(shapes)


def history(model: Any, batch: int, steps: int) -> Any:
    """The carry after some steps."""
    x = inputs(model, batch, steps)
    with torch.no_grad():
        return (
            model.scan(x, no_reset(x), model.initial(batch))[1] if steps else model.initial(batch)
        )


def clone(carry: Any) -> Any:
    return map_tensors(lambda leaf: leaf.clone(), carry)


def assert_close(a: Any, b: Any, tolerance: float = 1e-10) -> None:
    torch.testing.assert_close(a, b, rtol=0, atol=tolerance)
