"""`tokenworlds film`, and dreams as videos."""

import importlib.util
import json
import re
import subprocess
from pathlib import Path

import imageio_ffmpeg
import pytest
from PIL import Image
from tiny_runs import sentence

from tokenworlds.cli import main


def film(run: Path, *words: str) -> int:
    return main(["film", str(run), "--episodes", "2", *words])


def video(path: str) -> tuple[str, list[bytes]]:
    """What ffmpeg says of a video, and its frames."""
    words = [imageio_ffmpeg.get_ffmpeg_exe(), "-i", path, "-pix_fmt", "gray", "-f", "rawvideo", "-"]
    done = subprocess.run(words, capture_output=True, check=True)
    about = done.stderr.decode()
    size = re.search(r"Video: .* (\d+)x(\d+)", about)
    assert size is not None
    length = int(size[1]) * int(size[2])
    return about, [done.stdout[at : at + length] for at in range(0, len(done.stdout), length)]


def test_a_film_shows_every_step_and_holds_the_ends(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert film(finished, "--json", "--out", "film.webp", "--fps", "5") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["out"] == "film.webp"
    assert told["lengths"] == [7, 7]  # Games of catch.
    assert told["cut"] == [False, False]
    with Image.open("film.webp") as animation:
        # The encoder merges equal images: an end of a second is one image, shown for longer.
        assert animation.n_frames == 2 * 8  # type: ignore[attr-defined]
        assert min(animation.size) >= 448


def test_a_film_and_a_dream_are_videos_that_players_read(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert film(finished, "--out", "film.mp4", "--longest", "4", "--fps", "4") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].count("(cut)") == 2
    assert lines[1] == "file    film.mp4"
    about, frames = video("film.mp4")
    assert "Video: h264" in about
    assert " 4 fps" in about
    assert len(frames) == 2 * (1 + 3 + 4)
    assert frames[0] != frames[2]
    assert main(["dream", str(finished), "--horizon", "3", "--out", "dream.mp4"]) == 0
    assert len(video("dream.mp4")[1]) == 5


def test_a_seed_determines_the_film(finished: Path) -> None:
    for name, seed in (("a", "3"), ("b", "3"), ("c", "4")):
        assert film(finished, "--seed", seed, "--out", f"{name}.gif") == 0
    same, again, other = (Path(f"{name}.gif").read_bytes() for name in "abc")
    assert same == again != other


def test_a_suffix_that_is_not_known_names_those_that_are(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert film(finished, "--out", "film.avi") == 2
    text = sentence(capsys.readouterr().err)
    assert text == "cannot write to film.avi: its name must end in one of .gif, .mp4, .webp"


@pytest.mark.parametrize("command", ["film", "dream"])
def test_a_video_without_its_extra_is_one_sentence(
    finished: Path,
    command: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main([command, str(finished), "--out", "x.mp4"]) == 2
    text = sentence(capsys.readouterr().err)
    assert text == (
        "x.mp4 needs an extra: pip install 'tokenworlds[video]', or choose one of .gif, .webp"
    )
