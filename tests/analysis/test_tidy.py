"""Bad tables are refused in one sentence that names the lines; good ones keep what they say."""

from pathlib import Path

import pandas as pd
import pytest

from analysis.tidy import orient, read, validate
from guard_eval.errors import StudyError

HEADER = "pair_id,dataset,method_a,method_b,rater,criterion,verdict"
GOOD = f"{HEADER}\n1,d,x,y,anna,coherence,x\n1,d,x,y,ben,coherence,tie\n"


def write(tmp_path: Path, content: str | bytes) -> Path:
    path = tmp_path / "verdicts.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_a_good_table(tmp_path):
    frame = read(write(tmp_path, GOOD))
    assert list(frame["verdict"]) == ["x", "tie"]
    assert set(frame["rater_kind"]) == {"person"}
    assert list(frame.index) == [2, 3]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("pair_id,dataset\n1,d\n", "lack the column.*method_a, method_b, rater, criterion, verdict"),
        (HEADER + "\n", "no verdicts"),
        ("", "lack the column"),
        (GOOD + "2,d,x,y,,coherence,x\n", "rater is empty on line 4"),
        (GOOD + "2,d,x,y,anna,coherence,z\n", "verdict 'z' names no method of its pair on line 4"),
        (GOOD + "2,d,x,y,anna,coherence,X\n", "write 'x', 'y' or 'tie'"),
        (GOOD + "1,d,x,y,anna,coherence,y\n", r"'anna' judged pair '1'.*more than once \(lines 2, 4\)"),
        (GOOD + "1,d,y,x,anna,coherence,y\n", "more than once"),
        (GOOD + "2,d,x,x,anna,coherence,x\n", "compared with itself on line 4"),
        (GOOD + "2,d,tie,x,anna,coherence,x\n", "called 'tie' on line 4"),
        (GOOD + "1,e,x,y,carl,coherence,x\n", "pair_id '1' has more than one dataset"),
        (GOOD + "2,d,x,y,anna\n", "not 7 cells.*line 4"),
        (GOOD + '2,d,x,y,anna,coherence,"x\n', "line 4.*mend the CSV"),
        (HEADER + ",rater\n", "'rater' stands twice"),
        (GOOD.encode("utf-16"), "not UTF-8"),
        (GOOD.replace("anna", "änna").encode("latin-1"), "not UTF-8"),
    ],
)
def test_bad_tables(tmp_path, content, message):
    with pytest.raises(StudyError, match=message):
        read(write(tmp_path, content))


def test_lines_are_counted_in_the_file(tmp_path):
    # A quoted cell with a line break: the next record is on line 4, and the bad one on line 5.
    text = f'{HEADER}\n"1\n1",d,x,y,anna,c,x\n2,d,x,y,anna,c,x\n3,d,x,y,anna,c,w\n'
    with pytest.raises(StudyError, match="on line 5"):
        read(write(tmp_path, text))


def test_many_lines_are_cut():
    rows = [["1", "d", "x", "y", str(i), "c", "?"] for i in range(9)]
    with pytest.raises(StudyError, match="rows 1, 2, 3, 4, 5 and 4 more"):
        validate(pd.DataFrame(rows, columns=HEADER.split(",")))


def test_a_missing_file(tmp_path):
    with pytest.raises(StudyError, match="cannot read"):
        read(tmp_path / "none.csv")


def test_names_stay_as_they_are(tmp_path):
    frame = read(write(tmp_path, f"{HEADER}\n007,NA,nan,1.0,None,c,nan\n"))
    assert frame.iloc[0].tolist()[:7] == ["007", "NA", "nan", "1.0", "None", "c", "nan"]


def test_a_byte_order_mark_is_no_part_of_the_header(tmp_path):
    assert len(read(write(tmp_path, b"\xef\xbb\xbf" + GOOD.encode()))) == 2


def test_parquet(tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "verdicts.parquet"
    read(write(tmp_path, GOOD)).to_parquet(path)
    assert list(read(path)["rater"]) == ["anna", "ben"]
    path.write_bytes(b"no parquet")
    with pytest.raises(StudyError, match="as Parquet"):
        read(path)


def optional(tmp_path, name, value):
    return read(write(tmp_path, f"{HEADER},{name}\n1,d,x,y,anna,c,x,{value}\n"))


def test_optional_columns(tmp_path):
    assert optional(tmp_path, "seconds", "1.5")["seconds"].iloc[0] == 1.5
    assert pd.isna(optional(tmp_path, "seconds", "")["seconds"].iloc[0])
    with pytest.raises(StudyError, match=r"seconds is not a number \('fast'\) on line 2"):
        optional(tmp_path, "seconds", "fast")
    with pytest.raises(StudyError, match="rater_kind 'robot' is unknown on line 2"):
        optional(tmp_path, "rater_kind", "robot")


def test_shown_first_may_be_a_name_or_a_letter(tmp_path):
    for value, method in (("x", "x"), ("b", "y"), ("A", "x"), ("", None)):
        assert optional(tmp_path, "shown_first", value)["shown_first"].iloc[0] == method
    with pytest.raises(StudyError, match="shown_first 'z' names no method"):
        optional(tmp_path, "shown_first", "z")


def test_one_rater_has_one_kind(tmp_path):
    text = f"{HEADER},rater_kind\n1,d,x,y,anna,c,x,person\n2,d,x,y,anna,c,x,model\n"
    with pytest.raises(StudyError, match="rater 'anna' has more than one rater_kind"):
        read(write(tmp_path, text))


def test_showings_tell_repeated_verdicts_apart(tmp_path):
    text = f"{HEADER},presentation\n1,d,x,y,gpt,c,x,1\n1,d,x,y,gpt,c,y,2\n"
    assert len(read(write(tmp_path, text))) == 2


def test_orient():
    rows = [["1", "d", "x", "y", "r", "c", "x", 3.0, 5.0], ["2", "d", "y", "x", "r", "c", "x", 7.0, 9.0]]
    frame = pd.DataFrame(rows, columns=[*HEADER.split(","), "length_a", "length_b"])
    mixed = orient(validate(frame))
    assert list(mixed["method_a"]) == ["x", "x"]
    assert list(mixed["length_a"]) == [3.0, 9.0]
    planned = orient(validate(frame), (("y", "x", "c"),))
    assert list(planned["method_a"]) == ["y", "y"]
    assert list(planned["length_b"]) == [3.0, 9.0]
    alone = orient(validate(frame[1:]))
    assert list(alone["method_a"]) == ["y"]
