"""Weights of the released STORM become an agent that computes the same."""

from pathlib import Path
from typing import Any

import pytest
import torch
from storm_reference import StormReference, Weights, random_files
from torch import Tensor

import tokenworlds as tw
from tokenworlds.cli import main

ENV = "atari:Pong"


@pytest.fixture(scope="module")
def files() -> dict[str, Weights]:
    return random_files()


@pytest.fixture(scope="module")
def paths(files: dict[str, Weights], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("storm")
    found = [folder / f"{name}_100000.pth" for name in files]
    for path, weights in zip(found, files.values(), strict=True):
        torch.save(weights, path)
    return found


@pytest.fixture(scope="module")
def agent(paths: list[Path]) -> tw.Agent:
    return tw.Agent.import_weights("storm", *paths, env=ENV)


@pytest.fixture(scope="module")
def world(agent: tw.Agent) -> Any:
    return agent.module.world


@pytest.fixture(scope="module")
def reference(files: dict[str, Weights]) -> StormReference:
    return StormReference(files["world_model"] | files["agent"])


@pytest.fixture(scope="module")
def sample() -> Tensor:
    index = torch.randint(32, (2, 5, 32), generator=torch.Generator().manual_seed(1))
    return torch.nn.functional.one_hot(index, 32).float()


def assert_close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_the_imported_tokenizer_computes_the_same(
    world: Any, reference: StormReference, sample: Tensor
) -> None:
    frames = torch.rand(3, 3, 64, 64, generator=torch.Generator().manual_seed(2))
    share = world.tokenizer.config.unimix
    probs = (1 - share) * reference.posterior(frames).softmax(-1) + share / 32
    assert_close(world.tokenizer.encode(frames).logits.exp(), probs)
    assert_close(world.tokenizer._decode(sample[:, 0]), reference.decode(sample[:, 0]))


@torch.no_grad()
def test_the_imported_world_predicts_the_same(
    world: Any, reference: StormReference, sample: Tensor
) -> None:
    chosen = torch.randint(6, (2, 5), generator=torch.Generator().manual_seed(3))
    action = torch.nn.functional.one_hot(chosen, 6).float()
    reset = torch.zeros(2, 5, dtype=torch.bool)
    hidden, _ = world.sequence.scan(world.mixer(sample, action), reset, world.sequence.initial(2))
    expected = reference.hidden(sample, action)
    assert_close(hidden, expected)
    assert_close(world.prior.logits(hidden), reference.linear("dist_head.prior_head", expected))
    for ours, theirs, output in (
        (world.reward, "reward_decoder", "head"),
        (world.termination, "termination_decoder", "head.0"),
    ):
        logits = reference.network(f"{theirs}.backbone", f"{theirs}.{output}", expected)
        assert_close(ours.network(hidden), logits)


@torch.no_grad()
def test_the_imported_policy_and_critics_compute_the_same(
    agent: tw.Agent, reference: StormReference, sample: Tensor
) -> None:
    behaviour: Any = agent.module.behaviour
    hidden = torch.randn(2, 512, generator=torch.Generator().manual_seed(4))
    feature = torch.cat([sample[:, 0].flatten(1), hidden], dim=-1)
    for name in ("actor", "critic", "slow_critic"):
        found = getattr(behaviour, name)(feature)
        assert_close(found, reference.network(name, f"{name}.6", feature))


def test_the_order_of_names_and_files_does_not_matter(
    agent: tw.Agent, files: dict[str, Weights], tmp_path: Path
) -> None:
    paths = []
    for name, weights in reversed(files.items()):
        paths.append(tmp_path / name)
        torch.save(dict(reversed(weights.items())), paths[-1])
    other = tw.Agent.import_weights("storm", *paths, env=ENV).module.state_dict()
    state = agent.module.state_dict()
    assert all(torch.equal(each, other[name]) for name, each in state.items())


def test_one_file_is_not_enough(paths: list[Path]) -> None:
    with pytest.raises(tw.UserError, match="1 files were given for 2: the world model's and"):
        tw.Agent.import_weights("storm", paths[0], env=ENV)


def test_the_same_file_twice_is_refused(paths: list[Path]) -> None:
    with pytest.raises(tw.UserError, match="which another file has too"):
        tw.Agent.import_weights("storm", paths[0], paths[0], env=ENV)


def test_a_world_model_for_other_actions_than_the_policy_is_refused(
    files: dict[str, Weights], paths: list[Path], tmp_path: Path
) -> None:
    name = "storm_transformer.stem.0.weight"
    wrong = {**files["world_model"], name: torch.zeros(512, 1028)}
    torch.save(wrong, tmp_path / "world.pth")
    with pytest.raises(tw.UserError, match=r"of 512x4 \(float32\), instead of 512x6 \(float32\)"):
        tw.Agent.import_weights("storm", tmp_path / "world.pth", paths[1], env=ENV)


def test_the_imported_agent_plays(paths: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "agent"
    files = map(str, paths)
    assert main(["import", "storm", *files, "--env", ENV, "--out", str(out)]) == 0
    agent = tw.Agent.load(out)
    frame = agent.observation_space.sample()
    assert all(agent.action_space.contains(agent.act(frame)) for _ in range(3))
