"""Results as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from guard_eval.escaping import escape_markdown as esc
from guard_eval.metrics.scores import Results
from guard_eval.metrics.view import CLOSEST, DIFFERENCE_HEADS, ShownCell, View
from guard_eval.writing import write_whole


def write_markdown(results: Results, path: Path) -> None:
    """Write a table per dataset with intervals, then differences, settings, signatures and warnings.

    Raises:
        StudyError: The file cannot be written.
    """
    view = View(results)
    lines = ["# Metrics", *(f"\n> {esc(text)}" for text in results.warnings)]
    heads = ["Strategy", "Texts", *map(esc, view.heads)]
    for dataset in view.datasets:
        body = [[esc(row.strategy), str(row.texts), *map(_cell, row.cells)] for row in dataset.rows]
        lines += ["", f"## {esc(dataset.name)}", "", *_table(heads, body, words=1)]
    lines += ["", CLOSEST if view.closest else "", view.intervals]
    if view.differences:
        body = [list(map(esc, row)) for row in view.differences]
        lines += ["", "## Differences", "", *_table(list(map(esc, DIFFERENCE_HEADS)), body, words=4), ""]
        lines += _items(view.methods)
    lines += ["", "## Settings", "", *(f"- {esc(name)}: {esc(value)}" for name, value in view.facts), ""]
    lines += [f"[^{number}]: {esc(note)}" for number, note in enumerate(view.notes, start=1)]
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip("\n")
    write_whole(path, f"{text}\n".encode())


def _items(texts: Iterable[str]) -> list[str]:
    return [f"- {esc(text)}" for text in texts]


def _table(heads: Sequence[str], body: Sequence[Sequence[str]], *, words: int) -> list[str]:
    """Return a table whose first columns hold words; the others stand flush right."""
    rule = ["---" if place < words else "---:" for place in range(len(heads))]
    return [f"| {' | '.join(row)} |" for row in (heads, rule, *body)]


def _cell(cell: ShownCell) -> str:
    value = f"**{cell.value}**" if cell.closest else cell.value
    note = f"[^{cell.note}]" if cell.note else ""
    return " ".join(filter(None, (f"{value}{note}", esc(cell.interval))))
