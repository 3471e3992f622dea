from dataclasses import replace

import pytest

from tokenworlds.commands import card, diagnosis
from tokenworlds.core.errors import UserError
from tokenworlds.envs.rendering import NO_RENDERER


def test_a_working_renderer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis, "reset_env", lambda name: "resets")
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    assert diagnosis.render_control() == "dmc:cartpole-balance resets, by osmesa"


def test_a_missing_renderer_is_a_note_that_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(name: str) -> str:
        raise UserError(NO_RENDERER)

    monkeypatch.setattr(diagnosis, "reset_env", fail)
    finding = diagnosis.attempt("rendering", diagnosis.render_control, failure="note")
    assert finding == diagnosis.Finding("rendering", "note", NO_RENDERER)


def test_a_card_that_computes_what_the_cpu_computes_agrees() -> None:
    # The CPU in the place of a card.
    found = card.compare("storm", "cpu", "float32")
    assert found.agrees
    assert found.worst == 0.0
    assert found.seconds.keys() == {"world", "behaviour"}
    assert found.text().startswith("agrees with the CPU (0% of the tolerance); world ")


def test_a_card_that_computes_something_else_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = card.update_all
    calls = []

    def wrong_on_the_card(*args: object) -> object:
        losses, seconds = whole(*args)  # type: ignore[arg-type]
        calls.append(1)
        if len(calls) == 2:
            losses = {**losses, "world/loss/reward": losses["world/loss/reward"] + 0.1}
        return losses, seconds

    monkeypatch.setattr(card, "update_all", wrong_on_the_card)
    monkeypatch.setattr(card, "precisions", lambda device: ["float32"])
    finding, advice = diagnosis.check_card("cpu", ["storm"])
    assert (finding.name, finding.state) == ("storm float32", "bad")
    assert "world/loss/reward differs from the CPU by" in finding.text
    assert "(0.001 relative, 0.0001 absolute)" in finding.text
    assert advice.name == "report"
    assert "1 of the checks of the card failed" in advice.text
    assert "tokenworlds doctor --json" in advice.text


def test_a_loss_that_is_no_number_does_not_agree() -> None:
    found = card.compare("ppo", "cpu", "float32")
    assert found.agrees
    assert not replace(found, worst=float("nan")).agrees
