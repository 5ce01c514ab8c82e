"""Pairs with their texts and what raters said of them."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from analysis.report.context import Context, Example
from guard_eval.reporting.words import KIND_PLACE, RATERS, title


@dataclass(frozen=True, kw_only=True)
class JudgedExample:
    """An example with what raters said of it."""

    example: Example
    verdicts: tuple[str, ...]


def examples(frame: pd.DataFrame, context: Context) -> tuple[JudgedExample, ...]:
    """Return the study's examples with their verdicts, counted for each kind of rater and criterion."""
    return tuple(JudgedExample(example=one, verdicts=_said_of(one, frame)) for one in context.examples)


def _said_of(example: Example, frame: pd.DataFrame) -> tuple[str, ...]:
    """Return, per kind of rater and criterion, how many verdicts each continuation of the example got."""
    methods_of = {example.method_a, example.method_b}
    mine = frame[
        (frame["pair_id"] == example.pair_id)
        & frame["method_a"].isin(methods_of)
        & frame["method_b"].isin(methods_of)
    ]
    said = []
    cells = {
        (str(kind), str(criterion)): cell
        for (kind, criterion), cell in mine.groupby(["rater_kind", "criterion"])
    }
    for (kind, criterion), cell in sorted(
        cells.items(), key=lambda item: (KIND_PLACE[item[0][0]], item[0][1])
    ):
        counts = cell["verdict"].value_counts()
        a, b = int(counts.get(example.method_a, 0)), int(counts.get(example.method_b, 0))
        text = f"{example.method_a} {a} · tie {len(cell) - a - b} · {example.method_b} {b}"
        said.append(f"{title(criterion)} ({RATERS[kind]}): {text}")
    return tuple(said)
