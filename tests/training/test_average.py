"""Means of what a run tells of itself."""

import pytest
import torch
from torch import Tensor

from tokenworlds.runs.metrics import Average

VALUES: list[dict[str, Tensor | float]] = [
    {"loss": torch.tensor(1.0), "return": 3.0},
    {"loss": torch.tensor(2.0), "count": torch.tensor(4)},
    {"loss": torch.tensor(6.0), "return": torch.tensor(5.0)},
]


def filled() -> Average:
    average = Average()
    for values in VALUES:
        average.add(values)
    return average


def test_means_are_of_each_name_since_the_last_time() -> None:
    average = filled()
    assert average.take() == {"loss": 3.0, "return": 4.0, "count": 4.0}
    assert average.take() == {}


def test_what_was_not_taken_goes_on_after_a_resume() -> None:
    resumed = Average()
    resumed.restore(filled().state())
    assert resumed.state() == {"loss": [1.0, 2.0, 6.0], "return": [3.0, 5.0], "count": [4.0]}
    assert resumed.take() == filled().take()


def test_a_device_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    average, fetched, fetch = filled(), list[int](), Tensor.cpu

    def count(tensor: Tensor) -> Tensor:
        fetched.append(tensor.numel())
        return fetch(tensor)

    monkeypatch.setattr(Tensor, "cpu", count)
    average.take()
    assert fetched == [5]
