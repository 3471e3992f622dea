"""What is compiled is computed alike; what cannot be is told once, and computed all the same.

Here only functions of these tests are compiled: torch stumbles over the checks of shapes that are
on in tests. Agents are compiled in `test_compiled_agents.py`, in a process without them.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Generator, Tensor, fx, nn

from tokenworlds.training.compilation import CACHE, Compiler, own_cache

CPU = torch.device("cpu")


class Net(nn.Module):
    """A module with a method that is compiled."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.norm = nn.BatchNorm1d(3)

    def losses(self, x: Tensor, generator: Generator | None = None) -> Tensor:
        noise = torch.empty_like(x).exponential_(generator=generator)
        kept = nn.functional.dropout(self.norm(self.layer(x * noise)), 0.5)
        return (kept * noise).square().sum()


class Graphs:
    """A backend that runs graphs as they are, and counts them."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, graph: fx.GraphModule, inputs: Sequence[Tensor]) -> Callable[..., Any]:
        self.count += 1
        return graph.forward


def refuse(graph: fx.GraphModule, inputs: Sequence[Tensor]) -> Callable[..., Any]:
    raise OSError("no compiler is found\nand more")


def learn(net: Net, seed: int = 0, rows: int = 4) -> tuple[float, Tensor]:
    """A lesson, and the gradient of a weight."""
    torch.manual_seed(seed)
    net.zero_grad()
    net.norm.reset_running_stats()
    loss = net.losses(torch.ones(rows, 3), Generator().manual_seed(seed))
    loss.backward()
    assert net.layer.weight.grad is not None
    return loss.item(), net.layer.weight.grad.clone()


def test_a_compiled_method_computes_and_draws_what_it_did() -> None:
    net, graphs, told = Net(), Graphs(), list[str]()
    expected, names = learn(net), list(net.state_dict())
    compiler = Compiler(CPU, told.append, graphs)
    compiler.compile_methods(net, ["losses", "others"])
    assert learn(net)[0] == expected[0]
    assert graphs.count == 0, "nothing is compiled outside of lessons"
    with compiler.working():
        loss, gradient = learn(net)
    assert graphs.count > 0
    assert loss == expected[0]
    assert torch.equal(gradient, expected[1])
    assert list(net.state_dict()) == names
    assert told == []


def test_what_cannot_be_compiled_is_told_once_and_computed_as_it_is() -> None:
    nets, told = (Net(), Net()), list[str]()
    expected = [learn(net) for net in nets]
    compiler = Compiler(CPU, told.append, refuse)
    for net in nets:
        compiler.compile_methods(net, ["losses"])
    for net, (loss, gradient) in zip(nets, expected, strict=True):
        with compiler.working():
            found = learn(net)
        assert found[0] == loss
        assert torch.equal(found[1], gradient)
    (said,) = told
    assert said == "what torch cannot compile runs as it is written: no compiler is found"


def test_what_can_be_compiled_is_whatever_became_of_the_rest() -> None:
    """Else a run that is taken up would compile again what one that went on did not."""
    nets, graphs = (Net(), Net()), Graphs()
    lowers = iter([refuse])

    def lower(graph: fx.GraphModule, inputs: Sequence[Tensor]) -> Callable[..., Any]:
        return next(lowers, graphs)(graph, inputs)

    compiler = Compiler(CPU, lambda text: None, lower)
    for net in nets:
        compiler.compile_methods(net, ["losses"])
        with compiler.working():
            learn(net)
    assert next(lowers, None) is None
    assert graphs.count > 0


def test_all_is_as_it_was_when_a_function_turns_out_not_to_be_traceable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[int] = []

    def compile(function: Callable[..., Any], **choices: Any) -> Callable[..., Any]:
        def stumble(x: Tensor, *args: Any) -> Any:
            tried.append(len(x))
            function(x, *args)
            raise torch._dynamo.exc.InternalTorchDynamoError("half way")

        return stumble

    net, told = Net(), list[str]()
    expected, moved = learn(net), net.norm.running_mean
    assert moved is not None
    once = moved.clone()
    monkeypatch.setattr(torch, "compile", compile)
    compiler = Compiler(CPU, told.append)
    compiler.compile_methods(net, ["losses", "others"])
    with compiler.working():
        for rows in (4, 5, 4):
            found = learn(net, rows=rows)
    assert found[0] == expected[0]
    assert torch.equal(moved, once), "statistics moved twice"
    assert tried == [4, 5], "each shape is tried once"
    assert len(told) == 1


def test_a_torch_that_compiles_nothing_is_no_obstacle(monkeypatch: pytest.MonkeyPatch) -> None:
    def compile(*args: Any, **choices: Any) -> None:
        raise RuntimeError("not on this system")

    net, told = Net(), list[str]()
    expected = learn(net)
    monkeypatch.setattr(torch, "compile", compile)
    compiler = Compiler(CPU, told.append)
    compiler.compile_methods(net, ["losses", "forward"])
    with compiler.working():
        assert learn(net)[0] == expected[0]
    assert told == ["what torch cannot compile runs as it is written: not on this system"]


def test_what_a_killed_process_left_behind_is_not_looked_at(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(CACHE, str(tmp_path))
    assert own_cache() == str(tmp_path)
    monkeypatch.delenv(CACHE)
    own = own_cache()
    assert list(Path(own).iterdir()) == []
    assert own_cache() == os.environ[CACHE] == own
