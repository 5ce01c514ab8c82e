"""Read the rows of files of texts and prompts: tables, JSON, or a prompt a line."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from guard_eval.errors import StudyError
from guard_eval.files.rows import LINE, MOST_ROWS, Encoding, NumberedRows, open_rows, parse_json

_VOCABULARY = tomllib.loads(Path(__file__).with_name("keys.toml").read_text("utf-8"))
TEXT: list[str] = _VOCABULARY["text"]
"""Keys of the text, the first that holds one."""
KEYS: Mapping[str, list[str]] = _VOCABULARY["values"]
"""The keys of a value, if not its name alone. The first that holds a value counts."""
NO_TEXT = {*chain(*KEYS.values()), *KEYS, *_VOCABULARY["other"]}
"""Keys that hold no system's texts."""
SYSTEMS = frozenset(_VOCABULARY["systems"])
"""Further headings of a column that names the systems, if it differs between the texts of a prompt."""
RUNS = frozenset(_VOCABULARY["runs"])
"""Headings of a column that numbers the texts of a prompt by one system."""
PARTS = frozenset(_VOCABULARY["parts"])
"""Headings of what may be a part of the prompt."""
NOTES = tuple(_VOCABULARY["notes"])
"""How headings of remarks on texts end."""
SIDES = frozenset(map(frozenset, _VOCABULARY["sides"]))
"""Words that tell two sides apart."""
_PLAIN = {"".join(filter(str.isalnum, key)): key for key in (*TEXT, *KEYS, *chain(*KEYS.values()))}
"""The keys, by their letters and digits alone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """One row of a file.

    Attributes:
        where: The file and the row's position in it, for messages.
        number: The number of its line or record, from 1.
        row: Its values by key or heading; a cell without a value is "".
        further: How many more texts of the prompt the record holds.
    """

    where: str
    number: int
    row: Mapping[str, Any]
    further: int = 0


def read_rows(path: Path, *, errors: Encoding = "strict") -> Iterator[Record]:
    """Yield the rows of a file in any format of `open_rows`, in its order.

    A line of plain text is a row with the key `prompt`. Bytes that are not UTF-8 are refused, or become lone
    surrogates with `surrogateescape`.

    Raises:
        StudyError: The file cannot be read; file, record, value and remedy are named.
    """
    file = open_rows(path, errors=errors, is_plain=True)
    yield from _read_records(path, file.unit, file.records(MOST_ROWS))


def read_json_lines(name: str, text: str) -> Iterator[Record]:
    """Yield the objects of JSON lines; `name` is what the text is called in messages.

    Raises:
        StudyError: A line is not a JSON object; it is named.
    """
    lines = ((number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip())
    values = ((number, parse_json(f"{name}, {LINE} {number}", line)) for number, line in lines)
    yield from _read_records(name, LINE, values)


def _read_records(path: Path | str, unit: str, rows: NumberedRows) -> Iterator[Record]:
    """Yield records; a list in place of an object holds several texts of one prompt."""
    for number, row in rows:
        where = f"{path}, {unit} {number}"
        # Contrastive decoding's authors publish such lines.
        first, *further = row if isinstance(row, list) and row else [row]
        if not isinstance(first, dict):
            raise StudyError(f'{where}: {str(row)[:40]!r} is not a JSON object; write {{"text": "…"}}')
        yield Record(where=where, number=number, row=use_plain_keys(first), further=len(further))


@cache
def plain_key(key: str) -> str:
    """Return a key or heading in lower case, with letters and digits alone."""
    return "".join(filter(str.isalnum, key.casefold()))


def use_plain_keys(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row in which keys such as "Prompt ID" are renamed to `prompt_id`.

    An exact key has priority. Otherwise the first key with this meaning is renamed.
    """
    result: dict[str, Any] = {}
    for key, value in row.items():
        name = _PLAIN.get(plain_key(key), key)
        is_taken = name in row or name in result
        result[key if is_taken else name] = value
    return result
