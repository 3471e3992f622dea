"""Files of DRAMA with random weights, and DRAMA computed from the names in them.

The computation follows the description of the layout, and shares no code with the package.
"""

from math import prod
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

KEYS = Path(__file__).parent / "drama_keys.txt"
"""File, name, type and shape of every tensor, for 6 actions."""
Weights = dict[str, Tensor]


def random_files() -> dict[str, Weights]:
    """The tensors of `world_model` and `agent`."""
    generator = torch.Generator().manual_seed(0)
    files: dict[str, Weights] = {}
    for line in KEYS.read_text().splitlines():
        file, name, kind, *sizes = line.split()
        shape = tuple(map(int, sizes))
        scale = prod(shape[1:]) ** -0.5 if len(shape) > 1 else 0.3
        value = torch.randn(shape, generator=generator) * scale
        if name.endswith("running_var"):
            value = value.abs() + 0.5
        files.setdefault(file, {})[name] = value.to(getattr(torch, kind))
    return files


class DramaReference:
    def __init__(self, weights: Weights) -> None:
        self.weights = weights

    def linear(self, name: str, x: Tensor) -> Tensor:
        return functional.linear(
            x, self.weights[f"{name}.weight"], self.weights.get(f"{name}.bias")
        )

    def pair(self, name: str) -> tuple[Tensor, Tensor]:
        return self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]

    def rms_norm(self, name: str, x: Tensor, eps: float) -> Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * self.weights[name]

    def batch_norm(self, name: str, x: Tensor) -> Tensor:
        names = ("running_mean", "running_var", "weight", "bias")
        mean, variance, weight, bias = (self.weights[f"{name}.{each}"] for each in names)
        return functional.batch_norm(x, mean, variance, weight, bias)

    def posterior(self, frames: Tensor) -> Tensor:
        """Logits [B, 32, 32], without the uniform share."""
        x = frames
        for number in (0, 3, 6, 9, 12):
            name = f"encoder.backbone.{number}"
            weight, bias = self.pair(name)
            x = functional.conv2d(x, weight, bias, stride=2 if number else 1, padding=2)
            x = functional.silu(self.batch_norm(f"encoder.backbone.{number + 1}", x))
        return self.linear("dist_head.post_head", x.flatten(1)).view(-1, 32, 32)

    def decode(self, sample: Tensor) -> Tensor:
        name = "image_decoder.backbone"
        x = self.linear(f"{name}.0", sample.flatten(1)).unflatten(1, (64, 4, 4))
        x = functional.silu(self.batch_norm(f"{name}.2", x))
        for number in (4, 7, 10, 13):
            weight, bias = self.pair(f"{name}.{number}")
            x = functional.conv_transpose2d(x, weight, bias, stride=2, padding=2, output_padding=1)
            x = functional.silu(self.batch_norm(f"{name}.{number + 1}", x))
        weight, bias = self.pair(f"{name}.16")
        return functional.conv_transpose2d(x, weight, bias, padding=2).sigmoid()

    def hidden(self, sample: Tensor, action: Tensor) -> Tensor:
        """The sequence model's output [B, T, 512] for one-hot samples and actions."""
        name = "sequence_model.backbone"
        x = self.linear(f"{name}.stem.0", torch.cat([sample.flatten(2), action], dim=-1))
        x = functional.silu(self.rms_norm(f"{name}.stem.1.scale", x, 1e-6))
        for number in range(2):
            layer = f"{name}.layers.{number}"
            normed = self.rms_norm(f"{layer}.norm.weight", x, 1e-5)
            x = x + self.mixer(f"{layer}.mixer", normed)
        return self.rms_norm(f"{name}.norm_f.weight", x, 1e-5)

    def mixer(self, name: str, x: Tensor) -> Tensor:
        """Mamba-2 with 16 heads of 64 and a state of 16, step by step."""
        z, mixed, dt = self.linear(f"{name}.in_proj", x).split([1024, 1056, 16], dim=-1)
        padded = functional.pad(mixed.mT, (3, 0))
        weight, bias = self.pair(f"{name}.conv1d")
        mixed = functional.silu(functional.conv1d(padded, weight, bias, groups=1056)).mT
        inner, read, write = mixed.split([1024, 16, 16], dim=-1)
        heads = inner.unflatten(-1, (16, 64))
        delta = functional.softplus(dt + self.weights[f"{name}.dt_bias"])
        decay = torch.exp(-delta * self.weights[f"{name}.A_log"].exp())
        state = torch.zeros(len(x), 16, 64, 16)
        outputs = []
        for t in range(x.shape[1]):
            added = delta[:, t, :, None, None] * heads[:, t, :, :, None] * read[:, t, None, None]
            state = decay[:, t, :, None, None] * state + added
            y = (state * write[:, t, None, None]).sum(-1)
            outputs.append(y + self.weights[f"{name}.D"][:, None] * heads[:, t])
        y = torch.stack(outputs, 1).flatten(2)
        return self.linear(
            f"{name}.out_proj", self.rms_norm(f"{name}.norm.weight", y * functional.silu(z), 1e-5)
        )

    def network(self, name: str, layers: int, output: str, x: Tensor) -> Tensor:
        for number in range(0, 3 * layers, 3):
            x = self.linear(f"{name}.{number}", x)
            x = functional.silu(self.rms_norm(f"{name}.{number + 1}.scale", x, 1e-6))
        return self.linear(output, x)
