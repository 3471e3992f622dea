"""Parts from a user's file replace those of a recipe at every size."""

import json
import sys
from pathlib import Path

import pytest
import torch

from tokenworlds.agent import Agent
from tokenworlds.cli import main
from tokenworlds.core.description import from_json, to_json
from tokenworlds.core.errors import UserError
from tokenworlds.core.overrides import override
from tokenworlds.core.types import ActionSpace, FrameShape
from tokenworlds.recipes.catalogue import load, load_component
from tokenworlds.training import session
from tokenworlds.training.dry_run import blank_segment, dry_run
from tokenworlds.training.learner import Learner

OWN_PARTS = '''
"""A quantiser with none of the fields of the tokenizers in the package."""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from tokenworlds.core.config import Component, ConfigOf
from tokenworlds.core.types import Codes, Losses


class Signs(nn.Module, Component):
    """The mean brightness of each patch as two logits."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ConfigOf["Signs"]):
        patch: int = 16

    def __init__(self, config, *, frame_shape):
        super().__init__()
        self.patch = config.patch
        self.side = frame_shape.height // config.patch
        self.tokens, self.vocabulary = self.side**2, 2
        self.embed = nn.Linear(1, 2)
        self.draw = nn.Linear(2, frame_shape.channels)

    def encode(self, frames, context=None):
        lead = frames.shape[:-3]
        bright = F.avg_pool2d(frames.flatten(0, -4).mean(1, keepdim=True), self.patch)
        logits = self.embed(bright.flatten(1)[..., None]).unflatten(0, lead)
        log_probs = logits.log_softmax(-1)
        index = log_probs.argmax(-1)
        probs = log_probs.exp()
        sample = F.one_hot(index, 2) + probs - probs.detach()
        return Codes(index, log_probs, sample, sample, probs)

    def look_up(self, index):
        hard = F.one_hot(index, 2).float()
        return Codes(index, hard.clamp_min(1e-6).log(), hard, hard, hard)

    def decode(self, codes, context=None):
        cells = self.draw(codes.vector).unflatten(-2, (self.side, self.side)).movedim(-1, -3)
        return cells.repeat_interleave(self.patch, -1).repeat_interleave(self.patch, -2)

    def losses(self, frames, codes, mask, context=None):
        error = (self.decode(codes) - frames).square().sum((-3, -2, -1))
        return Losses({"own_error": error}, {"own_error": mask}, scales={"own_error": 0.5})


class NoPart:
    pass
'''


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "my_parts.py").write_text(OWN_PARTS)
    monkeypatch.setitem(sys.modules, "my_parts", sys)
    return str(tmp_path / "my_parts.py")


@pytest.mark.parametrize("size", ["nano", "small", "paper"])
def test_a_users_tokenizer_trains_at_every_size(own: str, size: str) -> None:
    recipe = override(
        load("step-vq-m", size, "catch").recipe,
        [f"world.tokenizer={own}:Signs"],
        load_component,
    )
    shape = FrameShape(recipe.resolution, recipe.resolution)
    torch.manual_seed(0)
    agent = Agent.build(recipe, shape, ActionSpace(3))
    dry_run(agent, recipe, shape)
    learner = Learner("world", recipe.learning["world"], agent.trainables(None)["world"])
    segment = blank_segment(agent, shape, batch=2, steps=4)
    for _ in range(3):
        metrics, _ = learner.update(segment)
    assert all(torch.isfinite(value) for value in metrics.values())
    assert "world/loss/own_error" in metrics


def test_a_users_part_round_trips_through_json(own: str) -> None:
    recipe = override(
        load("step-vq-m", "nano").recipe,
        [f"world.tokenizer={own}:Signs", "world.tokenizer.patch=8"],
        load_component,
    )
    assert from_json(to_json(recipe), {"my_parts": sys.modules["my_parts"]}) == recipe


SETTINGS = (
    "resolution=16",
    "num_envs=2",
    "world.tokenizer.patch=8",
    "schedule.warm_up=32",
    "learning.world.batch=2",
    "learning.world.length=4",
    "learning.behaviour.batch=2",
    "evaluation.final_episodes=1",
    "evaluation.every=0",
)


def test_a_run_with_a_users_part_executes_only_files_that_are_named_again(
    own: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(session, "add_report", lambda *run: run[-1])
    part = "world.tokenizer=my_parts.py:Signs"
    words = ["train", "--steps", "64", "--threads", "1", "--run", "run"]
    assert main([*words, "--set", part, *SETTINGS]) == 0
    described = json.loads(Path("run/run.json").read_text())["run"]
    assert described["own_files"] == {"my_parts": "my_parts.py"}
    evaluate = ["evaluate", "run", "--episodes", "1"]
    for command in (evaluate, ["resume", "run"], ["dream", "run"]):
        capsys.readouterr()
        assert main(command) == 2
        assert "uses classes of your own file my_parts.py" in capsys.readouterr().err
    with pytest.raises(UserError, match=r"your own file my_parts\.py"):
        Agent.load("run")
    assert main([*evaluate, "--recipe", own]) == 0
    assert main([*evaluate, "--recipe", f"{own}:Signs"]) == 0
    assert main([*evaluate, "--trust"]) == 0
    assert isinstance(Agent.load("run", trust=True), Agent)
    Path(own).unlink()
    capsys.readouterr()
    assert main([*evaluate, "--trust"]) == 2
    assert "'my_parts.py' is no file" in capsys.readouterr().err.replace("\n", " ")


@pytest.mark.parametrize("name", ["Sings", "NoPart"])
def test_an_unknown_part_is_named_with_those_of_the_file(own: str, name: str) -> None:
    with pytest.raises(UserError, match=f"unknown component in .*my_parts.py '{name}'"):
        load_component(f"{own}:{name}")
