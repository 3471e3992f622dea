"""A saved agent brings a model card that says what it is and how it scored."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from api_runs import run_without_report, untrained
from PIL import Image

import tokenworlds as tw
from tokenworlds.cli import main
from tokenworlds.evaluation.results import Result
from tokenworlds.sharing.card import Card, render

pytest_plugins = ("api_fixtures",)


@pytest.fixture(scope="module")
def saved(run: tw.Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run.agent().save(tmp_path_factory.mktemp("saved") / "agent")


def front_matter(card: str) -> dict[str, Any]:
    _, matter, _ = card.split("---\n", 2)
    found = yaml.safe_load(matter)
    assert isinstance(found, dict)
    return found


def result(name: str) -> Result:
    return Result(
        recipe="iris",
        size="paper",
        env=name,
        protocol=name,
        seed=0,
        agent_steps=100,
        updates=1,
        gradient_steps=1,
        temperature=0.5,
        returns=(1.0, 2.0, 3.0),
    )


def test_the_card_names_protocol_score_seed_and_steps(saved: Path, run: tw.Run) -> None:
    card = (saved / "README.md").read_text()
    assert f"| toy:catch | toy | 3 | greedy actions | {run.score}" in card.replace("\\", "")
    assert "| seed | 0 |" in card
    assert "| agent steps | 48 |" in card


def test_the_hub_reads_the_score_from_the_front_matter(saved: Path, run: tw.Run) -> None:
    found = front_matter((saved / "README.md").read_text())
    assert (found["library_name"], found["license"]) == ("tokenworlds", "mit")
    (entry,) = found["model-index"]
    (shown,) = entry["results"]
    assert run.score is not None
    assert shown["metrics"][0]["value"].startswith(f"{run.score.mean:.2f} +/- ")


def test_the_curve_is_a_picture(saved: Path) -> None:
    assert "](curve.png)" in (saved / "README.md").read_text()
    with Image.open(saved / "curve.png") as picture:
        assert picture.size == (1600, 900)


def test_a_score_of_another_checkpoint_is_not_on_the_card(run: tw.Run, tmp_path: Path) -> None:
    other = run_without_report(tmp_path / "other", seed=4)
    (other.folder / "evaluation.json").write_bytes((run.folder / "evaluation.json").read_bytes())
    card = (other.agent().save(tmp_path / "agent") / "README.md").read_text()
    assert "This agent was not evaluated." in card


def test_an_agent_without_a_run_has_a_card_without_claims(tmp_path: Path) -> None:
    folder = untrained("iris").save(tmp_path / "agent")
    card = (folder / "README.md").read_text()
    assert "This agent was not evaluated." in card
    assert front_matter(card)["license"] == "other"
    assert not (folder / "curve.png").exists()


def test_a_licence_can_be_chosen(tmp_path: Path) -> None:
    folder = untrained("iris").save(tmp_path / "agent", license="apache-2.0")
    assert front_matter((folder / "README.md").read_text())["license"] == "apache-2.0"


def test_a_readme_that_is_no_card_is_kept(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    with pytest.warns(UserWarning, match="is no model card"):
        untrained("iris").save(tmp_path)
    assert (tmp_path / "README.md").read_text() == "mine"
    assert tw.Agent.load(tmp_path).env == "toy:catch"


def test_a_card_is_replaced_by_the_next(tmp_path: Path) -> None:
    agent = untrained("iris")
    agent.save(tmp_path)
    agent.save(tmp_path, license="cc0-1.0")
    assert front_matter((tmp_path / "README.md").read_text())["license"] == "cc0-1.0"


def test_an_agent_is_not_saved_into_a_run(run: tw.Run) -> None:
    with pytest.raises(tw.UserError, match="is a run"):
        run.agent().save(run.folder)


def test_names_cannot_break_the_card() -> None:
    hostile = 'x"\n---\n<script>|`'
    card = render(
        Card(
            title=hostile,
            rows={"environment": hostile},
            license=hostile,
            results=[result(hostile)],
            command="train ```",
        )
    )
    found = front_matter(card)
    assert found["license"] == hostile
    assert "<script>" not in card.partition("---\n\n")[2].replace("\\<script\\>", "")
    row = next(line for line in card.splitlines() if line.startswith("| environment | x"))
    assert row.replace("\\|", "").count("|") == 3


def test_export_writes_the_agent_of_a_run(
    run: tw.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(run.folder), str(tmp_path / "agent")]) == 0
    names = {Path(line).name for line in capsys.readouterr().out.splitlines()}
    weights = {"starts.safetensors", "weights.safetensors"}
    assert names == {"README.md", "config.json", "curve.png", *weights}
    assert tw.Agent.load(tmp_path / "agent").env == "toy:catch"
