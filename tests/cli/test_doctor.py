import pytest

from tokenworlds.commands import diagnosis
from tokenworlds.core.errors import UserError
from tokenworlds.envs.rendering import NO_RENDERER


def test_the_renderer_that_works_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis, "reset_env", lambda name: "resets")
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    finding = diagnosis.renderer()
    assert (finding.state, finding.text) == ("good", "dmc:cartpole-balance resets, by osmesa")


def test_a_machine_that_cannot_draw_is_fit_but_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(name: str) -> str:
        raise UserError(NO_RENDERER)

    monkeypatch.setattr(diagnosis, "reset_env", fail)
    assert diagnosis.renderer() == diagnosis.Finding("rendering", "note", NO_RENDERER)
