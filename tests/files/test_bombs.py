"""A small table, workbook or column file cannot fill a machine's memory."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from guard_eval.errors import StudyError
from guard_eval.texts import rows
from guard_eval.texts.generation_files import read_generations

READ = """
import resource, sys
from pathlib import Path
from guard_eval.texts.generation_files import read_generations
resource.setrlimit(resource.RLIMIT_DATA, (2**31, 2**31))
try:
    print(len(read_generations(Path(sys.argv[1]))))
except ValueError as error:
    print(error)
"""
"""Reads texts in a process that gets two gibibytes of memory."""


def read_limited(path: Path) -> str:
    command = [sys.executable, "-c", READ, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=100).stdout


SHEET = """<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>
<row r="1"><c r="A1" t="inlineStr"><is><t>text</t></is></c></row>%s</sheetData></worksheet>"""


def workbook(path: Path, cells: str) -> Path:
    """Write a workbook whose one sheet has the rows."""
    openpyxl = pytest.importorskip("openpyxl")
    openpyxl.Workbook().save(path.with_name("plain.xlsx"))
    with (
        zipfile.ZipFile(path.with_name("plain.xlsx")) as plain,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as changed,
    ):
        for name in plain.namelist():
            is_sheet = name == "xl/worksheets/sheet1.xml"
            changed.writestr(name, SHEET % cells if is_sheet else plain.read(name))
    return path


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        # Rows and columns between the cells are stored nowhere, and a grid of them takes 7 GB.
        ('<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>', "1"),
        ("".join(f'<row r="{n}"><c r="XFD{n}"><v>1</v></c></row>' for n in range(2, 2000)), "cells"),
        ('<row r="999999999"><c r="A999999999"><v>1</v></c></row>', "a sheet has more than 1,048,576 rows"),
        (" " * 2**25, "unpacks to more than 16 MiB"),
    ],
    ids=["last cell", "wide", "high", "spaces"],
)
def test_sparse_workbook_takes_little_memory(tmp_path, cells, says):
    printed = read_limited(workbook(tmp_path / "texts.xlsx", cells))
    assert says in printed


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        (["x" * 10**6] * 5000, "has more than 1,073,741,824 bytes"),
        ([""] * 3_000_000, "has more than 1,048,576 rows"),
    ],
    ids=["long texts", "many rows"],
)
def test_large_table_in_a_small_parquet_file_is_refused(tmp_path, texts, says):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "texts.parquet"
    parquet.write_table(pa.table({"text": texts}), path)
    assert path.stat().st_size < 10**5
    assert says in read_limited(path)


def view_long_text(pa):
    """Return an array of 10 000 views of the same million characters."""
    text = b"x" * 10**6
    view = struct.pack("<i4sii", len(text), text[:4], 0, 0)
    return pa.Array.from_buffers(
        pa.string_view(), 10_000, [None, pa.py_buffer(view * 10_000), pa.py_buffer(text)], null_count=0
    )


@pytest.mark.parametrize("ending", ["feather", "arrow"])
@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda pa: pa.nulls(10**9), "more than 8,589,934,592 bytes"),
        (lambda pa: pa.RunEndEncodedArray.from_arrays(pa.array([9]), ["x"]), "of type run_end_encoded"),
        (lambda pa: pa.FixedSizeListArray.from_arrays(pa.nulls(2**30), 2**30), "8,589,934,592 bytes"),
        (lambda pa: pa.DictionaryArray.from_arrays([0] * 10_000, ["x" * 10**6]), "8,589,934,592 bytes"),
        (view_long_text, "8,589,934,592 bytes"),
        (lambda pa: pa.ListArray.from_arrays([0, 2**30], pa.nulls(2**30)), "8,589,934,592 bytes"),
    ],
)
def test_arrow_file_that_needs_much_memory_is_refused(tmp_path, ending, make, says):
    pa = pytest.importorskip("pyarrow")
    batch = pa.RecordBatch.from_arrays([make(pa)], ["text"])
    new = pa.ipc.new_file if ending == "feather" else pa.ipc.new_stream
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with new(tmp_path / f"texts.{ending}", batch.schema, options=options) as file:
        file.write_batch(batch)
    assert (tmp_path / f"texts.{ending}").stat().st_size < 10**6
    assert says in read_limited(tmp_path / f"texts.{ending}")


def test_texts_of_too_many_rows_are_refused(tmp_path, monkeypatch):
    (tmp_path / "texts.jsonl").write_text('{"text": ""}\n' * 3)
    assert len(read_generations(tmp_path / "texts.jsonl")) == 3
    monkeypatch.setattr(rows, "MOST_ROWS", 2)
    with pytest.raises(StudyError, match="has more than 2 rows; split it"):
        read_generations(tmp_path / "texts.jsonl")


def test_texts_of_too_many_columns_are_refused(tmp_path):
    (tmp_path / "texts.jsonl").write_text(json.dumps(dict.fromkeys(map(str, range(3000)), "text")))
    with pytest.raises(StudyError, match="has 3,000 columns; remove"):
        read_generations(tmp_path / "texts.jsonl")
