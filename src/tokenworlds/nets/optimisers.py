"""LaProp, and gradient clipping that refuses what is not finite."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.errors import UserError, unknown

FUSED = ("cpu", "cuda")
"""Kinds of devices on which torch has Adam in one pass over the memory; four times faster."""


class LaProp(Optimizer):
    """Momentum over gradients already normalised by their own scale (Ziyin et al., 2020).

    v <- b2 v + (1 - b2) g^2;  m <- b1 m + (1 - b1) lr g / (sqrt(v / c2) + eps);  p <- p - m / c1.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 4e-5,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-20,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Move every parameter that has a gradient."""
        assert closure is None, "a closure is never needed here"
        for group in self.param_groups:
            parameters = [p for p in group["params"] if p.grad is not None]
            if parameters:
                self._step_group(group, parameters)

    def _step_group(self, group: dict[str, Any], parameters: list[Tensor]) -> None:
        first, second = group["betas"]
        states = [self._state_of(p) for p in parameters]
        gradients = [p.grad for p in parameters if p.grad is not None]
        momenta = [state["momentum"] for state in states]
        squares = [state["square"] for state in states]
        for state in states:
            state["step"] += 1
        count = int(states[0]["step"])
        # sqrt(v / c2) + eps times sqrt(c2), which the rate makes up for: one pass less.
        root = math.sqrt(1 - second**count)
        torch._foreach_mul_(squares, second)
        torch._foreach_addcmul_(squares, gradients, gradients, 1 - second)
        scale = torch._foreach_sqrt(squares)
        torch._foreach_add_(scale, root * group["eps"])
        torch._foreach_mul_(momenta, first)
        torch._foreach_addcdiv_(momenta, gradients, scale, (1 - first) * root * group["lr"])
        torch._foreach_add_(parameters, momenta, alpha=-1 / (1 - first**count))

    def _state_of(self, parameter: Tensor) -> dict[str, Tensor]:
        state: dict[str, Tensor] = self.state[parameter]
        if not state:
            state["step"] = torch.zeros((), dtype=torch.long)
            state["momentum"] = torch.zeros_like(parameter)
            state["square"] = torch.zeros_like(parameter)
        return state


class Optimiser(Component):
    """An optimiser over the parameters of one learner, with clipping and a linear warm-up."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["Optimiser"]):
        """Choices; `rates` gives parameters whose name begins with a key a rate of their own, and
        `epsilons` an epsilon. In the first `early_updates` an `early_rate` stands for `rate`.
        `decay` (AdamW's) pulls the weights of `nn.Linear` layers to zero, and nothing else.
        A `clip` of None lets gradients of any finite norm pass."""

        kind: Literal["laprop", "adam"] = "laprop"
        rate: float = 4e-5
        rates: Mapping[str, float] = field(default_factory=dict)
        early_rate: float | None = None
        early_updates: int = 0
        betas: tuple[float, float] = (0.9, 0.999)
        epsilon: float = 1e-20
        epsilons: Mapping[str, float] = field(default_factory=dict)
        decay: float = 0.0
        warm_up: int = 1000
        clip: float | None = 1000.0

    def __init__(self, config: Config, *, module: nn.Module) -> None:
        self.config = config
        self.named = {name: p for name, p in module.named_parameters() if p.requires_grad}
        self.updates = 0
        self._insist_on_parts()
        groups = self._groups(linear_weights(module))
        if config.kind == "adam":
            way = "fused" if self._device.type in FUSED else "foreach"
            self.optimizer: Optimizer = torch.optim.AdamW(groups, betas=config.betas, **{way: True})
        elif config.decay:
            raise UserError(f"decay={config.decay} goes with kind='adam', not {config.kind!r}")
        else:
            self.optimizer = LaProp(groups, betas=config.betas)

    @property
    def _device(self) -> torch.device:
        return next(iter(self.named.values())).device

    def _groups(self, linear: set[str]) -> list[dict[str, Any]]:
        """Parameters by what is chosen for them."""
        groups: dict[tuple[float, ...], dict[str, Any]] = {}
        for name, parameter in self.named.items():
            choices = self._choices(name, name in linear)
            group = groups.setdefault(tuple(choices.values()), {"params": [], **choices})
            group["params"].append(parameter)
        return list(groups.values())

    def _choices(self, name: str, linear: bool) -> dict[str, float]:
        config = self.config
        rate = own_choice(config.rates, name, config.rate)
        early = config.rate if config.early_rate is None else config.early_rate
        return {
            "lr": rate,
            "full_rate": rate,
            "early_rate": own_choice(config.rates, name, early),
            "eps": own_choice(config.epsilons, name, config.epsilon),
            "weight_decay": config.decay if linear else 0.0,
        }

    def _insist_on_parts(self) -> None:
        chosen = [("a rate", key) for key in self.config.rates]
        chosen += [("an epsilon", key) for key in self.config.epsilons]
        for what, prefix in chosen:
            if not any(name.startswith(prefix) for name in self.named):
                parts = {name.partition(".")[0] for name in self.named}
                raise unknown(f"part with {what} of its own", prefix, parts)

    def step(self, loss: Tensor) -> Tensor:
        """Descend, unless loss or gradient is not finite; returns its norm before clipping."""
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = self._clip(loss.detach())
        self.updates += 1
        self._set_rates()
        self.optimizer.step()
        # Fused optimisers change weights unnoticed, and what was made of them must be made anew.
        torch.autograd.graph.increment_version(self.named.values())
        return norm

    def _clip(self, loss: Tensor) -> Tensor:
        """Shorten the gradient if it is too long; the device is waited for here, and only once."""
        gradients = [p.grad for p in self.named.values() if p.grad is not None]
        norm = nn.utils.get_total_norm(gradients)
        length, height = torch.stack([norm, loss.to(norm.dtype)]).tolist()
        if not math.isfinite(length):
            raise FloatingPointError(f"the gradient's norm is {length}")
        if not math.isfinite(height):
            raise FloatingPointError(f"the loss is {height}")
        most = math.inf if self.config.clip is None else self.config.clip
        if length + 1e-6 > most:
            nn.utils.clip_grads_with_norm_(self.named.values(), most, norm)
        return norm

    def _set_rates(self) -> None:
        """The rates of the update that is counted now."""
        warmth = min(1.0, self.updates / max(self.config.warm_up, 1))
        stage = "early_rate" if self.updates <= self.config.early_updates else "full_rate"
        for group in self.optimizer.param_groups:
            group["lr"] = group[stage] * warmth

    def state(self) -> dict[str, Tensor]:
        """What the optimiser remembers, by parameter."""
        tensors = {"updates": torch.tensor(self.updates)}
        for name, parameter in self.named.items():
            for key, value in self.optimizer.state[parameter].items():
                tensors[f"{name}/{key}"] = value
        return tensors

    def restore(self, saved: Mapping[str, Tensor]) -> None:
        """Take over what `state` returned."""
        self.updates = int(saved["updates"])
        for key, value in saved.items():
            name, _, slot = key.rpartition("/")
            if name:
                parameter = self.named[name]
                self.optimizer.state[parameter][slot] = self._place(slot, value, parameter)

    def _place(self, slot: str, value: Tensor, parameter: Tensor) -> Tensor:
        """A copy laid out as the optimiser wants it: like the parameter, and a count of steps on
        the processor, unless a fused optimiser counts where it computes."""
        if slot != "step":
            return torch.empty_like(parameter, requires_grad=False).copy_(value)
        fused = self.optimizer.defaults.get("fused")
        return value.to(parameter.device if fused else "cpu", copy=True)


def own_choice(choices: Mapping[str, float], name: str, otherwise: float) -> float:
    """The choice whose key a name begins with, if there is one."""
    return next((choices[key] for key in choices if name.startswith(key)), otherwise)


def linear_weights(module: nn.Module) -> set[str]:
    """Names of the weights of linear layers."""
    layers = {name: layer for name, layer in module.named_modules() if isinstance(layer, nn.Linear)}
    return {f"{name}.weight".lstrip(".") for name in layers}
