import pytest

from tokenworlds.commands import diagnosis
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
