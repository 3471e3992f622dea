"""Weights of the released implementations become agents that compute the same."""

from pathlib import Path

import pytest
import torch
from iris_reference import IrisReference, random_weights
from torch import Tensor

import tokenworlds as tw
from tokenworlds.cli import main

ENV = "atari:Pong"


@pytest.fixture(scope="module")
def weights() -> dict[str, Tensor]:
    return random_weights()


@pytest.fixture(scope="module")
def file(weights: dict[str, Tensor], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("iris") / "Pong.pt"
    torch.save(weights, path)
    return path


@pytest.fixture(scope="module")
def agent(file: Path) -> tw.Agent:
    return tw.Agent.import_weights("iris", file, env=ENV)


@pytest.fixture(scope="module")
def reference(weights: dict[str, Tensor]) -> IrisReference:
    return IrisReference(weights)


@pytest.fixture(scope="module")
def frames() -> Tensor:
    coarse = torch.rand(4, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    return torch.nn.functional.interpolate(coarse, size=(64, 64), mode="bilinear")


def assert_close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def refused(path: Path, weights: object) -> str:
    """Save, import, and return the sentence."""
    torch.save(weights, path)
    with pytest.raises(tw.UserError) as caught:
        tw.Agent.import_weights("iris", path, env=ENV)
    return str(caught.value)


@torch.no_grad()
def test_the_imported_tokenizer_gives_the_same_tokens(
    agent: tw.Agent, reference: IrisReference, frames: Tensor
) -> None:
    tokens = agent.module.world.tokenizer.encode(frames).index  # type: ignore[attr-defined]
    assert len(tokens.unique()) > 1
    assert torch.equal(tokens, reference.tokens(frames))


@torch.no_grad()
def test_the_imported_tokenizer_decodes_to_the_same_frames(
    agent: tw.Agent, reference: IrisReference
) -> None:
    tokens = torch.randint(512, (2, 16), generator=torch.Generator().manual_seed(2))
    tokenizer = agent.module.world.tokenizer  # type: ignore[attr-defined]
    decoded = tokenizer.decode(tokenizer.look_up(tokens))
    expected = reference.frames(tokens)
    assert expected.std() > 0.1
    assert_close(decoded, expected)


@torch.no_grad()
def test_the_imported_world_predicts_the_same(agent: tw.Agent, reference: IrisReference) -> None:
    generator = torch.Generator().manual_seed(3)
    tokens = torch.randint(512, (2, 3, 16), generator=generator)
    actions = torch.randint(6, (2, 3), generator=generator)
    world = agent.module.world
    dynamics = world.dynamics  # type: ignore[attr-defined]
    blocks = world._blocks(tokens, world.action_space.encode(actions))  # type: ignore[attr-defined]
    hidden = dynamics.read(blocks, torch.zeros(2, 3, dtype=torch.bool)).flatten(1, 2)
    expected = reference.hidden(tokens, actions)
    assert_close(hidden, expected)
    logits = dynamics.next_token(hidden)
    assert_close(logits, reference.head("observations", expected))
    rewards = reference.head("rewards", expected).softmax(-1)
    mean = rewards[..., 2] - rewards[..., 0]
    assert_close(dynamics.reward(hidden).mean, mean)
    ends = reference.head("ends", expected).softmax(-1)[..., 1]
    assert_close(dynamics.termination(hidden).mean, ends)


@torch.no_grad()
def test_the_imported_policy_acts_the_same(
    agent: tw.Agent, reference: IrisReference, frames: Tensor
) -> None:
    behaviour = agent.module.behaviour
    memory = behaviour.network(frames, behaviour.initial(4))  # type: ignore[attr-defined]
    logits, value = reference.policy(frames)
    actor = behaviour.network.actor(memory.hidden)  # type: ignore[attr-defined]
    critic = behaviour.network.critic(memory.hidden)  # type: ignore[attr-defined]
    assert_close(actor, logits)
    assert_close(critic, value)


def test_the_order_of_names_does_not_matter(
    agent: tw.Agent, weights: dict[str, Tensor], tmp_path: Path
) -> None:
    path = tmp_path / "reversed.pt"
    torch.save(dict(reversed(weights.items())), path)
    other = tw.Agent.import_weights("iris", path, env=ENV).module.state_dict()
    state = agent.module.state_dict()
    assert list(other) == list(state)
    assert all(torch.equal(each, other[name]) for name, each in state.items())


def test_buffers_and_the_network_of_the_perceptual_loss_may_be_missing(
    weights: dict[str, Tensor], tmp_path: Path
) -> None:
    unused = ("lpips", "mask", "indices")
    kept = {name: each for name, each in weights.items() if not {*unused} & {*name.split(".")}}
    assert len(kept) == 578
    torch.save(kept, tmp_path / "small.pt")
    assert tw.Agent.import_weights("iris", tmp_path / "small.pt", env=ENV).env == ENV


def test_a_missing_weight_is_named(weights: dict[str, Tensor], tmp_path: Path) -> None:
    name = "world_model.transformer.blocks.3.attn.key.bias"
    rest = {key: each for key, each in weights.items() if key != name}
    assert f"it lacks {name}" in refused(tmp_path / "x.pt", rest)


def test_an_unknown_weight_is_named(weights: dict[str, Tensor], tmp_path: Path) -> None:
    more = {**weights, "actor_critic.conv5.weight": torch.zeros(1)}
    assert "it has unknown actor_critic.conv5.weight" in refused(tmp_path / "x.pt", more)


def test_a_weight_of_another_shape_is_named(weights: dict[str, Tensor], tmp_path: Path) -> None:
    wrong = {**weights, "world_model.pos_emb.weight": torch.zeros(170, 256)}
    sentence = refused(tmp_path / "x.pt", wrong)
    assert (
        "world_model.pos_emb.weight of 170x256 (float32), instead of 340x256 (float32)" in sentence
    )


def test_an_agent_for_other_actions_is_refused(weights: dict[str, Tensor], tmp_path: Path) -> None:
    names = ("actor_critic.actor_linear.weight", "actor_critic.actor_linear.bias")
    wrong = {**weights, **{name: weights[name][:4] for name in names}}
    sentence = refused(tmp_path / "x.pt", wrong)
    assert "is for 4 discrete actions, but atari:Pong has 6 discrete actions" in sentence


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (7, "holds a value of type int"),
        ({"optimizer_world_model": {}}, "holds optimisers"),
        ({"a": 1}, "holds 'a' of type int"),
        ({"a": torch.zeros(1)}, "it lacks actor_critic.actor_linear.bias and 577 more"),
        (Path("x"), "is no file of tensors that torch wrote"),
    ],
)
def test_other_files_are_refused_with_a_reason(
    content: object, reason: str, tmp_path: Path
) -> None:
    assert reason in refused(tmp_path / "x.pt", content)


def test_a_file_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(tw.UserError, match=r"cannot read .*: No such file"):
        tw.Agent.import_weights("iris", tmp_path / "x.pt", env=ENV)


def test_an_unknown_layout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(tw.UserError, match="did you mean 'iris'"):
        tw.Agent.import_weights("irsi", tmp_path / "x.pt", env=ENV)


def test_the_command_writes_an_agent_that_loads(
    file: Path, agent: tw.Agent, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "agent"
    assert main(["import", "iris", str(file), "--env", ENV, "--out", str(out)]) == 0
    assert str(out / "weights.safetensors") in capsys.readouterr().out
    card = (out / "README.md").read_text()
    assert "Imported from a file of the released implementation of IRIS." in card
    assert 'license: "other"' in card
    loaded = tw.Agent.load(out).module.state_dict()
    assert all(torch.equal(each, loaded[name]) for name, each in agent.module.state_dict().items())
