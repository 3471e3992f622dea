"""Files of IRIS with random weights, and IRIS computed from the names in such a file.

The computation follows the description of the layout, and shares no code with the package.
"""

from math import prod
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

KEYS = Path(__file__).parent / "iris_keys.txt"
"""Name, type and shape of every tensor of the released files, for 6 actions."""
UNUSED = "tokenizer.lpips."


def random_weights() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    weights = {}
    for line in KEYS.read_text().splitlines():
        name, kind, *sizes = line.split()
        shape = tuple(map(int, sizes))
        if kind != "float32" or name.startswith(UNUSED):
            weights[name] = torch.zeros(1, dtype=getattr(torch, kind)).expand(shape)
        else:
            scale = prod(shape[1:]) ** -0.5 if len(shape) > 1 else 0.3
            weights[name] = torch.randn(shape, generator=generator) * scale
    return weights


class IrisReference:
    """Each method takes and returns batches; frames are in [0, 1]."""

    def __init__(self, weights: dict[str, Tensor]) -> None:
        self.weights = weights

    def of(self, name: str) -> tuple[Tensor, Tensor]:
        return self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]

    def linear(self, name: str, x: Tensor) -> Tensor:
        return functional.linear(x, *self.of(name))

    def convolve(self, name: str, x: Tensor) -> Tensor:
        weight, bias = self.of(name)
        return functional.conv2d(x, weight, bias, padding=weight.shape[-1] // 2)

    def group_norm(self, name: str, x: Tensor) -> Tensor:
        return functional.group_norm(x, 32, *self.of(name), eps=1e-6)

    def layer_norm(self, name: str, x: Tensor) -> Tensor:
        return functional.layer_norm(x, x.shape[-1:], *self.of(name))

    def residual(self, name: str, x: Tensor) -> Tensor:
        y = x
        for number in (1, 2):
            y = functional.silu(self.group_norm(f"{name}.norm{number}", y))
            y = self.convolve(f"{name}.conv{number}", y)
        return x + y

    def attend(self, name: str, x: Tensor) -> Tensor:
        normed = self.group_norm(f"{name}.norm", x)
        q, k, v = (self.convolve(f"{name}.{part}", normed).flatten(2) for part in "qkv")
        weights = torch.softmax(q.mT @ k / 64**0.5, dim=-1)
        return x + self.convolve(f"{name}.proj_out", (v @ weights.mT).view_as(x))

    def level(self, name: str, number: int, blocks: int, x: Tensor) -> Tensor:
        for block in range(blocks):
            x = self.residual(f"{name}.block.{block}", x)
            if number in (2, 3):
                x = self.attend(f"{name}.attn.{block}", x)
        return x

    def middle(self, name: str, x: Tensor) -> Tensor:
        x = self.attend(f"{name}.mid.attn_1", self.residual(f"{name}.mid.block_1", x))
        return self.residual(f"{name}.mid.block_2", x)

    def finish(self, name: str, x: Tensor) -> Tensor:
        normed = functional.silu(self.group_norm(f"{name}.norm_out", x))
        return self.convolve(f"{name}.conv_out", normed)

    def tokens(self, frames: Tensor) -> Tensor:
        """Indices [B, 16], row by row."""
        name = "tokenizer.encoder"
        x = self.convolve(f"{name}.conv_in", 2 * frames - 1)
        for number in range(5):
            x = self.level(f"{name}.down.{number}", number, 2, x)
            if number < 4:
                padded = functional.pad(x, (0, 1, 0, 1))
                down = self.of(f"{name}.down.{number}.downsample.conv")
                x = functional.conv2d(padded, *down, stride=2)
        x = self.finish(name, self.middle(name, x))
        vectors = self.convolve("tokenizer.pre_quant_conv", x).flatten(2).mT
        return torch.cdist(vectors, self.weights["tokenizer.embedding.weight"]).argmin(-1)

    def frames(self, tokens: Tensor) -> Tensor:
        name = "tokenizer.decoder"
        vectors = self.weights["tokenizer.embedding.weight"][tokens]
        x = self.convolve("tokenizer.post_quant_conv", vectors.mT.unflatten(2, (4, 4)))
        x = self.middle(name, self.convolve(f"{name}.conv_in", x))
        for number in reversed(range(5)):
            x = self.level(f"{name}.up.{number}", number, 3, x)
            if number > 0:
                x = functional.interpolate(x, scale_factor=2.0, mode="nearest")
                x = self.convolve(f"{name}.up.{number}.upsample.conv", x)
        return ((self.finish(name, x) + 1) / 2).clamp(0, 1)

    def hidden(self, tokens: Tensor, actions: Tensor) -> Tensor:
        """The transformer's output [B, T * 17, 256] for tokens [B, T, 16] and actions [B, T]."""
        name = "world_model"
        tables = [self.weights[f"{name}.embedder.embedding_tables.{n}.weight"] for n in (0, 1)]
        x = torch.cat([tables[1][tokens], tables[0][actions].unsqueeze(2)], dim=2).flatten(1, 2)
        x = x + self.weights[f"{name}.pos_emb.weight"][: x.shape[1]]
        for number in range(10):
            x = self.block(f"{name}.transformer.blocks.{number}", x)
        return self.layer_norm(f"{name}.transformer.ln_f", x)

    def block(self, name: str, x: Tensor) -> Tensor:
        normed = self.layer_norm(f"{name}.ln1", x)
        q, k, v = (
            self.linear(f"{name}.attn.{part}", normed).unflatten(-1, (4, 64)).transpose(1, 2)
            for part in ("query", "key", "value")
        )
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        scores = (q @ k.mT / 8).masked_fill(hidden, -torch.inf)
        attended = (torch.softmax(scores, dim=-1) @ v).transpose(1, 2).flatten(2)
        x = x + self.linear(f"{name}.attn.proj", attended)
        grown = functional.gelu(self.linear(f"{name}.mlp.0", self.layer_norm(f"{name}.ln2", x)))
        return x + self.linear(f"{name}.mlp.2", grown)

    def head(self, name: str, hidden: Tensor) -> Tensor:
        """Logits of `observations`, `rewards` or `ends`."""
        module = f"world_model.head_{name}.head_module"
        return self.linear(f"{module}.2", self.linear(f"{module}.0", hidden).relu())

    def policy(self, frames: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of the actions and the value of a first frame."""
        x = 2 * frames - 1
        for number in range(1, 5):
            x = functional.max_pool2d(self.convolve(f"actor_critic.conv{number}", x), 2).relu()
        name = "actor_critic.lstm"
        weights, biases = self.weights[f"{name}.weight_ih"], self.weights[f"{name}.bias_ih"]
        gates = functional.linear(x.flatten(1), weights, biases)
        gates = gates + self.weights[f"{name}.bias_hh"]
        i, _, g, o = gates.chunk(4, dim=-1)
        memory = o.sigmoid() * (i.sigmoid() * g.tanh()).tanh()
        actor, critic = "actor_critic.actor_linear", "actor_critic.critic_linear"
        return self.linear(actor, memory), self.linear(critic, memory)
