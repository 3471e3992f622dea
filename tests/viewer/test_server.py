"""What the server answers, without a browser."""

import fcntl
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from viewer_runs import append, event, write_run

from tokenworlds.cli import main
from tokenworlds.viewer.app import build_app
from tokenworlds.viewer.catalogue import Catalogue
from tokenworlds.viewer.guard import COOKIE
from tokenworlds.viewer.serving import is_loopback, link_to

HOME = "http://127.0.0.1:8642"


def client(root: Path, token: str = "", url: str = HOME) -> TestClient:
    # Every request lists the folder anew.
    ticks = iter(range(0, 10**6, 10))
    catalogue = Catalogue(root, clock=lambda: float(next(ticks)))
    return TestClient(build_app(catalogue, token), base_url=url)


def row(root: Path) -> dict[str, Any]:
    (only,) = client(root).get("/api/runs").json()["runs"]
    assert isinstance(only, dict)
    return only


def curves(browser: TestClient, run: str, after: str = "") -> dict[str, Any]:
    answer = browser.get("/api/curves", params={"run": run, "after": after})
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert isinstance(found, dict)
    return found


def test_a_run_is_listed_with_its_recipe_environment_seed_and_last_return(tmp_path: Path) -> None:
    run = write_run(tmp_path / "mine")
    append(run, event(2000, evaluation__return=-3.5))
    found = row(tmp_path)
    assert (found["recipe"], found["env"], found["seed"]) == ("iris", "atari:Pong", 3)
    assert (found["state"], found["step"], found["score"]) == ("stopped", 2000, -3.5)


def test_the_published_score_of_the_agent_and_game_comes_with_its_source(tmp_path: Path) -> None:
    write_run(tmp_path / "mine")
    assert row(tmp_path)["published"] == {
        "agent": "iris",
        "value": pytest.approx(14.6, abs=0.1),
        "source": "IRIS, results/data/IRIS.json",
    }


def test_a_game_without_a_published_score_has_no_line(tmp_path: Path) -> None:
    write_run(tmp_path / "mine", env="catch")
    assert row(tmp_path)["published"] is None


def test_a_running_run_has_a_speed_and_a_time_left(tmp_path: Path) -> None:
    run = write_run(tmp_path / "mine")
    append(run, event(1000))
    os.utime(run / "checkpoints" / "step-000000000", (100.0, 100.0))
    os.utime(run / "metrics.jsonl", (150.0, 150.0))
    with (run / "run.json").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        found = row(tmp_path)
    assert (found["state"], found["speed"]) == ("running", 20.0)
    assert found["seconds_left"] == (found["steps"] - 1000) / 20.0


def test_a_run_that_failed_shows_its_sentence(tmp_path: Path) -> None:
    write_run(tmp_path / "mine")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "mine.log").write_text("step 10\ntokenworlds: the disk is full\n")
    found = row(tmp_path)
    assert (found["state"], found["problem"]) == ("failed", "the disk is full")


def test_a_damaged_run_is_listed_with_its_damage_beside_others(tmp_path: Path) -> None:
    write_run(tmp_path / "broken")
    (tmp_path / "broken" / "run.json").write_text("{")
    write_run(tmp_path / "whole")
    broken, whole = client(tmp_path).get("/api/runs").json()["runs"]
    assert broken["state"] == "damaged"
    assert "it is not JSON" in broken["problem"]
    assert whole["state"] == "stopped"


def test_curves_hold_every_metric_of_every_event(tmp_path: Path) -> None:
    run = write_run(tmp_path / "mine")
    append(run, event(10, world__loss__total=2.0), event(20, world__loss__total=1.0))
    series = curves(client(tmp_path), "mine")["series"]
    assert series == {"world/loss/total": [[10, 20], [2.0, 1.0]]}


def test_only_new_events_follow_a_place(tmp_path: Path) -> None:
    run, browser = write_run(tmp_path / "mine"), client(tmp_path)
    append(run, event(10, collect__return=2.0))
    place = curves(browser, "mine")["place"]
    append(run, event(20, collect__return=3.0))
    later = curves(browser, "mine", place)
    assert later["series"] == {"collect/return": [[20], [3.0]]}
    assert not later["reset"]


def test_a_line_that_is_being_written_is_read_when_it_is_whole(tmp_path: Path) -> None:
    run, browser = write_run(tmp_path / "mine"), client(tmp_path)
    text = json.dumps(event(10, collect__return=2.0))
    (run / "metrics.jsonl").write_text(text[:9])
    first = curves(browser, "mine")
    assert (first["series"], first["problem"]) == ({}, "")
    (run / "metrics.jsonl").write_text(text + "\n")
    assert curves(browser, "mine", first["place"])["series"] == {"collect/return": [[10], [2.0]]}


def test_curves_begin_anew_when_a_resumed_run_cut_its_metrics_back(tmp_path: Path) -> None:
    run, browser = write_run(tmp_path / "mine"), client(tmp_path)
    append(run, event(10, collect__return=2.0), event(20, collect__return=3.0))
    place = curves(browser, "mine")["place"]
    (run / "metrics.jsonl").unlink()
    append(run, event(10, collect__return=2.0), event(15, collect__return=7.0), event(30))
    later = curves(browser, "mine", place)
    assert later["reset"]
    assert later["series"] == {"collect/return": [[10, 15], [2.0, 7.0]]}


def test_metrics_after_a_damaged_line_are_left_out_with_a_sentence(tmp_path: Path) -> None:
    run = write_run(tmp_path / "mine")
    append(run, event(10, collect__return=2.0))
    with (run / "metrics.jsonl").open("a") as file:
        file.write("??\n")
    append(run, event(20, collect__return=9.0))
    found = curves(client(tmp_path), "mine")
    assert found["series"] == {"collect/return": [[10], [2.0]]}
    assert "metrics.jsonl is damaged after" in found["problem"]


def test_a_run_before_its_first_event_has_no_curves(tmp_path: Path) -> None:
    write_run(tmp_path / "mine")
    assert curves(client(tmp_path), "mine")["series"] == {}


@pytest.mark.parametrize("name", ["other", "..", "../mine", "mine/../mine", "/etc", "mine\0", ""])
def test_a_name_that_is_no_run_below_the_folder_is_unknown(tmp_path: Path, name: str) -> None:
    write_run(tmp_path / "runs" / "mine")
    write_run(tmp_path / "mine")
    answer = client(tmp_path / "runs").get("/api/curves", params={"run": name})
    assert answer.status_code == 404
    assert answer.json()["problem"].startswith("there is no run")


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    run = write_run(tmp_path / "runs" / "mine")
    (tmp_path / "secret").write_text(json.dumps(event(1, collect__return=42.0)) + "\n")
    (run / "metrics.jsonl").symlink_to(tmp_path / "secret")
    answer = client(tmp_path / "runs").get("/api/curves", params={"run": "mine"})
    assert answer.status_code == 409
    assert "is a symbolic link" in answer.json()["problem"]


def test_a_deleted_run_disappears_from_the_list_and_has_no_curves(tmp_path: Path) -> None:
    run, browser = write_run(tmp_path / "mine"), client(tmp_path)
    assert len(browser.get("/api/runs").json()["runs"]) == 1
    shutil.rmtree(run)
    assert browser.get("/api/runs").json()["runs"] == []
    assert browser.get("/api/curves", params={"run": "mine"}).status_code == 404


def test_looking_changes_nothing_in_a_run_folder(tmp_path: Path) -> None:
    run, browser = write_run(tmp_path / "mine"), client(tmp_path)
    append(run, event(10, collect__return=2.0))
    before = {path: path.stat().st_mtime_ns for path in sorted(tmp_path.rglob("*"))}
    browser.get("/api/runs")
    curves(browser, "mine")
    assert {path: path.stat().st_mtime_ns for path in sorted(tmp_path.rglob("*"))} == before


def test_files_outside_the_static_folder_are_not_served(tmp_path: Path) -> None:
    browser = client(tmp_path)
    assert browser.get("/static/runs.js").status_code == 200
    assert browser.get("/static/%2e%2e/app.py").status_code == 404


def test_the_page_asks_for_nothing_from_other_hosts(tmp_path: Path) -> None:
    answer = client(tmp_path).get("/")
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    assert "https://" not in answer.text


def test_requests_from_another_origin_are_refused(tmp_path: Path) -> None:
    browser = client(tmp_path)
    answer = browser.get("/api/runs", headers={"Origin": "https://evil.example"})
    assert answer.status_code == 403
    assert browser.get("/api/runs", headers={"Origin": HOME}).status_code == 200


def test_a_host_name_that_was_rebound_to_this_machine_is_refused(tmp_path: Path) -> None:
    answer = client(tmp_path, url="http://evil.example:8642").get("/api/runs")
    assert answer.status_code == 403


def test_on_another_address_only_the_link_with_the_token_opens_the_viewer(tmp_path: Path) -> None:
    url = "http://192.0.2.7:8642"
    assert client(tmp_path, "s3cret", url).get("/api/runs").status_code == 403
    assert client(tmp_path, "s3cret", url).get("/?token=wrong").status_code == 403
    browser = client(tmp_path, "s3cret", url)
    page = browser.get("/?token=s3cret")
    assert page.status_code == 200
    assert "token" not in str(page.url)
    assert f"{COOKIE}-8642" in browser.cookies
    assert browser.get("/api/runs").status_code == 200


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("box", False)],
)
def test_only_addresses_of_this_machine_alone_go_without_a_token(host: str, loopback: bool) -> None:
    assert is_loopback(host) == loopback


def test_a_link_holds_address_port_token_and_page() -> None:
    assert link_to("::1", 80, "play", "abc") == "http://[::1]:80/play?token=abc"


def test_a_folder_that_is_not_there_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["view", str(tmp_path / "nowhere")]) == 2
    assert "is not a folder: name one that holds runs" in capsys.readouterr().err


def test_a_run_without_a_world_model_offers_no_dream(tmp_path: Path) -> None:
    write_run(tmp_path / "mine", recipe="ppo", env="catch")
    found = row(tmp_path)
    assert (found["opens"], found["dreams"]) == (True, False)
