"""DreamerV3's recurrent state-space model (Hafner et al., 2023), with a block GRU.

The state s_t has a deterministic part, which a GRU computes from s_{t-1} and a_{t-1}, and a
stochastic part: categorical latents, whose posterior reads the deterministic part and frame t.
Reward and termination of step t-1 are read from s_t. docs/agents/dreamer_v3.md has more.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from einops import pack, rearrange, repeat, unpack
from jaxtyping import Bool, Float, Int, UInt8
from torch import Generator, Tensor, nn
from torch.nn import functional

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.errors import UserError
from tokenworlds.core.inspection import Prediction
from tokenworlds.core.sharing import among_chosen, any_row
from tokenworlds.core.trees import map_tensors
from tokenworlds.core.types import (
    ActionSpace,
    FrameShape,
    Losses,
    Outcome,
    Reconstruction,
    Segment,
    Trainable,
    View,
    masked_mean,
    one_hots,
    to_frames,
)
from tokenworlds.nets.blocks import RMSNorm
from tokenworlds.nets.distributions import (
    Bernoulli,
    TwoHot,
    kl_categorical,
    mix_uniform,
    sample_index,
)
from tokenworlds.nets.dreamer import (
    EPSILON,
    MLP,
    BlockLinear,
    ImageDecoder,
    ImageEncoder,
    linear,
    pooled,
)
from tokenworlds.nets.fast.outcomes import predict_outcome
from tokenworlds.nets.moving_pixels import weigh_moving


@dataclass(frozen=True, slots=True)
class RSSMCarry:
    """A state: `sample` is one-hot, with the gradient of the posterior's probabilities."""

    deter: Float[Tensor, "*rest D"]
    sample: Float[Tensor, "*rest K V"]

    @property
    def stoch(self) -> Float[Tensor, "*rest S"]:
        return rearrange(self.sample, "... k v -> ... (k v)")

    @property
    def feature(self) -> Float[Tensor, "*rest E"]:
        return torch.cat([self.deter, self.stoch], dim=-1)


class BlockGRU(nn.Module):
    """The deterministic part: h' from h, the latents and the action."""

    def __init__(self, deter: int, stoch: int, actions: int, hidden: int, blocks: int) -> None:
        super().__init__()
        self.blocks = blocks
        inputs = {"deter": deter, "stoch": stoch, "action": actions}
        self.inputs = nn.ModuleDict({name: linear(size, hidden) for name, size in inputs.items()})
        self.norms = nn.ModuleDict({name: RMSNorm(hidden, eps=EPSILON) for name in inputs})
        self.hidden = BlockLinear(deter + blocks * 3 * hidden, deter, blocks)
        self.hidden_norm = RMSNorm(deter, eps=EPSILON)
        self.gates = BlockLinear(deter, 3 * deter, blocks)

    def forward(
        self,
        deter: Float[Tensor, "B D"],
        stoch: Float[Tensor, "B S"],
        action: Float[Tensor, "B A"],
    ) -> Float[Tensor, "B D"]:
        parts = {"deter": deter, "stoch": stoch, "action": action}
        embedded = [
            functional.silu(self.norms[name](self.inputs[name](part)))
            for name, part in parts.items()
        ]
        own = rearrange(deter, "b (g d) -> b g d", g=self.blocks)
        shared = repeat(torch.cat(embedded, -1), "b d -> b g d", g=self.blocks)
        x = rearrange(self.hidden(torch.cat([own, shared], -1)), "b g d -> b (g d)")
        x = functional.silu(self.hidden_norm(x))
        gates = self.gates(rearrange(x, "b (g d) -> b g d", g=self.blocks))
        reset, candidate, update = rearrange(gates, "b g (three d) -> three b (g d)", three=3)
        candidate = torch.tanh(torch.sigmoid(reset) * candidate)
        update = torch.sigmoid(update - 1)
        return update * candidate + (1 - update) * deter


class RSSM(nn.Module, Component):
    """Encoder, block GRU, posterior, prior, decoder, and heads for reward and termination."""

    frames = 1

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["RSSM"]):
        """`filters` are `depth` times `multipliers`, one stage of the encoder each. `discount` is
        part of the termination's target, so that behaviours need no discount of their own.
        `free_nats` of a whole frame cost nothing. `moving_share` is that of moving pixels."""

        deter: int = 2048
        hidden: int = 256
        latents: int = 32
        classes: int = 16
        blocks: int = 8
        depth: int = 16
        multipliers: tuple[int, ...] = (2, 3, 4, 4)
        kernel: int = 5
        unimix: float = 0.01
        free_nats: float = 1.0
        bin_count: int = 255
        discount: float = 1 - 1 / 333
        moving_share: float | None = None

    def __init__(
        self, config: Config, *, frame_shape: FrameShape, action_space: ActionSpace
    ) -> None:
        super().__init__()
        self.config = config
        self.action_space = action_space
        deter, hidden, stoch = config.deter, config.hidden, config.latents * config.classes
        filters = [config.depth * times for times in config.multipliers]
        grid = pooled(frame_shape, len(filters))
        check_blocks(config, filters[-1])
        pixels = grid[0] * grid[1] * filters[-1]
        self.encoder = ImageEncoder(frame_shape.channels, filters, config.kernel)
        self.core = BlockGRU(deter, stoch, action_space.size, hidden, config.blocks)
        self.posterior = MLP(deter + pixels, (hidden,), stoch)
        self.prior = MLP(deter, (hidden, hidden), stoch)
        self.decoder = ImageDecoder(
            deter=deter,
            stoch=stoch,
            hidden=hidden,
            blocks=config.blocks,
            channels=frame_shape.channels,
            filters=filters,
            kernel=config.kernel,
            grid=grid,
        )
        self.reward = MLP(deter + stoch, (hidden,), config.bin_count, output_scale=0.0)
        self.termination = MLP(deter + stoch, (hidden,), 1)
        self.feature_shape: tuple[int, ...] = (deter + stoch,)
        self.latent_size = deter + config.latents

    def trainables(self) -> dict[str, Trainable]:
        return {"world": Trainable(self, self.losses)}

    def compile_with(self, compile_function: Callable[..., Any]) -> None:
        vars(self).update(
            losses_and_states=compile_function(self.losses_and_states),
            step=compile_function(self.step),
        )

    def losses(self, segment: Segment) -> Losses:
        return self.losses_and_states(segment)[0]

    def losses_and_states(self, segment: Segment) -> tuple[Losses, RSSMCarry]:
        """Losses and states of every step but the first, which only gives the initial state."""
        initial = self._initial_state(segment)
        states, posterior = self._filter(segment, initial)
        prior = self._log_probs(self.prior(states.deter))
        kl = {
            "dynamics": kl_categorical(posterior.detach(), prior),
            "representation": kl_categorical(posterior, prior.detach()),
        }
        frames, share = to_frames(segment.frame[:, 1:]), self.config.moving_share
        error = weigh_moving((self._decode(states) - frames).square(), frames, share)
        terms = {name: each.sum(-1).clamp_min(self.config.free_nats) for name, each in kl.items()}
        terms["reconstruction"] = error.sum(dim=(-3, -2, -1))
        mask = segment.mask[:, 1:]
        metrics = {
            "posterior_entropy": masked_mean(entropy(posterior), mask),
            "prior_entropy": masked_mean(entropy(prior), mask),
        }
        losses = Losses(
            terms,
            dict.fromkeys(terms, mask),
            metrics,
            scales={"representation": 0.1},
            latents=self.latents(states).detach(),
        )
        rows = map_tensors(lambda leaf: rearrange(leaf, "b t ... -> (b t) ..."), states)
        return losses | self._outcome_losses(initial, states, segment), rows

    def _filter(
        self, segment: Segment, state: RSSMCarry
    ) -> tuple[RSSMCarry, Float[Tensor, "B t K V"]]:
        """States and posteriors of every step but the first."""
        frames = to_frames(segment.frame[:, 1:])
        embedded = self.encoder(rearrange(frames, "b t c h w -> (b t) c h w"))
        embedded = rearrange(embedded, "(b t) d -> b t d", b=len(frames))
        actions = self.action_space.encode(segment.action[:, :-1])
        states, posteriors = [], []
        for time in range(frames.shape[1]):
            inputs = (actions[:, time], segment.first[:, time + 1])
            state, posterior = self._posterior(state, *inputs, embedded[:, time], None)
            states.append(state)
            posteriors.append(posterior)
        stacked = RSSMCarry(
            torch.stack([each.deter for each in states], 1),
            torch.stack([each.sample for each in states], 1),
        )
        return stacked, torch.stack(posteriors, 1)

    def _posterior(
        self,
        state: RSSMCarry,
        action: Float[Tensor, "B A"],
        reset: Bool[Tensor, " B"],
        embedded: Float[Tensor, "B E"],
        generator: Generator | None,
    ) -> tuple[RSSMCarry, Float[Tensor, "B K V"]]:
        keep = (~reset).unsqueeze(-1).to(action.dtype)
        deter = self.core(state.deter * keep, state.stoch * keep, action * keep)
        log_probs = self._log_probs(self.posterior(torch.cat([deter, embedded], -1)))
        return RSSMCarry(deter, self._sample(log_probs, generator)), log_probs

    def _log_probs(self, logits: Float[Tensor, "*rest S"]) -> Float[Tensor, "*rest K V"]:
        split = rearrange(logits, "... (k v) -> ... k v", k=self.config.latents)
        return mix_uniform(split, self.config.unimix)

    def _sample(
        self, log_probs: Float[Tensor, "*rest K V"], generator: Generator | None
    ) -> Float[Tensor, "*rest K V"]:
        """One-hots with the gradient of the probabilities.

        In evaluation mode without a generator they are the likeliest ones, so that pictures
        leave torch's own generator alone.
        """
        if generator is None and not self.training:
            index = log_probs.argmax(dim=-1)
        else:
            index = sample_index(log_probs.detach(), generator)
        probs = log_probs.exp()
        return one_hots(index, log_probs.shape[-1], probs.dtype) + probs - probs.detach()

    def _outcome_losses(self, initial: RSSMCarry, states: RSSMCarry, segment: Segment) -> Losses:
        """Reward and termination of each step, read from the state after it.

        Replay does not hold the last frame of an episode: there the state is the prior's.
        """
        feature, ended = states.feature, segment.first[:, 1:]
        if any_row(ended):
            past = map_tensors(lambda a, b: torch.cat([a[:, None], b[:, :-1]], 1), initial, states)
            action = self.action_space.encode(segment.action[:, :-1])
            rows = map_tensors(lambda leaf: leaf[ended], past)
            with among_chosen(ended):
                predicted = self._predict(rows, action[ended], None).feature
            feature = feature.index_put((ended,), predicted)
        reward, terminated = segment.reward[:, :-1], segment.terminated[:, :-1]
        rewards, logits = self._reward(feature), self._termination(feature).logit
        # The chance to go on includes the discount.
        target = 1 - (1 - terminated.to(logits.dtype)) * self.config.discount
        error = functional.binary_cross_entropy_with_logits(logits, target, reduction="none")
        terms = {"reward": rewards.loss(reward), "termination": error}
        mask = segment.mask[:, 1:] & segment.mask[:, :-1]
        metrics = {
            "reward_error": masked_mean((rewards.mean - reward).detach().abs(), mask),
            "termination_error": masked_mean(((logits > 0) != terminated).float(), mask),
        }
        return Losses(terms, dict.fromkeys(terms, mask), metrics)

    def _reward(self, feature: Float[Tensor, "*rest D"]) -> TwoHot:
        return TwoHot(self.reward(feature), "symexp")

    def _termination(self, feature: Float[Tensor, "*rest D"]) -> Bernoulli:
        return Bernoulli(rearrange(self.termination(feature), "... 1 -> ..."))

    def _predict(
        self, state: RSSMCarry, action: Float[Tensor, "B A"], generator: Generator | None
    ) -> RSSMCarry:
        """The next state without its frame."""
        deter = self.core(state.deter, state.stoch, action)
        return RSSMCarry(deter, self._sample(self._log_probs(self.prior(deter)), generator))

    def outcome(self, carry: RSSMCarry) -> Outcome:
        return self._outcome(carry.feature)

    def _outcome(self, feature: Float[Tensor, "*rest D"]) -> Outcome:
        return Outcome(self._reward(feature).mean, self._termination(feature).mean)

    def latents(self, carry: RSSMCarry) -> Float[Tensor, "*rest D"]:
        index = carry.sample.argmax(dim=-1)
        return torch.cat([carry.deter, index.to(carry.deter.dtype)], dim=-1)

    def _from_latents(self, latents: Float[Tensor, "B D"]) -> RSSMCarry:
        deter, index = latents.split([self.config.deter, self.config.latents], dim=-1)
        return RSSMCarry(deter, one_hots(index.long(), self.config.classes))

    def _blank(self, batch: int, device: torch.device) -> RSSMCarry:
        deter = torch.zeros(batch, self.config.deter, device=device)
        return RSSMCarry(
            deter, torch.zeros(batch, self.config.latents, self.config.classes, device=device)
        )

    @torch.no_grad()
    def _initial_state(self, segment: Segment) -> RSSMCarry:
        """The state of the first step: from replay, or from its frame alone."""
        if segment.latent is not None:
            return self._from_latents(segment.latent)
        none, reset = segment.action[:, 0], torch.ones_like(segment.first[:, 0])
        return self.observe(segment.frame[:, 0], none, reset, None)

    @torch.no_grad()
    def observe(
        self,
        frame: UInt8[Tensor, "B H W C"],
        action: Tensor,
        reset: Bool[Tensor, " B"],
        carry: RSSMCarry | None,
        generator: Generator | None = None,
    ) -> RSSMCarry:
        carry = carry or self._blank(len(frame), frame.device)
        embedded, done = self.encoder(to_frames(frame)), self.action_space.encode(action)
        return self._posterior(carry, done, reset, embedded, generator)[0]

    @torch.no_grad()
    def _all_states(self, segment: Segment) -> RSSMCarry:
        initial = self._initial_state(segment)
        first = map_tensors(lambda leaf: leaf.unsqueeze(1), initial)
        if segment.first.shape[1] == 1:
            return first
        states, _ = self._filter(segment, initial)
        return map_tensors(lambda one, rest: torch.cat([one, rest], 1), first, states)

    @torch.no_grad()
    def start(self, segment: Segment, steps: int) -> RSSMCarry:
        return map_tensors(lambda leaf: leaf[:, -1], self._all_states(segment))

    @torch.no_grad()
    def step(
        self, carry: RSSMCarry, action: Tensor, generator: Generator | None = None
    ) -> tuple[RSSMCarry, Outcome]:
        carry = self._predict(carry, self.action_space.encode(action), generator)
        return carry, predict_outcome(carry.feature, self._outcome)

    @torch.no_grad()
    def predict(self, carry: RSSMCarry, action: Tensor, following: Segment) -> Prediction:
        deter = self.core(carry.deter, carry.stoch, self.action_space.encode(action))
        embedded = self.encoder(to_frames(following.frame[:, -1]))
        posterior = self._log_probs(self.posterior(torch.cat([deter, embedded], -1)))
        prior, index = self._log_probs(self.prior(deter)), posterior.argmax(dim=-1)
        feature = RSSMCarry(deter, self._sample(prior, None)).feature
        heads = (self._reward(feature), self._termination(feature))
        return Prediction(*heads, index, prior, posterior, self.config.discount)

    def view(self, carry: RSSMCarry) -> View:
        return View(lambda: carry.feature, lambda: self._decode(carry))

    def tokens_in(self, carry: RSSMCarry) -> Int[Tensor, "B K"]:
        return carry.sample.argmax(dim=-1)

    def view_with(self, carry: RSSMCarry, index: Int[Tensor, "B K"]) -> View:
        """The deterministic part stays: it is the memory of earlier frames."""
        return self.view(RSSMCarry(carry.deter, one_hots(index, self.config.classes)))

    def _decode(self, states: RSSMCarry) -> Float[Tensor, "*rest C H W"]:
        deter, lead = pack([states.deter], "* d")
        stoch, _ = pack([states.stoch], "* s")
        frames: list[Tensor] = unpack(self.decoder(deter, stoch), lead, "* c h w")
        return frames[0]

    @torch.no_grad()
    def reconstruct(self, segment: Segment) -> Reconstruction:
        states = self._all_states(segment)
        index = states.sample.argmax(dim=-1)
        return Reconstruction(index, self._decode(states), self.config.classes)

    def policy_frames(self, segment: Segment) -> Float[Tensor, "B T C H W"]:
        return self.reconstruct(segment).frame


@torch.no_grad()
def entropy(log_probs: Float[Tensor, "*rest K V"]) -> Float[Tensor, "*rest"]:
    """The mean entropy of a latent, in nats."""
    return -(log_probs.exp() * log_probs).sum(-1).mean(-1)


def check_blocks(config: RSSM.Config, channels: int) -> None:
    for name, size in (("deter", config.deter), ("the last stage's channels", channels)):
        if size % config.blocks:
            raise UserError(f"world.blocks={config.blocks} must divide {name}, which is {size}")
