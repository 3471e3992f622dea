"""Weights of the released Δ-IRIS become an agent that computes the same."""

from pathlib import Path
from typing import Any

import pytest
import torch
from delta_iris_reference import DeltaIrisReference, random_weights
from torch import Tensor

import tokenworlds as tw
from tokenworlds.core.types import Context

ENVS = {"atari": ("atari:Pong", 6), "crafter": ("crafter", 17)}


@pytest.fixture(scope="module", params=ENVS)
def game(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def weights(game: str) -> dict[str, Tensor]:
    return random_weights(game)


@pytest.fixture(scope="module")
def module(game: str, weights: dict[str, Tensor], tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("delta") / "last.pt"
    torch.save(weights, path)
    return tw.Agent.import_weights("delta-iris", path, env=ENVS[game][0]).module


@pytest.fixture(scope="module")
def reference(weights: dict[str, Tensor]) -> DeltaIrisReference:
    return DeltaIrisReference(weights)


@pytest.fixture(scope="module")
def frames() -> Tensor:
    return torch.rand(2, 3, 3, 64, 64, generator=torch.Generator().manual_seed(1))


def assert_close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_the_imported_tokenizer_computes_the_same(
    module: Any, reference: DeltaIrisReference, frames: Tensor
) -> None:
    tokenizer, action = module.world.tokenizer, torch.tensor([0, 3, 5])
    past, following = frames
    context = Context(past, module.action_space.encode(action))
    tokens = tokenizer.encode(following, context).index
    assert len(tokens.unique()) > 1
    assert torch.equal(tokens, reference.tokens(past, action, following))
    decoded = tokenizer.decode(tokenizer.look_up(tokens), context)
    assert_close(decoded, reference.decode(past, action, tokens))


@torch.no_grad()
def test_the_imported_world_predicts_the_same(
    module: Any, reference: DeltaIrisReference, frames: Tensor
) -> None:
    dynamics = module.world.dynamics
    image = dynamics.image(frames[0])
    assert_close(image, reference.image_token(frames[0]))
    codes, action = torch.tensor([[1, 900, 33, 512]] * 3), torch.tensor([0, 3, 5])
    ours = [dynamics.action(module.action_space.encode(action))[:, None], dynamics.token(codes)]
    tables = [reference.weights[f"world_model.{n}_emb.weight"] for n in ("act", "latents")]
    theirs = [tables[0][action][:, None], tables[1][codes]]
    sequence, reset = dynamics.sequence, torch.zeros(3, 6, dtype=torch.bool)
    hidden, _ = sequence.scan(torch.cat([image[:, None], *ours], 1), reset, sequence.initial(3))
    expected = reference.hidden(torch.cat([image[:, None], *theirs], 1))
    assert_close(hidden, expected)
    heads = {
        "latents": dynamics.next_token,
        "rewards": dynamics.reward.network,
        "ends": dynamics.termination.network,
    }
    for name, head in heads.items():
        assert_close(head(hidden), reference.head(name, expected))


@torch.no_grad()
def test_the_imported_policy_and_its_slow_copy_compute_the_same(
    module: Any, reference: DeltaIrisReference, frames: Tensor
) -> None:
    networks = {"model": module.behaviour.network, "target_model": module.behaviour.target}
    for name, network in networks.items():
        memory = network(frames[0], network.initial(3))
        actor, critic = reference.policy(f"actor_critic.{name}", frames[0])
        assert_close(network.actor(memory.hidden), actor)
        assert_close(network.critic(memory.hidden), critic)


def test_the_state_of_the_codebook_is_imported(module: Any, weights: dict[str, Tensor]) -> None:
    codebook = module.world.tokenizer.codebook
    assert int(codebook.updates) == 7
    assert torch.equal(codebook.usage, weights["tokenizer.quantizer.codewords_freqs"])


def test_the_order_of_names_does_not_matter(
    game: str, module: Any, weights: dict[str, Tensor], tmp_path: Path
) -> None:
    torch.save(dict(reversed(weights.items())), tmp_path / "last.pt")
    env = ENVS[game][0]
    other = tw.Agent.import_weights("delta-iris", tmp_path / "last.pt", env=env).module.state_dict()
    assert all(torch.equal(each, other[name]) for name, each in module.state_dict().items())


def test_weights_for_crafter_do_not_fit_atari(tmp_path: Path) -> None:
    torch.save(random_weights("crafter"), tmp_path / "last.pt")
    with pytest.raises(tw.UserError, match="is for 17 discrete actions, but atari:Pong has 6"):
        tw.Agent.import_weights("delta-iris", tmp_path / "last.pt", env="atari:Pong")
