"""Arguments of the functions for notebooks: wrong ones are refused with a remedy."""

import pandas as pd
import pytest
from outcomes import AB, counts

import analysis
from guard_eval.errors import StudyError

ROWS = [{"item": n, **AB, "annotator": r, "winner": "AB"[n % 4 == 0]} for n in range(12) for r in "uv"]


@pytest.mark.parametrize(
    ("source", "declared", "message"),
    [
        ([], {}, "there are no verdicts; name a data frame"),
        ([1], {}, "there are no verdicts; name a data frame"),
        (ROWS, {"columns": "x"}, "columns: 'x': input should be a table"),
        (ROWS, {"columns": {"pair_id": ["item"]}}, "columns.pair_id: "),
        (ROWS, {"columns": {"pair_id": None}}, "columns.pair_id: "),
        (ROWS, {"verdicts": ["a"]}, "verdicts: "),
        (ROWS, {"verdicts": {"A": None}}, "verdicts.A: "),
        (ROWS, {"rater_kind": "human"}, "rater_kind: 'human': input should be 'person', 'model'"),
        (ROWS, {"form": "csv"}, "there is no format 'csv'"),
        (ROWS, {"form": "fastchat"}, "a data frame is no file"),
    ],
)
def test_wrong_argument_of_read_is_refused(source, declared, message):
    with pytest.raises(StudyError, match=message):
        analysis.read(pd.DataFrame(source) if source == ROWS else source, **declared)


def test_headings_of_data_frames_can_be_numbers():
    table = pd.DataFrame(ROWS).set_axis(range(5), axis=1)
    columns = {"pair_id": 0, "method_a": 1, "method_b": 2, "rater": 3, "verdict": 4}
    for source in (table, analysis.read(table, columns=columns)):
        assert counts(source, columns={} if source is not table else columns) == ("18/0/6", 12)


@pytest.mark.parametrize(
    ("declared", "message"),
    [({"ties": False}, "the table has ties"), ({"panel": "mean", "assisted_by": "x"}, "has no judge 'x'")],
)
def test_declaration_that_contradicts_the_table_is_refused(declared, message):
    rows = [{**row, "annotator": f"gpt-{row['annotator']}", "rater_kind": "model"} for row in ROWS]
    rows[0]["winner"] = "tie"
    with pytest.raises(StudyError, match=message):
        analysis.shares(pd.DataFrame(rows), **declared)


def test_column_that_is_declared_twice_is_tested_once():
    """The column `domain` has the role of the dataset."""
    table = pd.DataFrame(ROWS).assign(domain=lambda rows: rows["item"] % 2)
    once, twice = (analysis.shares(table, by=names) for names in (["domain"], ["domain", "dataset"]))
    assert once.equals(twice)
    with pytest.raises(StudyError, match="names occur twice: domain"):
        analysis.shares(table, by=["domain", "domain"])


@pytest.mark.parametrize(("name", "kind"), [("human", "person"), ("Person", "person"), ("LLM", "model")])
def test_common_names_of_rater_kinds_are_read(name, kind):
    table = pd.DataFrame(ROWS).assign(rater_kind=name)
    assert set(analysis.read(table)["rater_kind"]) == {kind}


def test_analyses_read_several_files(tmp_path):
    paths = [tmp_path / f"{rater}.csv" for rater in "uv"]
    for path in paths:
        pd.DataFrame([row for row in ROWS if row["annotator"] == path.stem]).to_csv(path, index=False)
    for source in (paths, tuple(map(str, paths))):
        assert counts(source) == ("18/0/6", 12)
    assert "people rated" in analysis.report(paths, tmp_path / "report", rater_kind="person").summary


def test_kind_of_raters_can_be_declared_after_reading(tmp_path):
    verdicts = analysis.read(pd.DataFrame(ROWS))
    assert counts(verdicts) == ("18/0/6", 12)
    with pytest.raises(StudyError, match="by: 'item': input should be a list in square brackets"):
        analysis.report(verdicts, tmp_path, by="item")
