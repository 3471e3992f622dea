"""README.md and docs/results.md show the receipts in results/, and nothing else."""

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from synthetic_runs import write_seeds

from tokenworlds.cli import parse
from tokenworlds.commands.choices import choose_run
from tokenworlds.commands.train import Train
from tokenworlds.core.errors import UserError
from tokenworlds.core.files import DamagedFile
from tokenworlds.evaluation.receipts import charts, document, pairs, plan, tables
from tokenworlds.evaluation.receipts.making import make_receipts, write_receipt
from tokenworlds.evaluation.receipts.receipt import read_receipts

ROOT = Path(__file__).parents[2]


def test_the_pages_are_what_the_receipts_give() -> None:
    stale = [path.name for path, text in document.pages(ROOT).items() if path.read_text() != text]
    assert stale == [], "run 'make results'"


def test_the_pictures_show_the_curves_of_the_receipts() -> None:
    shown = document.pictures(ROOT)
    assert shown
    stale = [path.name for path, of in shown.items() if not charts.shows(path, of)]
    assert stale == [], "run 'make results'"


def test_every_receipt_has_its_place_and_command() -> None:
    receipts = read_receipts(ROOT / document.RECEIPTS)
    assert receipts
    for receipt in receipts:
        assert all(seed.command for seed in receipt.seeds), receipt.place
        assert all(machine["commit"] for machine in receipt.machines), receipt.place


def test_every_part_is_on_a_page() -> None:
    text = "".join((ROOT / name).read_text() for name in document.PAGES)
    assert set(re.findall(r"results:begin ([\w-]+)", text)) == set(document.generated([]))


def test_text_around_a_part_stays() -> None:
    text = "before\n<!-- results:begin a -->\nold\n<!-- results:end -->\nafter\n"
    filled = document.fill(text, {"a": "new"})
    assert filled == "before\n<!-- results:begin a -->\n\nnew\n\n<!-- results:end -->\nafter\n"
    assert document.fill(filled, {"a": "new"}) == filled


def test_an_update_writes_what_is_stale_and_then_nothing(tmp_path: Path) -> None:
    pages = [tmp_path / name for name in document.PAGES]
    (tmp_path / "docs").mkdir()
    for page in pages:
        page.write_text("<!-- results:begin toys -->\n<!-- results:end -->\nprose\n")
    assert document.update(tmp_path) == pages
    assert "Not run yet: `tokenworlds train" in pages[0].read_text()
    for receipt in make_receipts([str(run) for run in write_seeds(tmp_path / "runs", (0, 1))]):
        write_receipt(tmp_path / document.RECEIPTS, receipt)
    picture = tmp_path / "docs/images/results/toy.png"
    assert document.update(tmp_path) == [*pages, picture]
    assert "| `step-vq-m` | nano | 1,000 |" in pages[1].read_text()
    assert pages[1].read_text().endswith("prose\n")
    assert document.update(tmp_path) == []


def test_a_wrong_marker_is_named() -> None:
    with pytest.raises(UserError, match="did you mean 'atari'"):
        document.fill("<!-- results:begin atarri -->\n<!-- results:end -->", {"atari": ""})
    with pytest.raises(UserError, match="has no end"):
        document.fill("<!-- results:begin atari -->\n", {"atari": ""})


def test_a_table_has_the_mean_over_seeds_with_its_standard_error(tmp_path: Path) -> None:
    runs = write_seeds(tmp_path, (0, 1), env="minatar:freeway", end=3.0)
    (receipt,) = make_receipts([str(run) for run in runs])
    one, two = receipt.scores
    error = abs(one - two) / 2
    text = tables.by_game([receipt])
    assert f"{(one + two) / 2:.2f} ± {error:.2f} (2)" in text
    assert "| random policy |  |  |  | \N{MINUS SIGN}1.00 |" in text


def test_an_atari_row_is_normalised_and_beside_published_scores(tmp_path: Path) -> None:
    write_seeds(tmp_path, (0,), env="atari:Boxing", end=6.1, spread=0.0, steps=100_000)
    (receipt,) = make_receipts([str(tmp_path)])
    cells = [cell.strip() for cell in tables.atari([receipt]).splitlines()[-1].split("|")[1:-1]]
    assert cells[0] == "Boxing (tuned on)"
    assert cells[4].startswith("6.10")
    assert cells[5] == "0.50"  # (6.1 - 0.1) / (12.1 - 0.1)
    assert cells[7] == "12.1"
    # STEP-VQ, Table 1; Smaller World Models, Table 2.
    assert cells[8:] == ["86.9", "\N{MINUS SIGN}2.80"]


def test_agents_are_compared_on_common_games_of_one_length(tmp_path: Path) -> None:
    for game in ("freeway", "asterix"):
        write_seeds(tmp_path, (0, 1), env=f"minatar:{game}", end=3.0)
    write_seeds(tmp_path, (0, 1), recipe="cb-m", env="minatar:freeway", end=2.0)
    write_seeds(tmp_path, (0, 1), recipe="ppo", env="minatar:freeway", end=2.0, steps=500)
    receipts = make_receipts([str(tmp_path)])
    by_agent = {(r.recipe, r.task): r.score.mean for r in receipts}
    difference = by_agent["step-vq-m", "freeway"] - by_agent["cb-m", "freeway"]
    (row,) = pairs.comparisons(receipts).splitlines()[2:]
    assert row.startswith("| VQ against categorical | `step-vq-m` | `cb-m` | minatar |")
    assert f"freeway {difference:.2f} [" in row
    assert "asterix" not in row
    assert "| 2 and 2 |" in row


def test_the_interval_of_a_difference_contains_it_and_needs_two_seeds() -> None:
    interval = pairs.difference_interval([1.0, 2.0, 3.0], [0.0, 1.0])
    assert interval is not None
    assert interval.low < 1.5 < interval.high
    assert pairs.difference_interval([1.0], [0.0, 1.0]) is None
    exact = pairs.difference_interval([2.0, 2.0], [0.5, 0.5])
    assert exact is not None
    assert (exact.low, exact.high) == (1.5, 1.5)


def test_planned_runs_without_a_receipt_are_listed_with_their_hours(tmp_path: Path) -> None:
    write_seeds(tmp_path, (0,), env="minatar:freeway")
    receipts = make_receipts([str(tmp_path)])
    planned = plan.Planned(
        agents=("step-vq-m", "iris"),
        games=("minatar:freeway", "minatar:asterix"),
        seeds=(0, 1),
        size="nano",
        steps=1000,
    )
    rates = {("iris", "nano", "minatar"): plan.Rate(7.2, "`bench`")}
    rows = plan.not_run([planned], receipts, rates).splitlines()[-2:]
    dash = "\N{EN DASH}"
    assert rows == [
        f"| `step-vq-m` | minatar:freeway, minatar:asterix | 3 | {dash} | {dash} | {dash} |",
        "| `iris` | minatar:freeway, minatar:asterix | 4 | 2.00 | 8.00 | `bench` |",
    ]


def test_a_planned_protocol_is_part_of_the_command_and_needs_its_own_receipt(
    tmp_path: Path,
) -> None:
    write_seeds(tmp_path, (0,), env="minatar:freeway")
    receipts = make_receipts([str(tmp_path)])
    planned = plan.Planned(
        agents=("step-vq-m",), games=("minatar:freeway",), seeds=(0,), size="nano", steps=1000
    )
    assert not plan.missing(planned, "step-vq-m", receipts)
    other = replace(planned, protocol="sticky")
    assert plan.missing(other, "step-vq-m", receipts) == {"minatar:freeway": [0]}
    assert "--protocol sticky" in other.command("step-vq-m", "minatar:freeway", 0)


def test_rates_come_from_bench_unless_a_receipt_has_them(tmp_path: Path) -> None:
    cost = {"size": "nano", "per_step": {"total_seconds": 0.5}}
    recipes = [{"recipe": "iris", **cost}, {"recipe": "step-vq-m", **cost}]
    (tmp_path / "bench").mkdir()
    file = tmp_path / "bench" / "nano.json"
    file.write_text(json.dumps({"env": "minatar:breakout", "recipes": recipes}))
    write_seeds(tmp_path / "runs", (0,), env="minatar:freeway")
    (receipt,) = make_receipts([str(tmp_path / "runs")])
    timed = replace(receipt, seeds=(replace(receipt.seeds[0], hours=2.0),))
    rates = plan.rates_of(tmp_path, [timed])
    assert rates["iris", "nano", "minatar"] == plan.Rate(0.5, "`bench`")
    assert rates["step-vq-m", "nano", "minatar"] == plan.Rate(7.2, "receipts")
    file.write_text("{}")
    with pytest.raises(DamagedFile, match="it is no output of 'tokenworlds bench --json'"):
        plan.rates_of(tmp_path, [])


def test_planned_commands_are_valid() -> None:
    entries = plan.read_plan(ROOT / document.RECEIPTS)
    assert entries
    for planned in entries:
        for agent in planned.agents:
            words = shlex.split(planned.command(agent, planned.games[0], planned.seeds[0]))[1:]
            command = parse(words)
            assert isinstance(command, Train)
            choose_run(replace(command, device="cpu", threads=1))


def test_a_picture_names_the_curves_that_it_shows(tmp_path: Path) -> None:
    write_seeds(tmp_path / "runs", (0, 1), evaluations=3)
    receipts = make_receipts([str(tmp_path / "runs")])
    picture = tmp_path / "toy.png"
    assert not charts.shows(picture, receipts)
    picture.write_bytes(charts.curve_png(receipts))
    assert charts.shows(picture, receipts)
    fewer = [replace(receipts[0], seeds=receipts[0].seeds[:1])]
    assert not charts.shows(picture, fewer)


def test_long_names_in_a_legend_are_wrapped_to_the_width_of_the_picture() -> None:
    name = "step-vq-m, " + ", ".join(f"schedule.updates.part{i}=0.0625" for i in range(4))
    lines = charts.wrapped(name, 5.0).splitlines()
    assert " ".join(lines) == name
    assert len(lines) > 1
    assert max(map(len, lines)) * charts.LETTER + charts.LINE <= 5.0


def test_a_long_list_of_changes_is_counted_and_points_to_its_receipt(tmp_path: Path) -> None:
    runs = write_seeds(tmp_path, (0,))
    (receipt,) = make_receipts([str(run) for run in runs])
    few = replace(receipt, changes=("a=1", "b=2"))
    many = replace(receipt, changes=tuple(f"{name}=1" for name in "abcde"))
    assert tables.agent_text(few) == "`step-vq-m` with `a=1`, `b=2`"
    suffix = Path(many.place).stem.rpartition("--")[2]
    assert tables.agent_text(many) == f"`step-vq-m` with 5 settings changed ({suffix})"
    assert many.agent == f"step-vq-m, 5 settings changed ({suffix})"
