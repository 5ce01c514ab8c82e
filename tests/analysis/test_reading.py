"""Files of verdicts that are none: each is refused in one sentence with the place and the remedy."""

from pathlib import Path

import pandas as pd
import pytest

from analysis.verdicts import reading
from analysis.verdicts.tidy import read, validate
from guard_eval.errors import StudyError

HEADER = "pair_id,dataset,method_a,method_b,rater,criterion,verdict"
GOOD = f"{HEADER}\n1,d,x,y,anna,coherence,x\n1,d,x,y,ben,coherence,tie\n"


def write(tmp_path: Path, content: str | bytes) -> Path:
    path = tmp_path / "verdicts.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (GOOD.replace(",", ";"), "separated by semicolons; save it with commas"),
        (GOOD.replace(",", "\t"), "separated by tabs"),
        (GOOD + '2,d,x,y,"anna,coherence,x\n3,d,x,y,anna,coherence,x\n', "line 4: .*left open.*fix the CSV"),
        (GOOD + '2,d,x,y,"anna,coherence,x\n', "line 4: .*left open.*fix the CSV"),
        (GOOD + '2,d,x,y,"anna" b,coherence,x\n', "line 4: .* expected after .*; fix the CSV"),
        (GOOD + "2,d,x,y,anna,coherence,x,9\n3\n", "not 7 cells, as in the header, on lines 4, 5; fix them"),
        # The lines before have 58 + 25 + 26 bytes.
        (GOOD.encode() + b"2,d,x,y,\xe4nna,coherence,x\n", r"not UTF-8 \(line 4, byte 117\)"),
        (GOOD.encode() + b"2,d,x,y,anna,coherence,\xc3", r"not UTF-8 \(line 4, byte 132\)"),
        (
            GOOD + "2,d,x,y,anna,Coherence ,x\n",
            "criterion is 'coherence', and 'Coherence ' on line 4; write it",
        ),
        (GOOD + "2,D,x,y,anna,coherence,x\n", "dataset is 'd', and 'D' on line 4"),
        (GOOD + "2,d,x,Y,anna,coherence,x\n", "method_b is 'y', and 'Y' on line 4"),
        (GOOD + "2,d,x,X,anna,coherence,x\n", "method_b is 'x', and 'X' on line 4"),
        (GOOD + "2,d, ,y,anna,coherence,y\n", "method_a is empty on line 4"),
    ],
)
def test_bad_files(tmp_path, content, message):
    with pytest.raises(StudyError, match=message):
        read(write(tmp_path, content))


def test_more_rows_than_a_report_takes(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "MOST_ROWS", 1)
    with pytest.raises(StudyError, match="more than 1 rows"):
        read(write(tmp_path, GOOD))


def test_numbers_must_be_finite(tmp_path):
    for cell in ("inf", "nan", "1e999"):
        with pytest.raises(StudyError, match=rf"seconds is not a number \('{cell}'\) on line 2"):
            read(write(tmp_path, f"{HEADER},seconds\n1,d,x,y,anna,c,x,{cell}\n"))
    frame = pd.DataFrame([["1", "d", "x", "y", "anna", "c", "x"]], columns=HEADER.split(","))
    assert validate(frame.assign(seconds=float("nan")))["seconds"].isna().all()
    with pytest.raises(StudyError, match="seconds is not a number"):
        validate(frame.assign(seconds=float("inf")))


def test_lines_and_cells_are_the_same_however_many_are_read_at_once(tmp_path, monkeypatch):
    rows = [f'"{i}\n{i % 7}",d,x,y,r{i % 3},c,{("x", "tie", "y")[i % 3]},{i / 4},note {i}' for i in range(50)]
    path = write(tmp_path, f"{HEADER},seconds,remark\n" + "\n\n".join(rows) + "\n")
    whole = read(path)
    monkeypatch.setattr(reading, "_BLOCK", 7)
    pd.testing.assert_frame_equal(read(path), whole)
    assert list(whole.index) == list(range(2, 152, 3))
    assert list(whole["seconds"]) == [i / 4 for i in range(50)]
    assert whole["remark"].iloc[49] == "note 49"
    assert {str(kind) for kind in whole.drop(columns="seconds").dtypes} == {"object"}


def test_who_judged_may_be_said_of_a_whole_table(tmp_path):
    assert set(read(write(tmp_path, GOOD), rater_kind="model")["rater_kind"]) == {"model"}
    partly = f"{HEADER},rater_kind\n1,d,x,y,anna,c,x,\n1,d,x,y,gpt,c,x,model\n"
    path = write(tmp_path, partly)
    assert list(read(path)["rater_kind"]) == ["person", "model"]
    assert list(read(path, rater_kind="model")["rater_kind"]) == ["model", "model"]
    with pytest.raises(
        StudyError, match="itself says rater_kind 'model' on line 3, and 'simulated' was given"
    ):
        read(path, rater_kind="simulated")


def frame_of(**columns):
    rows = [["1", "d", "x", "y", "anna", "c", "x"], ["2", "d", "x", "y", "anna", "c", "y"]]
    return pd.DataFrame(rows, columns=HEADER.split(",")).assign(**columns)


def test_frames_of_other_origin_become_text():
    for ids in (
        [1, 2],
        [1.0, 2.0],
        pd.Categorical([2, 1]),
        pd.Categorical(["b", "a"], categories=["a", "b", ""]),
    ):
        assert list(validate(frame_of(pair_id=ids))["pair_id"]) == [str(value) for value in ids]
    # 1, 1.0 and True are equal in Python, and three names in a table.
    mixed = pd.concat([frame_of(pair_id=[1, "1.0"]), frame_of(pair_id=[True, None])[:1]], ignore_index=True)
    assert list(validate(mixed)["pair_id"]) == ["1", "1.0", "True"]
    with pytest.raises(StudyError, match="pair_id is empty on rows 1, 2"):
        validate(frame_of(pair_id=[None, float("nan")]))
    with pytest.raises(StudyError, match="rater 'anna' judged pair '7' on 'c' more than once"):
        validate(frame_of(pair_id=[7, "7"]))


def test_parquet_of_other_types(tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "verdicts.parquet"
    frame_of(pair_id=[1, 2], rater=pd.Categorical(["anna", "anna"]), seconds=[1, None]).to_parquet(path)
    table = read(path, rater_kind="simulated")
    assert list(table["pair_id"]) == ["1", "2"]
    assert table["seconds"].isna().tolist() == [False, True]
    assert set(table["rater_kind"]) == {"simulated"}
    frame_of(verdict=["x", "z"]).to_parquet(path)
    with pytest.raises(StudyError, match="'z' names no method of its pair on row 2"):
        read(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(StudyError, match="as Parquet"):
        read(path)
    with pytest.raises(StudyError, match=r"none\.parquet.*No such file"):
        read(tmp_path / "none.parquet")
