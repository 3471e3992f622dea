"""Named random generators, all derived from one seed."""

import hashlib
import random
from collections.abc import Mapping

import numpy as np
import torch


def derive(seed: int, *names: str | int) -> int:
    """A 63-bit seed for a named purpose; different names give unrelated seeds."""
    text = "/".join(str(part) for part in (seed, *names))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def torch_generator(seed: int, *names: str | int, device: str = "cpu") -> torch.Generator:
    return torch.Generator(device=device).manual_seed(derive(seed, *names))


def numpy_generator(seed: int, *names: str | int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(derive(seed, *names)))


def seed_everything(seed: int) -> None:
    """Seed the global generators. Initialisation and dropout use torch's.

    Only environments may use Python's and numpy's, so checkpoints do not hold their states.
    """
    random.seed(derive(seed, "python"))
    np.random.seed(derive(seed, "numpy") % 2**32)
    torch.manual_seed(derive(seed, "torch"))


def insist_on_determinism(device: str) -> None:
    """On CUDA, use deterministic kernels, and warn where there are none."""
    if device.startswith("cuda"):
        torch.backends.cudnn.deterministic = True
        torch.backends.cudnn.benchmark = False
        torch.use_deterministic_algorithms(True, warn_only=True)


def global_states(device: torch.device) -> dict[str, torch.Tensor]:
    """States of torch's global generators on the CPU and the device."""
    states = {"global": torch.get_rng_state()}
    if device.type == "cuda":
        states["global_cuda"] = torch.cuda.get_rng_state(device)
    elif device.type == "mps":
        states["global_mps"] = torch.mps.get_rng_state()
    return states


def restore_global_states(states: Mapping[str, torch.Tensor], device: torch.device) -> None:
    torch.set_rng_state(states["global"])
    if device.type == "cuda":
        torch.cuda.set_rng_state(states["global_cuda"], device)
    elif device.type == "mps":
        torch.mps.set_rng_state(states["global_mps"])
