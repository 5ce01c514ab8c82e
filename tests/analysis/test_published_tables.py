"""Tables of the shapes that people publish give the result that their owner means, or are refused.

The files of `tables/` have invented content. The values were computed by hand, by irrCAC (AC1) or by choix
(strengths).
"""

from pathlib import Path

import pandas as pd
import pytest
from command_line import run_here

import analysis
from guard_eval.errors import StudyError

TABLES = Path(__file__).parent / "tables"
SEVEN = {**dict.fromkeys("123", "a"), "4": "tie", **dict.fromkeys("567", "b")}
FORMS = {"headings": "pair_id", "rater": "Email Address"}, {"Response A": "m1", "Response B": "m2"}
QUALTRICS = {"headings": "pair_id", "rater": "ResponseId"}, {"Text A": "m1", "Text B": "m2"}


def read_table(*names, columns=None, words=None):
    paths = [TABLES / name for name in names]
    kind = None if "pandas_index.csv" in names else "person"
    return analysis.read(paths, columns=columns, verdicts=words, rater_kind=kind)


def totals(frame):
    """Return the shares over all datasets by the two methods."""
    table = analysis.shares(frame)
    rows = table[table["dataset"] == "all datasets"].itertuples()
    return {f"{row.method_a} {row.method_b}": row for row in rows}


CASES = [
    # The sign test of 13 against 7 prompts has p = .263.
    ("rowid_preference.csv", {}, {"alpha beta": ("39/0/21", 20, 0.263)}),
    ("rowid_winner.csv", {}, {"alpha beta": ("39/0/21", 20, 0.263)}),
    ("hdr_case_id.csv", {}, {"alpha beta": ("39/0/21", 20, 0.263)}),
    ("stimulus_runs.csv", {}, {"treatment baseline": ("4/0/0", 4, None)}),
    ("rank_annotator.csv", {}, {"m1 m2": ("58/0/22", 40, 0.0)}),
    ("rank_evaluator.csv", {}, {"m1 m2": ("58/0/22", 40, 0.0)}),
    # The sign test of 30 against 10 has p = .00222.
    ("pos_number.csv", {}, {"min_p top_p": ("30/0/10", 40, 0.002)}),
    ("pos_order.csv", {}, {"min_p top_p": ("30/0/10", 40, 0.002)}),
    ("pos_a_left.csv", {}, {"min_p top_p": ("30/0/10", 40, 0.002)}),
    ("pos_presented.csv", {}, {"min_p top_p": ("30/0/10", 40, 0.002)}),
    ("two_comparisons.csv", {}, {"a1 a2": ("20/0/20", 40, 1.0), "b1 b2": ("4/0/36", 40, 0.0)}),
    ("arena_anony.json", {}, {"alpha-7b beta-13b": ("35/0/5", 40, 0.0)}),
    ("irr_wide_raters.csv", {}, {"alpha beta": ("25/18/32", 25, 0.457)}),
    ("arena55k.csv", {}, {"alpha-7b beta-13b": ("7/5/8", 20, 1.0)}),
    ("judge_AgtB.csv", {}, {"alpha beta": ("9/4/17", 30, 0.169)}),
    ("blender_words.csv", {}, {"alpha beta": ("9/21/10", 20, 1.0)}),
    ("fivepoint_words.csv", {}, {"alpha beta": ("21/11/28", 20, 0.46)}),
    ("sevenpoint_numbers.csv", {"words": SEVEN}, {"alpha beta": ("31/2/27", 20, 0.74)}),
    (
        "codes012.csv",
        {"words": {"0": "a", "1": "tie", "2": "b"}},
        {"alpha beta": ("20/17/23", 20, 0.749)},
    ),
    (
        "winner_loser.csv",
        {},
        {
            "alpha-7b beta-13b": ("10/0/13", 23, 0.678),
            "alpha-7b gamma-70b": ("12/0/7", 19, 0.359),
            "beta-13b gamma-70b": ("14/0/4", 18, 0.031),
        },
    ),
    (
        "chosen_rejected.csv",
        {},
        # 2 / 2^8 and 2 / 2^6
        {
            "alpha-7b zeta": ("8/0/0", 8, 0.008),
            "beta-13b zeta": ("6/0/0", 6, 0.031),
            "gamma-70b zeta": ("6/0/0", 6, 0.031),
        },
    ),
    (
        "google_forms.csv",
        dict(zip(("columns", "words"), FORMS, strict=True)),
        {"m1 m2": ("18/19/13", 10, 0.602)},
    ),
    ("qualtrics.csv", dict(zip(("columns", "words"), QUALTRICS, strict=True)), {"m1 m2": ("5/6/4", 3, None)}),
    ("missing_NA.csv", {}, {"Große Kleine": ("14/8/7", 15, None)}),
    ("missing_cell.csv", {}, {"Große Kleine": ("14/8/7", 15, None)}),
    ("table_error.csv", {}, {"alpha beta": ("9/0/10", 19, 1.0)}),
    ("headings_caps.csv", {}, {"Große Kleine": ("14/8/8", 15, None)}),
    ("ls_with_rating.json", {}, {"sysA1 sysB2": ("22/0/22", 15, 1.0)}),
    ("selfbattle.csv", {}, {"alpha beta": ("25/0/14", 39, 0.108)}),
    ("wins_40_0_60.csv", {}, {"guard acs": ("40/0/60", 100, 0.057)}),
    *(
        (name, {}, {"sysA1 sysB2": ("12/5/13", 30, 1.0)})
        for name in (
            *("w.csv.zip", "w.csv.bz2", "w.csv.xz", "w.feather"),
            *("w_columns.json", "w_split.json", "w_wrapped.json"),
        )
    ),
    ("x.csv.zst", {}, {"alpha beta": ("9/4/17", 30, 0.169)}),
]


@pytest.mark.parametrize(("name", "declared", "expected"), CASES, ids=[case[0] for case in CASES])
def test_table_gives_its_published_counts(name, declared, expected):
    rows = totals(read_table(name, **declared))
    for compared, (counts, units, p) in expected.items():
        row = rows[compared]
        assert (f"{row.wins}/{row.ties}/{row.losses}", row.units) == (counts, units)
        if p is None:
            assert pd.isna(row.p) or name.startswith(("missing", "headings"))
        else:
            assert row.p == pytest.approx(p, abs=0.0006)


DECLARE = r"--set 'verdicts\.\"{}\"=SIDE'"
REFUSED = [
    (["pos_nothing.csv"], r"'Response 1' and 'Response 2' name sides.*--set 'verdicts\.\"Response 1\"=SIDE'"),
    (["float_onefile.csv"], r"'1' for 'ada' and '1\.0' for 'ben'"),
    (["zeros_ada.csv", "zeros_ben.csv"], r"'001' for 'ada' and '1' for 'ben'"),
    (["sci_ids.csv"], r"1\.23457E\+16.*a spreadsheet has rounded"),
    (["left_right_texts.csv"], r"left, right: nearly every cell differs.*add columns method_a and method_b"),
    (["sevenpoint_numbers.csv"], f"{DECLARE.format(1)} .*{DECLARE.format(7)}"),
    (["codes012.csv"], f"{DECLARE.format(0)} {DECLARE.format(1)} {DECLARE.format(2)}"),
    (
        ["google_forms.csv"],
        r"=pair_id --set 'columns\.rater=Email Address' --set 'verdicts\.\"Response A\"=METHOD'",
    ),
    (["qualtrics.csv"], r"--set columns\.headings=pair_id --set columns\.rater=ResponseId"),
    (["title_rows.csv"], r"line 1 is a title, and the header seems to be line 3"),
    (["title_xlsx.xlsx"], r"sheet row 1 is a title, and the header seems to be sheet row 4"),
    (["multiindex_header.csv"], r"has several header rows \(a MultiIndex\), join them"),
    (["turns.csv"], r"--set columns\.criterion=turn\. Otherwise"),
    (["answers.csv"], r"a second file with the columns item, A and B"),
    (["key.csv"], r"has items but no verdicts|no column has verdicts"),
]


@pytest.mark.parametrize(("names", "message"), REFUSED, ids=[case[0][0] for case in REFUSED])
def test_ambiguous_published_table_is_refused(names, message):
    with pytest.raises(StudyError, match=message):
        read_table(*names)


@pytest.mark.parametrize("names", [["answers.csv", "key.csv"], ["key.csv", "answers.csv"]])
def test_second_file_names_the_methods(names):
    row = totals(read_table(*names))["alpha beta"]
    assert (row.wins, row.ties, row.losses) == (10, 17, 13)


def test_forced_choice_has_two_categories():
    row = analysis.agreement(TABLES / "forced_choice_63.csv").iloc[0]
    assert row["categories"] == 2
    assert row[["raw_agreement", "fleiss_kappa", "gwet_ac1"]].tolist() == pytest.approx([0.63, 0.26, 0.26])


@pytest.mark.parametrize("name", ["rank_annotator.csv", "rank_evaluator.csv"])
def test_ranking_does_not_depend_on_the_raters_heading(name):
    table = analysis.ranking(TABLES / name).set_index("method")
    strengths = {"m1": 0.28797, "m2": -0.08471, "m3": -0.20326}
    assert table["strength"].to_dict() == pytest.approx(strengths, abs=1e-5)
    frame = analysis.read(TABLES / name)
    assert frame["rater"].nunique() == 2
    assert len(frame) == 240


@pytest.mark.parametrize(
    ("name", "left_out"),
    [
        ("arena_anony.json", "40 left out: the models' names were shown"),
        ("missing_NA.csv", "1 left out: no verdict"),
        ("missing_cell.csv", "1 left out: no verdict"),
        ("table_error.csv", "1 left out: no verdict"),
        ("selfbattle.csv", "1 left out: a method compared with itself"),
    ],
)
def test_rows_left_out_are_counted_on_the_first_screen(tmp_path, name, left_out):
    assert read_table(name).attrs["reading"].left_out == (left_out,)
    assert left_out in analysis.report(TABLES / name, tmp_path).summary


@pytest.mark.parametrize(("name", "count"), [("judge_AgtB.csv", 15), ("fivepoint_words.csv", 25)])
def test_strength_is_dropped_and_counted(name, count):
    notes = read_table(name).attrs["reading"].notes
    assert f"the strength of {count} verdicts, such as A>>B, is dropped" in notes


@pytest.mark.parametrize(
    ("name", "unused"),
    [
        ("pandas_index.csv", "a column without a name (an index)"),
        ("ls_with_rating.json", "quality"),
        ("rowid_winner.csv", "id"),
    ],
)
def test_columns_without_a_role_are_named(name, unused):
    assert unused in read_table(name).attrs["reading"].unused


def test_unknown_word_is_refused_with_its_declaration(tmp_path):
    content = (TABLES / "table_error.csv").read_text(encoding="utf-8").replace(",error,", ",x,")
    path = tmp_path / "verdicts.csv"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(StudyError, match=DECLARE.format("x")):
        analysis.read(path)
    assert len(analysis.read(path, verdicts={"x": ""})) == 19


def test_frame_with_a_multiindex_is_refused():
    frame = pd.DataFrame({("rater", "a"): ["x"], ("rater", "b"): ["y"]})
    with pytest.raises(StudyError, match="MultiIndex"):
        analysis.read(frame)


def test_dry_run_shows_column_roles_and_writes_nothing(monkeypatch, capsys, tmp_path):
    ran = run_here(monkeypatch, capsys, tmp_path, "report", str(TABLES / "hdr_case_id.csv"), "--dry-run")
    lines = ran.out.splitlines()
    assert lines[0].split() == ["role", "column", "why"]
    assert lines[1].split() == ["pair", "case_id", "it", "repeats"]
    assert "agreement: yes, 3\u00a0raters" in lines
    assert "length: no, add length_a and length_b" in lines
    assert "position: no, add shown_first" in lines
    assert list(tmp_path.iterdir()) == []


def test_roles_of_columns_are_printed_first_and_on_the_page(monkeypatch, capsys, tmp_path):
    ran = run_here(
        monkeypatch, capsys, tmp_path, "report", str(TABLES / "pos_order.csv"), "--set", "rater_kind=model"
    )
    assert ran.out.startswith("role ")
    page = (tmp_path / "pos_order-report" / "index.html").read_text(encoding="utf-8")
    assert "Read from the table: pair: prompt (it differs in every row);" in page
    assert "side: order (it says which text was first)" in page


def test_read_warns_once_about_assumptions():
    with pytest.warns(UserWarning, match="What was read") as caught:
        frame = analysis.read(TABLES / "rank_evaluator.csv")
    [warning] = caught
    assert str(warning.message).startswith("What was read:\n  role ")
    assert "evaluator" in str(warning.message)
    roles = {role.role: role.column for role in frame.attrs["reading"].roles}
    assert roles["rater"] == "evaluator"


def test_set_option_declares_meanings_of_words(monkeypatch, capsys, tmp_path):
    sets = [word for setting in ('"0"=a', '"1"=tie', '"2"=b') for word in ("--set", f"verdicts.{setting}")]
    ran = run_here(monkeypatch, capsys, tmp_path, "report", str(TABLES / "codes012.csv"), *sets)
    assert ran.code == 0
    assert "alpha against beta · Overall: 47.5\u00a0%" in ran.out
