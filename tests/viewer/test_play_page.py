"""The dream player in headless Chromium, and its socket."""

import json
import re
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from starlette.testclient import TestClient, WebSocketTestSession
from starlette.websockets import WebSocketDisconnect
from viewer_pages import PATIENCE, is_dark, no_sideways_scrolling

from tokenworlds.agent import open_agent
from tokenworlds.cli import main
from tokenworlds.runs.own_code import Trust
from tokenworlds.viewer import player
from tokenworlds.viewer.app import build_app
from tokenworlds.viewer.catalogue import Catalogue
from tokenworlds.viewer.guard import REFUSED
from tokenworlds.viewer.inquiries import Inquiries

pytest_plugins = ("viewer_fixtures",)
HOME = "http://127.0.0.1:8642"
LOCAL = {"host": "127.0.0.1:8642"}
"""Starlette's client has a host name of its own for sockets."""
REQUESTS = """async () => {
    const found = [];
    for (let i = 0; i < 15; i += 1) {
        const begin = performance.now();
        await (await fetch(["/api/runs", "/api/curves?run=."][i % 2])).text();
        found.push(performance.now() - begin);
    }
    return found.sort((a, b) => a - b);
}"""


def open_dream(page: Page, viewer: str) -> None:
    page.goto(viewer)
    expect(page.locator("#frame")).to_be_visible(timeout=PATIENCE)


def test_a_person_plays_fifty_steps_by_keyboard_then_rewinds_and_branches(
    page: Page, viewer: str
) -> None:
    open_dream(page, viewer)
    expect(page.locator("#about")).to_have_text("step-vq-m nano · toy:catch")
    for number in range(1, 51):
        page.keyboard.press(("ArrowLeft", "ArrowRight", "s")[number % 3])
        expect(page.locator("#step")).to_have_text(f"step {number}")
    expect(page.locator("#rate")).to_contain_text("frames/s")
    for name in ("reward", "return", "value", "terminated"):
        expect(page.locator(f"#{name}")).to_contain_text(re.compile(r"\d"))
    expect(page.locator("#policy tr")).to_have_count(3)
    expect(page.locator("#tokens")).to_have_attribute("aria-label", "4 tokens of the frame")
    last = page.locator("#frame").get_attribute("src")
    for _ in range(10):
        page.keyboard.press("Backspace")
    expect(page.locator("#step")).to_have_text("step 40")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#step")).to_have_text("step 41")
    expect(page.locator("#status")).to_contain_text("Branch 2 from step 40")
    page.get_by_label("Branch").select_option("0")
    expect(page.locator("#step")).to_have_text("step 50")
    assert page.locator("#frame").get_attribute("src") == last


def test_four_samples_of_the_next_step_are_shown_and_the_dream_goes_on_from_one(
    page: Page, viewer: str
) -> None:
    open_dream(page, viewer)
    page.locator("#alternatives-action").select_option(label="LEFT")
    samples = page.locator("#samples:not(.stale) button")
    expect(samples).to_have_count(4)
    expect(page.locator("#samples-note")).to_contain_text("After LEFT. They differ in")
    chosen = samples.nth(2).locator("img").get_attribute("src")
    samples.nth(2).focus()
    page.keyboard.press("Enter")
    expect(page.locator("#step")).to_have_text("step 1")
    expect(page.locator("#frame")).to_have_attribute("src", str(chosen))
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#step")).to_have_text("step 2")


def test_on_a_phone_in_the_dark_the_agent_plays_while_other_pages_answer_at_once(
    page: Page, viewer: str
) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    page.emulate_media(color_scheme="dark")
    open_dream(page, viewer)
    assert no_sideways_scrolling(page)
    assert is_dark(page)
    page.get_by_role("button", name="RIGHT").click()
    expect(page.locator("#step")).to_have_text("step 1")
    page.get_by_label("Speed").fill("30")
    page.keyboard.press("g")
    page.keyboard.press("p")
    expect(page.locator("#step")).not_to_have_text("step 1")
    took = page.evaluate(REQUESTS)
    assert took[len(took) // 2] < 100
    page.get_by_role("button", name="Rewind").click()
    expect(page.get_by_role("button", name="Run")).to_be_visible()
    page.get_by_label("Start").select_option("reset")
    page.get_by_role("button", name="New dream").click()
    expect(page.locator("#step")).to_have_text("step 0")


def client(root: Path) -> TestClient:
    return TestClient(build_app(Catalogue(root)), base_url=HOME)


def refusal(browser: TestClient, run: str) -> str:
    with browser.websocket_connect(f"/api/play?run={run}", headers=LOCAL) as socket:
        answer = socket.receive_json()
    assert answer["kind"] == "failed"
    return str(answer["problem"])


def test_an_unknown_run_is_refused_with_a_sentence(tmp_path: Path) -> None:
    assert "there is no run '../catch'" in refusal(client(tmp_path), "../catch")


def test_a_foreign_page_cannot_open_a_dream(tmp_path: Path) -> None:
    headers = {**LOCAL, "origin": "https://evil.example"}
    connection = client(tmp_path).websocket_connect("/api/play", headers=headers)
    with pytest.raises(WebSocketDisconnect) as refused, connection:
        pass
    assert refused.value.code == REFUSED


def test_one_player_too_many_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(player, "MOST_PLAYERS", 0)
    assert "agents are open already" in refusal(client(tmp_path), ".")


def test_a_damaged_run_says_what_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{")
    assert "it is not JSON" in refusal(client(tmp_path), ".")


def dreamers(folder: Path) -> list[str]:
    """The processes that dream of a run, as Linux lists them."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode().split("\0")
        except OSError:
            continue
        if "tokenworlds.viewer.dreamer" in words and str(folder) in words:
            found.append(path.parent.name)
    return found


def test_bad_messages_get_a_sentence_and_the_process_ends_when_the_player_vanishes(
    played: Path,
) -> None:
    with client(played).websocket_connect("/api/play?run=.", headers=LOCAL) as socket:
        assert socket.receive_json()["kind"] == "ready"
        for message in ("?", "[1]", "[" * 10**4, json.dumps({"kind": "x" * 2**15})):
            socket.send_text(message)
            assert socket.receive_json()["problem"] == "the request is not JSON"
        socket.send_bytes(b"\0")
        assert socket.receive_json()["problem"] == "the request is not JSON"
        socket.send_json({"kind": "fly"})
        assert "does not know" in socket.receive_json()["problem"]
        socket.send_json({"kind": "start", "source": "replay", "step": 1})
        assert socket.receive_json()["kind"] == "state"
        assert len(dreamers(played)) == 1
    deadline = time.monotonic() + 10
    while dreamers(played) and time.monotonic() < deadline:
        pass
    assert dreamers(played) == []


def test_two_players_of_one_agent_have_dreams_of_their_own(played: Path) -> None:
    """One steps and leaves; the dream of the other stays where it is and goes on."""
    with TestClient(build_app(Catalogue(played)), base_url=HOME) as browser:
        path = "/api/play?run=."
        with browser.websocket_connect(path, headers=LOCAL) as one:
            with browser.websocket_connect(path, headers=LOCAL) as other:
                start = {"kind": "start", "source": "replay", "step": 1}
                first, second = (begin(socket, start) for socket in (one, other))
                assert first["frame"] == second["frame"]
                for _ in range(3):
                    other.send_json({"kind": "step", "from": second["number"], "action": 0})
                    second = other.receive_json()
                assert second["step"] == first["step"] + 3
            one.send_json({"kind": "step", "from": first["number"], "action": 0})
            assert one.receive_json()["step"] == first["step"] + 1


def begin(socket: WebSocketTestSession, start: dict[str, Any]) -> dict[str, Any]:
    assert socket.receive_json()["kind"] == "ready"
    socket.send_json(start)
    state: dict[str, Any] = socket.receive_json()
    return state


def test_opening_an_agent_changes_nothing_in_its_folder_and_a_deleted_run_dreams_on(
    played: Path, tmp_path: Path
) -> None:
    run = tmp_path / "mine"
    shutil.copytree(played, run)
    before = {path: path.stat().st_mtime_ns for path in sorted(run.rglob("*"))}
    inquiries = Inquiries(open_agent(run, Trust(), "cpu"), Trust())
    first = inquiries.perform({"kind": "start", "source": "replay", "step": 3})
    inquiries.perform({"kind": "episode", "origin": "replay", "number": 0})
    inquiries.perform({"kind": "compare", "start": 0, "steps": 3})
    assert {path: path.stat().st_mtime_ns for path in sorted(run.rglob("*"))} == before
    shutil.rmtree(run)
    step = {"kind": "step", "from": first["number"], "action": 0}
    assert inquiries.answer(step)["kind"] == "state"
    assert "there is no run 'mine'" in refusal(client(tmp_path), "mine")


def test_a_folder_that_is_no_agent_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["play", str(tmp_path)]) == 2
    assert "is not the folder of a run or of a saved agent" in capsys.readouterr().err
