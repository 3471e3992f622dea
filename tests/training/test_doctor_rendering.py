import pytest

from tokenworlds.core.errors import UserError
from tokenworlds.envs.rendering import NO_RENDERER
from tokenworlds.training import doctor


def test_the_renderer_that_works_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "begin", lambda name: "begins")
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    finding = doctor.renderer()
    assert (finding.state, finding.said) == ("good", "dmc:cartpole-balance begins, by osmesa")


def test_a_machine_that_cannot_draw_is_fit_but_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(name: str) -> str:
        raise UserError(NO_RENDERER)

    monkeypatch.setattr(doctor, "begin", fail)
    assert doctor.renderer() == doctor.Finding("rendering", "note", NO_RENDERER)
