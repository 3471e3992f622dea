"""Timings, the calibration, counts of operations and memory of a task."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from bench_examples import FakeClock
from torch import Tensor, nn
from torch.nn import functional

from tokenworlds.benchmarking import meters
from tokenworlds.benchmarking.meters import (
    CONVOLUTION_FLOPS,
    MATMUL_FLOPS,
    MIN_REPEATS,
    STABLE_REPEATS,
    Calibration,
    Flops,
    MemoryUse,
    ReferenceTask,
    Task,
    Timing,
    average_calibrations,
    calibrate,
    count_flops,
    summarise,
    time_repeats,
    watch_memory,
)

MIB = 2**20
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reported by Linux only")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    return FakeClock(monkeypatch)


def test_median_and_quartiles_of_five_times_are_among_them() -> None:
    assert summarise([5.0, 1.0, 4.0, 2.0, 3.0]) == Timing(3.0, 2.0, 4.0, 5)


def test_quartiles_between_times_are_interpolated() -> None:
    assert summarise([1.0, 2.0, 3.0, 4.0]) == Timing(2.5, 1.75, 3.25, 4)


def test_repeats_stop_when_times_are_stable(clock: FakeClock) -> None:
    timings = time_repeats([clock.task(1.0)], 1000.0)
    assert timings == [Timing(1.0, 1.0, 1.0, STABLE_REPEATS)]


def test_unstable_times_are_repeated_until_the_time_limit(clock: FakeClock) -> None:
    task = clock.task(*[1.0, 3.0] * 50)
    assert time_repeats([task], 40.0) == [Timing(2.0, 1.0, 3.0, 20)]
    assert clock.now == 40.0


def test_a_task_longer_than_the_time_limit_runs_three_times(clock: FakeClock) -> None:
    timings = time_repeats([clock.task(7.0, 9.0, 8.0)], 0.5)
    assert timings == [Timing(8.0, 7.5, 8.5, MIN_REPEATS)]


def test_one_slow_repeat_does_not_change_the_median(clock: FakeClock) -> None:
    (timing,) = time_repeats([clock.task(1.0, 60.0, 1.0)], 1e4)
    assert timing.median == 1.0


def test_several_tasks_alternate_until_the_last_is_done(clock: FakeClock) -> None:
    order: list[float] = []

    def taking(seconds: float) -> Task:
        def task() -> None:
            order.append(seconds)
            clock.now += seconds

        return task

    timings = time_repeats([taking(1.0), taking(4.0)], 12.0)
    assert order == [1.0, 4.0] * 3
    assert [timing.median for timing in timings] == [1.0, 4.0]


def test_times_are_scaled_with_their_spread() -> None:
    timing = Timing(2.0, 1.5, 3.0, 4)
    assert timing.scaled(4.0) == Timing(8.0, 6.0, 12.0, 4)
    assert timing.spread == timing.scaled(4.0).spread == pytest.approx(0.375)


def test_the_reference_task_is_the_one_of_the_published_measurements() -> None:
    task = ReferenceTask()
    layer = task.layer
    assert (layer.in_channels, layer.out_channels) == (64, 128)
    assert (layer.kernel_size, layer.stride, layer.padding) == ((5, 5), (2, 2), (0, 0))
    assert task.image.shape == (64, 64, 32, 32)
    assert task.image.is_contiguous()
    assert task.left.shape == task.right.shape == (1024, 1024)
    assert layer.weight.dtype == task.image.dtype == task.left.dtype == torch.float32


def test_the_reference_task_has_a_constant_number_of_operations() -> None:
    # 14 x 14 cells of 64 images, 128 x 64 x 25 weights, forward and backward.
    assert CONVOLUTION_FLOPS == 2 * 2 * 64 * 196 * 128 * 64 * 25
    assert MATMUL_FLOPS == 20 * 2 * 1024**3
    for _ in range(2):
        task = ReferenceTask()
        assert count_flops(task.convolve) == Flops(0.0, float(CONVOLUTION_FLOPS))
        assert count_flops(task.multiply) == Flops(float(MATMUL_FLOPS), 0.0)


def test_a_cal_is_the_median_of_five_repeats_after_a_warm_up(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def taking(*seconds: float) -> Callable[[ReferenceTask], None]:
        run = clock.task(*seconds)
        return lambda task: run()

    monkeypatch.setattr(ReferenceTask, "convolve", taking(50.0, 1.0, 1.0, 2.0, 3.0, 9.0))
    monkeypatch.setattr(ReferenceTask, "multiply", taking(50.0, 4.0, 4.0, 4.0, 4.0, 0.5))
    # The sums are 5, 5, 6, 7 and 9.5.
    rates = {"matmul_rate": MATMUL_FLOPS / 4.0, "convolution_rate": CONVOLUTION_FLOPS / 2.0}
    assert calibrate() == Calibration(seconds=6.0, spread=1 / 6, **rates)


def test_calibrations_before_and_after_a_task_are_averaged() -> None:
    before = Calibration(seconds=0.4, spread=0.01, matmul_rate=100.0, convolution_rate=50.0)
    after = Calibration(seconds=0.6, spread=0.02, matmul_rate=50.0, convolution_rate=50.0)
    average = average_calibrations(before, after)
    assert average.seconds == pytest.approx(0.5)
    assert average.spread == pytest.approx(0.2)
    assert average.matmul_rate == pytest.approx(200 / 3), "the same work is done at either rate"
    assert average.convolution_rate == pytest.approx(50.0)


def test_a_linear_layer_is_one_matmul_forward_and_two_backward() -> None:
    layer, x = nn.Linear(8, 4), torch.randn(6, 8, requires_grad=True)
    product = 2.0 * 6 * 8 * 4
    assert count_flops(lambda: layer(x)) == Flops(product, 0.0)
    assert count_flops(lambda: layer(x).sum().backward()) == Flops(3 * product, 0.0)
    assert count_flops(lambda: layer(x.detach()).sum().backward()) == Flops(2 * product, 0.0)


def test_convolutions_are_counted_apart() -> None:
    layer, x = nn.Conv2d(3, 5, 3, stride=2), torch.randn(2, 3, 9, 9, requires_grad=True)
    once = 2.0 * 2 * 16 * 5 * 3 * 9
    assert count_flops(lambda: layer(x)) == Flops(0.0, once)
    assert count_flops(lambda: layer(x).sum().backward()) == Flops(0.0, 3 * once)


def attend(x: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(x, x, x)


def test_attention_is_two_matmuls_forward_and_five_backward() -> None:
    x = torch.randn(2, 3, 7, 8, requires_grad=True)
    product = 2.0 * 2 * 3 * 7 * 7 * 8
    with torch.no_grad():
        assert count_flops(lambda: attend(x)) == Flops(2 * product, 0.0)
    assert count_flops(lambda: attend(x).sum().backward()) == Flops(7 * product, 0.0)


def test_in_place_sums_of_matmuls_are_counted() -> None:
    left, right, total = torch.randn(3, 4, 5), torch.randn(3, 5, 6), torch.zeros(3, 4, 6)
    assert count_flops(lambda: total.baddbmm_(left, right)) == Flops(2.0 * 3 * 4 * 5 * 6, 0.0)


def test_elementwise_work_is_not_counted() -> None:
    x = torch.randn(100)
    assert count_flops(lambda: (x * x + x).exp().sum()) == Flops(0.0, 0.0)


def test_a_layer_under_no_grad_is_counted_if_its_input_has_a_gradient() -> None:
    layer, x = nn.Linear(8, 4), torch.randn(6, 8, requires_grad=True) * 2

    def task() -> None:
        with torch.no_grad():
            layer(x[:, :8])

    assert count_flops(task) == Flops(2.0 * 6 * 8 * 4, 0.0)


def test_operations_take_the_time_of_their_kind() -> None:
    rates = Calibration(seconds=1.0, spread=0.0, matmul_rate=100.0, convolution_rate=10.0)
    flops = Flops(50.0, 20.0)
    assert flops.seconds(rates) == pytest.approx(2.5)
    assert flops.total == 70.0


@linux
def test_memory_freed_by_a_task_counts_for_it_and_not_for_the_next() -> None:
    def allocate() -> int:
        return torch.ones(64 * MIB).numel()

    output, first = watch_memory(allocate)
    assert output == 64 * MIB
    assert 240 * MIB < first.growth < 300 * MIB
    _, second = watch_memory(lambda: None)
    assert second.growth < 40 * MIB


def test_memory_growth_is_never_negative_and_can_be_replaced() -> None:
    assert MemoryUse(100, 90, None).growth == 0
    assert MemoryUse(100, 150, 80).with_growth(200.0) == MemoryUse(100, 300, 80)


def test_half_of_the_available_memory_may_be_used() -> None:
    assert MemoryUse(0, 10, 80).allows(4.0)
    assert not MemoryUse(0, 10, 79).allows(4.0)
    assert MemoryUse(0, 10, None).allows(1e9)


def kernel_files(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    return folder


def test_a_container_may_have_less_memory_than_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meters, "PROC", kernel_files(tmp_path, meminfo="MemAvailable:  2048 kB\n"))
    monkeypatch.setattr(meters, "CGROUP", tmp_path)
    assert meters.available_memory() == 2048 * 1024
    kernel_files(tmp_path, memory_max="max\n", memory_current="5\n")
    assert meters.available_memory() == 2048 * 1024
    kernel_files(tmp_path, memory_max="1000\n", memory_current="400\n")
    assert meters.available_memory() == 600


def test_without_kernel_files_memory_is_the_highest_so_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meters, "PROC", tmp_path / "nowhere")
    monkeypatch.setattr(meters, "CGROUP", tmp_path / "nowhere")
    output, memory = watch_memory(lambda: "done")
    assert output == "done"
    assert memory.available is None
    assert memory.peak >= memory.before > 10 * MIB
