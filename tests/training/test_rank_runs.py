"""A run on two ranks: killed at any time, it stops with a sentence and resumes exactly."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from rank_processes import ENDS_WITHIN, finish, start

RANKS, STEPS = 2, 96
TINY = (
    "num_envs=3",
    "schedule.warm_up=48",
    "learning.world.shift=2",
    "learning.world.batch=3",
    "learning.world.length=8",
    "learning.behaviour.batch=4",
    "behaviour.horizon=3",
    "evaluation.every=48",
    "evaluation.episodes=2",
    "evaluation.final_episodes=2",
    "housekeeping.log_every=9",
    "housekeeping.save_every=18",
    'schedule.updates={"world":0.25,"behaviour":0.25}',
)
pytestmark = pytest.mark.slow


def training(run: Path) -> list[str]:
    words = ["-m", "tokenworlds", "train", "step-vq-m", "--run", str(run), "--env", "catch"]
    return [*words, "--steps", str(STEPS), "--threads", "1", "--set", *TINY]


def resuming(run: Path) -> list[str]:
    return ["-m", "tokenworlds", "resume", str(run)]


def kill_after(words: list[str], lines: int, victim: int) -> str:
    """Kill a rank after this many lines of rank 0; returns what the other one says at its end."""
    ranks = start(words, RANKS)
    assert ranks[0].stdout is not None
    seen = [line for line, _ in zip(ranks[0].stdout, range(lines), strict=False)]
    assert len(seen) == lines, seen
    ranks[victim].send_signal(signal.SIGKILL)
    _, errors = ranks[1 - victim].communicate(timeout=ENDS_WITHIN)
    ranks[victim].communicate()
    assert ranks[1 - victim].returncode == 1
    return errors


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("straight") / "run"
    finish(start(training(run), RANKS))
    return run


def final_state(run: Path) -> dict[str, bytes]:
    """The tensors of the last checkpoint, the final evaluation and the metrics."""
    newest = sorted((run / "checkpoints").glob("step-*"))[-1]
    found = {path.name: path.read_bytes() for path in newest.glob("*.safetensors")}
    names = ("evaluation.json", "metrics.jsonl")
    return found | {name: (run / name).read_bytes() for name in names}


def test_a_killed_rank_stops_the_other_and_the_run_resumes_exactly(
    tmp_path: Path, straight: Path
) -> None:
    run = tmp_path / "run"
    for words, lines, victim in ((training(run), 8, 1), (resuming(run), 3, 0)):
        sentence = kill_after(words, lines, victim)
        assert "has lost another rank" in sentence
        assert f"torchrun --nproc-per-node 2 -m tokenworlds resume {run}" in sentence
        assert "Traceback" not in sentence
    finish(start(resuming(run), RANKS))
    assert final_state(run) == final_state(straight)


def test_one_process_collects_and_learns_the_same(tmp_path: Path, straight: Path) -> None:
    alone = tmp_path / "alone"
    finish(start(training(alone), 1))
    files = sorted(path.relative_to(alone) for path in (alone / "replay").rglob("*.bin"))
    assert files
    for name in files:
        assert (alone / name).read_bytes() == (straight / name).read_bytes(), name
    for one, two in zip(metrics(alone), metrics(straight), strict=True):
        assert one.keys() == two.keys()
        for what in (name for name in one if "/loss/" in name):
            assert two[what] == pytest.approx(one[what], rel=1e-3), what


def metrics(run: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_another_number_of_ranks_is_refused(straight: Path) -> None:
    words = [sys.executable, *resuming(straight), "--steps", str(2 * STEPS)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "was started on 2 ranks, not 1" in done.stderr


def torchrun(words: list[str]) -> subprocess.Popen[str]:
    """Started in a process group of its own, as a terminal does."""
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS), "-m"]
    return subprocess.Popen(
        [sys.executable, *launch, "--", *words[1:]],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )


def test_ctrl_c_saves_a_run_of_torchrun_which_resumes_exactly(
    tmp_path: Path, straight: Path
) -> None:
    run = tmp_path / "run"
    process = torchrun(training(run))
    assert process.stdout is not None
    lines = [line for line, _ in zip(process.stdout, range(9), strict=False)]
    os.killpg(process.pid, signal.SIGINT)
    rest, _ = process.communicate(timeout=ENDS_WITHIN)
    assert "Stopped at step" in rest, (lines, rest)
    resumed = torchrun(resuming(run))
    output, errors = resumed.communicate(timeout=ENDS_WITHIN)
    assert resumed.returncode == 0, errors[-2000:]
    assert output.count("score") == 1, "rank 0 alone prints"
    assert (run / "report.html").exists()
    assert final_state(run) == final_state(straight)


HANGING = """
import datetime, sys
from tokenworlds.core import group
group.PATIENCE = datetime.timedelta(seconds=2)
with group.joined() as ranks:
    if ranks.leads:
        ranks.agree(False)
    else:
        sys.stdin.read()
"""


def test_a_rank_that_does_not_answer_is_given_up() -> None:
    waiting, hanging = start(["-c", HANGING], RANKS)
    _, errors = waiting.communicate(timeout=ENDS_WITHIN)
    hanging.kill()
    hanging.communicate()
    assert "rank 0 of 2 has lost another rank" in errors
