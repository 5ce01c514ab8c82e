"""Read the rows of files of texts and prompts: tables, JSON, or one prompt per line."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from guard_eval.errors import StudyError
from guard_eval.files.headings import simplify_heading
from guard_eval.files.rows import LINE, MOST_ROWS, Encoding, NumberedRows, open_rows, parse_json

_VOCABULARY = tomllib.loads(Path(__file__).with_name("keys.toml").read_text("utf-8"))
TEXT: list[str] = _VOCABULARY["text"]
"""Keys of the text. The first key that holds a text counts."""
KEYS: Mapping[str, list[str]] = _VOCABULARY["values"]
"""The keys of each value that has other keys than its name. The first key that holds a value counts."""
NO_TEXT = {*chain(*KEYS.values()), *KEYS, *_VOCABULARY["other"]}
"""Keys that never hold the texts of a system."""
SYSTEMS = frozenset(_VOCABULARY["systems"])
"""More headings of a column of system names, if the column differs between the texts of a prompt."""
RUNS = frozenset(_VOCABULARY["runs"])
"""Headings of a column that numbers the texts of a prompt by one system."""
ROW_NUMBERS = frozenset({"index", "idx"})
"""Headings among `RUNS` that may also number the rows of the file."""
PARTS = frozenset(_VOCABULARY["parts"])
"""Headings of columns that may hold a part of the prompt."""
NOTES = tuple(_VOCABULARY["notes"])
"""Endings of the headings of remarks on texts."""
_PLAIN = {"".join(filter(str.isalnum, key)): key for key in (*TEXT, *KEYS, *chain(*KEYS.values()))}
"""The keys by their plain form, which has only letters and digits."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """One row of a file.

    Attributes:
        where: The file and the row's position in the file, for messages.
        number: The number of the line or record, from 1.
        row: The values by key or heading. A cell without a value is "".
        further: The number of the prompt's other texts in the record.
    """

    where: str
    number: int
    row: Mapping[str, object]
    further: int = 0


def read_rows(path: Path, *, errors: Encoding = "strict") -> Iterator[Record]:
    """Yield the rows of a file in any format of `open_rows`, in the file's order.

    A line of plain text is a row with the key `prompt`. Bytes that are not UTF-8 are refused, or become lone
    surrogates with `surrogateescape`.

    Raises:
        StudyError: The file cannot be read. The message names file, record, value and remedy.
    """
    file = open_rows(path, errors=errors, is_plain=True)
    yield from _read_records(path, file.unit, file.records(MOST_ROWS))


def read_json_lines(name: str, text: str) -> Iterator[Record]:
    """Yield the object on each line of a JSON Lines text. Error messages refer to the text as `name`.

    Raises:
        StudyError: A line is not a JSON object. The message names the line.
    """
    lines = ((number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip())
    values = ((number, parse_json(f"{name}, {LINE} {number}", line)) for number, line in lines)
    yield from _read_records(name, LINE, values)


def _read_records(path: Path | str, unit: str, rows: NumberedRows) -> Iterator[Record]:
    """Yield records. If a row is a list of objects, they are several texts of one prompt."""
    for number, row in rows:
        where = f"{path}, {unit} {number}"
        # Contrastive decoding's authors publish such lines.
        first, *further = row if isinstance(row, list) and row else [row]
        if not isinstance(first, dict):
            raise StudyError(f'{where}: {str(row)[:40]!r} is not a JSON object; write {{"text": "…"}}')
        yield Record(where=where, number=number, row=rename_known_keys(first), further=len(further))


def rename_known_keys(row: Mapping[str, object]) -> dict[str, object]:
    """Return a row in which keys such as "Prompt ID" are renamed to `prompt_id`.

    An exact key has priority. Otherwise the first key with this meaning is renamed.
    """
    result: dict[str, object] = {}
    for key, value in row.items():
        name = _PLAIN.get(simplify_heading(key), key)
        is_taken = name in row or name in result
        result[key if is_taken else name] = value
    return result
