"""The page of a comparison: complete, self-contained, safe with any name."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from synthetic_runs import write_seeds
from test_grouping import a_run
from test_summary import points

from tokenworlds.evaluation.comparison.charts import estimate_bars
from tokenworlds.evaluation.comparison.document import write_comparison
from tokenworlds.evaluation.comparison.drawing import inline_svg
from tokenworlds.evaluation.comparison.elements import number
from tokenworlds.evaluation.comparison.grouping import group
from tokenworlds.evaluation.comparison.loading import Run, load
from tokenworlds.evaluation.comparison.numbers import Estimate
from tokenworlds.evaluation.comparison.summary import summarise

VOID = ("meta", "path", "rect", "use", "line", "br")
ACHIEVEMENTS = {
    "achievement/collect_wood": (1.0, 0.0, 1.0, 1.0),
    "achievement/wake_up": (0.0, 0.0, 0.0, 1.0),
}


class Reader(HTMLParser):
    """Collects text, names and links of a page; checks that tags are closed and names unique."""

    def __init__(self) -> None:
        super().__init__()
        self.text: list[str] = []
        self.tags: list[str] = []
        self.links: list[str] = []
        self.names: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        self.collect(attrs)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.collect(attrs)

    def collect(self, attrs: list[tuple[str, str | None]]) -> None:
        self.names += [value or "" for name, value in attrs if name == "id"]
        links = ("src", "srcset", "href", "xlink:href", "action")
        self.links += [value or "" for name, value in attrs if name in links]

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.text.append(data)


def read(page: Path) -> Reader:
    reader = Reader()
    reader.feed(page.read_text())
    assert not reader.open
    return reader


def write_page(folder: Path, *runs: Run, notes: tuple[str, ...] = ()) -> Path:
    comparisons, _ = group(runs)
    summaries = [summarise(comparison, "exact") for comparison in comparisons]
    return write_comparison(folder / "report.html", summaries, notes).page


def atari_runs(name: str = "storm") -> list[Run]:
    """Two agents on two games with two seeds, one of them not finished."""
    curve = points((0, 0.0), (500, 1.0), (1000, 2.0))
    runs = [
        replace(a_run(agent, task, seed), evaluation=curve)
        for agent in (name, "iris")
        for task in ("Pong", "Boxing")
        for seed in range(2)
    ]
    return [*runs, replace(a_run("iris", "Pong", 2), finished=False, state="stopped", step=400)]


def test_the_page_shows_scores_curves_aggregates_and_cost(tmp_path: Path) -> None:
    text = " ".join(read(write_page(tmp_path, *atari_runs(), notes=("a note",))).text)
    for expected in (
        "9 runs of 2 agents on 2 tasks.",
        "a note",
        "atari, protocol atari100k",
        "One run is not finished",
        "Human-normalised score (exact reference scores) over 2 tasks",
        "IQM over task means",
        "optimality gap",
        "Sample efficiency",
        "Performance profiles",
        "Probability of improvement",
        "human",
        "random",
        "STORM, results/storm.json: released runs",
        "5 seeds, 20 episodes, 400,000 frames, sticky actions.",
        "4 of 5",
        "stopped at 400 of 1,000",
    ):
        assert expected in text


def test_the_page_needs_no_other_file_and_no_network(tmp_path: Path) -> None:
    page = write_page(tmp_path, *atari_runs())
    reader, source = read(page), page.read_text()
    assert "svg" in reader.tags
    assert len(set(reader.names)) == len(reader.names)
    assert {link.lstrip("#") for link in reader.links} <= set(reader.names)
    assert not {"script", "link", "img", "iframe"} & set(reader.tags)
    # The address of a namespace is a name and is not fetched.
    addresses = set(re.findall(r"(?:https?:)?//[^\s\"'<]+", source))
    assert addresses <= {"http://www.w3.org/1999/xlink"}
    assert re.findall(r"@import|url\((?!#)", source) == []


def test_charts_follow_the_theme_of_the_page(tmp_path: Path) -> None:
    charts = "".join(re.findall(r"<svg.*?</svg>", write_page(tmp_path, *atari_runs()).read_text()))
    assert "var(--s0)" in charts
    assert "var(--muted)" in charts
    assert re.findall(r"(?:fill|stroke): #\w+", charts) == []


def test_hostile_names_are_escaped(tmp_path: Path) -> None:
    hostile = '<script>alert("$x_1$ & |")</script>'
    page = write_page(tmp_path, *atari_runs(hostile), notes=(hostile,))
    reader = read(page)
    assert "script" not in reader.tags
    assert hostile in reader.text
    table = page.with_suffix(".md").read_text()
    assert 'alert("$x_1$ & \\|")' in table


def test_crafter_shows_its_score_and_achievements(tmp_path: Path) -> None:
    env = {"recipe": "dreamer-v3", "env": "crafter", "start": 0.0, "end": 8.0}
    write_seeds(tmp_path / "runs", (0, 1), info=ACHIEVEMENTS, **env)
    page = write_page(tmp_path, *load([str(tmp_path / "runs")]).runs)
    text = " ".join(read(page).text)
    # exp((ln 76 + ln 26) / 2) - 1
    assert "43.5" in text
    assert "collect wood" in text
    assert "Published Crafter score of" in text
    assert "| wake_up | 25.0 [25.0, 25.0] |" in page.with_suffix(".md").read_text()


def test_many_agents_are_compared_in_a_table(tmp_path: Path) -> None:
    runs = [a_run(f"agent {n}", seed=seed, score=float(n)) for n in range(6) for seed in range(2)]
    page = write_page(tmp_path, *runs).read_text()
    last = page[page.index("P(X > Y)".replace(">", "&gt;")) :].partition("</table>")[0]
    assert last.count("<th>Y: ") == 5
    # Each agent is worse than all after it.
    assert last.count("<td>0.00<small>0.00 to 0.00</small></td>") == 15


def test_labels_of_charts_keep_their_digits() -> None:
    found = {0: Estimate(0.4321, None, 1), 1: Estimate(0.4378, None, 1)}
    svg = inline_svg(estimate_bars("mean", found), "mean", 0)
    labels = re.findall(r">(0\.\d+)</text>", svg)
    assert len(set(labels)) == len(labels) > 2


def test_the_same_runs_give_the_same_page(tmp_path: Path) -> None:
    first = write_page(tmp_path, *atari_runs()).read_bytes()
    assert write_page(tmp_path, *atari_runs()).read_bytes() == first


@pytest.mark.parametrize(
    ("value", "text"),
    [(12345.6, "12,346"), (45.67, "45.7"), (1.234, "1.23"), (-0.5, "\N{MINUS SIGN}0.50")],
)
def test_scores_have_the_digits_that_papers_print(value: float, text: str) -> None:
    assert number(value) == text
