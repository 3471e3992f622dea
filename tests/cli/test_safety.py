"""A run folder is data: it executes nothing, stays in its place, and says what does not match."""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from tiny_runs import final_weights, newest_checkpoint, sentence, stop_run, train

from tokenworlds import Agent
from tokenworlds.cli import main
from tokenworlds.core.errors import UserError

pytestmark = pytest.mark.usefixtures("_no_report")
READERS = (["resume"], ["evaluate", "--episodes", "1"], ["dream"])


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A copy of a finished run that tests may change."""
    return Path(shutil.copytree(finished, tmp_path / "copy"))


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    stop_run(tmp_path / "stopped", 40)
    return tmp_path / "stopped"


def command(reader: list[str], run: Path) -> list[str]:
    return [reader[0], str(run), *reader[1:]]


def refusal(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert main(words) == 2
    return sentence(capsys.readouterr().err)


def edit(path: Path, change: Any) -> None:
    """Change a JSON document in place."""
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document, indent=2) + "\n")


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("reader", READERS)
def test_files_that_a_run_names_are_not_executed(
    reader: list[str], run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = tmp_path / "evil.py"
    evil.write_text(f"open({str(tmp_path / 'executed')!r}, 'w')\n")

    def attack(document: Any) -> None:
        document["run"]["recipe_name"] = f"{evil}:x"
        document["run"]["own_files"] = {"evil": str(evil)}
        document["run"]["recipe"]["world"]["type"] = "evil:World.Config"

    edit(run / "run.json", attack)
    assert "uses classes of your own file" in refusal(command(reader, run), capsys)
    with pytest.raises(UserError, match="your own file"):
        Agent.load(run)
    assert not (tmp_path / "executed").exists()


def test_the_module_of_an_environment_is_not_imported(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "evil_games.py").write_text("raise SystemExit(0)\n")
    monkeypatch.syspath_prepend(tmp_path)
    name = "gym:evil_games:Maze-v0"

    def attack(document: Any) -> None:
        document["run"]["env"] |= {"name": name, "protocol": "gym"}

    edit(run / "run.json", attack)
    for reader in READERS[:2]:
        text = refusal(command(reader, run), capsys)
        assert f"{run} plays {name}, which imports the module evil_games" in text
    with pytest.raises(UserError, match="was changed after the run began"):
        Agent.load(run)
    assert "evil_games" not in sys.modules


@pytest.mark.parametrize(
    "name", ["run.json", "metrics.jsonl", "evaluation.json", ".partial-evaluation.json", "replay"]
)
@pytest.mark.parametrize("reader", READERS)
def test_links_are_refused_and_what_they_point_to_stays(
    name: str, reader: list[str], stopped: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outside = tmp_path / "outside"
    place = stopped / name
    if place.exists():
        place.rename(outside)
    else:
        outside.write_text("precious")
    place.symlink_to(outside)
    before = snapshot(tmp_path)
    assert f"{place} is a symbolic link" in refusal(command(reader, stopped), capsys)
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("reader", READERS)
def test_a_pipe_is_refused_before_it_is_opened(
    reader: list[str], stopped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = newest_checkpoint(stopped) / "weights.safetensors"
    weights.unlink()
    os.mkfifo(weights)
    assert f"{weights} is no regular file" in refusal(command(reader, stopped), capsys)


@pytest.mark.parametrize("name", ["../../../outside", "/etc/passwd", "a/../../b", "weights"])
def test_a_manifest_names_only_files_of_its_checkpoint(
    name: str, stopped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    newest = newest_checkpoint(stopped)

    def attack(manifest: Any) -> None:
        manifest[name] = manifest["weights.safetensors"]

    edit(newest / "manifest.json", attack)
    assert main(["evaluate", str(stopped), "--episodes", "1"]) == 0
    assert f"checkpoint {newest.name} is skipped" in capsys.readouterr().err


def test_a_recipe_that_asks_for_more_memory_than_its_weights_is_refused(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def attack(document: Any) -> None:
        document["run"]["recipe"]["world"]["sequence"]["width"] = 2**16

    for path in (run / "run.json", *run.glob("checkpoints/*/run.json")):
        edit(path, attack)
    for manifest in run.glob("checkpoints/*/manifest.json"):
        forge(manifest)
    text = refusal(["evaluate", str(run), "--episodes", "1"], capsys)
    assert "does not fit its recipe: ValueError: its weights have other shapes" in text


def forge(path: Path) -> None:
    """Let a manifest list the files as they are."""
    from tokenworlds.core.files import sha256

    found = {name: (path.parent / name).read_bytes() for name in json.loads(path.read_text())}
    extents = {name: [len(content), sha256(content)] for name, content in found.items()}
    path.write_text(json.dumps(extents))


@pytest.mark.parametrize("reader", READERS)
def test_a_changed_run_json_is_named_with_the_field(
    reader: list[str], stopped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def attack(document: Any) -> None:
        document["run"]["recipe"]["learning"]["world"]["optimiser"]["rate"] = 0.5

    edit(stopped / "run.json", attack)
    text = refusal(command(reader, stopped), capsys)
    assert "differs at run.recipe.learning.world.optimiser.rate: 0.5, not 0.002" in text
    shutil.copy(newest_checkpoint(stopped) / "run.json", stopped / "run.json")
    assert main(command(reader, stopped)) == 0


def flip(path: Path, offset: int) -> None:
    content = bytearray(path.read_bytes())
    content[offset] ^= 1
    path.write_bytes(content)


def test_a_flipped_byte_in_replay_does_not_condemn_the_weights(
    stopped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flip(stopped / "replay/env-000/frames-000000.bin", 0)
    before = snapshot(stopped / "checkpoints")
    text = refusal(["resume", str(stopped)], capsys)
    assert "its weights are intact: 'tokenworlds resume" in text
    assert "--without-replay' collects anew" in text
    assert "has no replay to dream from" in refusal(["dream", str(stopped)], capsys)
    assert main(["evaluate", str(stopped), "--episodes", "1"]) == 0
    assert capsys.readouterr().err == ""
    Agent.load(stopped, strict=True)
    assert snapshot(stopped / "checkpoints") == before
    assert main(["resume", str(stopped), "--without-replay"]) == 0
    assert "lost its replay at step 40 and collected anew" in capsys.readouterr().err
    assert newest_checkpoint(stopped).name == "step-000000064"


def test_damage_in_later_steps_of_replay_goes_back_to_an_earlier_checkpoint(
    stopped: Path, finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flip(stopped / "replay/env-000/frames-000000.bin", -1)
    assert main(["resume", str(stopped)]) == 0
    assert "checkpoint step-000000040 is skipped" in capsys.readouterr().err
    assert final_weights(stopped) == final_weights(finished)


@pytest.mark.parametrize("reader", READERS)
def test_an_error_of_the_disk_is_no_damage(
    reader: list[str],
    stopped: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from tokenworlds.core import files

    real, before = files.read_bytes, snapshot(stopped)

    def fail(root: Path, name: str, *rest: Any) -> bytes:
        if name == "weights.safetensors":
            raise OSError(5, "Input/output error", str(root / name))
        return real(root, name, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(files, "read_bytes", fail)
        text = refusal(command(reader, stopped), capsys)
    assert "weights.safetensors: input/output error" in text
    assert snapshot(stopped) == before
    assert main(command(reader, stopped)) == 0


def test_loading_older_weights_is_announced(stopped: Path) -> None:
    flip(newest_checkpoint(stopped) / "weights.safetensors", -1)
    with pytest.warns(UserWarning, match="checkpoint step-000000040 is skipped"):
        Agent.load(stopped)
    with pytest.raises(UserError, match="checkpoint step-000000040 is skipped"):
        Agent.load(stopped, strict=True)


def test_an_edited_score_is_not_reported(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written = (run / "evaluation.json").read_text()

    def attack(document: Any) -> None:
        document["returns"] = [1.0] * len(document["returns"])

    edit(run / "evaluation.json", attack)
    capsys.readouterr()
    assert main(["resume", str(run)]) == 0
    noted = f"note: {run}/evaluation.json is damaged: its values do not have its checksum; it is"
    assert capsys.readouterr().err == f"{noted} not used\n"
    assert (run / "evaluation.json").read_text() == written


def test_edited_metrics_of_a_finished_run_are_announced(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flip(run / "metrics.jsonl", len(b'{"agent_steps": '))
    capsys.readouterr()
    assert main(["resume", str(run)]) == 0
    assert capsys.readouterr().err == f"note: {run}/metrics.jsonl is not as it was written\n"


def test_deleting_a_lock_file_lets_nobody_in(
    stopped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from tokenworlds.runs.folder import RunFolder

    holder = RunFolder.open(stopped)
    holder.lock()
    assert not [path.name for path in stopped.iterdir() if "lock" in path.name]
    assert "is in use by another process" in refusal(["resume", str(stopped)], capsys)
    holder.unlock()


def test_a_run_whose_file_was_replaced_does_not_save(
    stopped: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tokenworlds.training.loop import Loop

    resume, before = Loop.resume, snapshot(stopped / "checkpoints")

    def replace_and_resume(loop: Loop, with_replay: bool) -> None:
        content = (stopped / "run.json").read_bytes()
        (stopped / "other").write_bytes(content)
        os.replace(stopped / "other", stopped / "run.json")
        resume(loop, with_replay)

    monkeypatch.setattr(Loop, "resume", replace_and_resume)
    assert "was replaced while the run was training" in refusal(["resume", str(stopped)], capsys)
    assert snapshot(stopped / "checkpoints") == before


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xfe" * 5000,
        b"[" * 100_000,
        b'{"format": 3, "run": 3}',
        b'{"format": 3, "run": {"type": []}}',
        b'{"format": 3, "run": {"type": "os:system"}, "machine": 7}',
        b'{"format": NaN}',
        b'{"format": 3, "run": {"type": "tokenworlds.runs.spec:RunSpec", "seed": {}}}',
        b"3",
        b"",
        b"9" * 5000,
    ],
)
@pytest.mark.parametrize("reader", READERS)
def test_a_nonsensical_run_json_gets_one_short_sentence(
    content: bytes, reader: list[str], run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run / "run.json").write_bytes(content)
    assert len(refusal(command(reader, run), capsys)) < 600


def test_a_folder_that_is_no_checkpoint_is_ignored(
    stopped: Path, finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (stopped / "checkpoints" / "step-abc").mkdir()
    assert main(["resume", str(stopped)]) == 0
    (stopped / "checkpoints" / "step-abc").rmdir()
    assert final_weights(stopped) == final_weights(finished)


def test_a_copy_of_a_run_that_trains_opens_or_says_why_not(
    stopped: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The copy has later checkpoints than its replay."""
    copy = tmp_path / "copy"
    stop_run(copy, 8)
    shutil.rmtree(copy / "checkpoints")
    shutil.copytree(stopped / "checkpoints", copy / "checkpoints")
    text = refusal(["resume", str(copy)], capsys)
    assert "cannot be continued with its replay" in text
    assert main(["evaluate", str(copy), "--episodes", "1"]) == 0


def test_training_in_a_used_folder_is_refused(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = snapshot(finished)
    assert "already holds a run" in refusal(train(finished), capsys)
    assert snapshot(finished) == before


@pytest.mark.parametrize("name", ["config.json", "weights.safetensors"])
def test_a_changed_saved_agent_is_refused(name: str, finished: Path, tmp_path: Path) -> None:
    saved = Agent.load(finished).save(tmp_path / "saved")
    flip(saved / name, (saved / name).stat().st_size // 2)
    with pytest.raises(UserError, match="is damaged"):
        Agent.load(saved)


def test_a_lost_checkpoint_is_announced(
    stopped: Path, finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(newest_checkpoint(stopped))
    capsys.readouterr()
    assert main(["evaluate", str(stopped), "--episodes", "1"]) == 0
    assert "checkpoint step-000000040 is skipped: it is missing" in capsys.readouterr().err
    with pytest.raises(UserError, match="it is missing"):
        Agent.load(stopped, strict=True)
    assert main(["resume", str(stopped)]) == 0
    assert final_weights(stopped) == final_weights(finished)


def test_a_kill_while_old_checkpoints_are_deleted_leaves_none_behind(
    run: Path, finished: Path
) -> None:
    place = run / "checkpoints"
    for stray in ("step-000000016", ".deleting-step-000000032", ".partial-step-000000048"):
        shutil.copytree(newest_checkpoint(run), place / stray)
    (place / "latest").write_text("step-000000048\n")
    assert main(["resume", str(run)]) == 0
    assert snapshot_names(place) == snapshot_names(finished / "checkpoints")


def snapshot_names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_a_checkpoint_with_a_nonsensical_copy_of_run_json_is_skipped(
    stopped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    newest = newest_checkpoint(stopped)
    (newest / "run.json").write_bytes(b"{")
    forge(newest / "manifest.json")
    assert main(["evaluate", str(stopped), "--episodes", "1"]) == 0
    assert f"checkpoint {newest.name} is skipped" in capsys.readouterr().err
