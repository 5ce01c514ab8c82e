"""Tables as programs write them: any usual delimiter and encoding; what is refused says what to do."""

import gzip
import sys
import time
import zipfile

import pandas as pd
import pytest
from outcomes import refusal

from analysis import read
from analysis.verdicts.reading import get_reading
from guard_eval.errors import StudyError
from guard_eval.files import rows as row_files

HEADER = "pair_id,dataset,method_a,method_b,rater,criterion,verdict,seconds"
ROWS = ("1,d,x,y,anna,fluency,x,1.5", "2,d,x,y,anna,fluency,tie,", "3,d,x,y,anna,fluency,y,20")
GOOD = "\n".join((HEADER, *ROWS)) + "\n"


def write(tmp_path, content, name="verdicts.csv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.fixture
def plain(tmp_path):
    return read(write(tmp_path, GOOD, "plain.csv"))


def with_sign(sign):
    return GOOD.replace(",", sign)


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (with_sign(";"), "a.csv"),
        (with_sign("\t"), "a.tsv"),
        (with_sign("|"), "a.txt"),
        (with_sign(";").replace("1.5", "1,5"), "a.csv"),  # as a German Excel writes it
        ('"sep=;"\r\n' + with_sign(";").replace("\n", "\r\n"), "a.csv"),
        ("sep=\t\n" + with_sign("\t"), "a.csv"),
        ("sep=\n" + with_sign("\t"), "a.csv"),
        ("sep=#\n" + with_sign("#"), "a.csv"),
        (gzip.compress(GOOD.encode(), mtime=0), "a.csv.gz"),
        (gzip.compress(with_sign("\t").encode(), mtime=0), "named-like-nothing"),
        (GOOD.encode("utf-16"), "a.csv"),
        (b"\xff\xfe" + with_sign("\t").encode("utf-16-le"), "a.txt"),  # Excel's "Unicode text"
        (b"\xfe\xff" + GOOD.encode("utf-16-be"), "a.csv"),
        (GOOD.encode("utf-32"), "a.csv"),
        (b"\xef\xbb\xbfsep=;\r\n" + with_sign(";").encode(), "a.csv"),
        (GOOD.replace("\n", "\r"), "a.csv"),
        (GOOD.replace("\n", ",,\n"), "a.csv"),  # delimiters at every end
        ("\n".join((HEADER, *(f"{row},," for row in ROWS))), "a.csv"),  # and at the rows' alone
        (GOOD + ",,,,,,,\n" * 3, "a.csv"),  # rows that a spreadsheet thinks are used
        (GOOD.replace("pair_id", "Pair ID").replace("rater", "RATER"), "a.csv"),
        (GOOD.replace(",verdict,", ",picked,"), "a.csv"),
        # R and pandas write row numbers without a heading.
        ("\n".join((f",{HEADER}", *(f"{number},{row}" for number, row in enumerate(ROWS)))), "a.csv"),
    ],
)
def test_table_is_the_same_in_every_layout(tmp_path, plain, content, name):
    result = read(write(tmp_path, content, name))
    pd.testing.assert_frame_equal(
        result.reset_index(drop=True), plain.reset_index(drop=True), check_like=True
    )


def test_line_numbers_count_the_delimiter_line(tmp_path):
    assert list(read(write(tmp_path, "sep=,\n" + GOOD)).index) == [3, 4, 5]
    assert "verdict 'z' names no method of its pair on line 4" in refusal(
        write(tmp_path, "sep=,\n" + GOOD.replace("tie", "z"))
    )


def test_multiline_headings_below_empty_lines_are_read(tmp_path):
    text = GOOD.replace("pair_id", '"Which\nitem?"').replace("tie", "z")
    assert "verdict 'z' names no method of its pair on line 6" in refusal(
        write(tmp_path, "\n" + text.replace("\n1,d", "\n\n1,d")), columns={"pair_id": "Which\nitem?"}
    )


def test_texts_with_signs_of_csv_are_unchanged(tmp_path):
    """A name may begin like a formula, have line breaks and quotation marks, or be the other delimiter."""
    rows = ['=1+1;d;x;y;"an\nna";"a ""b""";x;', "@SUM(A1);d;x;y;b,c;c;tie;1"]
    frame = read(write(tmp_path, "\n".join((HEADER.replace(",", ";"), *rows))))
    assert frame["pair_id"].tolist() == ["=1+1", "@SUM(A1)"]
    assert frame["rater"].tolist() == ["an\nna", "b,c"]
    assert frame["criterion"].tolist() == ['a "b"', "c"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            GOOD.replace("anna", "änna").encode("latin-1"),
            r"line 2, byte \d+, where Windows-1252 has 'ä'\); .*iconv",
        ),
        (gzip.compress(GOOD.encode(), mtime=0)[:-12], "ended before the end-of-stream marker"),
        (gzip.compress(GOOD.encode(), mtime=0)[:12] + b"\x00" * 30, "cannot read"),
        (b"\xd0\xcf\x11\xe0" + b"\x00" * 600, "save it as 'CSV UTF-8'"),  # an old Excel's workbook
        (GOOD.replace("rater", ""), "column 5 has no name in the header; name or remove it"),
        (GOOD.replace("seconds", "rater"), r"has two columns 'rater'; rename one"),
        (GOOD.replace("seconds", "Rater"), r"rater and Rater are both rater; keep one of them"),
        (GOOD.replace("1.5", '"1,234"'), r"seconds is not a number \('1,234'\)"),  # or one and a bit
        (
            "pair_id,dataset,method_a,method_b,fluency,style\n1,d,x,y,x,y\n",
            "--set columns.headings=criterion or",
        ),
        (
            "item,rater,fluency,coherence\n1,anna,A,tie\n2,anna,B,B\n",
            r"'fluency' and 'coherence'.*which methods were compared",
        ),
    ],
)
def test_error_names_place_and_remedy(tmp_path, content, message):
    path = write(tmp_path, content)
    with pytest.raises(StudyError, match=message) as caught:
        read(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("content", [HEADER + "\n" + "a" * 100_000, "[" + " " * 100_000 + "]"])
def test_compressed_file_larger_than_memory_is_refused(tmp_path, monkeypatch, content):
    monkeypatch.setattr(row_files, "MOST_BYTES", 1000)
    assert "is larger than 1,000 bytes" in refusal(write(tmp_path, gzip.compress(content.encode())))


@pytest.mark.parametrize(
    ("cells", "numbers"),
    [
        (["1,500", "12,345"], None),
        (["1,500", ""], None),
        (["1,500", "2,25", "20.5", "20"], [1.5, 2.25, 20.5, 20.0]),
        (["0,500", "1,500"], [0.5, 1.5]),
        (["1234,567", "1,500"], [1234.567, 1.5]),
    ],
)
def test_ambiguous_comma_in_numbers_is_refused(tmp_path, cells, numbers):
    rows = [f"{n};d;x;y;anna;fluency;x;{cell}" for n, cell in enumerate(cells)]
    path = write(tmp_path, "\n".join([HEADER.replace(",", ";"), *rows]))
    if numbers is None:
        assert "seconds is not a number ('1,500') on line" in refusal(path)
    else:
        assert read(path)["seconds"].tolist() == numbers


ODD = 'it\'s "fun"'
IN_CSV = '"it\'s ""fun"""'


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (  # a column per criterion
            f"pair_id,dataset,method_a,method_b,rater,fluency,{IN_CSV}\n1,d,x,y,anna,x,tie\n2,d,x,y,anna,,y\n",
            [
                ("1", "anna", "fluency", "x"),
                ("1", "anna", ODD, "tie"),
                ("2", "anna", ODD, "y"),
            ],
        ),
        (  # a column per rater
            "pair_id;dataset;method_a;method_b;criterion;anna;ben\n1;d;x;y;c;x;y\n2;d;x;y;c;tie;\n",
            [("1", "anna", "c", "x"), ("1", "ben", "c", "y"), ("2", "anna", "c", "tie")],
        ),
        (  # no dataset either
            "pair_id,method_a,method_b,rater,fluency,style\n1,x,y,r,x,y\n",
            [("1", "r", "fluency", "x"), ("1", "r", "style", "y")],
        ),
    ],
)
def test_wide_table_is_read(tmp_path, content, expected):
    names = ["pair_id", "rater", "criterion", "verdict"]
    table = read(write(tmp_path, content))
    assert sorted(table[names].itertuples(index=False, name=None)) == sorted(expected)
    assert "a wide table: its headings" in {role.why for role in get_reading(table).roles}


def workbook(tmp_path, sheets):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    path = tmp_path / "verdicts.xlsx"
    book.save(path)
    return path


CELLS = [HEADER.split(","), *(row.split(",") for row in ROWS)]


def test_workbook_is_read(tmp_path, plain):
    typed = [CELLS[0], *([int(row[0]), *row[1:7], float(row[7]) if row[7] else None] for row in CELLS[1:])]
    path = workbook(tmp_path, {"Notes": [], "Verdicts": [[None] * 12, *typed, [None, None, ""]]})
    result = read(path)
    assert list(result.index) == [3, 4, 5]
    pd.testing.assert_frame_equal(result.reset_index(drop=True), plain.reset_index(drop=True))


def test_unreadable_workbook_is_refused(tmp_path):
    wrong = [CELLS[0], [*CELLS[1][:6], "z", "1"]]
    assert "verdict 'z' names no method of its pair on sheet row 2" in refusal(
        workbook(tmp_path, {"a": wrong})
    )
    assert "2 sheets have filled cells, and one sheet is needed; save one" in refusal(
        workbook(tmp_path, {"a": CELLS, "b": [["x"]]})
    )
    assert "0 sheets have filled cells" in refusal(workbook(tmp_path, {"a": []}))
    assert "row 2 has an error such as #N/A; fix the formula of that cell" in refusal(
        workbook(tmp_path, {"a": [CELLS[0], ["1", "#N/A"]]})
    )


def test_workbook_with_a_formula_without_value_is_refused(tmp_path):
    """Another program than a spreadsheet wrote it, so a cell that marks a row may look empty."""
    openpyxl = pytest.importorskip("openpyxl")
    path = workbook(tmp_path, {"a": CELLS})
    book = openpyxl.load_workbook(path)
    book["a"]["Z2"] = '=IF(1, "excluded", "")'
    book.save(path)
    assert "a formula has no value yet; save the file in a spreadsheet program" in refusal(path)


def test_workbook_with_hidden_rows_is_refused(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    path = workbook(tmp_path, {"a": CELLS})
    book = openpyxl.load_workbook(path)
    book["a"].row_dimensions[9].hidden = True  # an empty row
    book.create_sheet("empty").row_dimensions[3].hidden = True
    book.save(path)
    assert len(read(path)) == 3
    book["a"].row_dimensions[3].hidden = True  # as a filter does
    book.save(path)
    assert "row 3 is hidden, so it may not count. Delete hidden rows" in refusal(path)


def test_comment_in_a_sheet_is_searched_quickly(tmp_path):
    pytest.importorskip("openpyxl")
    path = workbook(tmp_path, {"a": CELLS})
    with zipfile.ZipFile(path) as packed:
        members = {name: packed.read(name) for name in packed.namelist()}
    sheet = "xl/worksheets/sheet1.xml"
    members[sheet] = members[sheet].replace(b"<sheetData>", b"<!--%s--><sheetData>" % (b"<row <c " * 50_000))
    with zipfile.ZipFile(path, "w") as packed:
        for name, content in members.items():
            packed.writestr(name, content)
    start = time.process_time()
    assert len(read(path)) == 3
    assert time.process_time() - start < 5  # a search from each sign to the end takes a minute


def test_workbook_needs_openpyxl(tmp_path, monkeypatch):
    path = workbook(tmp_path, {"a": CELLS})
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    assert "'openpyxl', which is not installed; run: pip install -e '" in refusal(path)
