"""A trainable module with its optimiser, and the compilation of its losses.

A learner takes a segment, updates weights and returns metrics.
"""

import atexit
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, cast

import torch
from torch import Generator, Tensor, fx, nn

from tokenworlds.core.group import ALONE, Group
from tokenworlds.core.precision import Precision, computing
from tokenworlds.core.seeding import global_states, restore_global_states
from tokenworlds.core.sharing import share_of, sharing
from tokenworlds.core.trees import named_tensors
from tokenworlds.core.types import Losses, Segment, Trainable, weighted_sum
from tokenworlds.runs.recipe import Learning
from tokenworlds.training.averaging import WeightAverage

LossContext = Callable[[], AbstractContextManager[Any]]


class NonFiniteLoss(ArithmeticError):
    """A loss or gradient that is not finite, raised before any weight has changed."""


class Learner:
    """Updates one module from segments. Losses are computed inside `context`, gradients outside."""

    def __init__(
        self,
        name: str,
        learning: Learning,
        trainable: Trainable,
        context: LossContext = nullcontext,
        group: Group = ALONE,
    ) -> None:
        self.name = name
        self.learning = learning
        self.context = context
        self.group = group
        self.share = share_of(group, learning.batch)
        """The rows of a batch that this rank learns from."""
        self.module = trainable.module
        self.losses = trainable.losses
        self.optimiser = learning.optimiser.build(module=trainable.module)
        self.average = WeightAverage(trainable.module, learning.average)

    def update(self, segment: Segment) -> tuple[dict[str, Tensor], Tensor | None]:
        """One optimiser step, or one for each minibatch, on this rank's rows of a batch.

        Returns the mean metrics, and the latents that replay is to keep.
        """
        rows = []
        self.module.train()
        try:
            with self.average.updating(self.optimiser.updates), sharing(self.group, self.share):
                with self.context():
                    result = self.losses(segment)
                for losses in [result] if isinstance(result, Losses) else self._minibatches(result):
                    metrics = self._step(losses)
                    # A copy: compiled losses may reuse their memory for the next minibatch.
                    rows.append(torch.stack(list(metrics.values())))
        finally:
            self.module.eval()
        means = torch.stack(rows).mean(dim=0).unbind()
        return dict(zip(metrics, means, strict=True)), losses.latents

    def _minibatches(self, batches: Iterator[Losses]) -> Iterator[Losses]:
        while True:
            with self.context():
                losses = next(batches, None)
            if losses is None:
                return
            yield losses

    def _step(self, losses: Losses) -> dict[str, Tensor]:
        means = losses.means()
        total = weighted_sum(means, losses.weights(self.learning.scales))
        try:
            norm = self.optimiser.step(total)
        except FloatingPointError as error:
            reason = non_finite_terms(means, total) or error
            number = self.optimiser.updates + 1
            raise NonFiniteLoss(f"update {number} of {self.name}: {reason}") from error
        for follow in losses.after:
            follow()
        values = {f"loss/{name}": mean for name, mean in means.items()}
        values |= {"loss/total": total, "gradient_norm": norm, **losses.metrics}
        return {f"{self.name}/{name}": value.detach() for name, value in values.items()}


def non_finite_terms(means: Mapping[str, Tensor], total: Tensor) -> str:
    """Names of the terms that are not finite; empty if only the gradient is not."""
    if torch.isfinite(total):
        return ""
    bad = [name for name, mean in means.items() if not torch.isfinite(mean)]
    return f"{', '.join(bad) or 'the total'} not finite"


SHAPES = 64
"""How many input shapes a function is compiled for. Each shape has its own graph: with dynamic
shapes, results would depend on the shapes seen before, and a resumed run would differ."""
CACHE = "TORCHINDUCTOR_CACHE_DIR"
Shapes = tuple[torch.Size, ...]
Lower = Callable[[fx.GraphModule, Sequence[Tensor]], Callable[..., Any]]
"""Turns a graph into kernels: a backend of `torch.compile`."""


class Compiler:
    """Compiles functions inside `working`; a function that cannot be compiled runs as written.

    It compiles functions, not modules, so that weights keep their names and checkpoints are the
    same. Outside `working` nothing is compiled: dry runs and pictures need not wait for it.
    """

    def __init__(
        self, device: torch.device, note: Callable[[str], None], lower: Lower | None = None
    ) -> None:
        self.device = device
        self._note = note
        self._lower = lower or self._inductor
        self._at_work = False
        self._noted = False
        own_cache()  # Before the first compilation, when torch chooses its folder.

    @contextmanager
    def working(self, precision: Precision = "float32") -> Iterator[None]:
        """Around one loss computation. On CUDA, its results are overwritten by the next one."""
        if self.device.type == "cuda":
            torch.compiler.cudagraph_mark_step_begin()
        self._at_work = True
        try:
            with computing(self.device, precision):
                yield
        finally:
            self._at_work = False

    def compile(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, compiled at its first call with each set of shapes."""
        compiled, refused = self._prepare(function), set[Shapes]()

        def run(*args: Any) -> Any:
            if not self._at_work or shapes_of(args) in refused:
                return function(*args)
            try:
                with all_or_nothing(function, args, self.device):
                    return compiled(*args)
            except torch._dynamo.exc.TorchDynamoException as error:
                self._note_once(error)
            refused.add(shapes_of(args))
            return function(*args)

        return run

    def _prepare(self, function: Callable[..., Any]) -> Callable[..., Any]:
        try:
            compiled = torch.compile(function, backend=self._kernels, dynamic=False)
            torch._dynamo.config.recompile_limit = SHAPES
            # Graph breaks are expected; dynamo would log each at length.
            logging.getLogger("torch._dynamo").setLevel(logging.ERROR)
        except Exception as error:  # Torch refuses some systems, and releases of Python.
            self._note_once(error)
            return function
        return compiled

    def _kernels(self, graph: fx.GraphModule, inputs: Sequence[Tensor]) -> Callable[..., Any]:
        """Kernels of a graph, or the graph itself if lowering fails."""
        try:
            return self._lower(graph, inputs)
        except Exception as error:  # Compilers fail in ways of their own.
            self._note_once(error)
        return graph.forward

    def _inductor(self, graph: fx.GraphModule, inputs: Sequence[Tensor]) -> Callable[..., Any]:
        """Inductor, forward and backward at once, with CUDA graphs on CUDA.

        Random numbers come from the same generators as without compilation.
        """
        from torch._functorch import config
        from torch._inductor.compile_fx import compile_fx

        patches = {"fallback_random": True, "triton.cudagraphs": self.device.type == "cuda"}
        with config.patch(force_non_lazy_backward_lowering=True):
            kernels = compile_fx(graph, list(inputs), config_patches=patches)
        return cast(Callable[..., Any], kernels)

    def _note_once(self, error: Exception) -> None:
        if not self._noted:
            reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
            self._note(f"torch cannot compile everything; the rest runs as written: {reason}")
        self._noted = True


@contextmanager
def all_or_nothing(
    function: Callable[..., Any], args: Sequence[Any], device: torch.device
) -> Iterator[None]:
    """Restore generators and buffers if the body fails."""
    generators = [arg for arg in args if isinstance(arg, Generator)]
    before = global_states(device), [each.get_state() for each in generators]
    buffers = [(each, each.clone()) for each in buffers_of(function)]
    try:
        yield
    except Exception:
        restore_global_states(before[0], device)
        for generator, state in zip(generators, before[1], strict=True):
            generator.set_state(state)
        for buffer, value in buffers:
            buffer.copy_(value)
        raise


def buffers_of(function: Callable[..., Any]) -> Iterator[Tensor]:
    """The buffers of a method's module, if it is in training mode and may change them."""
    module = getattr(function, "__self__", None)
    learns = isinstance(module, nn.Module) and any(each.training for each in module.modules())
    return cast(nn.Module, module).buffers() if learns else iter(())


def shapes_of(args: Sequence[Any]) -> Shapes:
    """Shapes only: a resumed process must make the same decision not to compile."""
    return tuple(tensor.shape for _, tensor in named_tensors(tuple(args)))


def own_cache() -> str:
    """Inductor's cache folder: the user's, or one for this process alone.

    A process killed while compiling leaves files that cannot be loaded. A process that found them
    would run uncompiled and end with other bits.
    """
    if CACHE not in os.environ:
        os.environ[CACHE] = tempfile.mkdtemp(prefix="tokenworlds-compiled-")
        atexit.register(shutil.rmtree, os.environ[CACHE], ignore_errors=True)
    return os.environ[CACHE]
