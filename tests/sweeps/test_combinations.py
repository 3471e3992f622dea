"""Every combination of parts trains, or is refused in one sentence."""

import json
import re
from pathlib import Path

import pytest

from tokenworlds import worlds
from tokenworlds.cli import main
from tokenworlds.commands.combinations import markdown_lines
from tokenworlds.core.overrides import members
from tokenworlds.recipes.catalogue import load
from tokenworlds.recipes.learners import assign
from tokenworlds.sweeps import combinations
from tokenworlds.sweeps.combinations import WORLDS, Combination, Verdict, judge, tables

PAGE = Path(__file__).parents[2] / "docs" / "combinations.md"
TOKENIZER, SEQUENCE, PRIOR = "world.tokenizer", "world.sequence", "world.prior"
WORKING = [
    Combination("step-vq-t", {TOKENIZER: "fsq", PRIOR: "maskgit", SEQUENCE: "mamba2"}),
    Combination("step-vq-t", {TOKENIZER: "residual_vq", SEQUENCE: "convlstm"}),
    Combination("step-vq-t", {TOKENIZER: "categorical", SEQUENCE: "post_norm_transformer"}),
    Combination("step-vq-m", {"behaviour": "ppo"}),
    Combination("dreamer-v3", {"behaviour": "latent_actor_critic"}),
    Combination("dreamer-v3", {"behaviour": "ppo"}),
    Combination("swm", {"behaviour": "latent_actor_critic"}),
    Combination("swm", {TOKENIZER: "lfq"}),
    Combination("delta-iris", {SEQUENCE: "mamba2"}),
]
REFUSED = {
    "world.tokenizer=delta": "the delta tokenizer needs a past frame",
    "world.tokenizer=gaussian": "GaussianTokenizer has no tokens",
    "world.prior=gaussian": "goes with world.tokenizer=gaussian",
}


def named(combination: Combination) -> str:
    return " ".join([combination.recipe, *combination.parts.values()])


def found(verdicts: list[Verdict]) -> list[str]:
    return [f"{named(each.combination)}: {each.reason}" for each in verdicts]


def test_every_world_has_a_recipe() -> None:
    assert set(WORLDS) == set(members(worlds))


@pytest.mark.parametrize("combination", WORKING, ids=named)
def test_the_parts_train_together(combination: Combination) -> None:
    assert judge(combination, "catch").reason == ""


@pytest.mark.parametrize("assignment", REFUSED)
def test_show_and_train_refuse_with_the_same_sentence(
    assignment: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    sentences = []
    for command in (["show", "step-vq-t", "--size", "nano"], ["train", "step-vq-t"]):
        assert main([*command, "--env", "catch", "--set", assignment]) == 2
        sentences.append(capsys.readouterr().err)
    assert sentences[0] == sentences[1]
    assert REFUSED[assignment] in sentences[0]
    assert list(tmp_path.iterdir()) == []


def test_a_new_behaviour_brings_its_own_loss_weights() -> None:
    recipe = load("swm", "nano", "catch").recipe
    assert recipe.learning["behaviour"].scales == {"value": 0.5, "entropy": 0.01}
    swapped = assign(recipe, ["behaviour=latent_actor_critic"])
    assert swapped.learning["behaviour"].scales == {}


def test_loss_weights_of_an_assignment_stay_in_any_order() -> None:
    recipe = load("swm", "nano", "catch").recipe
    chosen = ['learning.behaviour.scales={"entropy":0.1}', "behaviour=latent_actor_critic"]
    for assignments in (chosen, chosen[::-1]):
        assert assign(recipe, assignments).learning["behaviour"].scales == {"entropy": 0.1}


def test_a_joint_learner_is_split_for_a_behaviour_that_cannot_share_it() -> None:
    recipe = load("dreamer-v3", "nano", "catch").recipe
    both = recipe.learning["agent"]
    swapped = assign(recipe, ["behaviour=ppo", "learning.behaviour.batch=3"])
    assert {name: each.length for name, each in swapped.learning.items()} == {
        "world": both.length,
        "behaviour": both.length,
    }
    assert swapped.learning["behaviour"].batch == 3
    assert swapped.learning["world"].batch == both.batch
    ratio = recipe.schedule.updates["agent"]  # type: ignore[attr-defined]
    assert swapped.schedule.updates == {  # type: ignore[attr-defined]
        "world": ratio,
        "behaviour": ratio,
    }


def test_the_command_prints_a_table_and_its_sentences(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def judged(combination: Combination, env: str) -> Verdict:
        return Verdict(combination, "they quarrel" if "delta" in named(combination) else "")

    monkeypatch.setattr(combinations, "judge", judged)
    page = tmp_path / "page.md"
    assert main(["combinations", "--quick", "--out", str(page)]) == 0
    printed = capsys.readouterr().out
    assert "1: they quarrel" in printed
    assert "delta + maskgit" in printed
    assert "1. they quarrel" in page.read_text()
    assert main(["combinations", "--quick", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["works"] for row in rows} == {True, False}


def test_the_page_has_a_cell_for_every_combination() -> None:
    """Marks of the page are checked by the slow test."""
    text = PAGE.read_text()
    for table in tables():
        blank = list(markdown_lines(table, [Verdict(each) for each in table.combinations]))
        names = [line.split("|")[1] for line in blank if line.startswith("| ")]
        assert f"## {table.title}" in text
        assert all(f"|{name}|" in text for name in names)


@pytest.mark.slow
def test_every_combination_is_as_the_page_says() -> None:
    verdicts = {
        table.title: [judge(each, "catch") for each in table.combinations] for table in tables()
    }
    judged = [each for column in verdicts.values() for each in column]
    assert found([each for each in judged if each.works != each.shown]) == []
    accidents = [each for each in judged if "does not fit together" in each.reason]
    assert found(accidents) == []
    text = PAGE.read_text()
    for table in tables():
        rows = [line for line in markdown_lines(table, verdicts[table.title]) if line]
        assert all(re.search(f"^{re.escape(row)}$", text, re.M) for row in rows)
