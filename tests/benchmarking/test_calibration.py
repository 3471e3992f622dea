"""The unit is a fixed amount of work, whatever it takes."""

from collections.abc import Callable

import pytest
import torch
from fake_clock import FakeClock

from tokenworlds.benchmarking.calibration import (
    CONVOLUTION_FLOPS,
    MATMUL_FLOPS,
    Calibration,
    Workload,
    calibrate,
    join,
)
from tokenworlds.benchmarking.flops import Flops, count_flops


def test_the_workload_is_the_one_that_the_references_were_measured_with() -> None:
    workload = Workload()
    layer = workload.layer
    assert (layer.in_channels, layer.out_channels) == (64, 128)
    assert (layer.kernel_size, layer.stride, layer.padding) == ((5, 5), (2, 2), (0, 0))
    assert workload.image.shape == (64, 64, 32, 32)
    assert workload.image.is_contiguous()
    assert workload.left.shape == workload.right.shape == (1024, 1024)
    assert layer.weight.dtype == workload.image.dtype == workload.left.dtype == torch.float32


def test_its_operations_are_always_the_same() -> None:
    # 14 x 14 sites of 64 images, 128 x 64 x 25 weights, forward and backward.
    assert CONVOLUTION_FLOPS == 2 * 2 * 64 * 196 * 128 * 64 * 25
    assert MATMUL_FLOPS == 20 * 2 * 1024**3
    for _ in range(2):
        workload = Workload()
        assert count_flops(workload.convolve) == Flops(0.0, float(CONVOLUTION_FLOPS))
        assert count_flops(workload.multiply) == Flops(float(MATMUL_FLOPS), 0.0)


def test_a_cal_is_the_median_of_five_after_a_first_that_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = FakeClock()

    def taking(*seconds: float) -> Callable[[Workload], None]:
        act = clock.work(*seconds)
        return lambda workload: act()

    monkeypatch.setattr(Workload, "convolve", taking(50.0, 1.0, 1.0, 2.0, 3.0, 9.0))
    monkeypatch.setattr(Workload, "multiply", taking(50.0, 4.0, 4.0, 4.0, 4.0, 0.5))
    # The sums are 5, 5, 6, 7 and 9.5.
    reached = {"matmul": MATMUL_FLOPS / 4.0, "convolution": CONVOLUTION_FLOPS / 2.0}
    assert calibrate(clock) == Calibration(seconds=6.0, spread=1 / 6, **reached)


def test_a_machine_that_slows_down_is_taken_at_its_mean() -> None:
    before = Calibration(seconds=0.4, spread=0.01, matmul=100.0, convolution=50.0)
    after = Calibration(seconds=0.6, spread=0.02, matmul=50.0, convolution=50.0)
    joined = join(before, after)
    assert joined.seconds == pytest.approx(0.5)
    assert joined.spread == pytest.approx(0.2)
    assert joined.matmul == pytest.approx(200 / 3), "as much is computed at either pace"
    assert joined.convolution == pytest.approx(50.0)
