"""Bad tables are refused in one sentence that names the lines; good ones keep what they say."""

import json
from pathlib import Path

import pandas as pd
import pytest
from outcomes import refusal

from analysis import read
from analysis.verdicts import files
from analysis.verdicts.checks import check_verdicts, unify_method_order
from analysis.verdicts.reading import get_reading
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
        ("pair_id,dataset\n1,d\n", "which methods were compared.*columns.method_a=HEADING"),
        (HEADER + "\n", "no verdicts"),
        (GOOD + "2,d,x,y,,coherence,x\n", "rater is empty on line 4"),
        (GOOD + "2,d,x,y,anna,coherence,z\n", "verdict 'z' names no method of its pair on line 4"),
        (GOOD + "2,d,x,y,anna,coherence,X\n", "write 'x', 'y' or 'tie'"),
        (GOOD + "1,d,x,y,anna,coherence,y\n", r"'anna' judged pair '1'.*more than once \(lines 2, 4\)"),
        (GOOD + "1,d,x,y,anna,coherence,tie\n", "Keep the current verdict"),
        (GOOD + "2,d,tie,x,anna,coherence,x\n", "called 'tie' on line 4"),
        (
            GOOD + "1,e,x,y,carl,coherence,x\n",
            "pair_id '1' has 2 values of dataset. If ids .* --set columns.pair_id=dataset,pair_id",
        ),
        (f"{HEADER},rater_kind\n1,d,x,y,anna,c,x,robot\n", "rater_kind 'robot' is unknown on line 2"),
        (
            f"{HEADER},rater_kind\n1,d,x,y,anna,c,x,person\n2,d,x,y,anna,c,x,model\n",
            "rater 'anna' has more than one rater_kind",
        ),
        (GOOD + '2,d,x,y,"anna,coherence,x\n3,d,x,y,anna,coherence,x\n', "line 4: .*left open.*fix the CSV"),
        (
            GOOD + "2,d,x,y,anna,coherence,x,9\n3,,,,,,,,1\n",
            "line 4: the row has 8 cells, but the header has 7; quote",
        ),
        (GOOD + "3,,x,y,anna,coherence,x\n", "dataset is empty on line 4"),
        (GOOD + "2,d" + ",x" * 40, "line 4: the row has 42 cells, but the header has 7"),
        # The lines before have 58 + 25 + 26 bytes.
        (GOOD.encode() + b"2,d,x,y,\xe4nna,coherence,x\n", r"not UTF-8 \(line 4, byte 117, "),
        (GOOD.encode() + b"2,d,x,y,anna,coherence,\xc3", r"not UTF-8 \(line 4, byte 132, "),
        (
            GOOD + "2,d,x,y,anna,Coherence ,x\n",
            "criterion is 'coherence', and 'Coherence ' on line 4; these names look alike",
        ),
        (GOOD + "2,D,x,y,anna,coherence,x\n", "dataset is 'd', and 'D' on line 4"),
        (GOOD + "2,d,x,Y,anna,coherence,x\n", "method_b is 'y', and 'Y' on line 4"),
        (GOOD + "2,d,x,X,anna,coherence,x\n", "method_b is 'x', and 'X' on line 4"),
        (GOOD + "2,d, ,y,anna,coherence,y\n", "method_a is empty on line 4"),
        (GOOD.encode("utf-16")[:-1], "is damaged UTF-16"),
    ],
)
def test_faulty_table_is_refused(tmp_path, content, message):
    with pytest.raises(StudyError, match=message):
        read(write(tmp_path, content))


def test_error_lists_only_the_first_row_numbers():
    rows = [["1", "d", "x", "y", str(i), "c", "?"] for i in range(9)]
    with pytest.raises(StudyError, match="rows 1, 2, 3, 4, 5 and 4 more"):
        check_verdicts(pd.DataFrame(rows, columns=HEADER.split(",")))


def test_names_like_missing_values_are_unchanged(tmp_path):
    frame = read(write(tmp_path, f"{HEADER}\n007,NA,nan,1.0,None,c,nan\n"))
    assert frame.iloc[0].tolist()[:7] == ["007", "NA", "nan", "1.0", "None", "c", "nan"]


def optional(tmp_path, name, value):
    return read(write(tmp_path, f"{HEADER},{name}\n1,d,x,y,anna,c,x,{value}\n"))


def frame_of(**columns):
    rows = [["1", "d", "x", "y", "anna", "c", "x"], ["2", "d", "x", "y", "anna", "c", "y"]]
    return pd.DataFrame(rows, columns=HEADER.split(",")).assign(**columns)


def test_numbers_are_finite_or_missing(tmp_path):
    assert optional(tmp_path, "seconds", "1.5")["seconds"].iloc[0] == 1.5
    assert pd.isna(optional(tmp_path, "seconds", "")["seconds"].iloc[0])
    for cell in ("fast", "inf", "nan", "1e999"):
        with pytest.raises(StudyError, match=rf"seconds is not a number \('{cell}'\) on line 2"):
            optional(tmp_path, "seconds", cell)
    assert check_verdicts(frame_of(seconds=float("nan")))["seconds"].isna().all()
    with pytest.raises(StudyError, match="seconds is not a number"):
        check_verdicts(frame_of(seconds=float("inf")))


def test_shown_first_may_be_a_name_or_a_letter(tmp_path):
    for value, method in (("x", "x"), ("b", "y"), ("A", "x"), ("", None)):
        first = optional(tmp_path, "shown_first", value)["shown_first"].iloc[0]
        assert first == method or (method is None and pd.isna(first))
    with pytest.raises(StudyError, match="shown_first 'z' names no method"):
        optional(tmp_path, "shown_first", "z")


def test_table_with_too_many_rows_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_ROWS", 1)
    assert "more than 1 rows" in refusal(write(tmp_path, GOOD))


def test_table_with_too_many_columns_is_refused(tmp_path):
    wide = ",".join(f"c{number}" for number in range(9000)) + "\nx" + "," * 8999 + "\n"
    lines = "".join(json.dumps({f"c{number}": number}) + "\n" for number in range(9000))
    for name, content in (("a.csv", wide), ("a.jsonl", lines)):
        (tmp_path / name).write_text(content, encoding="utf-8")
        assert "has more than 2,048 columns; remove columns" in refusal(tmp_path / name)
    frame = pd.DataFrame([range(9000)], columns=[f"c{number}" for number in range(9000)])
    assert "has more than 2,048 columns; remove columns" in refusal(frame)


def test_multiline_rows_keep_their_line_numbers(tmp_path):
    rows = [f'"{i}\n{i % 7}",d,x,y,r{i % 3},c,{("x", "tie", "y")[i % 3]},{i / 4},note {i}' for i in range(50)]
    path = write(tmp_path, f"{HEADER},seconds,remark\n" + "\n\n".join(rows) + "\n")
    whole = read(path)
    assert list(whole.index) == list(range(2, 152, 3))
    assert list(whole["seconds"]) == [i / 4 for i in range(50)]
    assert whole["remark"].iloc[49] == "note 49"
    assert {str(kind) for kind in whole.drop(columns="seconds").dtypes} == {"object"}


def test_kind_of_rater_can_be_set_for_a_table(tmp_path):
    assert set(read(write(tmp_path, GOOD), rater_kind="model")["rater_kind"]) == {"model"}
    partly = f"{HEADER},rater_kind\n1,d,x,y,anna,c,x,\n1,d,x,y,gpt,c,x,model\n"
    path = write(tmp_path, partly)
    assert list(read(path)["rater_kind"]) == ["unknown", "model"]
    assert list(read(path, rater_kind="model")["rater_kind"]) == ["model", "model"]
    assert "rater_kind is 'model' on line 3, but 'simulated' is declared" in refusal(
        path, rater_kind="simulated"
    )


def test_frame_cells_become_text():
    for ids in (
        [1, 2],
        [1.0, 2.0],
        pd.Categorical([2, 1]),
        pd.Categorical(["b", "a"], categories=["a", "b", ""]),
    ):
        expected = [str(value).removesuffix(".0") for value in ids]  # as in JSON and Parquet files
        assert list(check_verdicts(frame_of(pair_id=ids))["pair_id"]) == expected
    # 1 and True are equal in Python, and different names in a table.
    mixed = pd.concat([frame_of(pair_id=[1, "1.0"]), frame_of(pair_id=[True, None])[:1]], ignore_index=True)
    assert list(check_verdicts(mixed)["pair_id"]) == ["1", "1.0", "True"]
    with pytest.raises(StudyError, match="pair_id is empty on rows 1, 2"):
        check_verdicts(frame_of(pair_id=[None, float("nan")]))
    with pytest.raises(StudyError, match="rater 'anna' judged pair '7' on 'c' more than once"):
        check_verdicts(frame_of(pair_id=[7, "7"]))


def test_frame_with_duplicate_column_is_refused():
    assert "the column 'rater' twice; keep one" in refusal(
        pd.concat([frame_of(), frame_of()[["rater"]]], axis=1)
    )


def test_parquet_table_is_read(tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "verdicts.parquet"
    frame_of(pair_id=[1, 2], rater=pd.Categorical(["anna", "anna"]), seconds=[1, None]).to_parquet(path)
    result = read(path, rater_kind="simulated")
    assert list(result["pair_id"]) == ["1", "2"]
    assert result["seconds"].isna().tolist() == [False, True]
    assert set(result["rater_kind"]) == {"simulated"}
    frame_of(verdict=["x", "z"]).to_parquet(path)
    assert "'z' names no method of its pair on row 2" in refusal(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert "as Parquet" in refusal(path)
    assert "No such file" in refusal(tmp_path / "none.parquet")


def test_methods_are_put_into_planned_order():
    rows = [["1", "d", "x", "y", "r", "c", "x", 3.0, 5.0], ["2", "d", "y", "x", "r", "c", "x", 7.0, 9.0]]
    frame = pd.DataFrame(rows, columns=[*HEADER.split(","), "length_a", "length_b"])
    mixed = unify_method_order(check_verdicts(frame))
    assert list(mixed["method_a"]) == ["x", "x"]
    assert list(mixed["length_a"]) == [3.0, 9.0]
    planned = unify_method_order(check_verdicts(frame), (("y", "x", "c"),))
    assert list(planned["method_a"]) == ["y", "y"]
    assert list(planned["length_b"]) == [3.0, 9.0]
    alone = unify_method_order(check_verdicts(frame[1:]))
    assert list(alone["method_a"]) == ["y"]


def table(tmp_path, column, *values):
    names = HEADER.split(",")
    cells = dict(zip(names, ("1", "d", "x", "y", "anna", "c", "tie"), strict=True))
    rows = [cells | {"pair_id": f"{index}", "rater": f"r{index}"} for index, _ in enumerate(values)]
    rows = [row | {column: value} for row, value in zip(rows, values, strict=True)]
    path = tmp_path / "odd.csv"
    pd.DataFrame(rows).to_csv(path, index=False)
    return path


ALIKE = [
    ("bob", "Bob"),
    ("bob", "bob "),
    ("bo b", "bo  b"),
    ("bob", "bo\u200bb"),  # a zero-width space
    ("bob", "bob\x00"),
    ("bob", "\uff42\uff4f\uff42"),  # full width
    ("bob", "bo\ufe0fb"),  # a variation selector
    ("andr\u00e9", "andre\u0301"),  # NFC and NFD
    ("a1", "\u0430\u0031"),  # a Cyrillic letter
]


@pytest.mark.parametrize(
    ("column", "name", "similar_name"),
    [
        *(("rater", *pair) for pair in ALIKE),
        *((column, *ALIKE[0]) for column in ("method_a", "criterion", "dataset", "pair_id", "prompt_id")),
    ],
)
def test_similar_names_are_refused_and_ids_may_differ_in_case(tmp_path, column, name, similar_name):
    path = table(tmp_path, column, name, "zoe", similar_name)
    if column.endswith("_id"):  # a program's ids may differ in case alone
        assert read(path)[column].nunique() == 3
        return
    with pytest.raises(
        StudyError, match=rf"{column} is .*, and .* on line 4; these names look alike"
    ) as caught:
        read(path)
    assert ascii(similar_name) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "other", "is_same"),
    [
        ("rater 1", "rater1", True),
        ("R01", "r-1", True),
        ("ann_b", "Ann B", True),
        ("Smith, A", "Smith A.", True),
        ("José", "Jose", True),
        ("P(1)", "p/1", True),
        ("1-1", "11", False),
        ("61ab00f3", "61ab0f3", False),
        ("r10", "r1", False),
        ("की", "का", False),
    ],
)
@pytest.mark.parametrize("is_shared", [False, True])
def test_rater_in_two_spellings_is_refused(tmp_path, name, other, is_same, is_shared):
    rows = [(1, name), (2, name), (1 if is_shared else 3, other), (1, "zoe"), (3, "zoe")]
    path = write(tmp_path, HEADER + "\n" + "".join(f'{pair},d,x,y,"{rater}",c,x\n' for pair, rater in rows))
    if is_same and not is_shared:
        with pytest.raises(StudyError, match="and these two share no pair"):
            read(path)
    else:
        assert read(path)["rater"].nunique() == 3


def test_each_two_of_three_spellings_are_compared(tmp_path):
    rows = [(1, "r 1"), (2, "r 1"), (1, "r1"), (2, "r01")]  # the first has a pair with each of the others
    path = write(tmp_path, HEADER + "\n" + "".join(f"{pair},d,x,y,{rater},c,x\n" for pair, rater in rows))
    with pytest.raises(StudyError, match="rater is 'r1', and 'r01' on line 5, and these two share no pair"):
        read(path)


MODELS = "gpt-4,claude-3-opus,Llama 3,Qwen2.5-7B,judge,a2/model,o3,JudgeLM-13B,command-a,kimi-k2"
MODELS += ",AI,machine,bot,reward_model"
PEOPLE = ("judge1", "Judge A", "anna", "Claudette", "judith", "r1", "rater-3", "Jude", "egpto", "5f3a")


@pytest.mark.parametrize("name", MODELS.split(","))
def test_rater_named_like_a_model_must_be_declared(name, tmp_path):
    assert "--set rater_kind=model" in refusal(table(tmp_path, "rater", name))
    assert "nothing says what it is; add a column rater_kind" in refusal(
        table(tmp_path, "rater", "anna", name)
    )
    mixed = read(table(tmp_path, "rater", "anna", name), rater_kind="model")
    assert "all raters are declared as model: " in get_reading(mixed).notes[0]
    assert get_reading(read(table(tmp_path, "rater", name), rater_kind="model")).notes == ()
    verdict = pd.read_csv(table(tmp_path, "rater", name), dtype=str).assign(rater_kind="person")
    assert get_reading(check_verdicts(verdict)).notes == ()


def test_names_of_people_are_not_models(tmp_path):
    assert get_reading(read(table(tmp_path, "rater", *PEOPLE))).notes == ()


def test_table_keeps_the_warnings_about_its_reading(tmp_path):
    path = write(tmp_path, f"{HEADER}\n1,d,x,y,anna,c,x\n2,d,x,y,gpt-4,c,x\n")
    frame = read(path, rater_kind="person")
    tables = (frame, check_verdicts(frame), unify_method_order(check_verdicts(frame)))
    notes = {get_reading(table).notes for table in tables}
    assert len(notes) == 1
    assert () not in notes
