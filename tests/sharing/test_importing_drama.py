"""Weights of the released DRAMA become a world model that computes the same."""

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from drama_reference import DramaReference, Weights, random_files
from torch import Tensor

import tokenworlds as tw
from tokenworlds.cli import main

ENV = "atari:Pong"


def imported(paths: list[Path]) -> tw.Agent:
    with pytest.warns(UserWarning, match="the policy begins anew"):
        return tw.Agent.import_weights("drama", *paths, env=ENV)


@pytest.fixture(scope="module")
def files() -> dict[str, Weights]:
    return random_files()


@pytest.fixture(scope="module")
def paths(files: dict[str, Weights], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("drama")
    found = [folder / f"{name}.pth" for name in files]
    for path, weights in zip(found, files.values(), strict=True):
        torch.save(weights, path)
    return found


@pytest.fixture(scope="module")
def agent(paths: list[Path]) -> tw.Agent:
    return imported(paths)


@pytest.fixture(scope="module")
def world(agent: tw.Agent) -> Any:
    return agent.module.world


@pytest.fixture(scope="module")
def reference(files: dict[str, Weights]) -> DramaReference:
    return DramaReference(files["world_model"] | files["agent"])


@pytest.fixture(scope="module")
def sample() -> Tensor:
    index = torch.randint(32, (2, 5, 32), generator=torch.Generator().manual_seed(1))
    return torch.nn.functional.one_hot(index, 32).float()


def assert_close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)


@torch.no_grad()
def test_the_imported_tokenizer_computes_the_same(
    world: Any, reference: DramaReference, sample: Tensor
) -> None:
    frames = torch.rand(3, 3, 64, 64, generator=torch.Generator().manual_seed(2))
    share = world.tokenizer.config.unimix
    probs = (1 - share) * reference.posterior(frames).softmax(-1) + share / 32
    assert_close(world.tokenizer.encode(frames).logits.exp(), probs)
    assert_close(world.tokenizer._decode(sample[:, 0]), reference.decode(sample[:, 0]))


@torch.no_grad()
def test_the_imported_world_predicts_the_same(
    world: Any, reference: DramaReference, sample: Tensor
) -> None:
    chosen = torch.randint(6, (2, 5), generator=torch.Generator().manual_seed(3))
    action = torch.nn.functional.one_hot(chosen, 6).float()
    reset = torch.zeros(2, 5, dtype=torch.bool)
    hidden, _ = world.sequence.scan(world.mixer(sample, action), reset, world.sequence.initial(2))
    expected = reference.hidden(sample, action)
    assert_close(hidden, expected)
    assert_close(world.prior.logits(hidden), reference.linear("dist_head.prior_head", expected))
    for ours, theirs in ((world.reward, "reward"), (world.termination, "termination")):
        name = f"{theirs}_decoder"
        logits = reference.network(f"{name}.backbone", 1, f"{name}.head", expected)
        assert_close(ours.network(hidden), logits)


@torch.no_grad()
def test_the_imported_critics_compute_the_same(
    agent: tw.Agent, reference: DramaReference, sample: Tensor
) -> None:
    behaviour: Any = agent.module.behaviour
    hidden = torch.randn(2, 512, generator=torch.Generator().manual_seed(4))
    feature = torch.cat([sample[:, 0].flatten(1), hidden], dim=-1)
    for name in ("critic", "slow_critic"):
        found = getattr(behaviour, name)(feature)
        assert_close(found, reference.network(name, 3, f"{name}.9", feature))


def test_the_policy_begins_anew_and_the_same_at_each_import(
    agent: tw.Agent, paths: list[Path], files: dict[str, Weights]
) -> None:
    first, again = (each.module.behaviour for each in (agent, imported(paths)))
    ours: Tensor = first.actor.layers[0].weight  # type: ignore[attr-defined]
    assert torch.equal(ours, again.actor.layers[0].weight)  # type: ignore[attr-defined]
    assert not torch.equal(ours, files["agent"]["actor.1.weight"])


def test_neither_order_nor_the_prefix_of_compiled_modules_matters(
    agent: tw.Agent, files: dict[str, Weights], tmp_path: Path
) -> None:
    paths = []
    for name, weights in reversed(files.items()):
        paths.append(tmp_path / name)
        compiled = {f"_orig_mod.{key}": each for key, each in reversed(weights.items())}
        torch.save(compiled, paths[-1])
    other, state = imported(paths).module.state_dict(), agent.module.state_dict()
    assert all(torch.equal(each, other[name]) for name, each in state.items())


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("sequence_model.backbone.layers.0.mixer.in_proj.weight", "it lacks sequence_model"),
        ("actor.2.scale", "it lacks actor.2.scale"),
    ],
)
def test_a_file_that_lacks_a_weight_is_refused(
    files: dict[str, Weights], tmp_path: Path, name: str, sentence: str
) -> None:
    for file, weights in files.items():
        kept = {key: each for key, each in weights.items() if key != name}
        torch.save(kept, tmp_path / file)
    with warnings.catch_warnings(), pytest.raises(tw.UserError, match=sentence):
        tw.Agent.import_weights("drama", *(tmp_path / file for file in files), env=ENV)


def test_the_imported_agent_dreams_and_its_card_says_what_is_missing(
    paths: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "agent"
    assert main(["import", "drama", *map(str, paths), "--env", ENV, "--out", str(out)]) == 0
    assert "note: the policy begins anew" in capsys.readouterr().err
    assert "statistics that no file holds" in (out / "README.md").read_text()
    agent = tw.Agent.load(out)
    dream = agent.imagine(agent.observation_space.sample(), steps=2)
    assert torch.isfinite(torch.as_tensor(dream.rewards)).all()
