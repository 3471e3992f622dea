"""The examples run as their docstrings say, with fewer and smaller updates."""

import ast
import os
import shlex
import shutil
from pathlib import Path

import pytest
import torch

from tokenworlds.agent import Agent
from tokenworlds.cli import main
from tokenworlds.commands.choices import choose_run
from tokenworlds.commands.train import Train
from tokenworlds.core.own_modules import load_module
from tokenworlds.core.protocols import Tokenizer, World
from tokenworlds.core.types import Losses
from tokenworlds.runs.events import read_metrics
from tokenworlds.runs.spec import RunSpec
from tokenworlds.training import session
from tokenworlds.training.dry_run import blank_segment, dry_run

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
TINY = (
    "num_envs=2",
    "world.reward.hidden=[16]",
    "world.termination.hidden=[16]",
    "behaviour.actor=[16]",
    "behaviour.critic=[16]",
    "behaviour.horizon=2",
    "learning.world.batch=2",
    "learning.world.length=4",
    "learning.behaviour.batch=4",
    "learning.behaviour.length=2",
    "schedule.warm_up=16",
    'schedule.updates={"world":0.25,"behaviour":0.25}',
    "evaluation.every=0",
    "evaluation.final_episodes=1",
    "housekeeping.log_every=8",
    "housekeeping.save_every=16",
)
TOKENIZER, WORLD = "examples/my_tokenizer.py:FSQ", "examples/my_world.py:Markov"
LOSS = "examples/my_loss.py:Inverse"


def commands() -> list[str]:
    """The commands in the docstrings of the examples."""
    files = sorted(EXAMPLES.glob("*.py"))
    texts = [ast.get_docstring(ast.parse(file.read_text())) or "" for file in files]
    return [line for text in texts for line in text.splitlines() if "tokenworlds " in line]


def words_of(command: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The arguments of a command, with its PYTHONPATH in effect."""
    words = shlex.split(command)
    if words[0].startswith("PYTHONPATH="):
        monkeypatch.syspath_prepend(os.path.abspath(words.pop(0).partition("=")[2]))
    assert words[0] == "tokenworlds"
    return words[1:]


def chosen(recipe: str, size: str, *assignments: str) -> RunSpec:
    changes = (assignments,)
    return choose_run(Train(recipe=recipe, size=size, device="cpu", threads=1, assignments=changes))


def built(spec: RunSpec) -> Agent:
    """The agent of a run, after a dry run."""
    env = spec.env.make()
    torch.manual_seed(0)
    agent = Agent.build(spec.recipe, env.frame_shape, env.action_space)
    dry_run(agent, spec.recipe, env.frame_shape)
    return agent


@pytest.fixture(autouse=True)
def _at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands name the examples from the root. Reports take longer than tiny runs."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(session, "add_report", lambda *run: run[-1])


def test_every_example_has_a_command() -> None:
    for file in EXAMPLES.glob("*.py"):
        assert any(file.stem in command for command in commands()), file


@pytest.mark.parametrize("command", commands())
def test_the_command_trains_and_resumes_exactly(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    limits = ["--run", str(run), "--steps", "36", "--threads", "1", "--set", *TINY]
    assert main([*words_of(command, monkeypatch), *limits]) == 0
    last = read_metrics(run)[0][-1]
    assert last["gradient_steps"] == 8
    assert ("world/loss/inverse" in last) == (LOSS in command)
    newest = run / "checkpoints" / "step-000000036"
    weights = (newest / "weights.safetensors").read_bytes()
    shutil.rmtree(newest)
    assert main(["resume", str(run), "--trust"]) == 0
    assert (newest / "weights.safetensors").read_bytes() == weights


@pytest.mark.parametrize("size", ["nano", "small", "paper"])
@pytest.mark.parametrize(
    ("recipe", "assignment"),
    [
        ("step-vq-m", f"world.tokenizer={TOKENIZER}"),
        ("examples/my_recipe.py:with_fsq", "world.memory=8"),
        ("step-vq-m", f"world={WORLD}"),
    ],
)
def test_the_parts_fit_at_every_size(recipe: str, assignment: str, size: str) -> None:
    agent = built(chosen(recipe, size, assignment))
    assert isinstance(agent.world, World)
    assert isinstance(agent.get_submodule("world.tokenizer"), Tokenizer)


def test_a_recipe_may_declare_a_size() -> None:
    spec = chosen("examples/my_recipe.py:short_memory", "debug")
    assert (spec.size, spec.recipe.steps, spec.recipe.num_envs) == ("debug", 500, 4)


def test_the_loss_has_a_default_weight_that_a_recipe_overrides() -> None:
    spec = chosen("step-vq-m", "nano", f"world={LOSS}", "learning.world.scales.inverse=1")
    agent = built(spec)
    losses = agent.trainables(None)["world"].losses(blank_segment(agent, agent.frame_shape))
    assert isinstance(losses, Losses)
    assert losses.weights({})["inverse"] == 0.1
    assert losses.weights(spec.recipe.learning["world"].scales)["inverse"] == 1.0


def test_an_agent_with_own_parts_loads_with_their_modules(tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = ["train", "--run", str(run), "--steps", "16", "--threads", "1", "--set", *TINY]
    assert main([*words, f"world.tokenizer={TOKENIZER}"]) == 0
    my_tokenizer = load_module(TOKENIZER.partition(":")[0])
    agent = Agent.load(run, modules={"my_tokenizer": my_tokenizer})
    assert isinstance(agent.get_submodule("world.tokenizer"), my_tokenizer.FSQ)
