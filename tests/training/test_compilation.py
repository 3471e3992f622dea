"""Compiled functions give the same results; those that cannot be compiled run as written.

Only functions of these tests are compiled here: torch does not compile the shape checks that are on
in tests. `test_compiled_agents.py` compiles agents in a process without these checks.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Generator, Tensor, fx, nn

from tokenworlds.training.learner import CACHE, Compiler, own_cache

CPU = torch.device("cpu")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.norm = nn.BatchNorm1d(3)

    def compile_with(self, compile_function: Callable[..., Any]) -> None:
        vars(self).update(losses=compile_function(self.losses))

    def losses(self, x: Tensor, generator: Generator | None = None) -> Tensor:
        noise = torch.empty_like(x).exponential_(generator=generator)
        kept = nn.functional.dropout(self.norm(self.layer(x * noise)), 0.5)
        return (kept * noise).square().sum()


class Graphs:
    """A backend that counts graphs and runs them as written."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, graph: fx.GraphModule, inputs: Sequence[Tensor]) -> Callable[..., Any]:
        self.count += 1
        return graph.forward


def refuse(graph: fx.GraphModule, inputs: Sequence[Tensor]) -> Callable[..., Any]:
    raise OSError("no compiler is found\nand more")


def learn(net: Net, seed: int = 0, rows: int = 4) -> tuple[float, Tensor]:
    """A loss, and the gradient of a weight."""
    torch.manual_seed(seed)
    net.zero_grad()
    net.norm.reset_running_stats()
    loss = net.losses(torch.ones(rows, 3), Generator().manual_seed(seed))
    loss.backward()
    assert net.layer.weight.grad is not None
    return loss.item(), net.layer.weight.grad.clone()


def test_a_compiled_method_computes_and_samples_the_same() -> None:
    net, graphs, notes = Net(), Graphs(), list[str]()
    expected, names = learn(net), list(net.state_dict())
    compiler = Compiler(CPU, notes.append, graphs)
    net.compile_with(compiler.compile)
    assert learn(net)[0] == expected[0]
    assert graphs.count == 0, "nothing is compiled outside of `working`"
    with compiler.working():
        loss, gradient = learn(net)
    assert graphs.count > 0
    assert loss == expected[0]
    assert torch.equal(gradient, expected[1])
    assert list(net.state_dict()) == names
    assert notes == []


def test_what_cannot_be_compiled_gives_one_note_and_runs_as_written() -> None:
    nets, notes = (Net(), Net()), list[str]()
    expected = [learn(net) for net in nets]
    compiler = Compiler(CPU, notes.append, refuse)
    for net in nets:
        net.compile_with(compiler.compile)
    for net, (loss, gradient) in zip(nets, expected, strict=True):
        with compiler.working():
            found = learn(net)
        assert found[0] == loss
        assert torch.equal(found[1], gradient)
    (note,) = notes
    assert note == (
        "torch cannot compile everything; the rest runs as written: no compiler is found"
    )


def test_a_failure_does_not_stop_the_compilation_of_other_functions() -> None:
    """Otherwise a resumed run would compile functions that the straight run did not."""
    nets, graphs = (Net(), Net()), Graphs()
    lowers = iter([refuse])

    def lower(graph: fx.GraphModule, inputs: Sequence[Tensor]) -> Callable[..., Any]:
        return next(lowers, graphs)(graph, inputs)

    compiler = Compiler(CPU, lambda text: None, lower)
    for net in nets:
        net.compile_with(compiler.compile)
        with compiler.working():
            learn(net)
    assert next(lowers, None) is None
    assert graphs.count > 0


def test_generators_and_buffers_are_restored_if_tracing_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[int] = []

    def compile(function: Callable[..., Any], **choices: Any) -> Callable[..., Any]:
        def fail(x: Tensor, *args: Any) -> Any:
            tried.append(len(x))
            function(x, *args)
            raise torch._dynamo.exc.InternalTorchDynamoError("half way")

        return fail

    net, notes = Net(), list[str]()
    expected, mean = learn(net), net.norm.running_mean
    assert mean is not None
    once = mean.clone()
    monkeypatch.setattr(torch, "compile", compile)
    compiler = Compiler(CPU, notes.append)
    net.compile_with(compiler.compile)
    with compiler.working():
        for rows in (4, 5, 4):
            found = learn(net, rows=rows)
    assert found[0] == expected[0]
    assert torch.equal(mean, once), "statistics were updated twice"
    assert tried == [4, 5], "each shape is tried once"
    assert len(notes) == 1


def test_without_torch_compile_functions_run_as_written(monkeypatch: pytest.MonkeyPatch) -> None:
    def compile(*args: Any, **choices: Any) -> None:
        raise RuntimeError("not on this system")

    net, notes = Net(), list[str]()
    expected = learn(net)
    monkeypatch.setattr(torch, "compile", compile)
    compiler = Compiler(CPU, notes.append)
    net.compile_with(compiler.compile)
    with compiler.working():
        assert learn(net)[0] == expected[0]
    assert notes == [
        "torch cannot compile everything; the rest runs as written: not on this system"
    ]


def test_the_cache_of_a_killed_process_is_not_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(CACHE, str(tmp_path))
    assert own_cache() == str(tmp_path)
    monkeypatch.delenv(CACHE)
    own = own_cache()
    assert list(Path(own).iterdir()) == []
    assert own_cache() == os.environ[CACHE] == own
