"""A learner updates weights, and stops at a loss that is not finite."""

from collections.abc import Iterator
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from tokenworlds.core.errors import UserError
from tokenworlds.core.types import Losses, Segment, Trainable
from tokenworlds.nets.optimisers import Optimiser
from tokenworlds.runs.recipe import Learning
from tokenworlds.training.learner import Learner, NonFiniteLoss


def empty_segment() -> Segment:
    flags = torch.zeros(1, 1, dtype=torch.bool)
    frame = torch.zeros(1, 1, 8, 8, 3, dtype=torch.uint8)
    zeros = torch.zeros(1, 1)
    return Segment(frame, flags, zeros.long(), zeros, flags, flags, ~flags)


def learning_of(*names: str) -> Learning:
    optimiser = Optimiser.Config(rate=0.1, warm_up=1)
    scales = dict.fromkeys(names, 1.0)
    return Learning(batch=1, length=1, scales=scales, optimiser=optimiser)


class Case:
    """A linear module whose one loss is scaled by a factor."""

    def __init__(self, factor: float, names: tuple[str, ...] = ("error",)) -> None:
        self.module = nn.Linear(1, 1)
        self.factor = factor
        self.followed = 0
        trainable = Trainable(self.module, self.losses)
        self.learner = Learner("world", learning_of(*names), trainable)

    def losses(self, segment: Segment) -> Losses:
        term: Tensor = self.module(torch.ones(1, 1)) * self.factor
        mask = torch.ones(1, 1, dtype=torch.bool)
        return Losses({"error": term}, {"error": mask}, {}, (self.follow,))

    def follow(self) -> None:
        self.followed += 1


def test_an_update_changes_weights_then_averages() -> None:
    case = Case(1.0)
    before = case.module.weight.clone()
    metrics, latents = case.learner.update(empty_segment())
    assert not torch.equal(case.module.weight, before)
    assert case.followed == 1
    assert {"world/loss/error", "world/loss/total", "world/gradient_norm"} <= metrics.keys()
    assert latents is None


def test_a_minibatch_is_computed_after_the_update_of_the_one_before() -> None:
    """Gradient descent on (w - 1)^2 / 2 with rate 0.1: w is 0, 0.1, 0.19."""
    module, followed = nn.Linear(1, 1, bias=False), list[int]()
    states: list[tuple[float, int]] = []
    nn.init.zeros_(module.weight)

    def losses(segment: Segment) -> Iterator[Losses]:
        for number in range(3):
            states.append((module.weight.item(), len(followed)))
            term = 0.5 * (module(torch.ones(1, 1)) - 1).square()
            after = (partial(followed.append, number),)
            metrics = {"number": torch.tensor(float(number))}
            yield Losses({"error": term}, {"error": torch.ones(1, 1)}, metrics, after)

    learner = Learner("behaviour", learning_of("error"), Trainable(module, losses))
    learner.optimiser.optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    for group in learner.optimiser.optimizer.param_groups:
        group["full_rate"] = 0.1
    metrics, _ = learner.update(empty_segment())
    weights, after = zip(*states, strict=True)
    assert weights == pytest.approx((0.0, 0.1, 0.19))
    assert after == (0, 1, 2)
    assert learner.optimiser.updates == 3
    assert metrics["behaviour/number"] == 1
    assert metrics["behaviour/gradient_norm"] == pytest.approx((1 + 0.9 + 0.81) / 3)


def test_a_loss_that_is_not_finite_is_named_and_changes_nothing() -> None:
    case = Case(float("nan"))
    before = case.module.weight.clone()
    with pytest.raises(NonFiniteLoss, match="update 1 of world: error not finite"):
        case.learner.update(empty_segment())
    assert torch.equal(case.module.weight, before)
    assert case.followed == 0


def test_a_scale_that_names_no_term_is_rejected() -> None:
    case = Case(1.0, names=("error", "forgotten"))
    with pytest.raises(UserError, match="unknown loss term 'forgotten'"):
        case.learner.update(empty_segment())
