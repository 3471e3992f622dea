"""How unlike two images look to a network trained on photographs (LPIPS; Zhang et al., 2018).

The weights come from a file of the user's: those of VGG16's convolutions as torchvision names
them (`features.0.weight`, `features.0.bias`, ... `features.28.bias`) and those of the five heads
as LPIPS's own `vgg.pth` does (`lin0.model.1.weight`, ... `lin4.model.1.weight`). Others in the file
are left alone.
"""

from collections.abc import Mapping
from pathlib import Path

import torch
from jaxtyping import Float
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional

from tokenworlds.core.errors import UserError
from tokenworlds.core.precision import widen

STAGES = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))
SHIFT = (-0.030, -0.088, -0.188)
SCALE = (0.458, 0.448, 0.450)


class Perceptual(nn.Module):
    """VGG16, seen after each of its five stages, and a weight for each channel."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential()
        self.ends: list[int] = []
        before = 3
        for number, (width, layers) in enumerate(STAGES):
            if number > 0:
                self.features.append(nn.MaxPool2d(2))
            for _ in range(layers):
                self.features.extend([nn.Conv2d(before, width, 3, padding=1), nn.ReLU()])
                before = width
            self.ends.append(len(self.features))
        heads = [nn.Parameter(torch.ones(1, width, 1, 1)) for width, _ in STAGES]
        self.heads = nn.ParameterList(heads)

    def forward(
        self, left: Float[Tensor, "B C H W"], right: Float[Tensor, "B C H W"]
    ) -> Float[Tensor, " B"]:
        """The distance between images in [-1, 1]."""
        total = left.new_zeros(len(left))
        for head, one, other in zip(
            self.heads, self._stages(left), self._stages(right), strict=True
        ):
            difference = (unit(one) - unit(other)).square()
            total = total + (difference * head).sum(dim=1).mean(dim=(-2, -1))
        return total

    def _stages(self, images: Float[Tensor, "B C H W"]) -> list[Tensor]:
        shift, scale = (images.new_tensor(values).view(3, 1, 1) for values in (SHIFT, SCALE))
        maps, seen = (images - shift) / scale, []
        for number, layer in enumerate(self.features, start=1):
            maps = layer(maps)
            if number in self.ends:
                seen.append(widen(maps))
        return seen


def unit(maps: Float[Tensor, "B D H W"]) -> Float[Tensor, "B D H W"]:
    """Each site's channels as a vector of length 1."""
    # The square root's slope at zero is infinite, and a site can be zero in every channel.
    length = functional.threshold(maps.square().sum(dim=1, keepdim=True), 1e-20, 1e-20).sqrt()
    return maps / (length + 1e-10)


def name_in_file(name: str) -> str:
    """What files call a weight of ours."""
    head, _, number = name.partition("heads.")
    return f"lin{number}.model.1.weight" if head == "" else name


def load_perceptual(path: str) -> Perceptual:
    """The frozen network, with weights from a safetensors file or a torch state dict.

    Built without drawing initial weights, so that no generator moves.
    """
    with torch.device("meta"):
        network = Perceptual()
    found, weights = read_tensors(path), {}
    for name, wanted in network.state_dict().items():
        given = found.get(name_in_file(name))
        if given is None or given.shape != wanted.shape:
            lacking = f"{name_in_file(name)!r} of shape {tuple(wanted.shape)}"
            raise UserError(f"{path} holds no {lacking}: it takes VGG16's and LPIPS's weights")
        weights[name] = given.float()
    network.load_state_dict(weights, assign=True)
    return network.requires_grad_(False).eval()


def read_tensors(path: str) -> Mapping[str, Tensor]:
    """The named tensors of a file; nothing else in it is read."""
    try:
        if Path(path).suffix == ".safetensors":
            return load_file(path)
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise UserError(f"perceptual_weights={path!r} cannot be read: {error}") from error
    if not isinstance(found, Mapping):
        raise UserError(f"{path} holds no named tensors but a {type(found).__name__}")
    return found
