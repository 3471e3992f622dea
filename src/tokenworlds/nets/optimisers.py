"""LaProp and AdamW with warm-up, clipping, and an error for losses that are not finite."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.errors import UserError, unknown
from tokenworlds.core.sharing import sum_gradients

FUSED = ("cpu", "cuda")
"""Device types with a fused Adam, which is four times as fast."""
MIN_WEIGHT_NORM = 1e-3
"""The least norm of a tensor that adaptive clipping assumes, so that zeros can learn."""


class LaProp(Optimizer):
    """Momentum of normalised gradients (Ziyin et al., 2020).

    v <- b2 v + (1 - b2) g^2;  m <- b1 m + (1 - b1) lr g / (sqrt(v / c2) + eps);  p <- p - m / c1.
    Without `rate_in_momentum` (DreamerV3) the rate is no part of m: p <- p - lr m / c1. At a
    constant rate both are the same.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 4e-5,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-20,
        rate_in_momentum: bool = True,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps})
        self.rate_in_momentum = rate_in_momentum

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        assert closure is None, "closures are not supported"
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
        inner, outer = (group["lr"], 1.0) if self.rate_in_momentum else (1.0, group["lr"])
        # Both sqrt(v / c2) + eps and the rate are multiplied by sqrt(c2), which saves a pass.
        root = math.sqrt(1 - second**count)
        torch._foreach_mul_(squares, second)
        torch._foreach_addcmul_(squares, gradients, gradients, 1 - second)
        scale = torch._foreach_sqrt(squares)
        torch._foreach_add_(scale, root * group["eps"])
        torch._foreach_mul_(momenta, first)
        torch._foreach_addcdiv_(momenta, gradients, scale, (1 - first) * root * inner)
        torch._foreach_add_(parameters, momenta, alpha=-outer / (1 - first**count))

    def _state_of(self, parameter: Tensor) -> dict[str, Tensor]:
        state: dict[str, Tensor] = self.state[parameter]
        if not state:
            state["step"] = torch.zeros((), dtype=torch.long)
            state["momentum"] = torch.zeros_like(parameter)
            state["square"] = torch.zeros_like(parameter)
        return state


class Optimiser(Component):
    """The optimiser of one learner's parameters, with clipping and a linear warm-up."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["Optimiser"]):
        """`rates` and `epsilons` override `rate` and `epsilon` for parameters whose name starts
        with a key. `early_rate` replaces `rate` in the first `early_updates`. `decay` (AdamW's)
        acts on the weights of `nn.Linear` layers only.

        In warm-up the rate of update n, from 1, is n / `warm_up` of the full one, or
        (n - 1) / `warm_up` with `warm_up_from_zero`. `clip` limits the norm of the whole gradient,
        `agc` (adaptive gradient clipping) that of each tensor to `agc` times the tensor's norm.
        """

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
        warm_up_from_zero: bool = False
        clip: float | None = 1000.0
        agc: float | None = None
        rate_in_momentum: bool = True

        def __post_init__(self) -> None:
            early = {} if self.early_rate is None else {"early_rate": self.early_rate}
            rates = {f"rates.{name}": rate for name, rate in self.rates.items()}
            epsilons = {f"epsilons.{name}": value for name, value in self.epsilons.items()}
            numbers = {"rate": self.rate, **early, **rates, "epsilon": self.epsilon, **epsilons}
            counts = {"early_updates": self.early_updates, "warm_up": self.warm_up}
            for name, value in {**numbers, "decay": self.decay, **counts}.items():
                if not 0.0 <= value < math.inf:
                    raise ValueError(f"{name}={value} is not allowed: it takes 0 or more")
            for name, limit in (("clip", self.clip), ("agc", self.agc)):
                if limit is not None and not limit > 0.0:
                    raise ValueError(f"{name}={limit} is not allowed: it takes null or above 0")
            if not all(0.0 <= beta < 1.0 for beta in self.betas):
                raise ValueError(f"betas={self.betas} is not allowed: each takes 0 to below 1")

    def __init__(self, config: Config, *, module: nn.Module) -> None:
        self.config = config
        self.named = {name: p for name, p in module.named_parameters() if p.requires_grad}
        self.updates = 0
        self._check_prefixes()
        groups = self._groups(linear_weights(module))
        if config.kind == "adam":
            device = next(iter(self.named.values())).device
            kernel = "fused" if device.type in FUSED else "foreach"
            self.optimizer: Optimizer = torch.optim.AdamW(
                groups, betas=config.betas, **{kernel: True}
            )
        elif config.decay:
            raise UserError(f"decay={config.decay} needs kind='adam', not {config.kind!r}")
        else:
            momentum = config.rate_in_momentum
            self.optimizer = LaProp(groups, betas=config.betas, rate_in_momentum=momentum)

    def _groups(self, linear: set[str]) -> list[dict[str, Any]]:
        """Parameters with equal settings form a group."""
        groups: dict[tuple[float, ...], dict[str, Any]] = {}
        for name, parameter in self.named.items():
            settings = self._settings(name, name in linear)
            group = groups.setdefault(tuple(settings.values()), {"params": [], **settings})
            group["params"].append(parameter)
        return list(groups.values())

    def _settings(self, name: str, linear: bool) -> dict[str, float]:
        config = self.config
        rate = find_by_prefix(config.rates, name, config.rate)
        early = config.rate if config.early_rate is None else config.early_rate
        return {
            "lr": rate,
            "full_rate": rate,
            "early_rate": find_by_prefix(config.rates, name, early),
            "eps": find_by_prefix(config.epsilons, name, config.epsilon),
            "weight_decay": config.decay if linear else 0.0,
        }

    def _check_prefixes(self) -> None:
        chosen = [("a rate", key) for key in self.config.rates]
        chosen += [("an epsilon", key) for key in self.config.epsilons]
        for what, prefix in chosen:
            if not any(name.startswith(prefix) for name in self.named):
                parts = {name.partition(".")[0] for name in self.named}
                raise unknown(f"part with {what} of its own", prefix, parts)

    def step(self, loss: Tensor) -> Tensor:
        """Update the parameters; returns the norm of the gradient before clipping.

        Raises FloatingPointError, and changes nothing, if loss or gradient is not finite.
        """
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        sum_gradients(self.named.values())
        norm = self._clip(loss.detach())
        if self.config.agc is not None:
            clip_adaptively(self._moving(), self.config.agc)
        self.updates += 1
        self._set_rates()
        self.optimizer.step()
        # Fused optimisers do not count versions, which tell what was derived from older weights.
        torch.autograd.graph.increment_version(self.named.values())
        return norm

    def _clip(self, loss: Tensor) -> Tensor:
        """Limit the norm of the whole gradient; the only place that waits for the device."""
        gradients = [p.grad for p in self._moving() if p.grad is not None]
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

    def _moving(self) -> list[Tensor]:
        return [parameter for parameter in self.named.values() if parameter.grad is not None]

    def _set_rates(self) -> None:
        """Set the rates of the update that `updates` counts last."""
        done = self.updates - 1 if self.config.warm_up_from_zero else self.updates
        warmth = min(1.0, done / max(self.config.warm_up, 1))
        stage = "early_rate" if self.updates <= self.config.early_updates else "full_rate"
        for group in self.optimizer.param_groups:
            group["lr"] = group[stage] * warmth

    def state(self) -> dict[str, Tensor]:
        tensors = {"updates": torch.tensor(self.updates)}
        for name, parameter in self.named.items():
            for key, value in self.optimizer.state[parameter].items():
                tensors[f"{name}/{key}"] = value
        return tensors

    def restore(self, saved: Mapping[str, Tensor]) -> None:
        self.updates = int(saved["updates"])
        for key, value in saved.items():
            name, _, slot = key.rpartition("/")
            if name:
                parameter = self.named[name]
                self.optimizer.state[parameter][slot] = self._place(slot, value, parameter)

    def _place(self, slot: str, value: Tensor, parameter: Tensor) -> Tensor:
        """A copy in the layout of the parameter. The step count stays on the CPU, unless the
        optimiser is fused."""
        if slot != "step":
            return torch.empty_like(parameter, requires_grad=False).copy_(value)
        fused = self.optimizer.defaults.get("fused")
        return value.to(parameter.device if fused else "cpu", copy=True)


@torch.no_grad()
def clip_adaptively(parameters: list[Tensor], limit: float) -> None:
    """Scale each gradient to at most `limit` times the norm of its tensor."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    longest = list(torch._foreach_norm(parameters))
    torch._foreach_clamp_min_(longest, MIN_WEIGHT_NORM)
    torch._foreach_mul_(longest, limit)
    excess = list(torch._foreach_div(torch._foreach_norm(gradients), longest))
    torch._foreach_clamp_min_(excess, 1.0)
    torch._foreach_div_(gradients, excess)


def find_by_prefix(values: Mapping[str, float], name: str, default: float) -> float:
    return next((values[key] for key in values if name.startswith(key)), default)


def linear_weights(module: nn.Module) -> set[str]:
    layers = {name: layer for name, layer in module.named_modules() if isinstance(layer, nn.Linear)}
    return {f"{name}.weight".lstrip(".") for name in layers}
