"""Tuning by a judge: the setting with the highest win share against the baseline is chosen."""

import re
from unittest.mock import Mock

import pytest
from fake_openai import make_verdict
from read_files import write_json_lines

from guard_eval.errors import StudyError
from guard_eval.study import Study

pytestmark = pytest.mark.slow

SETTINGS = """
name = "s"
seed = 1
[tuning]
prompts = 3
maximize = "judge"
[metrics]
baseline = "plain"
[pairs]
compare = [["plain", "top_p"]]
[[judge]]
model = "gpt-4o-2024-11-20"
criteria = ["fluency"]
"""
TEXTS = {"plain": "ordinary", "top_p(p=0.8)": "poor", "top_p(p=0.9)": "good", "top_p(p=0.95)": "ordinary"}
"""The first word of each system's texts. The simulated judge likes some words more than others."""


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "s"
    folder.mkdir()
    tables = [SETTINGS]
    for number, (name, word) in enumerate(TEXTS.items()):
        lines = [{"id": f"p{n}", "text": f"{word} text {n} of {number}"} for n in range(5)]
        write_json_lines(folder / f"{number}.jsonl", lines)
        setting_of = 'setting_of = "top_p"\n' * (name != "plain")
        tables.append(f'[[system]]\nname = "{name}"\nfile = "{number}.jsonl"\n{setting_of}')
    (folder / "study.toml").write_text("".join(tables))
    prompts = [{"id": f"p{n}", "dataset": "d", "prompt": f"Prompt {n}"} for n in range(5)]
    write_json_lines(folder / "prompts.jsonl", prompts)
    return folder


def prefer_good_texts(ask):
    ranks = [("poor", "ordinary", "good").index(text.split()[0]) for text in ask.texts]
    return make_verdict(ask, "A" if ranks[0] > ranks[1] else "B" if ranks[1] > ranks[0] else "tie")


@pytest.mark.parametrize("design", ["fixed", "candidate"])
def test_judge_tunes_by_win_share(*, folder, judge_command, guard_eval, server, monkeypatch, design):
    """Three settings on three prompts in both orders give 18 questions. Win shares are 0, 100 and 50 %."""
    server.act = prefer_good_texts
    (folder / "study.toml").write_text(
        (folder / "study.toml").read_text().replace("[pairs]", f'[pairs]\ndesign = "{design}"\nrounds = 2')
    )
    first = guard_eval("measure", "s", "--tune")
    assert "9 judgments of settings against the baseline are missing" in first.out
    assert "guard-eval judge s --tune" in first.out
    assert "run: guard-eval measure s --tune" not in judge_command("--tune", "--dry-run").out
    questions = []
    with monkeypatch.context() as patch:
        patch.setattr("sys.stdin.isatty", lambda: True)
        patch.setattr("guard_eval.progress.confirm", lambda question: not questions.append(question))
        assert "18 judged" in judge_command("--tune", "--budget", "1").out
    assert questions == ["Send 18 requests, for never more than $1.00 over all runs with --tune?"]
    assert "guard-eval measure s --tune" in judge_command("--tune", "--dry-run").out
    chosen = guard_eval("measure", "s", "--tune")
    assert chosen.code == 0, chosen
    assert re.search(r"top_p\(p=0\.95\) +0\.\d+ +50\.00 ", chosen.out)
    study = Study.open(folder)
    scores = {setting.name: setting.scores["judge"] for setting in study.choice.searches[0].settings}
    assert scores == {"top_p(p=0.8)": 0, "top_p(p=0.9)": 100, "top_p(p=0.95)": 50}
    assert study.choice.selection_in_words == "the judge chose the settings on 3 separate prompts"
    assert study.settings.pairs.compare == [["plain", "top_p(p=0.9)"]]
    assert "2 pairs, 2 new" in guard_eval("pair", "s").out  # their verdicts are in another database
    # The 18 requests of the tuning do not count in this budget.
    assert "4 judged" in judge_command("--yes", "--budget", "0.093").out


def test_tuning_is_unfinished_if_all_judges_fail(folder, judge_command, guard_eval, monkeypatch):
    guard_eval("measure", "s", "--tune")
    monkeypatch.setattr("judge.command.preview_judge", Mock(side_effect=StudyError("no such judge")))
    for option in ("--dry-run", "--yes"):
        ran = judge_command("--tune", option)
        assert (ran.code, "no such judge" in ran.err) == (2, True)
        assert "measure s --tune" not in ran.out


def test_tuning_with_a_judge_needs_a_rule_and_pairs(folder, judge_command):
    assert "run: guard-eval measure s --tune" in judge_command("--tune", "--yes").refused()
    assert not (folder / "tuning.db").exists()
    path = folder / "study.toml"
    path.write_text(path.read_text().replace('maximize = "judge"', 'maximize = "diversity"'))
    assert "does not name judge; leave --tune out" in judge_command("--tune").refused()
