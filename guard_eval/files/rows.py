"""Read the rows of any file of texts, prompts or verdicts, packed or not.

The formats are CSV, TSV and other separated text, JSON and JSON lines, XLSX, Parquet, Feather, and plain
text. The content shows the format; the file name's ending matters only if the content fits two formats.
"""

import ast
import codecs
import csv
import json
import re
import shlex
import zipfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from io import BytesIO
from itertools import chain, islice
from pathlib import Path
from statistics import median
from typing import Any, Literal

from guard_eval.errors import MissingExtraError, StudyError
from guard_eval.files.opening import LARGEST_RATIO, UNPACKED_FREELY, ZIP, limit_memory, read_unpacked

MOST_BYTES = 2**30
"""The largest unpacked size in bytes, to protect memory: a few megabytes can unpack to this size."""
MOST_ROWS = 2**20
"""The largest number of rows, to protect memory: each measured text takes a kilobyte."""

LINE, SHEET_ROW, RECORD, ROW = "line", "sheet row", "record", "row"
"""The words for a row in messages: for separated text, for a workbook, for JSON, for Parquet and Feather."""

_PARQUET, _FEATHER, _STREAM = b"PAR1", b"ARROW1", b"\xff\xff\xff\xff"
"""The first bytes of Parquet and Feather files, and of the Arrow streams that Hugging Face's datasets are."""
_MOST_VALUES = 10**8
_MOST_UNPACKED = 2**33
"""The most bytes that the cells of a Parquet, Feather or Arrow file may take, as Python's objects."""
_CELL_BYTES = 64
"""The number of bytes that a short text takes as an object of Python."""
_BATCH_ROWS = 256
"""The number of rows that are read at once. Rows may share one long text that is stored only once."""

_LARGEST_WORKBOOK = 2**27
"""The largest unpacked size of a workbook, in bytes."""
_LARGEST_FORMATS = 2**22
"""The largest size in bytes of a workbook's part without cells, such as formats, names or relations."""
_HIDDEN_ROW = re.compile(rb'<(?:\w+:)?row (?=[^<>]*\bhidden="(?:1|true)")[^<>]*\br="(\d+)"')
"""The start of a hidden row, and the row's number, in a workbook's sheet."""
_UNKNOWN_CELL = re.compile(
    rb"""<(?:\w+:)?c (?![^<>]*t="str")[^<>]*><f[^<>]*(?:/>|>[^<]*</f>)(?:<v ?/>|<v></v>)?</"""
)
"""A formula without a stored value. An empty text has the type `str`."""
_FILLED_CELL = re.compile(rb"<(?:\w+:)?(?:v|is)>")
_MOST_CELLS = 2**24

NumberedRows = Iterable[tuple[int, Any]]
Encoding = Literal["strict", "surrogateescape"]
"""Whether bytes that are not UTF-8 are refused, or become lone surrogates."""

_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_NUL_PLACES = {(1, 2, 3): "UTF-32", (0, 1, 2): "UTF-32", (1, 3): "UTF-16", (0, 2): "UTF-16"}
"""The encoding of a text without a byte order mark, by the places of NUL bytes in each four bytes."""
_START = 4096
"""The number of bytes at the start of a file that show the format."""
_HEAD_ROWS = 20
"""The number of first rows in which the header is searched."""
_SIGN_LINE = re.compile(r'\s*"?sep=([^"\r\n]?)"?\s*', re.IGNORECASE)
"""The pattern of a first line such as `sep=;`, which names the separator. An empty name means a tab."""
_QUALTRICS = '{"ImportId"'
"""The beginning of every cell in Qualtrics' third header row."""
_DEEPEST = 8
"""Objects in objects are replaced by their values up to this depth."""
_SURVEY_MONKEY = {"", "Response", "Open-Ended Response"}
"""The cells of SurveyMonkey's second header row."""
OBJECT = re.compile(r"""\[?\{['"]""")
"""The beginning of an object, or of a list of objects, in a cell."""
_INDEX = "__index_level_0__"
"""The name that pandas gives to an index without a name in Parquet and Feather files."""


@dataclass(frozen=True)
class RowFile:
    """The rows of a file. They can be read only once.

    Attributes:
        path: The file.
        unit: The word for a row in messages: line, sheet row, record or row.
        headings: The headings of a table. The first heading is empty if a program wrote an index.
        rows: Each row with its number. A row is a list of cells or, without headings, a JSON value.
    """

    path: Path
    unit: str
    headings: tuple[str, ...] | None
    rows: NumberedRows

    def records(self, most_rows: int) -> Iterator[tuple[int, object]]:
        """Yield each row: a dictionary from headings to cells for a table, or the JSON value itself.

        Raises:
            StudyError: A row cannot be read, or there are more than `most_rows`.
        """
        for count, (number, row) in enumerate(self.rows):
            if count == most_rows:
                raise StudyError(f"{self.path} has more than {most_rows:,} rows; split it, or take a sample")
            yield number, row if self.headings is None else dict(zip(self.headings, row, strict=True))


def open_row_file(
    path: Path,
    *,
    most_rows: int = MOST_ROWS,
    errors: Encoding = "strict",
    plain: Literal["prompt", "text", ""] = "",
) -> RowFile:
    """Read a file and find the format. The rows are parsed later, when they are used.

    Text is UTF-8, or UTF-16 or UTF-32 with a byte order mark. The separator of cells is the comma, semicolon,
    tab or bar that gives the header the most columns, or the separator in a line such as `sep=;`.

    Args:
        path: The file.
        most_rows: The largest number of rows of a Parquet file.
        errors: How bytes that are not UTF-8 are treated (see `Encoding`).
        plain: The key of the lines of a `.txt` file. A blank line is no prompt, and an empty text. By
            default, or with a tab or an object in each line of texts, such a file is a table.

    Raises:
        StudyError: The file cannot be read. The message names the file, row, value and remedy.
    """
    name, data = read_unpacked(path, limit=MOST_BYTES)
    ending = Path(name).suffix.lower()
    if data.startswith((_PARQUET, _FEATHER, _STREAM)):
        return _read_arrow_file(path, data, most_rows)
    if data.startswith(ZIP):
        return _make_table_row_file(path, SHEET_ROW, _read_sheet_rows(path, data))
    text = _decode(path, data, errors)
    is_table = all("\t" in line or line.startswith("{") for line in _split_lines(text))
    is_plain = plain == "prompt" or (plain == "text" and not is_table)
    if is_plain and ending == ".txt":
        lines = enumerate(_split_lines(text.rstrip()), start=1)
        rows = ((number, {plain: line.rstrip("\r\n")}) for number, line in lines)
        return RowFile(path, LINE, None, (row for row in rows if plain == "text" or row[1][plain].strip()))
    is_lines = ending in {".jsonl", ".ndjson"}
    if is_lines or ending == ".json" or text[:_START].lstrip().startswith(("[", "{")):
        return _read_json_file(path, text, is_lines=is_lines)
    return _make_table_row_file(
        path, LINE, _read_csv_rows(path, text, "\t,;|" if ending == ".tsv" else ",;\t|")
    )


def _decode(path: Path, data: bytes, errors: Encoding) -> str:
    """Return the text of a file, without a byte order mark."""
    encoding = next((name for mark, name in _MARKS.items() if data.startswith(mark)), "utf-8")
    if encoding == "utf-8":
        places = {index % 4 for index, byte in enumerate(data[:64]) if not byte}
        if kind := _NUL_PLACES.get(tuple(sorted(places))):
            raise StudyError(f"{path} is {kind} without a byte order mark; save it as 'CSV UTF-8'")
        if 10 * data[:_START].count(b"\0") > len(data[:_START]):
            raise StudyError(f"{path} is a binary file and not text; save it as 'CSV UTF-8'")
    is_utf8 = encoding.startswith("utf-8")
    try:
        return data.decode(encoding, errors if is_utf8 else "strict")
    except UnicodeDecodeError as error:
        if not is_utf8:
            raise StudyError(f"{path} is damaged {encoding.upper()}; save it as 'CSV UTF-8'") from None
        character = error.object[error.start : error.start + 1].decode("cp1252", "replace")
        line = error.object.count(b"\n", 0, error.start) + 1
        where = f"line {line}, byte {error.start}, where Windows-1252 has {character!r}"
        raise StudyError(
            f"{path} is not UTF-8 ({where}); save it as 'CSV UTF-8', or, if {character!r} is right, run: "
            f"iconv -f WINDOWS-1252 -t UTF-8 -- {shlex.quote(str(path))} > utf8.csv"
        ) from None


def _split_lines(text: str, end: str = "\n") -> Iterator[str]:
    """Yield the lines of a text with their ends. Only `end` ends a line; JSON strings may hold others."""
    return (match[0] for match in re.finditer(rf"[^{end}]*{end}|[^{end}]+\Z", text))


def _find_filled_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not blank, with their numbers."""
    lines = enumerate(_split_lines(text), start=1)
    return ((number, line.rstrip("\r\n")) for number, line in lines if line.strip())


def _read_csv_rows(path: Path, text: str, signs: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of each filled row, with the number of its first line.

    Args:
        path: The file.
        text: The text of the file.
        signs: The possible separators. The separator that gives the header the most columns is used.
    """
    csv.field_size_limit(2**31 - 1)  # a cell may hold a book
    # A lone carriage return outside quotes is an error, unless it ends all lines.
    lines = enumerate(_split_lines(text, "\n" if "\n" in text else "\r"), start=1)
    begin, head = next(((number, line) for number, line in lines if line.strip()), (1, ""))
    number = begin
    try:
        if match := _SIGN_LINE.fullmatch(head):
            sign = match[1] or "\t"
            begin += 1
        else:
            columns = {sign: len(next(csv.reader([head], delimiter=sign), [])) for sign in signs}
            sign = max(columns, key=columns.__getitem__)
        contents = (line for _, line in lines)
        reader = csv.reader(contents if match else chain([head], contents), delimiter=sign, strict=True)
        number = begin
        for row in reader:
            if any(row) or len(row) == 1:
                yield number, row
            number = begin + reader.line_num
    except csv.Error as error:
        raise StudyError(
            f"{path}, line {number}: not valid CSV ({error}; is a quotation mark left open?); fix the CSV: "
            "quote cells with line breaks or quotation marks"
        ) from None


def _make_table_row_file(path: Path, unit: str, rows: Iterator[tuple[int, list[str]]]) -> RowFile:
    """Return the rows of a table, whose first row has the headings, as a `RowFile`."""
    first = list(islice(rows, _HEAD_ROWS))
    if not first:
        return RowFile(path, unit, (), ())
    filled = [sum(map(bool, row)) for _, row in first]
    usual = median(filled[1:] or filled)
    header = next(index for index, count in enumerate(filled) if 2 * count >= usual)
    if header:
        raise StudyError(
            f"{path}: {unit} {first[0][0]} is a title, and the header seems to be {unit} {first[header][0]}; "
            "remove everything above the header"
        )
    headings = [name.strip() for name in first.pop(0)[1]]
    while headings and not headings[-1]:
        headings.pop()
    # R writes row names without a heading.
    named = [row[0] for _, row in first if len(row) == len(headings) + 1]
    if named and named == [str(number) for number in range(1, len(first) + 1)]:
        headings.insert(0, "")
    if "" in headings[1:]:
        raise StudyError(
            f"{path}: column {headings.index('', 1) + 1} has no name in the header; name or remove it. If "
            "the table has several header rows (a MultiIndex), join them into one"
        )
    if twice := [name for name in headings if headings.count(name) > 1]:
        raise StudyError(f"{path} has two columns {twice[0]!r}; rename one")
    if len(first) > 1 and all(cell.startswith(_QUALTRICS) for cell in first[1][1] if cell):
        del first[:2]
    if first and {"", "Response"} <= set(first[0][1]) <= _SURVEY_MONKEY:
        del first[0]
    return RowFile(
        path, unit, tuple(headings), _fit_rows_to_headings(path, unit, chain(first, rows), len(headings))
    )


def _fit_rows_to_headings(
    path: Path, unit: str, rows: NumberedRows, width: int
) -> Iterator[tuple[int, list[str]]]:
    """Yield rows with one cell per heading: missing empty cells are added, and surplus ones are removed."""
    for number, row in rows:
        if any(row[width:]):
            raise StudyError(
                f"{path}, {unit} {number}: the row has {len(row)} cells, but the header has {width}; quote "
                "cells that contain a separator, or remove everything above the header"
            )
        if width == 1 or any(row):
            yield number, row if len(row) == width else [*row[:width], *[""] * (width - len(row))]


def _read_arrow_file(path: Path, data: bytes, most_rows: int) -> RowFile:
    """Return the rows of a Parquet, Feather or Arrow file. Lists and objects in cells stay unchanged.

    A small file can contain billions of rows or many long texts.

    Raises:
        StudyError: pyarrow is missing, the file is damaged, or its table has more than `most_rows` rows or
            more than `MOST_BYTES` bytes.
    """
    try:
        arrow: Any = import_module("pyarrow")
        parquet: Any = import_module("pyarrow.parquet")
    except ImportError:
        raise MissingExtraError("metrics", "pyarrow") from None
    is_parquet = data.startswith(_PARQUET)
    try:
        if is_parquet:
            file = parquet.ParquetFile(BytesIO(data))
            _check_sizes_of_parquet(file.metadata, most_rows)
            batches = file.iter_batches(batch_size=_BATCH_ROWS)
            schema = file.schema_arrow
        elif data.startswith(_FEATHER):
            file = arrow.ipc.open_file(BytesIO(data))
            batches = map(file.get_batch, range(file.num_record_batches))
            schema = file.schema
        else:
            batches = arrow.ipc.open_stream(BytesIO(data))
            schema = batches.schema
        columns = _unpack_batches(schema, batches)
    except (arrow.ArrowException, KeyError, OSError, UnicodeDecodeError, ValueError, MemoryError) as error:
        kind = "Parquet" if is_parquet else "Feather or Arrow"
        reason = str(error)[:200] or "it needs too much memory"
        raise StudyError(
            f"{path} cannot be read as {kind}: {reason}; write the file again, in several parts if it is too "
            "large"
        ) from None
    return RowFile(path, ROW, tuple(columns), enumerate(zip(*columns.values(), strict=True), start=1))


def _unpack_batches(schema: Any, batches: Iterable[Any]) -> dict[str, list[object]]:  # noqa: ANN401 (pyarrow's)
    """Return the columns of a table. Compressed cells, and those without bytes, may need any memory."""
    packed = []
    size = 0
    unpacked = 0
    with limit_memory(2 * _MOST_UNPACKED):
        for batch in batches:
            size += batch.nbytes
            unpacked += sum(map(_count_bytes, batch.columns))
            _check_size(size, MOST_BYTES, "bytes")
            _check_size(unpacked, _MOST_UNPACKED, "bytes")
            packed.append(batch)
        names = [name for name in schema.names if name != _INDEX]
        return {name: [cell for batch in packed for cell in batch[name].to_pylist()] for name in names}


def _count_bytes(array: Any) -> int:  # noqa: ANN401 (pyarrow's)
    """Return about how many bytes the cells of an array take when they are unpacked."""
    kind = str(array.type)
    size = array.nbytes
    nested: Iterable[Any] = ()
    if kind.startswith("extension<"):
        nested = [array.storage]
    elif kind.startswith("map<"):
        nested = [array.keys, array.items]
    elif re.match("(large_|fixed_size_)?list(_view)?<", kind):
        nested = [array.flatten()]
    elif kind.startswith("struct<"):
        nested = array.flatten()
    elif kind.endswith("_view"):  # each cell has its length, and a place where cells may lie together
        size = sum(memoryview(array.buffers()[1] or b"").cast("i")[::4])
    elif re.fullmatch("dictionary<values=(large_)?string, [^<>]*>", kind):
        lengths = import_module("pyarrow.compute").binary_length(array.dictionary)
        size = lengths.take(array.indices).drop_null().to_numpy().sum()
    elif re.search("^(?!dictionary).*<|<.*<", kind):
        raise ValueError(f"the cells of a column are of type {kind}")
    return _CELL_BYTES * len(array) + (sum(map(_count_bytes, nested)) if nested else int(size))


def _check_sizes_of_parquet(metadata: Any, most_rows: int) -> None:  # noqa: ANN401 (pyarrow's)
    """Check the number of rows and the unpacked size that the file declares."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    chunks = [group.column(number) for group in groups for number in range(group.num_columns)]
    _check_size(metadata.num_rows, most_rows, "rows")
    _check_size(sum(chunk.num_values for chunk in chunks), _MOST_VALUES, "values")
    _check_size(sum(chunk.total_uncompressed_size for chunk in chunks), MOST_BYTES, "bytes")


def _check_size(size: int, limit: int, unit: str) -> None:
    if size > limit:
        raise ValueError(f"the table has more than {limit:,} {unit}")


def _read_sheet_rows(path: Path, data: bytes) -> Iterator[tuple[int, list[str]]]:
    """Yield the filled rows of a workbook's only filled sheet, with their row numbers in the sheet.

    For a formula, use the value that a spreadsheet program stored.

    Raises:
        StudyError: openpyxl is missing, the file is not a workbook, several or no sheets have filled rows, or
            a cell has an error.
    """
    try:
        _check_sizes_of_workbook(data)
        options = {"read_only": True, "data_only": True, "keep_links": False}
        book: Any = import_module("openpyxl").load_workbook(BytesIO(data), **options)
        filled = [rows for sheet in book.worksheets if (rows := _read_filled_rows(sheet))]
        if len(filled) != 1:
            raise ValueError(f"{len(filled)} sheets have filled cells, and one sheet is needed")  # noqa: TRY301 (reworded below)
    except ImportError:
        raise MissingExtraError("xlsx", "openpyxl") from None
    except (KeyError, ValueError, TypeError, SyntaxError, EOFError, zipfile.BadZipFile) as error:
        raise StudyError(f"cannot read one sheet of {path}: {error}; save one as 'CSV UTF-8'") from None
    rows = filled[0]
    sheets = _list_filled_sheets(data)
    if any(map(_UNKNOWN_CELL.search, sheets)):
        raise StudyError(f"{path}: a formula has no value yet; save the file in a spreadsheet program")
    hidden = {int(row[1]) for sheet in sheets for row in _HIDDEN_ROW.finditer(sheet)}
    if concealed := sorted(hidden.intersection(number for number, _ in rows)):
        raise StudyError(
            f"{path}: row {concealed[0]} is hidden, so it may not count. Delete hidden rows, or show all rows"
        )
    used = sorted({column for _, cells in rows for column, cell in enumerate(cells) if cell})
    for number, cells in rows:
        if None in cells:
            raise StudyError(f"{path}: row {number} has an error such as #N/A; fix the formula of that cell")
        width = len(cells)
        yield number, [str(cells[column]) if column < width else "" for column in used]


def _check_sizes_of_workbook(data: bytes) -> None:
    """Check the unpacked size of a workbook. A few kilobytes can unpack to gigabytes."""
    with zipfile.ZipFile(BytesIO(data)) as packed:
        parts = packed.infolist()
    allowed = min(_LARGEST_WORKBOOK, max(UNPACKED_FREELY, LARGEST_RATIO * len(data)))
    if sum(member.file_size for member in parts) > allowed:
        raise ValueError(f"the file unpacks to more than {allowed >> 20} MiB")
    for member in parts:
        holds_cells = member.filename.startswith(("xl/worksheets/", "xl/sharedStrings", "xl/media/"))
        if member.file_size > _LARGEST_FORMATS and not holds_cells:
            raise ValueError(f"{member.filename} unpacks to more than {_LARGEST_FORMATS >> 20} MiB")


def _list_filled_sheets(data: bytes) -> list[bytes]:
    """Return all sheets of a workbook that have cells with values."""
    is_sheet = re.compile(r"xl/worksheets/[^/]+\.xml").fullmatch
    with zipfile.ZipFile(BytesIO(data)) as packed:
        sheets = map(packed.read, filter(is_sheet, packed.namelist()))
        return list(filter(_FILLED_CELL.search, sheets))


def _read_filled_rows(sheet: Any) -> list[tuple[int, list[str | None]]]:  # noqa: ANN401 (openpyxl has no types)
    """Return the rows of a sheet that have a filled cell. A cell with an error becomes None."""
    sheet.reset_dimensions()  # the size that a file declares may be wrong
    rows, count = [], 0
    for number, cells in enumerate(sheet.rows, start=1):
        count += len(cells)
        if number > MOST_ROWS or count > _MOST_CELLS:
            raise ValueError(f"a sheet has more than {MOST_ROWS:,} rows or {_MOST_CELLS:,} cells")
        words = [_format_cell(cell) for cell in cells]
        if any(word != "" for word in words):
            rows.append((number, words))
    return rows


def _format_cell(cell: Any) -> str | None:  # noqa: ANN401 (openpyxl has no types)
    """Return the text of a cell as a spreadsheet shows it, or None for an error."""
    value = cell.value
    if value is None:
        return ""
    if cell.data_type == "e":
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).removesuffix(" 00:00:00")  # a date without a time


def _read_json_file(path: Path, text: str, *, is_lines: bool) -> RowFile:
    """Return the records of JSON lines, or of a JSON document in one of the known shapes."""
    if is_lines or _has_json_lines(text):
        return RowFile(path, LINE, None, parse_json_lines(str(path), text))
    value = _parse_json(str(path), text) if text.strip() else []
    return RowFile(path, RECORD, None, enumerate(_find_json_records(value), start=1))


def _has_json_lines(text: str) -> bool:
    """Return whether a text has several lines and the first line is a complete JSON value."""
    lines = [line for _, line in islice(_find_filled_lines(text), 2)]
    try:
        json.loads(lines[0])
    except (IndexError, ValueError, RecursionError):
        return False
    return len(lines) > 1


def _find_json_records(value: object) -> list[object]:
    """Return the records of a JSON document: a list, a list in an object, or a format of pandas."""
    if not isinstance(value, dict):
        return value if isinstance(value, list) else [value]
    columns, rows = value.get("columns"), value.get("data")
    if isinstance(columns, list) and isinstance(rows, list) and all(isinstance(row, list) for row in rows):
        return [dict(zip(map(str, columns), row, strict=False)) for row in rows]
    if isinstance(rows, dict):  # a task of Label Studio
        return [value]
    is_numbered = isinstance(rows, list) and all(
        isinstance(row, dict) and row.get("index") == number for number, row in enumerate(rows)
    )
    if "schema" in value and rows and is_numbered:
        return [{key: cell for key, cell in row.items() if key != "index"} for row in rows]
    if isinstance(inner := value.get("results"), dict) and isinstance(inner.get("results"), list):
        return _find_json_records(inner)  # promptfoo; other results may be a summary
    # The messages of a chat are no records.
    records = {
        key: cells
        for key, cells in value.items()
        if isinstance(cells, list)
        and cells
        and all(isinstance(cell, dict) and "role" not in cell for cell in cells)
    }
    # Lists of raters and of verdicts are no columns, even if they have the same length.
    columns = _find_nested_records(value) if 2 * len(records) < len(value) else []
    longest: list[Any] = max(records.values(), key=lambda rows: (len(rows), len(rows[0])), default=[value])
    return columns or _join_similar_records(records) or longest


def _join_similar_records(lists: Mapping[str, list[dict[str, object]]]) -> list[object]:
    """Return the records of all lists that have mostly the headings of the longest list, each with its key.

    Without a second list of this kind, return none.
    """
    headings = max(lists.values(), key=len, default=[{}])[0].keys()
    similar = [
        key
        for key, records in lists.items()
        if 2 * len(headings & records[0].keys()) >= len(headings | records[0].keys())
    ]
    return [{"key": key, **record} for key in similar for record in lists[key]] if len(similar) > 1 else []


def _find_nested_records(value: dict[str, Any]) -> list[object]:
    """Return the rows of {column: {index: cell}}, {index: {column: cell}} or {column: [cell, …]}.

    The index, which may have the ids of the rows, becomes the column `key`.
    """
    inner = list(value.values())
    index: dict[str, object] = {}
    if inner and all(isinstance(cells, dict) and cells.keys() == inner[0].keys() for cells in inner):
        # An index has numbers, or more keys than there are columns.
        is_by_row = all(map(str.isdecimal, value)) or len(value) >= len(inner[0])
        if is_by_row and not all(map(str.isdecimal, inner[0])):
            return [{"key": name, **cells} for name, cells in value.items()]
        index = {"key": list(inner[0])}
        inner = [[cells[key] for key in inner[0]] for cells in inner]
    elif len(inner) < 2:
        return []
    if all(isinstance(cells, list) and len(cells) == len(inner[0]) for cells in inner):
        columns = index | dict(zip(value, inner, strict=True))
        return [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    return []


def flatten_objects(row: Mapping[str, object], fields: Collection[str] = ()) -> Mapping[str, object]:
    """Replace objects, except those in `fields`, by their values, which get names such as `meta.model`."""
    for _ in range(_DEEPEST):
        flat: dict[str, object] = {}
        for name, value in row.items():
            if isinstance(value, dict) and name not in fields:
                flat |= {f"{name}.{key}": cell for key, cell in value.items()}
            else:
                flat[name] = value
        if flat.keys() == row.keys():
            break
        row = flat
    return row


def unpack_cell(value: object, begins: re.Pattern[str]) -> object:
    """Return the lists and objects in a text that begins with them, or any other value unchanged."""
    if isinstance(value, str) and begins.match(value):
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            return parse_cell(value)
    return value


def parse_cell(text: str) -> Any:  # noqa: ANN401 (JSON)
    """Parse a cell that has JSON, or lists and objects as pandas writes them.

    Raises:
        ValueError, SyntaxError, RecursionError, MemoryError: The cell has something else.
    """
    return json.loads(text) if text.lstrip("[{ \t\r\n").startswith('"') else ast.literal_eval(text)


def parse_json_lines(name: str, text: str) -> Iterator[tuple[int, object]]:
    """Yield the JSON value on each line that is not blank, with the line's number."""
    for number, line in _find_filled_lines(text):
        yield number, _parse_json(f"{name}, {LINE} {number}", line)


def _parse_json(where: str, text: str) -> object:
    """Parse a JSON value. Refuse an object that has the same key twice."""
    try:
        return json.loads(text, object_pairs_hook=_build_dict_of_unique_keys)
    except StudyError as error:
        raise StudyError(f"{where}: {error}") from None
    except (ValueError, RecursionError) as error:
        reason = getattr(error, "msg", "a number or a nesting that cannot be read")
        raise StudyError(f"{where}: not valid JSON ({reason}); complete or remove it") from None


def _build_dict_of_unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise StudyError(f"an object has the key {twice!r} twice; keep one")
    return result
