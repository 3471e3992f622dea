import base64
import io
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from counting_agent import counting_agent, counting_segment
from PIL import Image
from test_results import RESULT

from tokenworlds.envs.catalogue import EnvSpec
from tokenworlds.evaluation.dreams import DreamRows, dream_rows
from tokenworlds.evaluation.page import format_number
from tokenworlds.evaluation.report import flatten, latest_metrics, score_tiles, write_report
from tokenworlds.recipes.catalogue import load
from tokenworlds.runs.spec import RunSpec

RUN: dict[str, Any] = {
    "spec": RunSpec(
        recipe_name="step-vq-m",
        size="nano",
        recipe=replace(load("step-vq-m", "nano").recipe, steps=6000),
        env=EnvSpec("catch"),
        seed=3,
        threads=1,
    ),
    "machine": {"python": "3.11.7", "packages": {"torch": "2.13.0"}, "accelerator": None},
}
EVENTS: list[dict[str, Any]] = [
    {"agent_steps": 64, "world/loss/reward": 3.25, "world/code_perplexity": 1.5},
    {"agent_steps": 128, "world/loss/reward": 0.1234, "behaviour/loss/actor": -0.5},
    {"agent_steps": 128, "evaluation/return": 0.75, "note": "text"},
]


@pytest.fixture(scope="module")
def dream() -> DreamRows:
    segment = counting_segment([{0}], 4)
    return dream_rows(counting_agent(), segment, horizon=2, generator=None)


class Reader(HTMLParser):
    """Collects the text, links and tags of a page; checks that tags are closed."""

    def __init__(self) -> None:
        super().__init__()
        self.text: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in ("meta", "img", "source"):
            self.open.append(tag)
        names = ("src", "srcset", "href", "action", "data", "poster")
        self.links += [value or "" for name, value in attrs if name in names]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.text.append(data)


def read(path: Path) -> Reader:
    reader = Reader()
    reader.feed(path.read_text())
    assert not reader.open
    return reader


def test_the_page_shows_the_run_its_scores_and_its_metrics(
    tmp_path: Path, dream: DreamRows
) -> None:
    files = write_report(tmp_path, **RUN, events=EVENTS, result=RESULT, best=1.0, dream=dream)
    text = " ".join(read(files.page).text)
    for expected in (
        "step-vq-m (nano) on toy:catch",
        "Protocol toy, seed 3, 5,000 of 6,000 agent steps.",
        "0.50 ± 0.50",
        "\N{MINUS SIGN}0.50 ± 0.50",
        "4 episodes at 5,000 steps, protocol toy, sampled actions, temperature 0.5",
        "66.7 %",
        "world/loss/reward",
        "0.1234",
        "torch",
        "2.13.0",
    ):
        assert expected in text


def test_the_page_and_its_pictures_are_in_the_folder(tmp_path: Path, dream: DreamRows) -> None:
    files = write_report(tmp_path, **RUN, events=EVENTS, result=RESULT, dream=dream)
    assert files.dream is not None
    assert {files.page, files.curve, files.dream} == set(tmp_path.iterdir())
    for path in (files.curve, files.dream):
        with Image.open(path) as picture:
            picture.verify()


def test_the_page_needs_no_other_file_and_no_network(tmp_path: Path, dream: DreamRows) -> None:
    files = write_report(tmp_path, **RUN, events=EVENTS, result=RESULT, dream=dream)
    reader, source = read(files.page), files.page.read_text()
    assert len(reader.links) == 2 * 4  # Curve, dream and two learners, in light and in dark.
    for link in reader.links:
        kind, _, content = link.partition(",")
        assert kind == "data:image/png;base64"
        with Image.open(io.BytesIO(base64.b64decode(content))) as picture:
            picture.verify()
    assert not re.search(r"https?:|@import|url\(|<script|<link", source)


def test_names_are_escaped(tmp_path: Path) -> None:
    hostile = '<script>alert("&")</script>'
    spec = replace(RUN["spec"], recipe_name=hostile, size=hostile)
    events = [{"agent_steps": 1, f"{hostile}/loss/{hostile}": 1.0, "world/code_usage": 0.5}]
    files = write_report(tmp_path, spec=spec, machine={hostile: hostile}, events=events)
    reader = read(files.page)
    assert "script" not in reader.tags
    assert hostile in reader.text


def test_a_run_without_events_has_a_report(tmp_path: Path) -> None:
    files = write_report(tmp_path, **RUN, events=[])
    text = " ".join(read(files.page).text)
    assert files.dream is None
    assert "the agent has not been evaluated" in text
    assert "0 of 6,000" in text
    assert "Dream" not in text


def test_scores_are_compared_with_random_and_best_returns_if_known() -> None:
    names = [name for name, _, _ in score_tiles(RESULT, 1.0)]
    assert names == ["mean return", "random policy", "best possible", "normalised score"]
    alone = replace(RESULT, random_returns=(), temperature=1.0)
    assert [name for name, _, _ in score_tiles(alone, None)] == ["mean return"]
    assert score_tiles(alone, None)[0][2].endswith("sampled actions")
    assert score_tiles(RESULT, None)[0][2].endswith("sampled actions, temperature 0.5")
    greedy = replace(RESULT, temperature=0.0)
    assert score_tiles(greedy, None)[0][2].endswith("greedy actions")


def test_the_latest_value_of_each_metric_is_shown() -> None:
    assert latest_metrics(EVENTS) == {
        "agent_steps": 128,
        "behaviour/loss/actor": -0.5,
        "evaluation/return": 0.75,
        "world/code_perplexity": 1.5,
        "world/loss/reward": 0.1234,
    }


def test_unknown_metadata_is_left_out() -> None:
    assert flatten(RUN["machine"]) == {"python": "3.11.7", "torch": "2.13.0"}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (12345, "12,345"),
        (1.0, "1"),
        (0.123456, "0.1235"),
        (-0.5, "\N{MINUS SIGN}0.5"),
        (1e-7, "1e\N{MINUS SIGN}07"),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
    ],
)
def test_numbers_are_short(value: float, text: str) -> None:
    assert format_number(value) == text
