"""The precision that is chosen for a device."""

import pytest
import torch
from torch import nn

from tokenworlds.core import precision
from tokenworlds.core.errors import UserError
from tokenworlds.core.precision import (
    best_precision,
    computing,
    full_precision,
    insist_on_precision,
    lack_of_bfloat16,
    widen,
)

LACK = lack_of_bfloat16("cpu")
CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("device", "capability", "expected"),
    [
        ("cuda", (9, 0), "bfloat16"),
        ("cuda:1", (8, 0), "bfloat16"),
        ("cuda", (7, 5), "float32"),
        ("cpu", None, "float32"),
        ("mps", None, "float32"),
    ],
)
def test_bfloat16_is_chosen_for_a_card_that_supports_it(
    device: str, capability: tuple[int, int], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert best_precision(device) == expected


@pytest.mark.parametrize(
    ("device", "said"),
    [("cpu", "misreports its tile"), ("mps", "not on mps"), ("cuda", "cuda has no bfloat16")],
)
def test_bfloat16_is_refused_where_it_is_unsupported_or_wrong(
    device: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precision, "tiles_are_misreported", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    with pytest.raises(UserError, match=said):
        insist_on_precision("bfloat16", device)
    insist_on_precision("float32", device)


@pytest.mark.skipif(bool(LACK), reason=LACK or "bfloat16 is available")
def test_a_weight_used_without_gradient_still_gets_its_gradient_later() -> None:
    layer, x = nn.Linear(2, 2), torch.ones(1, 2)
    with computing(CPU, "bfloat16"):
        with torch.no_grad():
            layer(x)
        y = layer(x)
    assert y.dtype == torch.bfloat16
    y.sum().backward()
    assert layer.weight.grad is not None
    assert layer.weight.grad.dtype == torch.float32


@pytest.mark.skipif(bool(LACK), reason=LACK or "bfloat16 is available")
def test_full_precision_inside_autocast() -> None:
    x = torch.full((1, 1), 1 + 2.0**-20)
    with computing(CPU, "bfloat16"):
        assert (x @ x).item() == 1.0
        with full_precision(x):
            assert (x @ x).item() > 1.0
    assert widen(x.bfloat16()).dtype == torch.float32
    assert widen(x.double()).dtype == torch.float64
