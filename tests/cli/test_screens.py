"""Screens on terminals of any size and without a terminal."""

import io
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tokenworlds.commands.screen import (
    LiveScreen,
    PlainScreen,
    SteadyLive,
    format_duration,
    format_rate,
    format_value,
    open_screen,
    sparkline,
)
from tokenworlds.envs.catalogue import EnvSpec
from tokenworlds.recipes.catalogue import load
from tokenworlds.runs.spec import RunSpec

SPEC = RunSpec(
    recipe_name="step-vq-m",
    size="nano",
    recipe=replace(load("step-vq-m", "nano").recipe, steps=5000),
    env=EnvSpec("catch"),
    seed=7,
    threads=1,
)
FOLDER = Path("runs/somewhere")
RATES = {
    "agent_steps": 812.3,
    "world_updates": 4.126,
    "behaviour_updates": 6.2,
    "imagined_steps": 6369.0,
    "evaluation_episodes": 12.0,
}


def events() -> Iterator[dict[str, Any]]:
    for step in range(64, 3200, 64):
        share = step / 3200
        event = {"agent_steps": step, "collect/return": 2 * share - 1}
        for term in ("reconstruction", "commitment", "dynamics", "reward", "termination", "total"):
            event[f"world/loss/{term}"] = 2400.0 * (1 - share)
        for term in ("actor", "entropy", "slow_critic", "total"):
            event[f"behaviour/loss/{term}"] = -0.01 * share
        yield event
    yield {"agent_steps": 3136, "evaluation/return": 0.95, "evaluation/episodes": 20}


def drawn(width: int, height: int, with_events: bool = True) -> list[str]:
    console = Console(file=io.StringIO(), force_terminal=True, width=width, height=height)
    screen = LiveScreen(SPEC, FOLDER, console)
    if with_events:
        for event in events():
            screen.event(event)
        screen.progress(3136, RATES, 95.0, 0.6272)
        screen.note("checkpoint step-000000500 is damaged and skipped")
    with console.capture() as captured:
        console.print(screen)
    return re.sub(r"\x1b\[[0-9;]*m", "", captured.get()).splitlines()


@pytest.mark.parametrize(
    ("width", "height"), [(80, 24), (120, 40), (72, 24), (60, 30), (60, 15), (80, 12)]
)
def test_the_screen_fits_its_terminal_and_shows_everything(width: int, height: int) -> None:
    lines = drawn(width, height)
    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    for part in ("step-vq-m nano on toy:catch, seed 7", "3,136/5,000 steps", "1:35 left", "63%"):
        assert part in text
    for part in ("training", "evaluation", "0.950", "best 1.000", "total", "4.13/s", "6.2/s"):
        assert part in text
    for part in ("acting 812 steps/s", "imagining 6.37k steps/s", "damaged and skipped"):
        assert part in text
    assert "runs/somewhere" in text


def test_low_terminals_show_only_total_losses() -> None:
    assert "slow critic" in "\n".join(drawn(80, 24))
    assert "slow critic" not in "\n".join(drawn(80, 18))


@pytest.mark.parametrize("width", [1, 5, 20, 40])
def test_no_terminal_is_too_narrow(width: int) -> None:
    assert max(map(len, drawn(width, 24))) <= width


def test_the_screen_before_the_first_event() -> None:
    text = "\n".join(drawn(80, 24, with_events=False))
    assert "0/5,000 steps" in text
    assert "warming up" in text
    assert "losses appear after the first updates" in text


def test_a_resized_terminal_is_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80, height=24)
    with SteadyLive("picture", console=console, auto_refresh=False) as live:
        live.refresh()
        assert "\x1b[2J" not in out.getvalue()
        console.size = (60, 20)
        live.refresh()
    assert out.getvalue().count("\x1b[2J") == 1


def test_a_request_to_stop_is_confirmed(capfd: pytest.CaptureFixture[str]) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=80, height=24)
    live = LiveScreen(SPEC, FOLDER, console)
    live.stopping()
    with console.capture() as captured:
        console.print(live)
    assert "Ctrl-C again to exit at once" in captured.get()
    PlainScreen(SPEC, FOLDER).stopping()
    assert "Ctrl-C again to exit at once" in capfd.readouterr().err


def test_notes_that_left_the_live_display_follow_at_its_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80, height=24)
    with LiveScreen(SPEC, FOLDER, console) as screen:
        for number in range(4):
            screen.note(f"checkpoint {number} is skipped")
    assert capsys.readouterr().err == (
        "note: checkpoint 0 is skipped\nnote: checkpoint 1 is skipped\n"
    )
    assert "checkpoint 3 is skipped" in out.getvalue()


def test_plain_lines_have_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    screen = PlainScreen(SPEC, FOLDER)
    screen.progress(64, RATES, 95.0, 0.6272)
    for event in events():
        screen.event(event)
    screen.note("something happened")
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert all(line.isascii() and line.isprintable() for line in lines)
    assert len(lines) == 1 + len(list(events()))
    assert lines[0] == "step-vq-m (nano) on toy:catch, seed 7: runs/somewhere"
    assert lines[1] == (
        "step 64/5,000  return -0.960  loss: world 2352.0, behaviour -0.0002  agent steps 812/s, "
        "world 4.13/s, behaviour 6.2/s, imagined steps 6.37k/s  1:35 left"
    )
    assert lines[-1].startswith("step 3,136/5,000  evaluation 0.950 over 20 episodes")
    assert captured.err == "note: something happened\n"


def test_without_a_terminal_lines_are_plain_even_with_force_color(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with open_screen(SPEC, FOLDER) as screen:
        screen.note("hello")
    assert capsys.readouterr() == ("", "note: hello\n")
    assert isinstance(screen, PlainScreen)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.000"),
        (0.05, "0.0500"),
        (-0.95, "-0.950"),
        (12.345, "12.35"),
        (2400.0, "2400.0"),
        (54321.0, "54321"),
        (3e-5, "3.00e-05"),
        (4.2e7, "4.20e+07"),
        (float("nan"), "nan"),
    ],
)
def test_values_are_short(number: float, text: str) -> None:
    assert format_value(number) == text


@pytest.mark.parametrize(
    ("per_second", "text"),
    [(0.0312, "0.0312"), (4.126, "4.13"), (6369.0, "6.37k"), (2.5e6, "2.5M")],
)
def test_rates_are_short(per_second: float, text: str) -> None:
    assert format_rate(per_second) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-3.0, "0:00"), (59.6, "1:00"), (252.0, "4:12"), (3852.0, "1:04:12"), (2e5, "2 d 7 h")],
)
def test_durations_are_readable(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_sparklines_show_the_whole_curve() -> None:
    assert sparkline([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], 20) == "▁▂▃▄▅▆▇█"
    assert sparkline([0.0] * 4 + [1.0] * 4, 2) == "▁█"
    assert sparkline([3.0, 3.0, 3.0], 3) == "▁▁▁"
    assert sparkline([], 5) == ""
    assert sparkline([1.0, float("nan"), float("inf"), 2.0], 4) == "▁█"
    assert len(sparkline([float(n) for n in range(1000)], 33)) == 33
