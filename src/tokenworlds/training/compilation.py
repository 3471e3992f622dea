"""What learners compute, compiled by torch; where that cannot be, it runs as it is written."""

import atexit
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Generator, Tensor, fx, nn

from tokenworlds.core.precision import Precision, computing
from tokenworlds.core.seeding import global_states, restore_global_states
from tokenworlds.core.trees import named_tensors

OF_WORLDS = ("losses", "tokenizer_losses", "step")
"""What lessons are computed by, and a step of a dream."""
OF_BEHAVIOURS = ("losses_of",)
"""What a dream comes to; not the dream, which would be as many steps in one graph."""
SHAPES = 64
"""How many shapes a function is compiled for, each for itself: were one for all, what it computes
would depend on what was seen before, and a run that is taken up would not end like one that was
never stopped."""
CACHE = "TORCHINDUCTOR_CACHE_DIR"
Shapes = tuple[torch.Size, ...]
Lower = Callable[[fx.GraphModule, Sequence[Tensor]], Callable[..., Any]]
"""Kernels for a graph, as `torch.compile` asks a backend for them."""


class Compiler:
    """Compiles functions; what cannot be compiled runs as it is written, and all else compiled.

    Functions are compiled, not modules: weights keep their names, and a checkpoint is the same with
    and without. Outside of `working` nothing is compiled, so that neither a rehearsal nor a picture
    waits for it.
    """

    def __init__(
        self, device: torch.device, tell: Callable[[str], None], lower: Lower | None = None
    ) -> None:
        self.device = device
        self._tell = tell
        self._lower = lower or self._inductor
        self._at_work = False
        self._told = False
        own_cache()  # Before torch chooses a place, which it does when it first compiles.

    @contextmanager
    def working(self, precision: Precision = "float32") -> Iterator[None]:
        """Around one lesson. Results in the memory of a CUDA graph last until the next one."""
        if self.device.type == "cuda":
            torch.compiler.cudagraph_mark_step_begin()
        self._at_work = True
        try:
            with computing(self.device, precision):
                yield
        finally:
            self._at_work = False

    def compile_methods(self, module: object, names: Sequence[str]) -> None:
        """Replace those that a module has, and none of another module of its class."""
        for name in names:
            if hasattr(module, name):
                setattr(module, name, self.compile(getattr(module, name)))

    def compile(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, compiled when it is first called with arguments of some shapes."""
        compiled, refused = self._prepare(function), set[Shapes]()

        def run(*args: Any) -> Any:
            if not self._at_work or shapes_of(args) in refused:
                return function(*args)
            try:
                with all_or_nothing(function, args, self.device):
                    return compiled(*args)
            except torch._dynamo.exc.TorchDynamoException as error:
                self._tell_of(error)
            refused.add(shapes_of(args))
            return function(*args)

        return run

    def _prepare(self, function: Callable[..., Any]) -> Callable[..., Any]:
        try:
            compiled = torch.compile(function, backend=self._kernels, dynamic=False)
            torch._dynamo.config.recompile_limit = SHAPES
            # It would tell at length where a graph is broken in two, which is no news.
            logging.getLogger("torch._dynamo").setLevel(logging.ERROR)
        except Exception as error:  # Torch refuses some systems, and releases of Python.
            self._tell_of(error)
            return function
        return compiled

    def _kernels(self, graph: fx.GraphModule, inputs: Sequence[Tensor]) -> Callable[..., Any]:
        """Of a graph, or the graph itself; nothing has been computed yet when this fails."""
        try:
            return self._lower(graph, inputs)
        except Exception as error:  # Compilers fail in ways of their own.
            self._tell_of(error)
        return graph.forward

    def _inductor(self, graph: fx.GraphModule, inputs: Sequence[Tensor]) -> Callable[..., Any]:
        """Torch's own compiler, forward and backward at once; on CUDA graphs are recorded.

        Chance comes from the generators that it comes from otherwise.
        """
        from torch._functorch import config
        from torch._inductor.compile_fx import compile_fx

        patches = {"fallback_random": True, "triton.cudagraphs": self.device.type == "cuda"}
        with config.patch(force_non_lazy_backward_lowering=True):
            kernels = compile_fx(graph, list(inputs), config_patches=patches)
        return cast(Callable[..., Any], kernels)

    def _tell_of(self, error: Exception) -> None:
        if not self._told:
            reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
            self._tell(f"what torch cannot compile runs as it is written: {reason}")
        self._told = True


@contextmanager
def all_or_nothing(
    function: Callable[..., Any], args: Sequence[Any], device: torch.device
) -> Iterator[None]:
    """Generators and buffers are as before if what is done inside fails half way."""
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
    """Those of the module whose method this is, while it may change them."""
    module = getattr(function, "__self__", None)
    learns = isinstance(module, nn.Module) and any(each.training for each in module.modules())
    return cast(nn.Module, module).buffers() if learns else iter(())


def shapes_of(args: Sequence[Any]) -> Shapes:
    """What a decision not to compile may depend on, and still be made anew by another process."""
    return tuple(tensor.shape for _, tensor in named_tensors(tuple(args)))


def own_cache() -> str:
    """Where inductor keeps what it compiled, for this process alone unless the user has a place.

    A process that is killed while it compiles leaves files that cannot be loaded: the next one to
    find them would go on without being compiled, and not end with the same bits.
    """
    if CACHE not in os.environ:
        os.environ[CACHE] = tempfile.mkdtemp(prefix="tokenworlds-compiled-")
        atexit.register(shutil.rmtree, os.environ[CACHE], ignore_errors=True)
    return os.environ[CACHE]
