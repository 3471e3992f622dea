"""The codebook: distances, moving averages, revival; and statistics of code usage."""

import torch

from tokenworlds.nets.codebooks import Codebook, code_histogram, usage_metrics


def seeded(**choices: float) -> Codebook:
    torch.manual_seed(0)
    codebook = Codebook.Config(codes=4, width=2, **choices).build()
    codebook.vectors.copy_(torch.tensor([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0], [10.0, 10.0]]))
    codebook.sums.copy_(codebook.vectors)
    codebook.seeded.fill_(True)
    return codebook


def assign(codebook: Codebook, points: torch.Tensor) -> None:
    codebook.update(points.unsqueeze(1), codebook.distance(points).argmin(-1).unsqueeze(1))


def test_distance_is_squared_and_euclidean() -> None:
    codebook = seeded()
    point = torch.tensor([[3.0, 4.0]])
    expected = torch.tensor([[25.0, 65.0, 45.0, 85.0]])
    torch.testing.assert_close(codebook.distance(point), expected)


def test_one_update_is_the_moving_average_of_counts_and_sums() -> None:
    codebook = seeded(decay=0.9, smoothing=0.0)
    assign(codebook, torch.tensor([[2.0, 0.0], [0.0, 2.0]]))
    # code 0: count 0.9 + 0.1 * 2, sum 0.9 * 0 + 0.1 * (2, 2)
    torch.testing.assert_close(codebook.vectors[0], torch.tensor([0.2, 0.2]) / 1.1)
    # no data: count and sum shrink by the same factor, the vector stays
    torch.testing.assert_close(codebook.vectors[3], torch.tensor([10.0, 10.0]))


def test_codes_settle_on_the_centres_of_clusters() -> None:
    codebook = seeded(decay=0.9)
    generator = torch.Generator().manual_seed(0)
    centres = torch.tensor([[1.0, 1.0], [9.0, 0.0], [0.0, 9.0], [9.0, 9.0]])
    for _ in range(200):
        noise = torch.randn(4, 16, 2, generator=generator) * 0.1
        assign(codebook, (centres.unsqueeze(1) + noise).flatten(0, 1))
    torch.testing.assert_close(codebook.vectors, centres, atol=0.1, rtol=0)


def test_the_first_update_places_codes_on_data() -> None:
    codebook = Codebook.Config(codes=4, width=2).build()
    data = torch.randn(50, 2) + 100
    codebook.update(data.unsqueeze(1), torch.zeros(50, 1, dtype=torch.long))
    nearest = codebook.distance(data).amin(dim=0)
    torch.testing.assert_close(nearest, torch.zeros(4), atol=1e-1, rtol=0)


def test_dead_codes_are_revived_only_on_request() -> None:
    kept, revived = seeded(decay=0.5), seeded(decay=0.5, revive_below=0.05)
    data = torch.tensor([[0.0, 0.0], [1.0, 1.0]])
    for _ in range(10):
        assign(kept, data)
        assign(revived, data)
    torch.testing.assert_close(kept.vectors[3], torch.tensor([10.0, 10.0]), atol=0.2, rtol=0)
    # Both points now have a code of their own.
    nearest = revived.distance(data).amin(dim=-1)
    torch.testing.assert_close(nearest, torch.zeros(2), atol=1e-2, rtol=0)


def test_a_dead_code_does_not_split_what_has_a_code() -> None:
    """Noise around three centres has three codes: a fourth would share one of them."""
    torch.manual_seed(0)
    codebook = Codebook.Config(codes=4, width=2, decay=0.5, revive_below=0.5).build()
    centres = torch.tensor([[1.0, 1.0], [9.0, 0.0], [0.0, 9.0]])
    assign(codebook, torch.cat([centres, torch.tensor([[9.0, 9.0]])]))
    for _ in range(50):
        assign(codebook, centres.repeat(16, 1) + 0.1 * torch.randn(48, 2))
    assert (codebook.counts[:, None] > 0.5).sum() == 3
    assign(codebook, torch.tensor([[-9.0, -9.0]]).repeat(16, 1))
    assert codebook.distance(torch.tensor([[-9.0, -9.0]])).amin() < 1e-3


def test_initial_codes_cover_rare_data_too() -> None:
    """Three vectors in a hundred differ from the rest; uniform sampling would mostly miss them."""
    torch.manual_seed(0)
    codebook = Codebook.Config(codes=4, width=2).build()
    data = torch.zeros(300, 2)
    data[:3], data[3:6], data[6:9] = 5.0, -5.0, torch.tensor([5.0, -5.0])
    codebook.update(data.unsqueeze(1), torch.zeros(300, 1, dtype=torch.long))
    torch.testing.assert_close(codebook.distance(data).amin(dim=-1), torch.zeros(300))


def test_codes_are_counted_where_the_mask_is_set() -> None:
    generator = torch.Generator().manual_seed(0)
    index = torch.randint(5, (3, 4, 6), generator=generator)
    mask = torch.rand(3, 4, generator=generator) < 0.5
    expected = torch.bincount(index[mask].flatten(), minlength=7).float()
    assert torch.equal(code_histogram(index, mask, 7), expected)
    assert code_histogram(index, torch.zeros_like(mask), 7).tolist() == [0.0] * 7


def test_usage_is_a_share_of_codes_and_a_perplexity() -> None:
    found = usage_metrics(torch.tensor([2.0, 2.0, 0.0, 0.0]))
    assert found["code_usage"].item() == 0.5
    assert abs(found["code_perplexity"].item() - 2.0) < 1e-6


def test_the_running_error_is_the_mean_squared_distance_to_the_code() -> None:
    codebook = seeded(decay=0.5)
    codebook.error.fill_(6.0)
    assign(codebook, torch.tensor([[2.0, 0.0], [0.0, 2.0]]))
    torch.testing.assert_close(codebook.error, torch.tensor((6.0 + 4.0) / 2))


def test_an_update_without_data_changes_nothing() -> None:
    codebook = seeded()
    before = {name: value.clone() for name, value in codebook.state_dict().items()}
    codebook.update(torch.empty(0, 1, 2), torch.empty(0, 1, dtype=torch.long))
    assert all(torch.equal(value, before[name]) for name, value in codebook.state_dict().items())
