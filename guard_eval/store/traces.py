"""Files of a study in which a person's name still stands, after the person was erased from the database."""

from __future__ import annotations

import csv
import html
import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

WRITTEN = frozenset({"detail", "comment", "reason", "by"})
"""Columns and keys that hold sentences which people wrote about each other."""

_Value = tuple[str, str]
"""The name of a column or key, and a text that stands under it."""


def find_traces(folder: Path, names: Sequence[str]) -> list[Path]:
    """Return the files of a study that name a person, by what is a name there.

    A name is a whole cell of a table, or a whole word of what people wrote. Texts of prompts and
    continuations may hold the same word by chance, and so may figures.
    """
    return sorted(
        path
        for path in folder.rglob("*")
        if (read := _READERS.get(path.suffix.lower())) is not None and _holds(path, read, names)
    )


def holds_word(text: str, words: Iterable[str]) -> bool:
    r"""Return whether one of the words stands in a text as a whole word.

    >>> holds_word("ask Ann, please", ["Ann"]), holds_word("an Annex", ["Ann"])
    (True, False)
    """
    return any(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE) for word in words if word)


def _holds(path: Path, read: Callable[[Path], Iterator[_Value]], names: Sequence[str]) -> bool:
    # a file may be removed this moment, unreadable, or not what its ending says
    with suppress(OSError, ValueError, csv.Error, RecursionError):
        for key, text in read(path):
            if text.strip() in names or (key in WRITTEN and holds_word(text, names)):
                return True
    return False


def _read_table(path: Path) -> Iterator[_Value]:
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t" if path.suffix == ".tsv" else ","):
            for key, text in row.items():
                yield key or "", text if isinstance(text, str) else ""


def _read_lines(path: Path) -> Iterator[_Value]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield from _texts("", json.loads(line))


def _read_page(path: Path) -> Iterator[_Value]:
    """Yield the text of each element of an HTML page, and of each cell of a Markdown or LaTeX table."""
    separator = r"<[^>]*>" if path.suffix == ".html" else r"[|&\n]|\\\\"
    for text in re.split(separator, path.read_text(encoding="utf-8")):
        yield "", html.unescape(text)


def _texts(key: str, value: object) -> Iterator[_Value]:
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield "", name
            yield from _texts(name, inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(key, inner)


_READERS: dict[str, Callable[[Path], Iterator[_Value]]] = {
    ".csv": _read_table,
    ".tsv": _read_table,
    ".jsonl": _read_lines,
    ".json": lambda path: _texts("", json.loads(path.read_text(encoding="utf-8"))),
    ".toml": lambda path: _texts("", tomllib.loads(path.read_text(encoding="utf-8"))),
    ".html": _read_page,
    ".md": _read_page,
    ".tex": _read_page,
}
