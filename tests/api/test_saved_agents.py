"""Saved agents: compact weights, recorded steps to dream from, and the agents of the package."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import tokenworlds as tw
from tokenworlds import pretrained
from tokenworlds.agent import TARGET, WEIGHTS, Training, open_agent
from tokenworlds.cli import main
from tokenworlds.core.files import DamagedFile
from tokenworlds.core.storage import compress, expand
from tokenworlds.replay.sampling import gather
from tokenworlds.runs.own_code import Trust
from tokenworlds.sharing.starts import FILE, read_starts

pytest_plugins = ("api_fixtures",)
ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def saved(run: tw.Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run.agent().save(tmp_path_factory.mktemp("saved") / "agent")


@pytest.fixture(scope="module")
def compact(run: tw.Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run.agent().save(tmp_path_factory.mktemp("compact") / "agent", compact=True)


def test_compression_rounds_each_row_to_a_127th_of_its_largest_number() -> None:
    matrix = torch.randn(64, 256) * torch.logspace(-6, 6, 64)[:, None]
    weights = {
        "matrix": matrix,
        "kernel": torch.randn(16, 8, 3, 3),
        "codebook": torch.randn(16, 128),
        "bias": torch.randn(9000),
        "zeros": torch.zeros(64, 256),
    }
    packed = compress(weights)
    assert packed["matrix"].dtype == packed["kernel"].dtype == torch.int8
    assert torch.equal(packed["codebook"], weights["codebook"])
    again = expand(packed)
    assert again.keys() == weights.keys()
    error = (again["matrix"] - matrix).abs().amax(1) / matrix.abs().amax(1)
    assert float(error.max()) <= 0.5 / 127 + 1e-6
    assert torch.equal(again["bias"], weights["bias"])
    assert torch.equal(again["zeros"], weights["zeros"])


def test_a_compact_agent_is_smaller_and_computes_nearly_the_same(
    saved: Path, compact: Path
) -> None:
    assert (compact / WEIGHTS).stat().st_size < (saved / WEIGHTS).stat().st_size
    assert not any(name.startswith(TARGET) for name in load_file(compact / WEIGHTS))
    whole, small = (tw.Agent.load(folder).module.state_dict() for folder in (saved, compact))
    assert whole.keys() == small.keys()
    for name, tensor in whole.items():
        if tensor.is_floating_point() and not name.startswith(TARGET):
            largest = float(tensor.abs().max()) + 1e-9
            assert float((tensor - small[name]).abs().max()) <= largest / 127, name
    assert "rounded to bytes" in (compact / "README.md").read_text()


def test_a_saved_agent_knows_its_training(saved: Path) -> None:
    opened = open_agent(saved, Trust())
    assert opened.training == Training("step-vq-m", "nano", 0, 48)
    assert tw.Agent.load(saved).steps == 48
    assert repr(tw.Agent.load(saved)).startswith("Agent(step-vq-m (nano), toy:catch, 48 steps")


def test_recorded_steps_are_saved_as_they_were(run: tw.Run, saved: Path) -> None:
    agent = run.agent()
    starts = read_starts(saved, agent.module)
    assert starts is not None
    assert starts.frame.shape == (4, 14, 16, 16, 3)
    replay = agent.replay
    assert replay is not None
    begins = np.array([[env, 0] for env in range(replay.num_envs)])
    frames = gather(replay, begins, replay.length).frame.flatten(0, 1).numpy()
    for frame in starts.frame.flatten(0, 1)[::5].numpy():
        assert (frames == frame).all(axis=(1, 2, 3)).any()


def test_damaged_starts_are_one_sentence(saved: Path, tmp_path: Path) -> None:
    module = tw.Agent.load(saved).module
    content = load_file(saved / FILE)
    for name, wrong in (
        ("frames", content["frames"][:50].clone()),
        ("reward", torch.zeros(1)),
        ("first", torch.zeros(4, 1000, dtype=torch.bool)),
    ):
        save_file({**content, name: wrong}, tmp_path / FILE)
        with pytest.raises(DamagedFile, match=FILE):
            read_starts(tmp_path, module)


@pytest.mark.parametrize("command", ["dream", "film", "evaluate"])
def test_commands_take_a_saved_agent_and_leave_its_folder_alone(
    compact: Path, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = {path.name: path.read_bytes() for path in compact.iterdir()}
    more = [] if command == "dream" else ["--episodes", "1"]
    assert main([command, str(compact), *more]) == 0
    assert {path.name: path.read_bytes() for path in compact.iterdir()} == before
    written = {"dream": ["dream.webp"], "film": ["film.webp"], "evaluate": []}
    assert [path.name for path in tmp_path.iterdir()] == written[command]


@pytest.mark.parametrize("name", pretrained.names())
def test_pretrained_agents_dream_and_act(name: str) -> None:
    agent = tw.Agent.load(f"pretrained:{name}")
    opened = open_agent(name, Trust())
    starts = read_starts(pretrained.folder_of(name), opened.agent)
    assert starts is not None
    dream = agent.imagine(starts.frame[0, 0].numpy(), steps=2)
    assert np.isfinite(dream.rewards).all()
    assert agent.steps > 0
    card = (pretrained.folder_of(name) / "README.md").read_text()
    assert all(f"| {row} |" in card for row in ("commit", "seed", "protocol", "agent steps"))
    assert "    tokenworlds train " in card


def test_the_pretrained_agents_are_small_and_on_their_page() -> None:
    files = [path for path in pretrained.ROOT.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= 10_000_000
    page = (ROOT / "docs" / "pretrained.md").read_text()
    assert pretrained.names()
    assert all(f"| `{name}` |" in page for name in pretrained.names())


def test_a_pretrained_name_that_is_not_known_is_one_sentence() -> None:
    with pytest.raises(
        tw.UserError, match="unknown pretrained agent 'dreamer-v3-breakot'"
    ) as error:
        tw.Agent.load("pretrained:dreamer-v3-breakot")
    assert "did you mean 'dreamer-v3-breakout'?" in str(error.value)


def test_a_folder_comes_before_a_pretrained_agent_of_its_name(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = pretrained.names()[0]
    monkeypatch.chdir(tmp_path)
    Path(name).symlink_to(saved)
    assert pretrained.resolve(name) == Path(name)
    assert pretrained.resolve(f"pretrained:{name}") == pretrained.ROOT / name
