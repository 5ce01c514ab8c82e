"""The owner's view as a page that needs nothing else, and as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import jinja2

from guard_eval.escaping import clean
from guard_eval.progress.tables import BLIND, Table, headline, legend, pairs_table, tables, warnings
from guard_eval.progress.values import Overview


def as_html(view: Overview, *, title: str, at: str, refresh: int | None = None) -> str:
    """Return the page, light or dark as its reader has it.

    Args:
        view: What is shown.
        title: The study's name.
        at: When that was so.
        refresh: After so many seconds the page reads itself again; None for never.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        finalize=lambda value: clean(value) if type(value) is str else value,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html.j2").render(
        view=view,
        title=title,
        at=at,
        refresh=refresh,
        headline=headline(view),
        warnings=warnings(view),
        tables=tables(view),
        pairs=pairs_table(view),
        blind=BLIND,
        legend=legend(view),
        flagged={line.rater for line in view.raters if line.flags},
        numeric=_numeric,
    )


def as_json(view: Overview, *, title: str, at: str) -> str:
    """Return every number, and what raters wrote."""
    said = {"study": title, "at": at, **asdict(view)}
    return json.dumps(said, indent=1, ensure_ascii=False, allow_nan=False)


def _numeric(table: Table, column: int) -> bool:
    """Return whether a column holds figures, which stand at the right."""
    cells = [row[column] for row in table.rows]
    return all(not cell or cell == "–" or cell.lstrip("-−")[:1].isdigit() for cell in cells) and not any(
        cell[4:5] == "-" for cell in cells
    )
