"""`measure --tune` chooses settings of texts from a file on tuning prompts, and compares on other prompts."""

import csv
import json
import re

import pytest
from read_files import read_csv
from refusals import expect_refusal

from analysis.monitor.status import read_status
from analysis.reports.command import report
from guard_eval.metrics.command import measure
from guard_eval.records import PEOPLE
from guard_eval.store import Store, handout, raters, verdicts
from guard_eval.store import settings as store_settings
from guard_eval.study import Study
from guard_eval.study.declared import compare_declared_parts
from guard_eval.texts.new import new
from guard_eval.texts.pair import pair
from guard_eval.texts.tuning import split_prompts_for_tuning

WORDS = "abcdefghij"
DIFFERENT = {"0.7": 3, "0.8": 6, "0.9": 9}
"""The number of different words in a text, by setting. More different words give a higher diversity."""
RULE = '[tuning]\nprompts = 30\nmaximize = "diversity"\nwhere = ["words <= 10"]\n'


def write(number, different):
    """Return a text of ten words with this number of different words, for the prompt with this number."""
    return " ".join(f"{WORDS[position % different]}{number}" for position in range(10))


@pytest.fixture
def study(tmp_path):
    """Return a function that makes a study of 40 prompts with `plain` and three settings of `top_p`."""

    def make(rule=RULE, prompts=40, settings=DIFFERENT, system="top_p"):
        rows = [("prompt", "system", "setting", "text")]
        for number in range(prompts):
            words = 9 if number % 2 else 4
            rows.append((f"Prompt {number}", "plain", "", write(number, words)))
            rows += [
                (f"Prompt {number}", system, setting, write(number, n)) for setting, n in settings.items()
            ]
        path = tmp_path / "texts.csv"
        with path.open("w", newline="") as file:
            csv.writer(file).writerows(rows)
        folder = tmp_path / "study"
        new_study = new(folder, texts=[path])
        if rule:
            couples = re.compile(r"compare = \[\n.*?\n\]\n", re.DOTALL)
            edit(folder, lambda text: couples.sub('compare = [["plain", "top_p"]]\n', text))
            edit(folder, lambda text: text.replace("[metrics]", f"{rule}[metrics]"))
        return folder, new_study

    return make


def edit(folder, change):
    path = folder / "study.toml"
    path.write_text(change(path.read_text()))


def opened(folder, *overrides):
    return Study.open(folder, overrides)


def tune(folder, *overrides):
    return measure(opened(folder, *overrides), tune=True)


def rate(study):
    with Store.open(study.database, declared=study.declared) as store:
        ada = raters.get_or_add_rater(store, "Ada", "person")
        [blind] = handout.claim_pairs(store, ada, study.hand_out_plan, limit=1)
        choices = dict.fromkeys(study.settings.annotation.criteria, "A")
        verdicts.save_verdict(store, blind.presentation, choices, rater=ada)


def test_tuning_chooses_settings_of_texts_in_a_file(study):
    folder, new_study = study()
    assert new_study.systems == {"plain": 40, "top_p(0.7)": 40, "top_p(0.8)": 40, "top_p(0.9)": 40}
    assert 'setting_of = "top_p"' in (folder / "study.toml").read_text()
    with expect_refusal(
        r"no setting is chosen yet by the rule in \[tuning\]; run: guard-eval measure .* --tune"
    ):
        pair(opened(folder))
    with expect_refusal("no setting is chosen yet"):
        measure(opened(folder))
    status = read_status(folder, ())
    assert "nothing is chosen" in str(status.lines)
    assert [command for command in status.next if " measure " in command] == [status.next[0]]
    assert status.next[0].endswith(" --tune")
    result = tune(folder)
    assert result.lines[0] == "top_p: top_p(0.9) was chosen"
    assert [command.split()[1] for command in result.next] == ["pair"]  # files have all texts
    assert any("value 1 = 0.9 was the largest tried" in line for line in result.warnings)
    assert [row["chosen"] for row in read_csv(folder / "tuning.csv")] == ["false", "false", "true", "true"]
    tuned = opened(folder)
    assert len(tuned.choice.prompts) == 30
    assert tuned.settings.pairs.compare == [["plain", "top_p(0.9)"]]
    paired = pair(tuned)
    assert paired.count == 10
    assert not {pair.prompt_id for pair in paired.pairs} & set(tuned.choice.prompts)
    assert {pair.method_b for pair in paired.pairs} == {"top_p(0.9)"}
    scores = measure(tuned, metrics=["diversity"]).scores
    assert {score.strategy: score.n for score in scores} == {"plain": 10, "top_p(0.9)": 10}
    assert "chosen: top_p(0.9)" in str(read_status(folder, ()).lines)


def test_an_unknown_column_is_refused_before_the_rating(study):
    folder, _ = study(rule="")
    with expect_refusal("by genre: no prompt and no trace has this column"):
        pair(opened(folder, 'analysis.by=["genre"]'))
    assert not (folder / "study.db").exists()
    pair(opened(folder, 'analysis.by=["prompt_length"]'))


def test_tuning_replaces_no_other_file(study):
    folder, _ = study()
    (folder / "tuning.csv").write_text("prompt,text\nOnce,mine\n", encoding="utf-8")
    with expect_refusal(r"tuning.csv exists, and is no earlier result"):
        tune(folder)
    assert (folder / "tuning.csv").read_text(encoding="utf-8").endswith("mine\n")


def test_added_prompts_do_not_change_the_tuning_prompts(study):
    folder, _ = study()
    before = tune(folder).next
    chose = opened(folder).choice.prompts
    path = folder / "prompts.jsonl"
    more = "".join(f'{{"id": "new {n}", "dataset": "prompts", "prompt": "More {n}"}}\n' for n in range(60))
    path.write_text(more + path.read_text())
    assert before
    assert {prompt.id for prompt in split_prompts_for_tuning(opened(folder))[0]} == set(chose)


@pytest.mark.parametrize(("number", "chosen", "count"), [(30, 30, 10), (0, 40, 40)])
def test_a_repeated_prompt_counts_once_in_tuning(study, number, chosen, count):
    folder, _ = study(RULE.replace("30", str(number)))
    path = folder / "prompts.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    repeats = [
        row | {"id": f"{name}{row['id']}", "prompt": f"{row['prompt']} "} for name in "ab" for row in rows
    ]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in [*rows, *repeats]))
    tune(folder)
    choosing, compared = split_prompts_for_tuning(opened(folder))
    words = {prompt.text.strip() for prompt in choosing}
    assert len(choosing) == len(words) == chosen
    assert number == 0 or not words & {prompt.text.strip() for prompt in compared}
    assert pair(opened(folder)).count == count


def test_a_strategy_without_a_valid_setting_is_named(study):
    folder, _ = study(RULE.replace("10", "9"))
    with expect_refusal("no setting of top_p has a score of diversity and words <= 9; change"):
        tune(folder)
    assert not (folder / "tuning.json").exists()
    assert (folder / "tuning.csv").exists()


def test_pairs_with_tuning_prompts_are_refused(study):
    folder, _ = study()
    text = (folder / "study.toml").read_text()
    (folder / "study.toml").write_text(text.replace(RULE, "").replace('"top_p"]]', '"top_p(0.9)"]]'))
    assert pair(opened(folder)).count == 40
    (folder / "study.toml").write_text(text)
    tune(folder)
    with expect_refusal(r"30 of 40 pairs .*\[tuning\](?s:.*)--redraw"):
        pair(opened(folder))
    assert pair(opened(folder), redraw=True).count == 10


def test_too_many_tuning_prompts_are_refused(study):
    folder, _ = study(RULE.replace("30", "40"))
    with expect_refusal(r"tuning.prompts = 40 leaves no prompts of prompts to compare"):
        tune(folder)
    assert "leaves no prompts" in str(read_status(folder, ()).lines)


def test_a_changed_rule_or_text_needs_a_new_choice(study):
    folder, _ = study()
    tune(folder)
    with expect_refusal("no setting is chosen yet by the rule"):
        pair(opened(folder, "tuning.where=[]"))
    [path] = folder.glob("texts/*0.7*")
    path.write_text(path.read_text().replace("a1 ", "z1 ").replace("a2 ", "z2 ").replace("a3 ", "z3 "))
    with expect_refusal(r"the texts that chose the settings, or tuning\.json, have changed"):
        pair(opened(folder))
    tune(folder)
    assert pair(opened(folder)).count == 10
    path = folder / "tuning.json"
    path.write_text(path.read_text().replace('"chosen": "top_p(0.9)"', '"chosen": "top_p(0.7)"'))
    with expect_refusal(r"or tuning\.json, have changed"):
        pair(opened(folder))


def test_a_tuning_choice_cannot_change_after_a_verdict(study):
    folder, _ = study()
    tune(folder)
    before = opened(folder)
    pair(before)
    rate(before)
    chosen = (folder / "tuning.json").read_bytes()
    table = (folder / "tuning.csv").read_bytes()
    measure(before, tune=True)
    assert (folder / "tuning.json").read_bytes() == chosen  # the same choice may be made again
    changed = ('tuning.where=["diversity <= 50"]',)
    with expect_refusal("already has verdicts for another choice of settings"):
        tune(folder, *changed)
    assert (folder / "tuning.csv").read_bytes() == table
    (folder / "tuning.json").unlink()
    with expect_refusal("already has verdicts for another choice of settings"):
        tune(folder, *changed)
    assert not (folder / "tuning.json").exists()
    edit(folder, lambda text: text.replace("prompts = 30", "prompts = 29"))
    after = opened(folder)
    with Store.open(after.database) as store:
        [comparison] = compare_declared_parts(
            {PEOPLE: after.declared[PEOPLE]},
            {PEOPLE: store_settings.read_settings_at_first_verdict(store, PEOPLE)},
        )
    assert {change.partition(" from ")[0] for change in comparison.changes} == {
        "pairs.compare",
        "tuning.choice",
        "tuning.prompts",
    }


def test_p_value_is_corrected_if_test_prompts_chose_settings(study):
    """If all prompts chose the settings, each test is corrected for the choice of the best of three."""
    folder, _ = study(RULE.replace("30", "0"))
    result = tune(folder)
    assert any("The prompts that chose the settings also test them" in line for line in result.warnings)
    tuned = opened(folder)
    assert pair(tuned).count == 40
    measured = measure(tuned, metrics=["diversity"])
    assert {score.strategy for score in measured.scores} == {"plain", "top_p(0.9)"}
    [row] = measured.differences
    assert row.strategy == "top_p(0.9)"
    assert "best of 3, corrected for the search" in row.method
    assert row.low is None
    assert 0 < row.p_value <= 1
    rate(tuned)
    report(folder)
    head, _, _ = (folder / "report" / "report.md").read_text().partition("rated")
    assert "The prompts that chose the settings also test them." in head


def test_a_report_says_that_the_search_is_unknown(study):
    folder, _ = study(rule="", settings={"p=0.9": 9})
    assert "[tuning]" not in (folder / "study.toml").read_text()
    pair(opened(folder))
    rate(opened(folder))
    report(folder)
    page = (folder / "report" / "report.md").read_text()
    assert page.count("How top\\_p(p=0.9) was chosen is not known: its search is unknown") == 2


def test_tuning_needs_a_rule(study, tmp_path):
    folder, _ = study(rule="")
    for source, named in (
        (opened(folder), "has no table .tuning."),
        (tmp_path / "texts.csv", "name its folder"),
    ):
        with expect_refusal(named):
            measure(source, tune=True)
    with expect_refusal("leave --metrics and --baseline out"):
        measure(opened(folder), tune=True, baseline="plain")
