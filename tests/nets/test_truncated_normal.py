"""The truncated normal against numerical integration and its own samples."""

import pytest
import torch

from tokenworlds.nets.policies import TruncatedNormal

CASES = [(0.0, 0.3), (0.0, 5.0), (0.9, 0.2), (-0.95, 1.0), (0.5, 0.1)]


def distribution(location: float, scale: float) -> TruncatedNormal:
    return TruncatedNormal(
        torch.tensor([location], dtype=torch.float64), torch.tensor([scale], dtype=torch.float64)
    )


def grid() -> tuple[torch.Tensor, float]:
    points = torch.linspace(-1, 1, 20_001, dtype=torch.float64)
    return points.unsqueeze(-1), 2 / 20_000


@pytest.mark.parametrize(("location", "scale"), CASES)
def test_density_integrates_to_one(location: float, scale: float) -> None:
    points, width = grid()
    density = distribution(location, scale).log_prob(points).exp()
    assert torch.trapezoid(density, dx=width).item() == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize(("location", "scale"), CASES)
def test_entropy_and_mean_by_integration(location: float, scale: float) -> None:
    points, width = grid()
    one = distribution(location, scale)
    log_density = one.log_prob(points)
    entropy = torch.trapezoid(-log_density.exp() * log_density, dx=width)
    mean = torch.trapezoid(log_density.exp() * points.squeeze(-1), dx=width)
    assert one.entropy().item() == pytest.approx(entropy.item(), abs=1e-5)
    assert one.mean.item() == pytest.approx(mean.item(), abs=1e-5)


@pytest.mark.parametrize(("location", "scale"), CASES)
def test_samples_are_within_bounds_and_have_the_right_distribution(
    location: float, scale: float
) -> None:
    one = distribution(location, scale)
    many = TruncatedNormal(one.location.expand(20_000, 1), one.scale.expand(20_000, 1))
    sampled = many.sample(torch.Generator().manual_seed(0))
    assert sampled.abs().max() <= 1
    assert sampled.mean().item() == pytest.approx(one.mean.item(), abs=0.02)
    monte_carlo = -one.log_prob(sampled).mean()
    assert monte_carlo.item() == pytest.approx(one.entropy().item(), abs=0.03)


def test_components_add_up() -> None:
    location, scale = torch.tensor([0.1, -0.4]), torch.tensor([0.2, 0.7])
    value = torch.tensor([0.0, 0.3])
    both = TruncatedNormal(location, scale)
    parts = [TruncatedNormal(location[i : i + 1], scale[i : i + 1]) for i in range(2)]
    total = sum(part.log_prob(value[i : i + 1]).item() for i, part in enumerate(parts))
    assert both.log_prob(value).item() == pytest.approx(total, rel=1e-5)
