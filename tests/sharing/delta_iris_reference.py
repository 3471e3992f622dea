"""Files of Δ-IRIS with random weights, and Δ-IRIS computed from the names in such a file.

The computation follows the description of the layout, and shares no code with the package.
"""

from math import prod
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

FOLDER = Path(__file__).parent


def random_weights(game: str) -> dict[str, Tensor]:
    """For `atari` (6 actions) or `crafter` (17 actions)."""
    generator = torch.Generator().manual_seed(0)
    weights = {}
    for line in (FOLDER / f"delta_iris_{game}_keys.txt").read_text().splitlines():
        name, kind, *sizes = line.split()
        shape = tuple(map(int, sizes))
        scale = prod(shape[1:]) ** -0.5 if len(shape) > 1 else 0.3
        value = torch.randn(shape, generator=generator) * scale
        weights[name] = value.to(getattr(torch, kind)) if kind != "int64" else torch.full(shape, 7)
    codebook = "tokenizer.quantizer.codebook"
    weights[codebook] = functional.normalize(weights[codebook], dim=-1)
    return weights


class DeltaIrisReference:
    """Frames are in [0, 1]; actions are indices."""

    def __init__(self, weights: dict[str, Tensor]) -> None:
        self.weights = weights

    def of(self, name: str) -> tuple[Tensor, Tensor]:
        return self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]

    def linear(self, name: str, x: Tensor) -> Tensor:
        return functional.linear(x, *self.of(name))

    def layer_norm(self, name: str, x: Tensor) -> Tensor:
        return functional.layer_norm(x, x.shape[-1:], *self.of(name))

    def convolve(self, name: str, x: Tensor) -> Tensor:
        return functional.conv2d(x, *self.of(name), padding=self.of(name)[0].shape[-1] // 2)

    def normed(self, name: str, x: Tensor) -> Tensor:
        return functional.silu(functional.group_norm(x, 32, *self.of(name), eps=1e-5))

    def residual(self, name: str, x: Tensor) -> Tensor:
        y = self.convolve(f"{name}.f.2", self.normed(f"{name}.f.0", x))
        y = self.convolve(f"{name}.f.5", self.normed(f"{name}.f.3", y))
        skips = f"{name}.skip_projection.weight" in self.weights
        return (self.convolve(f"{name}.skip_projection", x) if skips else x) + y

    def encode(self, name: str, x: Tensor) -> Tensor:
        x = self.convolve(f"{name}.0", x)
        for number in range(1, 9):
            if number in (2, 5, 7):
                x = functional.conv2d(x, *self.of(f"{name}.{number}.conv"), stride=2)
            else:
                x = self.residual(f"{name}.{number}", x)
        return self.convolve(f"{name}.11", self.normed(f"{name}.9", x))

    def tokens(self, past: Tensor, action: Tensor, frames: Tensor) -> Tensor:
        """Indices [B, 4]."""
        plane = self.weights["tokenizer.encoder_act_emb.weight"][action].view(-1, 1, 64, 64)
        x = self.encode("tokenizer.encoder.encoder", torch.cat([past, plane, frames], dim=1))
        quarters = [x[:, :, row : row + 4, column : column + 4] for row, column in corners()]
        flat = torch.stack([each.permute(0, 2, 3, 1).flatten(1) for each in quarters], dim=1)
        vectors = functional.normalize(
            self.linear("tokenizer.quantizer.pre_quant_proj", flat), dim=-1
        )
        return (vectors @ self.weights["tokenizer.quantizer.codebook"].T).argmax(-1)

    def decode(self, past: Tensor, action: Tensor, tokens: Tensor) -> Tensor:
        codes = self.weights["tokenizer.quantizer.codebook"][tokens]
        patches = self.linear("tokenizer.quantizer.post_quant_proj", codes).view(-1, 4, 4, 4, 64)
        change = torch.zeros(len(past), 64, 8, 8)
        for number, (row, column) in enumerate(corners()):
            patch = patches[:, number].permute(0, 3, 1, 2)
            change[:, :, row : row + 4, column : column + 4] = patch
        plane = self.weights["tokenizer.decoder_act_emb.weight"][action].view(-1, 4, 8, 8)
        seen = self.encode("tokenizer.frame_cnn.encoder", past)
        name = "tokenizer.decoder.decoder"
        x = self.convolve(f"{name}.0", torch.cat([seen, plane, change], dim=1))
        for number in range(1, 9):
            if number in (2, 4, 7):
                x = functional.interpolate(x, scale_factor=2.0, mode="nearest")
                x = self.convolve(f"{name}.{number}.conv", x)
            else:
                x = self.residual(f"{name}.{number}", x)
        return self.convolve(f"{name}.11", self.normed(f"{name}.9", x)).clamp(0, 1)

    def image_token(self, frames: Tensor) -> Tensor:
        maps = self.encode("world_model.frame_cnn.0.encoder", frames)
        return self.layer_norm("world_model.frame_cnn.2", maps.permute(0, 2, 3, 1).flatten(1))

    def hidden(self, x: Tensor) -> Tensor:
        """The transformer's output for embedded tokens [B, N, D]."""
        name = "world_model.transformer"
        x = x + self.weights[f"{name}.pos_emb.weight"][: x.shape[1]]
        for number in range(3):
            x = self.block(f"{name}.blocks.{number}", x)
        return self.layer_norm(f"{name}.ln", x)

    def block(self, name: str, x: Tensor) -> Tensor:
        normed = self.layer_norm(f"{name}.sa.ln", x)
        q, k, v = (
            self.linear(f"{name}.sa.{part}", normed).unflatten(-1, (-1, 64)).transpose(1, 2)
            for part in ("query", "key", "value")
        )
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        scores = (q @ k.mT / 8).masked_fill(future, -torch.inf)
        attended = (torch.softmax(scores, dim=-1) @ v).transpose(1, 2).flatten(2)
        x = x + self.linear(f"{name}.sa.attention.proj", attended)
        grown = self.linear(f"{name}.mlp.mlp.0", self.layer_norm(f"{name}.mlp.ln", x))
        return x + self.linear(f"{name}.mlp.mlp.2", functional.gelu(grown))

    def head(self, name: str, hidden: Tensor) -> Tensor:
        module = f"world_model.head_{name}.head_module"
        return self.linear(f"{module}.2", self.linear(f"{module}.0", hidden).relu())

    def policy(self, name: str, frames: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of actor and critic for a first frame."""
        x = self.encode(f"{name}.cnn.0.encoder", frames).permute(0, 2, 3, 1).flatten(1)
        gates = functional.linear(
            x, self.weights[f"{name}.lstm.weight_ih"], self.weights[f"{name}.lstm.bias_ih"]
        )
        i, _, g, o = (gates + self.weights[f"{name}.lstm.bias_hh"]).chunk(4, dim=-1)
        memory = o.sigmoid() * (i.sigmoid() * g.tanh()).tanh()
        return self.linear(f"{name}.actor_linear", memory), self.linear(
            f"{name}.critic_linear", memory
        )


def corners() -> list[tuple[int, int]]:
    """Row and column of the quarters of an 8x8 map, row by row."""
    return [(0, 0), (0, 4), (4, 0), (4, 4)]
