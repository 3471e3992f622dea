"""The numbers behind figures without runs: parameters, training cost, published scores."""

import json
from pathlib import Path
from typing import Any

import pytest

from tokenworlds.cli import main
from tokenworlds.commands import show
from tokenworlds.core.errors import UserError
from tokenworlds.figures import parameters, score_bars, training_cost
from tokenworlds.figures.picture import Request

Document = dict[str, Any]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands write into the current folder; `show` without its prediction of memory is quick."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(show, "memory_document", lambda recipe, summary: {})


@pytest.fixture(scope="module")
def counted() -> Document:
    return dict(parameters.make(Request(size="paper")).data)


def curve(data: Document, recipe: str, axis: str) -> dict[int, int]:
    found = (each for each in data["curves"] if (each["recipe"], each["axis"]) == (recipe, axis))
    each = next(found)
    return dict(zip(each["values"], each["parameters"], strict=True))


@pytest.mark.parametrize("recipe", ["step-vq-m", "cb-m"])
def test_parameters_are_those_of_show(
    recipe: str, counted: Document, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["show", recipe, "--size", "paper", "--env", "catch", "--json"]
    for value, changes in ((64, []), (128, ["--set", "resolution=128"])):
        assert main([*words, *changes]) == 0
        shown = json.loads(capsys.readouterr().out)["parameters"]["discretisation"]
        assert curve(counted, recipe, "resolution")[value] == shown


def test_parameters_at_the_papers_setting_are_the_papers(counted: Document) -> None:
    assert curve(counted, "step-vq-m", "resolution")[64] == 2_175_616
    assert curve(counted, "step-vq-m", "vocabulary")[64] == 2_175_616
    assert curve(counted, "cb-m", "resolution")[64] == 8_919_552
    assert curve(counted, "cb-m", "vocabulary")[32] == 8_919_552


def test_parameters_grow_linearly_with_codes(counted: Document) -> None:
    for recipe in ("step-vq-m", "cb-m"):
        counts = curve(counted, recipe, "vocabulary")
        slopes = {(counts[2 * codes] - counts[codes]) / codes for codes in (16, 32, 64, 128, 256)}
        assert len(slopes) == 1


def test_another_size_has_no_published_numbers() -> None:
    picture = parameters.make(Request(size="nano"))
    assert picture.data["published"] == {}
    assert "size nano" in picture.caption


def bench_document(**costs: float) -> Document:
    """As `bench --json` writes it: costs in cal, a quarter of them without the tokenizer."""
    recipes = list[Document]()
    for name, cal in costs.items():
        part = {"total_cal": cal, "total_seconds": cal / 4, "updates": {"world": 1.0}}
        recipes.append(
            {
                "recipe": name.replace("_", "-"),
                "size": "small",
                "measurements": [],
                "per_step": part,
                "speedup_over_iris": costs["iris"] / cal if "iris" in costs else None,
                "speedup_without_autoencoder": 1.0 if "iris" in costs else None,
            }
        )
    head = {"format": "tokenworlds-bench-4", "env": "toy:catch", "threads": 2}
    return {**head, "machine": {"processor": "abacus"}, "recipes": recipes}


def test_stored_costs_stand_beside_the_published_speedups() -> None:
    document = bench_document(iris=40.0, step_vq_iris=5.0)
    Path("bench.json").write_text(json.dumps(document))
    assert main(["figure", "step-vq-2a", "--bench", "bench.json"]) == 0
    picture = training_cost.make(Request(bench="bench.json"))
    row = picture.data["recipes"]["step-vq-iris"]
    assert (row["cal"], row["measured"], row["published"]) == (5.0, 8.0, 11.2)
    assert picture.data["recipes"]["REM"] == {"published": 4.37}
    for fact in ("abacus", "2 threads", "toy:catch", "Size small", "L40S", "bench.json"):
        assert fact in picture.caption


def test_stored_costs_without_the_baseline_are_refused() -> None:
    Path("bench.json").write_text(json.dumps(bench_document(storm=4.0)))
    with pytest.raises(UserError, match=r"bench.json holds storm: the figure needs iris and"):
        training_cost.make(Request(bench="bench.json"))
    with pytest.raises(UserError, match="takes no --size"):
        training_cost.make(Request(bench="bench.json", size="nano"))


def test_bars_are_human_normalised() -> None:
    data = score_bars.make(Request()).data
    assert len(data["games"]) == 36
    # Table 2: 8.8; Mnih et al. (2015): random 1.7, human 31.8.
    assert data["published"]["swm"]["Breakout"] == pytest.approx((8.8 - 1.7) / (31.8 - 1.7))
    best = [
        max(data["published"][name][game] for name in ("swm", "swm-1frame"))
        for game in data["games"]
    ]
    assert best == sorted(best, reverse=True)
