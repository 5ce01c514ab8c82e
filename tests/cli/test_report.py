"""`report` on a table: who judged, what is declared, where it is written; and on a study."""

import json
from dataclasses import replace

import pandas as pd
import pytest
from rating import invite_people
from read_files import read_json_lines

from analysis.demo import simulate_verdicts
from analysis.reports.command import report
from analysis.reports.study_report import make_study_context
from guard_eval.errors import StudyError
from guard_eval.reporting.data import to_json_value
from guard_eval.store import Store, handout, unblind, verdicts
from guard_eval.store import pairs as store_pairs
from guard_eval.store.schema import query
from guard_eval.study import Study
from guard_eval.texts.continuations import append_lines
from guard_eval.texts.new import new
from guard_eval.texts.pair import pair

pytestmark = pytest.mark.slow

HEADER = "pair_id,dataset,method_a,method_b,rater,criterion,verdict"
ROWS = "".join(f"{i},d,x,y,eve,coherence,{'xy'[i % 2]}\n" for i in range(6))


@pytest.fixture
def judged(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "judged.csv"
    path.write_text(f"{HEADER}\n{ROWS}")
    return path


def markdown(folder):
    return (folder / "report.md").read_text(encoding="utf-8")


def test_report_shows_the_command_that_made_it(judged):
    result = report(judged, overrides=["rater_kind=model", "margin=0.05"])
    assert result.folder.name == "judged-report"
    command = "guard-eval report judged.csv --set rater_kind=model --set margin=0.05"
    assert command in markdown(result.folder)


def test_several_tables_make_one_report(judged):
    second = judged.with_name("second.csv")
    second.write_text(f"{HEADER}\n{ROWS.replace('eve', 'bob')}")
    result = report(judged, second, overrides=["rater_kind=person"])
    assert result.answer.startswith("2\u00a0people rated 6\u00a0pairs")


def test_report_prints_share_interval_and_p(judged):
    """15 of 20 pairs: p is that of the binomial test, and the interval is that of the table of results."""
    rows = [f"{pair},d,x,y,eve,coherence,{'x' if pair < 15 else 'y'}" for pair in range(20)]
    judged.write_text("\n".join([HEADER, *rows]))
    result = report(judged)
    [row] = json.loads((result.folder / "report.json").read_text())["tables"]["win_shares"]
    limits = f"{100 * row['low']:.1f} to {100 * row['high']:.1f}"
    line = f"x against y · Coherence: 75.0 % (95 % interval: {limits}), p = .041 · evidence"
    assert line in [text.replace("\u00a0", " ") for text in result.lines]
    [printed] = to_json_value(result)["results"]
    assert (printed["interval"]["low"], printed["interval"]["high"]) == (row["low"], row["high"])
    assert printed["p"] == pytest.approx(2 * 21_700 / 2**20)


def test_command_line_overrides_report_toml(judged):
    (judged.parent / "report.toml").write_text('title = "T"\nalpha = 0.01\nmargin = 0.2\n')
    rows = json.loads((report(judged, overrides=["margin=0.1"]).folder / "report.json").read_text())
    assert rows["name"] == "T"
    assert rows["tables"]["win_shares"][0]["level"] == pytest.approx(0.99)
    assert rows["tables"]["equivalence"][0]["margin"] == pytest.approx(0.1)


REFUSED = {
    "margin=0.5": "less than 0.5",
    "raters=population": "fixed",
    "correction=bonferroni": "holm",
    "famly=[]": "family",
    "rater_kind=robot": "person",
    "unit=prompt": "the table does not name the prompts",
    "nonsense": "this is not a setting",
}


def test_a_wrong_setting_is_named(judged):
    for assignment, message in REFUSED.items():
        with pytest.raises(StudyError, match=message):
            report(judged, overrides=[assignment])
    assert not (judged.parent / "judged-report").exists()


def test_options_for_tables_are_refused_for_a_study(paired):
    with pytest.raises(StudyError, match="rater_kind: is not a setting"):
        report(paired, overrides=["rater_kind=model"])
    with pytest.raises(StudyError, match="no verdicts yet"):
        report(paired)
    with pytest.raises(StudyError, match="no study or table was given"):
        report()


def test_report_warns_about_unfinished_ratings(paired, monkeypatch):
    """Whoever looks now and then, and stops when p is small, must read that p is not for that."""
    opened = Study.open(paired)
    with Store.open(opened.database, declared=opened.declared) as store:
        (ann,) = invite_people(store, "ann")
        pairs = len(store_pairs.read_pairs(store))
        for blind in handout.claim_pairs(store, ann, opened.hand_out_plan, limit=pairs)[1:]:
            verdicts.save_verdict(
                store, blind.presentation, dict.fromkeys(opened.settings.annotation.criteria, "A"), rater=ann
            )
        ratings = pairs * opened.settings.annotation.raters_per_pair
        (unfinished,) = make_study_context(opened, store, unblind.read_tidy_rows(store)).unfinished
        of_other_pairs = [
            replace(row, rater=f"r{index}")
            for index, row in enumerate(unblind.read_tidy_rows(store) * ratings)
        ]
        rated_ids = {row.pair_id for row in of_other_pairs}
        (unrated,) = {pair.id for pair in store_pairs.read_pairs(store)} - rated_ids
        every = [*of_other_pairs, *(replace(row, pair_id=unrated) for row in of_other_pairs)]
        # However many people rate the other pairs, one pair has no rating.
        for rows, missing in ((every, 0), (of_other_pairs, ratings // pairs)):
            with monkeypatch.context() as rated:
                rated.setattr(unblind, "read_tidy_rows", lambda *_, rows=rows, **__: rows)
                sentences = make_study_context(opened, store, rows).unfinished
            assert (
                list(sentences) == [f"people gave {ratings - missing} of {ratings} ratings"][: bool(missing)]
            )
    assert unfinished == f"people gave {pairs - 1} of {ratings} ratings"
    assert report(paired).answer.startswith(f"These results were looked at early: {unfinished}. ")
    assert f"> These results were looked at early: {unfinished}." in markdown(paired / "report")
    assert "a look after every ten pairs" in markdown(paired / "report")
    declared = report(paired, overrides=["analysis.sequential=true"]).answer
    assert "looked at early" not in declared
    assert f"Planned ratings are missing: {unfinished}" in declared


@pytest.mark.parametrize(
    ("added", "overrides", "reasons"),
    [
        ("a comparison", ['pairs.compare=[["x", "y"], ["x", "z"]]'], ()),
        ("a prompt", [], ("pairs were added to a comparison after its first verdict",)),
        ("a prompt", ["analysis.sequential=true"], ()),
        ("a prompt that was only shown", [], ()),
    ],
)
def test_pairs_added_after_verdicts_are_exploratory(tmp_path, added, overrides, reasons):
    """With more prompts until p is small, too many studies find a difference that does not exist."""
    table = tmp_path / "texts.csv"
    rows = [f"Question {n},{name},Answer {n} by {name}.\n" for n in range(4) for name in "xyz"]
    table.write_text("".join(["prompt,system,text\n", *rows]))
    folder = tmp_path / "study"
    new(folder, texts=[table])
    pair(Study.open(folder, ['pairs.compare=[["x", "y"]]', "prompts.limit=3"]))
    limit = "prompts.limit=3" if added == "a comparison" else "prompts.limit=4"
    study = Study.open(folder, ['pairs.compare=[["x", "y"]]', limit, *overrides])
    simulate_verdicts(study)
    with Store.open(study.database) as store, store.begin_write() as (db, _):
        if added == "a prompt that was only shown":
            query("UPDATE presentation SET rated_at = NULL")(db)
    drawn = pair(study)
    assert drawn.new == (3 if added == "a comparison" else 1)
    assert any("the report calls the results exploratory" in line for line in drawn.warnings) == bool(reasons)
    with Store.open(study.database, declared=study.declared) as store:
        context = make_study_context(study, store, unblind.read_tidy_rows(store))
    assert tuple(reason for reason in context.late_changes if "pairs" in reason) == reasons


def test_report_is_written_into_the_current_folder(tmp_path, monkeypatch):
    data, here = tmp_path / "data", tmp_path / "here"
    data.mkdir()
    here.mkdir()
    (data / "judged.csv").write_text(f"{HEADER}\n{ROWS}")
    monkeypatch.chdir(here)
    for _ in range(2):  # the second time over the report of the first
        report(data / "judged.csv")
    assert [path.name for path in data.iterdir()] == ["judged.csv"]


def test_report_splits_results_by_columns_and_traces(paired):
    rows = read_json_lines(paired / "prompts.jsonl")
    animals = [row["prompt"].split()[4] for row in rows]
    lines = (json.dumps(row | {"pet": animal}) for row, animal in zip(rows, animals, strict=True))
    (paired / "prompts.jsonl").write_text("\n".join(lines), "utf-8")
    study = Study.open(paired, ["analysis.by=['H']"])
    with Store.open(study.database, declared=study.declared) as store:
        pairs = store_pairs.read_pairs(store)
        for rater in invite_people(store, "ann", "ben"):
            for blind in handout.claim_pairs(store, rater, study.hand_out_plan, limit=len(pairs)):
                choices = dict.fromkeys(study.settings.annotation.criteria, "A")
                verdicts.save_verdict(store, blind.presentation, choices, rater=rater)
    (folder,) = (path.parent for path in study.continuations_folder.glob("*/guard.jsonl"))
    traces = [{"id": pair.continuation_a, "H": [0.5, 1.5 + index]} for index, pair in enumerate(pairs)]
    append_lines(folder / "guard.trace.jsonl", traces)
    with (folder / "guard.trace.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"id": "torn')
    result = report(paired, by=("pet", "prompt_length"), overrides=study.overrides)
    rows = pd.read_csv(result.folder / "csv" / "by_value.csv", dtype=str)
    values = rows[rows["criterion"] == "fluency"].groupby("column")["value"].agg(list).to_dict()
    seen = sorted(animals[int(pair.prompt_id[-4:]) - 1] for pair in pairs)
    lengths = sorted({len(pair.prompt) for pair in pairs})
    assert values == {"H": ["1", "1.5", "2"], "pet": seen, "prompt_length": list(map(str, lengths))}
    with pytest.raises(
        StudyError,
        match=r"by HH: no prompt and no trace has this column.*trace existing texts.*did you mean 'H'",
    ):
        report(paired, by=("HH",))
    for name in ("verdict", "position", "seconds"):
        with pytest.raises(StudyError, match=f"by {name}: .*name that no column of the verdicts has"):
            report(paired, by=(name,))
    study.continuations_folder.rename(paired / "moved")
    with pytest.raises(StudyError, match=r"that no column of the verdicts has; choose from"):
        report(paired, by=("HH",))
