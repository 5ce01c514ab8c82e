"""What could mislead a reader of results: the order of rows, excluded raters, models that pass for people."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pandas as pd
import pytest
from command_line import run_here
from factories import STUDY_HEAD
from verdicts_by_hand import drawn_verdicts, listed

import analysis
from guard_eval.errors import StudyError
from guard_eval.store import Store, handout, verdicts
from guard_eval.store import pairs as store_pairs
from guard_eval.store import raters as store_raters
from guard_eval.store import settings as store_settings
from guard_eval.study.folder import Study

pytestmark = pytest.mark.slow


def people(**columns):
    """Return the verdicts of three people on two pairs of each of six prompts."""
    drawn = drawn_verdicts(prompts=6, copies=2)
    return drawn[drawn["rater_kind"] == "person"].assign(**columns)


@pytest.fixture
def ran(monkeypatch, capsys, tmp_path):
    return lambda *arguments: run_here(monkeypatch, capsys, tmp_path, *arguments)


def numbers(folder):
    return json.loads((folder / "report.json").read_text(encoding="utf-8"))


def test_row_order_changes_no_byte_of_the_report(tmp_path):
    ordered, shuffled = tmp_path / "a", tmp_path / "b"
    analysis.report(drawn_verdicts(prompts=6, copies=2), ordered)
    analysis.report(drawn_verdicts(prompts=6, copies=2).sample(frac=1, random_state=3), shuffled)
    for path in (path for path in ordered.rglob("*") if path.is_file()):
        assert path.read_bytes() == (shuffled / path.relative_to(ordered)).read_bytes(), path


def test_raters_of_undeclared_kind_are_called_unknown(ran, tmp_path):
    people().drop(columns="rater_kind").to_csv(tmp_path / "v.csv", index=False)
    assert "3\u00a0raters of unknown kind" in ran("report", "v.csv").out
    assert "rater_kind=person" in ran("report", "v.csv", "--paper").refused()
    assert not (tmp_path / "v-report" / "paper").exists()
    assert "3\u00a0people" in ran("report", "v.csv", "--paper", "--set", "rater_kind=person").out
    assert (tmp_path / "v-report" / "paper" / "table.tex").exists()


def test_unnamed_raters_are_neither_counted_nor_compared(ran, tmp_path):
    """Two of three unnamed raters of each pair are for a: no rater is known to have said so twice."""
    pd.DataFrame({"item": range(20), "model_a": "a", "model_b": "b", "a_wins": 2, "b_wins": 1}).to_csv(
        tmp_path / "counts.csv", index=False
    )
    report = ran("report", "counts.csv", "--set", "rater_kind=person")
    assert "unnamed people rated 20\u00a0pairs" in report.out
    folder = tmp_path / "counts-report"
    tables = numbers(folder)["tables"]
    assert "raters" not in tables
    assert {row["kind"] for row in tables.get("audits", ())} == set()
    assert {row["raters"] for row in tables["win_shares"]} == {None}
    ways = {row["analysis"] for row in tables["sensitivity"]}
    assert not any("rater" in way.split(",")[0] for way in ways if "pooled" not in way)
    assert "so there are no results on single raters" in (folder / "report.md").read_text(encoding="utf-8")
    for option in (["--set", "raters=random"], ["--by", "rater"]):
        assert "does not say which rater gave which verdict" in ran("report", "counts.csv", *option).refused()


def ranked(prompts):
    """Return verdicts in which A beats B and C, and B beats C, in every prompt."""
    pairs = [(f"{a}{b}{n}", f"t{n}", a, b, a) for n in range(prompts) for a, b in ("AB", "BC", "AC")]
    return listed("pair_id prompt_id method_a method_b verdict", pairs)


def test_few_prompts_give_no_ranks_and_no_p(tmp_path):
    for prompts in (2, 4):
        rows = analysis.ranking(ranked(prompts))
        assert rows["possible_best"].isna().all()
        assert rows["p_any_difference"].isna().all()
    answer = analysis.report(ranked(4), tmp_path).summary
    assert "any difference: p" not in answer
    assert "leads" not in answer


def test_notebook_accepts_frames_and_files(tmp_path):
    people().to_csv(tmp_path / "v.csv", index=False)
    from_frame = analysis.shares(analysis.read(people()))
    pd.testing.assert_frame_equal(analysis.shares(tmp_path / "v.csv"), from_frame)
    assert {"read", "shares", "agreement", "ranking", "report", "figures"} <= set(dir(analysis))
    with pytest.raises(StudyError, match="no-file"):
        analysis.shares(tmp_path / "no-file.csv")
    with pytest.raises(StudyError, match="name a data frame"):
        analysis.read(pd.Series([1, 2]))


STUDY = (
    STUDY_HEAD
    + """[annotation]
criteria = ["fluency"]
raters_per_pair = 4
"""
)


@pytest.fixture
def rated(tmp_path, make_pairs):
    """Eight pairs, rated by three people for the first method and by Bob, who is hasty, for the second."""
    folder = tmp_path / "rated"
    folder.mkdir()
    (folder / "study.toml").write_text(STUDY)
    study = Study.open(folder)
    with Store.open(study.database, create=True, declared=study.declared) as store:
        pairs = make_pairs(8)
        store_pairs.add_pairs(store, pairs)
        texts = {pair.text_a for pair in pairs}
        for name in ("Ann", "Bob", "Cem", "Dee"):
            rater = store_raters.invite_rater(store, name)[0]
            while batch := handout.claim_pairs(store, rater, study.hand_out_plan):
                first = (batch[0].text_a in texts) == (name != "Bob")
                verdicts.save_verdict(
                    store, batch[0].presentation, {"fluency": "A" if first else "B"}, rater=rater
                )
    return study


def exclude(study, name, reason, *, hours=0):
    """Exclude a rater while the clock is wrong by some hours."""
    now = datetime.now(UTC) + timedelta(hours=hours)
    with Store.open(study.database, clock=lambda: now) as store:
        store_raters.decide_about_rater(store, name, "exclude", by="owner", reason=reason)


def test_report_warns_if_seen_results_are_not_recorded(rated, ran, failing_commits):
    with failing_commits():
        printed = ran("report", rated.folder)
    assert printed.code == 0
    assert "could not be recorded that the results were seen" in printed.err
    assert (
        "could not be recorded that the results were seen" in (rated.report_folder / "report.md").read_text()
    )


def test_answer_names_excluded_raters_and_their_effect(rated, ran):
    exclude(rated, "Bob", "three seconds a pair")
    assert ran("report", rated.folder).code == 0
    page = numbers(rated.report_folder)
    before = "1\u00a0rater excluded before the results were first seen (three seconds a pair)"
    assert "3\u00a0people rated 8\u00a0pairs" in page["answer"]
    assert before in page["answer"].split(". ")[0]  # what was given and excluded is not missing
    (row,) = page["tables"]["excluded_raters"]
    assert (row["rater"], row["results"], row["verdicts"]) == ("Bob", "before", 8)
    counted, (included,) = page["tables"]["win_shares"][0], page["tables"]["with_excluded_raters"]
    assert (counted["win_share"], included["win_share"]) == (1, 0.75)
    assert (counted["raters"], included["raters"]) == (3, 4)
    exclude(rated, "Dee", "too often for the first", hours=-1)
    assert ran("report", rated.folder).code == 0
    html = (rated.report_folder / "index.html").read_text(encoding="utf-8")
    assert before in html
    assert "1\u00a0rater excluded after the results were first seen (too often for the first)" in html


@pytest.mark.parametrize("arguments", [("--output", "verdicts.foo"), ("--table", "notes"), ()])
def test_export_without_verdicts_shows_no_results(rated, ran, arguments):
    if not arguments:
        with Store.open(rated.database) as store:
            for name in ("Ann", "Bob", "Cem", "Dee"):
                store_raters.decide_about_rater(store, name, "exclude", by="owner", reason="a test")
    ran("export", rated.folder, *arguments)
    with Store.open(rated.database) as store:
        assert store_settings.read_setting(store, store_settings.RESULTS_SEEN) is None


@pytest.mark.parametrize(
    ("seen", "decisions", "answer"),
    [
        ("at first", "excluded and included again after", "1 of them after the results were first seen"),
        ("later", "excluded before and included again after", "1 of them after the results were first seen"),
        ("never", "excluded and included again before", "0 of them after the results were first seen"),
    ],
)
def test_report_names_raters_whose_verdicts_were_replaced(rated, ran, seen, decisions, answer):
    """Eve rates all pairs but one of Bob, who was excluded and is included again."""
    if seen == "at first":
        assert ran("export", rated.folder).code == 0
    exclude(rated, "Bob", "against the first")
    if seen == "later":
        assert ran("export", rated.folder).code == 0
    with Store.open(rated.database) as store:
        texts = {pair.text_a for pair in store_pairs.read_pairs(store)}
        rater = store_raters.invite_rater(store, "Eve")[0]
        for _ in range(7):
            (pair,) = handout.claim_pairs(store, rater, rated.hand_out_plan)
            choice = "A" if pair.text_a in texts else "B"
            verdicts.save_verdict(store, pair.presentation, {"fluency": choice}, rater=rater)
    early = datetime.now(UTC) - timedelta(hours=1)  # the clock is set back
    with Store.open(rated.database, clock=lambda: early) as store:
        store_raters.decide_about_rater(store, "Bob", "include", by="owner", reason="sorry")
    assert ran("report", rated.folder).code == 0
    page = numbers(rated.report_folder)
    (row,) = page["tables"]["excluded_raters"]
    assert (row["rater"], row["verdicts"]) == ("Bob", 7)
    assert f"1\u00a0rater {decisions} the results were first seen (against the first)" in page["answer"]
    counted, (included,) = page["tables"]["win_shares"][0], page["tables"]["with_excluded_raters"]
    # Bob's verdict on the last pair counts: one of four is against the first method.
    assert counted["win_share"] == pytest.approx(1 - 1 / 4 / 8)
    assert included["win_share"] == pytest.approx((7 * 4 / 5 + 3 / 4) / 8)
    text = (rated.report_folder / "report.md").read_text(encoding="utf-8")
    assert f"1 included again, {answer}" in text
    assert "included again count, except on pairs that others had taken meanwhile" in text
    assert "count in no other table" not in text.replace("Verdicts of excluded raters count in no other", "")


def test_report_names_excluded_raters_if_no_others_rated(rated, ran):
    for name in ("Ann", "Bob", "Cem", "Dee"):
        exclude(rated, name, "too fast")
    refused = ran("report", rated.folder).refused()
    assert "are excluded; include one of them: guard-eval raters include" in refused
    assert refused.rstrip().endswith("Ann --reason REASON")


def test_page_gives_every_share_for_the_same_method(tmp_path):
    analysis.report(Path(__file__).parents[2] / "docs" / "quickstart" / "verdicts.csv", tmp_path)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    rows = pd.read_csv(tmp_path / "csv" / "sensitivity.csv").set_index(["analysis", "criterion"])
    guard = rows.loc[next(name for name in rows.index.levels[0] if "same kind" in name)].loc["fluency"]
    assert "Share of guard, ties half" in page
    assert f"fluency {100 * guard.low:.0f} to {100 * guard.high:.0f}\u00a0%" in page
    assert "\u00a0% for guard" in page


@pytest.mark.parametrize(
    ("verdicts", "raters"),
    [
        (people(verdict="tie"), "fixed"),
        (people(verdict="x"), "fixed"),
        (people().query("rater != 'cay'"), "random"),
    ],
)
def test_equivalence_is_not_tested_without_standard_error(tmp_path, verdicts, raters):
    analysis.report(verdicts, tmp_path, margin=0.1, raters=raters)
    rows = (tmp_path / "report.md").read_text().split("p of equivalence")[1].split("\n\n")[0]
    assert rows.count("| no test |") == 1
    assert "equivalent" not in rows
