"""Which part of an agent is at fault: one sentence per part, from the figures of its world.

The thresholds are below, with their reasons in docs/world_quality.md. A part is not judged where
the held-out steps say too little about it, or where a part that it depends on is at fault.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Status = Literal["fault", "good", "unknown"]
Figures = Mapping[str, Any]

EXPLAINED = 0.5
"""The least share of the variance of changed pixels that reconstructions must explain."""
KEPT = 0.5
"""The least share of that which predictions of the next frame must keep."""
SOFT = 0.5
"""A posterior with more than this share of the largest entropy does not decide on tokens."""
OVERFIT = 2.0
"""A world overfits if held-out tokens take more than this many times the nats of replay's."""
IGNORED = 0.01
"""If random actions cost tokens less than this share of likelihood more, they are ignored."""
CERTAIN = 2.0
"""Dreams depend on actions if `actions.share` is more than this many standard errors above 0."""
SKILL = 0.25
"""The least skill of a head: 0 is that of the base rate, 1 is perfect."""
DENSE = 0.5
"""Rewards that are non-zero more often are not rare events; their variance is compared."""
EVENTS = 5
"""The fewest rewards or terminations to judge a head by."""
EARLY = 3.0
"""Terminations may be predicted at most this much more often than they happen."""
UNIFORM = 0.95
"""A policy with more than this share of the largest entropy has learned no preference."""
SAME = 0.01
"""A policy whose mean over states has an entropy larger by less than this share of the largest one
prefers the same actions in all states."""
CORRELATION = 0.3
"""The least correlation of values with returns."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What the figures say about one part."""

    part: str
    status: Status
    sentence: str


def judge(figures: Figures) -> list[Finding]:
    """Findings from the frame to the policy, each part before those that depend on it."""
    return [
        judge_tokenizer(figures),
        judge_dynamics(figures),
        judge_reward(figures),
        judge_termination(figures),
        judge_value(figures),
        judge_policy(figures),
    ]


def first_fault(findings: list[Finding]) -> Finding | None:
    return next((each for each in findings if each.status == "fault"), None)


def conclude(findings: list[Finding]) -> str:
    fault = first_fault(findings)
    return "no part is clearly at fault" if fault is None else f"look first at the {fault.part}"


def judge_tokenizer(figures: Figures) -> Finding:
    found = figures["tokenizer"]
    if found is None or found["changed_explained"] is None:
        reason = figures["absent"].get("tokenizer", "no pixel changes in the held-out steps")
        return Finding("tokenizer", "unknown", f"The tokenizer cannot be judged: {reason}.")
    explained = found["changed_explained"]
    numbers = (
        f"{share(explained)} of the variance of the pixels that change "
        f"({share(found['changed_pixels'])} of all), squared error {number(found['changed_mse'])} "
        f"there and {number(found['static_mse'])} on the others"
    )
    if explained < EXPLAINED:
        sentence = f"The tokenizer loses what moves: its reconstructions explain {numbers}."
        return Finding("tokenizer", "fault", sentence)
    sentence = f"The tokenizer keeps what moves: its reconstructions explain {numbers}."
    return Finding("tokenizer", "good", sentence)


def judge_dynamics(figures: Figures) -> Finding:
    frames, tokens = figures["closed_loop"]["frames"], figures["closed_loop"]["tokens"]
    explained, tokenizer = frames["changed_explained"], figures["tokenizer"]
    if explained is None:
        reason = "no pixel changes in the held-out steps"
        return Finding("dynamics", "unknown", f"The dynamics cannot be judged: {reason}.")
    ceiling = None if tokenizer is None else tokenizer["changed_explained"]
    text = f"one step ahead, {share(explained)} of the variance of changed pixels is explained"
    if ceiling is not None:
        text += f", where reconstructions explain {share(ceiling)}"
    text += token_text(figures) + action_text(figures["actions"])
    if ceiling is not None and ceiling < EXPLAINED:
        return Finding(
            "dynamics", "unknown", f"The dynamics cannot be judged behind such a tokenizer: {text}."
        )
    if explained < KEPT * (1.0 if ceiling is None else ceiling):
        claim = "overfits its replay" if overfits(figures) else "does not predict what moves"
        return Finding("dynamics", "fault", f"The dynamics {claim}: {text}.")
    if ignores_actions(figures["actions"]):
        return Finding("dynamics", "fault", f"The dynamics ignores actions: {text}.")
    if tokens is not None and is_soft(figures):
        sentence = f"The dynamics predicts what moves, but from a soft posterior: {text}."
        return Finding("dynamics", "fault", sentence)
    return Finding("dynamics", "good", f"The dynamics predicts what moves: {text}.")


def overfits(figures: Figures) -> bool:
    """Whether tokens of replay are predicted, and others are not."""
    tokens, replay = figures["closed_loop"]["tokens"], figures.get("replay")
    if tokens is None or replay is None or replay["tokens"]["nll"] is None:
        return False
    return bool(tokens["nll"] > OVERFIT * replay["tokens"]["nll"])


def ignores_actions(actions: Figures) -> bool:
    """Whether dreams under two actions differ no more than those under one, but for chance."""
    return bool(actions["share"] <= CERTAIN * actions["error"])


def action_text(actions: Figures) -> str:
    return (
        f"; {share(max(actions['share'], 0.0))} of what differs between dreams of "
        f"{actions['horizon']} steps is due to their actions"
    )


def is_soft(figures: Figures) -> bool:
    entropy = figures["closed_loop"]["tokens"].get("posterior_entropy")
    codes = figures["codes"]
    return entropy is not None and entropy > SOFT * math.log(codes["vocabulary"])


def token_text(figures: Figures) -> str:
    """The figures of tokens, if there are any, with what they can be compared with."""
    tokens, codes = figures["closed_loop"]["tokens"], figures["codes"]
    if tokens is None or codes is None:
        return ""
    parts = [f"; tokens are predicted with accuracy {share(tokens['accuracy'])}"]
    if tokens.get("changed_accuracy") is not None:
        moving = share(tokens["changed_per_frame"] / codes["tokens"])
        parts.append(f" ({share(tokens['changed_accuracy'])} of the {moving} that change)")
    parts.append(
        f" and {number(tokens['nll'])} nats (without history {number(codes['unigram_nll'])}"
    )
    if "random_action_nll" in tokens:
        parts.append(f", after a random action {number(tokens['random_action_nll'])}")
        if tokens["random_action_nll"] < (1 + IGNORED) * tokens["nll"]:
            parts.append(": actions make no difference")
    parts.append(")")
    replay = figures.get("replay")
    if replay is not None and replay["tokens"]["nll"] is not None:
        parts.append(f", those of replay with {number(replay['tokens']['nll'])}")
    if "posterior_entropy" in tokens:
        largest = math.log(codes["vocabulary"])
        parts.append(f"; posterior entropy {number(tokens['posterior_entropy'])} of at most ")
        parts.append(number(largest))
    return "".join(parts)


def judge_reward(figures: Figures) -> Finding:
    found = figures["closed_loop"]["reward"]
    if found["events"] < EVENTS:
        sentence = (
            f"The reward head cannot be judged: {found['events']} of {found['steps']} held-out "
            "steps have a reward."
        )
        return Finding("reward head", "unknown", sentence)
    skill, numbers = skill_of(found), detection_text(found, "rewards")
    if found["base_rate"] > DENSE:
        if found["explained_variance"] is None:
            sentence = "The reward head cannot be judged: all rewards are equal."
            return Finding("reward head", "unknown", sentence)
        skill = found["explained_variance"]
        numbers = f"it explains {share(skill)} of the variance of rewards"
    if skill >= SKILL:
        return Finding("reward head", "good", f"The reward head knows rewards: {numbers}.")
    replay = figures.get("replay")
    claim = "knows little of rewards"
    if replay is not None and replay["reward"]["events"] >= EVENTS:
        recorded = replay["reward"]
        numbers += f"; on replay average precision {share(recorded['average_precision'])}"
        if recorded["base_rate"] <= DENSE and skill_of(recorded) >= SKILL:
            claim = "overfits the rewards of replay"
    return Finding("reward head", "fault", f"The reward head {claim}: {numbers}.")


def judge_termination(figures: Figures) -> Finding:
    found, part = figures["closed_loop"]["termination"], "termination head"
    if found is None:
        reason = figures["absent"]["termination"]
        return Finding(part, "unknown", f"There is no termination head: {reason}.")
    if (found["predicted_mean"] or 0.0) > EARLY * found["base_rate"] + 0.01:
        sentence = (
            "The termination head ends dreams too early: it expects "
            f"{share(found['predicted_mean'])} of steps to terminate, and "
            f"{share(found['base_rate'])} do."
        )
        return Finding(part, "fault", sentence)
    if found["events"] < EVENTS:
        sentence = (
            f"The termination head cannot be judged: {found['events']} of {found['steps']} "
            "held-out steps terminate."
        )
        return Finding(part, "unknown", sentence)
    good = skill_of(found) >= SKILL
    claim = "knows terminations" if good else "knows little of terminations"
    sentence = f"The termination head {claim}: {detection_text(found, 'terminations')}."
    return Finding(part, "good" if good else "fault", sentence)


def skill_of(found: Figures) -> float:
    """Average precision, rescaled so that the base rate is 0."""
    base = found["base_rate"]
    return float((found["average_precision"] - base) / (1 - base)) if base < 1 else 1.0


def detection_text(found: Figures, events: str) -> str:
    precision = "none" if found["precision"] is None else share(found["precision"])
    return (
        f"precision {precision}, recall {share(found['recall'])}, average precision "
        f"{share(found['average_precision'])} of {found['events']} {events}, "
        f"whose base rate is {share(found['base_rate'])}"
    )


def judge_value(figures: Figures) -> Finding:
    found = figures["value"]
    if found is None or "slope" not in found:
        reason = figures["absent"].get("value", "there are too few returns")
        return Finding("value", "unknown", f"The value cannot be judged: {reason}.")
    if found["return_deviation"] < 1e-6:
        return Finding("value", "unknown", "The value cannot be judged: all returns are equal.")
    correlation = found["correlation"]
    good = correlation is not None and correlation >= CORRELATION
    text = "it is constant" if correlation is None else f"correlation {number(correlation)}"
    if found["slope"] is not None:
        text += f", slope {number(found['slope'])}"
    claim = "follows the returns that come" if good else "does not follow the returns that come"
    sentence = (
        f"The value {claim}: {text}, bias {number(found['bias'])}; returns deviate by "
        f"{number(found['return_deviation'])}."
    )
    return Finding("value", "good" if good else "fault", sentence)


def judge_policy(figures: Figures) -> Finding:
    found = figures["policy"]
    if found is None or found["entropy"] is None:
        return Finding("policy", "unknown", "The policy cannot be judged: it tells no entropy.")
    part, sharp = policy_text(found)
    spread, floor = found["return_spread"], found["return_floor"]
    if spread is not None and floor is not None and spread < floor:
        part += (
            f"; imagined returns spread over {number(spread)}, below the floor of {floor:g}, so "
            "advantages stay small next to the entropy bonus"
        )
    if not sharp:
        return Finding("policy", "fault", f"The policy is near uniform: {part}.")
    if ignores_states(found):
        sentence = f"The policy prefers the same actions in all states: {part}."
        return Finding("policy", "fault", sentence)
    return Finding("policy", "good", f"The policy has preferences: {part}.")


def policy_text(found: Figures) -> tuple[str, bool]:
    """The entropy, and whether it is clearly below that of random actions."""
    entropy, uniform = found["entropy"], found["uniform_entropy"]
    text = f"entropy {number(entropy)} nats, uniform actions have {number(uniform)}"
    if "marginal_entropy" in found:
        text += f", its mean over states {number(found['marginal_entropy'])}"
    # A differential entropy may be negative, so the difference counts and not the ratio.
    return text, uniform - entropy > (1 - UNIFORM) * uniform


def ignores_states(found: Figures) -> bool:
    """Whether the policy's mean over states is as certain as the policy in each of them."""
    depends = found.get("marginal_entropy", math.inf) - found["entropy"]
    return bool(depends < SAME * found["uniform_entropy"])


def share(value: float) -> str:
    return f"{100 * value:.3g} %"


def number(value: float) -> str:
    return f"{value:.3g}"
