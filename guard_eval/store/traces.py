"""Files of a study in which a person's name still stands, after the person was erased from the database."""

from __future__ import annotations

import csv
import html
import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

WRITTEN = frozenset({"detail", "comment", "reason", "by"})
"""Columns and keys that hold sentences which people wrote about each other."""

_Values = Iterator[tuple[str, str]]
"""The names of columns or keys, each with a text that stands under it."""


def find_traces(folder: Path, names: Sequence[str]) -> list[Path]:
    """Return the files of a study that name a person, by what is a name there.

    A name is a whole cell of a table, or a whole word of what people wrote. Texts of prompts and
    continuations may hold the same word by chance, and so may figures.
    """
    return sorted(path for path in folder.rglob("*") if path.suffix in _READERS and _names_any(path, names))


def holds_word(text: str, words: Iterable[str]) -> bool:
    r"""Return whether one of the words stands in a text as a whole word.

    >>> holds_word("ask Ann, please", ["Ann"]), holds_word("an Annex", ["Ann"])
    (True, False)
    """
    return any(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE) for word in words if word)


def _names_any(path: Path, names: Sequence[str]) -> bool:
    try:
        values = _READERS[path.suffix](path.read_text(encoding="utf-8"))
        return any(
            text.strip() in names or (key in WRITTEN and holds_word(text, names)) for key, text in values
        )
    except (OSError, ValueError, csv.Error, RecursionError):
        return False  # removed this moment, unreadable, or not what its ending says


def _read_table(text: str, *, delimiter: str = ",") -> _Values:
    for row in csv.DictReader(text.splitlines(keepends=True), delimiter=delimiter):
        yield from ((key or "", cell if isinstance(cell, str) else "") for key, cell in row.items())


def _read_page(text: str, *, separator: str = r"[|&\n]|\\\\") -> _Values:
    """Yield the cells of a Markdown or LaTeX table, or what is between the separators."""
    yield from (("", html.unescape(part)) for part in re.split(separator, text))


def _read_value(value: object, key: str = "") -> _Values:
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield "", name
            yield from _read_value(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from _read_value(inner, key)


_READERS: dict[str, Callable[[str], _Values]] = {
    ".csv": _read_table,
    ".tsv": lambda text: _read_table(text, delimiter="\t"),
    ".jsonl": lambda text: _read_value([json.loads(line) for line in text.splitlines()]),
    ".json": lambda text: _read_value(json.loads(text)),
    ".toml": lambda text: _read_value(tomllib.loads(text)),
    ".html": lambda text: _read_page(text, separator=r"<[^>]*>"),
    ".md": _read_page,
    ".tex": _read_page,
}
