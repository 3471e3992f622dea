import json
from dataclasses import replace
from pathlib import Path

import pytest
from test_report import EVENTS, RUN, read
from test_results import RESULT

from tokenworlds.commands.running import score_text
from tokenworlds.core.files import CHECKSUM, DamagedFile, checksum
from tokenworlds.evaluation.report import write_report
from tokenworlds.evaluation.results import (
    FILE,
    TrainingEpisodes,
    crafter_score,
    info_by_name,
    read_result,
    score_of_rates,
    to_document,
    write_result,
)

# Four episodes: one achievement in all, one in a single one, one in none.
COUNTS = {
    "achievement/collect_wood": (3.0, 1.0, 2.0, 9.0),
    "achievement/eat_cow": (0.0, 5.0, 0.0, 0.0),
    "achievement/eat_plant": (0.0, 0.0, 0.0, 0.0),
}
# (101 * 26 * 1) ** (1 / 3) - 1
SCORE = 12.7964
NOTHING = {name: (0.0,) * 4 for name in COUNTS}
COUNTED = replace(RESULT, env="crafter", info=COUNTS, random_info=NOTHING)


def test_the_score_is_0_without_achievements_and_100_with_all() -> None:
    assert score_of_rates([0.0] * 22) == 0.0
    assert score_of_rates([100.0] * 22) == pytest.approx(100.0)


def test_the_score_is_a_geometric_mean_of_one_plus_the_rates() -> None:
    # sqrt((1 + 3) * (1 + 0)) - 1 and sqrt((1 + 8) * (1 + 99)) - 1
    assert score_of_rates([3.0, 0.0]) == pytest.approx(1.0)
    assert score_of_rates([8.0, 99.0]) == pytest.approx(29.0)


def test_a_rate_counts_each_episode_with_the_achievement_once() -> None:
    score = crafter_score({**COUNTS, "other": (1.0, 1.0, 1.0, 1.0)})
    assert score is not None
    assert score.success == {"collect_wood": 100.0, "eat_cow": 25.0, "eat_plant": 0.0}
    assert score.score == pytest.approx(SCORE, abs=1e-4)


def test_an_environment_without_achievements_has_no_crafter_score(tmp_path: Path) -> None:
    assert crafter_score({"other": (1.0, 2.0)}) is None
    document = json.loads(write_result(tmp_path / FILE, RESULT).read_text())
    assert not {"info", "random_info", "crafter", "random_crafter"} & document.keys()
    assert "Crafter" not in score_text(RESULT)


def test_the_info_of_episodes_is_collected_by_name() -> None:
    episodes = [{"a": 1.0, "b": 2.0}, {"a": 3.0, "b": 4.0}]
    assert info_by_name(episodes) == {"a": (1.0, 3.0), "b": (2.0, 4.0)}
    assert info_by_name([*episodes, {"a": 5.0}]) == {"a": (1.0, 3.0, 5.0)}
    assert info_by_name([{}, {}]) == {}


def test_the_file_contains_every_count_and_the_score(tmp_path: Path) -> None:
    path = write_result(tmp_path / FILE, COUNTED)
    assert read_result(path) == COUNTED
    document = json.loads(path.read_text())
    assert document["info"]["achievement/eat_cow"] == [0.0, 5.0, 0.0, 0.0]
    assert document["crafter"]["score"] == pytest.approx(SCORE, abs=1e-4)
    assert document["crafter"]["success"]["eat_cow"] == 25.0
    assert document["random_crafter"]["score"] == 0.0


def test_invalid_info_is_refused(tmp_path: Path) -> None:
    path = write_result(tmp_path / FILE, COUNTED)
    path.write_text(json.dumps({**json.loads(path.read_text()), "info": 3}))
    with pytest.raises(DamagedFile, match="is damaged"):
        read_result(path)


def test_the_score_and_the_rates_are_printed() -> None:
    lines = [line.split() for line in score_text(COUNTED).splitlines()]
    assert ["evaluation", "random"] in lines
    assert ["Crafter", "score", "12.8", "%", "0.0", "%"] in lines
    assert ["eat_cow", "25.0", "%", "0.0", "%"] in lines
    alone = [line.split() for line in score_text(replace(COUNTED, random_info={})).splitlines()]
    assert ["eat_cow", "25.0", "%"] in alone


def test_rates_of_training_episodes_count_each_episode_once() -> None:
    collected = TrainingEpisodes()
    for episode in range(4):
        info = {name: counts[episode] for name, counts in COUNTS.items()}
        collected = collected.plus(float(episode), {**info, "other": 1.0})
    assert collected.unlocked == {"collect_wood": 4, "eat_cow": 1, "eat_plant": 0}
    assert (collected.episodes, collected.mean_return) == (4, 1.5)
    assert collected.crafter == crafter_score(COUNTS)
    assert TrainingEpisodes().plus(1.0, {}).crafter is None


def test_both_conventions_are_written_and_printed_with_their_labels(tmp_path: Path) -> None:
    collected = TrainingEpisodes(200, 500.0, {"collect_wood": 100, "eat_cow": 2, "eat_plant": 0})
    both = replace(COUNTED, training=collected)
    path = write_result(tmp_path / FILE, both)
    assert read_result(path) == both
    document = json.loads(path.read_text())
    assert document["crafter"]["success"]["collect_wood"] == 100.0
    assert document["training_crafter"]["success"]["collect_wood"] == 50.0
    assert document["training"]["episodes"] == 200
    text = score_text(both)
    assert ["evaluation", "random", "training"] in [line.split() for line in text.splitlines()]
    assert "training: all 200 episodes of 5,000 steps, mean return 2.50 (Crafter's own" in text


@pytest.mark.parametrize("training", [3, {"episodes": 0}, {"episodes": "x"}, {"other": 1}])
def test_an_invalid_count_of_training_episodes_is_refused(tmp_path: Path, training: object) -> None:
    document = to_document(COUNTED) | {"training": training}
    signed = {**document, CHECKSUM: checksum(document)}
    (tmp_path / FILE).write_text(json.dumps(signed))
    with pytest.raises(DamagedFile, match="is damaged"):
        read_result(tmp_path / FILE)


def test_the_report_shows_the_score_and_the_rates(tmp_path: Path) -> None:
    text = read(write_report(tmp_path, **RUN, events=EVENTS, result=COUNTED).page).text
    assert text[text.index("Crafter score") + 1] == "12.8 %"
    assert text[text.index("eat_cow") + 1 : text.index("eat_cow") + 3] == [
        "random policy: 0.0 %",
        "25.0 %",
    ]
    collected = TrainingEpisodes(200, 500.0, {"collect_wood": 100, "eat_cow": 2, "eat_plant": 0})
    both = replace(COUNTED, training=collected)
    text = read(write_report(tmp_path, **RUN, events=EVENTS, result=both).page).text
    assert text[text.index("Crafter score, training") + 1] == str(collected.crafter)
    assert "random policy: 0.0 %; training: 1.0 %" in text
    plain = read(write_report(tmp_path, **RUN, events=EVENTS, result=RESULT).page).text
    assert not [word for word in plain if "Crafter" in word or "Achievements" in word]
