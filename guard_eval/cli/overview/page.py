"""The owner's view as a page that needs nothing else, and as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from guard_eval.cli.overview.tables import BLIND, headline, legend, pairs_table, tables, warnings
from guard_eval.cli.overview.values import Overview
from guard_eval.reporting.rendering import render


def as_html(view: Overview, *, title: str, at: str, refresh: int | None = None) -> str:
    """Return the page, light or dark as its reader has it.

    Args:
        view: What is shown.
        title: The study's name.
        at: When that was so.
        refresh: After so many seconds the page reads itself again; None for never.
    """
    return render(
        Path(__file__).with_name("progress.html.j2"),
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
    )


def as_json(view: Overview, *, title: str, at: str) -> str:
    """Return every number, and what raters wrote."""
    numbers = {"study": title, "at": at, **asdict(view)}
    return json.dumps(numbers, indent=1, ensure_ascii=False, allow_nan=False)
