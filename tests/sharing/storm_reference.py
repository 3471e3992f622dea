"""Files of STORM with random weights, and STORM computed from the names in them.

The computation follows the description of the layout, and shares no code with the package.
"""

from math import prod
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

KEYS = Path(__file__).parent / "storm_keys.txt"
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


class StormReference:
    def __init__(self, weights: Weights) -> None:
        self.weights = weights

    def linear(self, name: str, x: Tensor) -> Tensor:
        return functional.linear(
            x, self.weights[f"{name}.weight"], self.weights.get(f"{name}.bias")
        )

    def layer_norm(self, name: str, x: Tensor, eps: float = 1e-5) -> Tensor:
        weight, bias = self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        return functional.layer_norm(x, x.shape[-1:], weight, bias, eps)

    def batch_norm(self, name: str, x: Tensor) -> Tensor:
        names = ("running_mean", "running_var", "weight", "bias")
        mean, variance, weight, bias = (self.weights[f"{name}.{each}"] for each in names)
        return functional.batch_norm(x, mean, variance, weight, bias)

    def posterior(self, frames: Tensor) -> Tensor:
        """Logits [B, 32, 32], without the uniform share."""
        x = frames
        for number in (0, 3, 6, 9):
            weight = self.weights[f"encoder.backbone.{number}.weight"]
            x = functional.conv2d(x, weight, stride=2, padding=1)
            x = self.batch_norm(f"encoder.backbone.{number + 1}", x).relu()
        logits = self.linear("dist_head.post_head", x.flatten(1))
        return logits.view(-1, 32, 32)

    def decode(self, sample: Tensor) -> Tensor:
        name = "image_decoder.backbone"
        x = self.linear(f"{name}.0", sample.flatten(1)).unflatten(1, (256, 4, 4))
        x = self.batch_norm(f"{name}.2", x).relu()
        for number in (4, 7, 10):
            weight = self.weights[f"{name}.{number}.weight"]
            x = functional.conv_transpose2d(x, weight, stride=2, padding=1)
            x = self.batch_norm(f"{name}.{number + 1}", x).relu()
        last = self.weights[f"{name}.13.weight"], self.weights[f"{name}.13.bias"]
        return functional.conv_transpose2d(x, *last, stride=2, padding=1)

    def hidden(self, sample: Tensor, action: Tensor) -> Tensor:
        """The transformer's output [B, T, 512] for one-hot samples and actions."""
        name = "storm_transformer"
        x = self.linear(f"{name}.stem.0", torch.cat([sample.flatten(2), action], dim=-1))
        x = self.layer_norm(f"{name}.stem.1", x).relu()
        x = self.layer_norm(f"{name}.stem.4", self.linear(f"{name}.stem.3", x))
        x = x + self.weights[f"{name}.position_encoding.pos_emb.weight"][: x.shape[1]]
        x = self.layer_norm(f"{name}.layer_norm", x, 1e-6)
        for number in range(2):
            x = self.block(f"{name}.layer_stack.{number}", x)
        return x

    def block(self, name: str, x: Tensor) -> Tensor:
        q, k, v = (
            self.linear(f"{name}.slf_attn.w_{part}s", x).unflatten(-1, (8, 64)).transpose(1, 2)
            for part in "qkv"
        )
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        scores = (q @ k.mT / 8).masked_fill(future, -torch.inf)
        attended = (torch.softmax(scores, dim=-1) @ v).transpose(1, 2).flatten(2)
        x = x + self.linear(f"{name}.slf_attn.fc", attended)
        x = self.layer_norm(f"{name}.slf_attn.layer_norm", x, 1e-6)
        grown = self.linear(f"{name}.pos_ffn.w_1", x).relu()
        x = x + self.linear(f"{name}.pos_ffn.w_2", grown)
        return self.layer_norm(f"{name}.pos_ffn.layer_norm", x, 1e-6)

    def network(self, name: str, output: str, x: Tensor) -> Tensor:
        for number in (0, 3):
            x = self.linear(f"{name}.{number}", x)
            x = self.layer_norm(f"{name}.{number + 1}", x).relu()
        return self.linear(output, x)
