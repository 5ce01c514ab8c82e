"""The tables of verdicts as the paper prints them: shares of people, of a judge, and both side by side.

Percentages are of ratings, pooled, and the test is the paper's; neither respects that several ratings belong
to one pair. They exist so that published tables can be compared with; conclusions stand in the report.
"""

from __future__ import annotations

from collections.abc import Sequence

from analysis.results.cells import NO_VERDICTS, VerdictCounts
from analysis.results.shares import ShareRow
from analysis.stats.significance import TestResult, binomial
from guard_eval.reporting.escaping import Cell
from guard_eval.reporting.tables import Table
from guard_eval.reporting.words import RATERS, number, title

ALL, OVERALL = "All", "Overall"


def paper_tables(rows: Sequence[ShareRow]) -> tuple[Table, ...]:
    """Return what can be printed of `rows`: tie-split shares, wins and ties, people beside other kinds.

    Args:
        rows: `share_rows` of an oriented table.
    """
    comparisons = list(dict.fromkeys((row.method_a, row.method_b) for row in rows))
    kinds = [kind for kind in RATERS if any(row.rater_kind == kind for row in rows)]
    tables = []
    for kind in kinds:
        mine = [row for row in rows if row.rater_kind == kind]
        tables += [_split(_of(mine, pair)) for pair in comparisons if _of(mine, pair)]
        tables.append(_wins(mine, comparisons))
    for kind in kinds:
        for pair in comparisons if kind != "person" else []:
            people = _of([row for row in rows if row.rater_kind == "person"], pair)
            tables += _beside(people, _of([row for row in rows if row.rater_kind == kind], pair))
    return tuple(tables)


def favoured(row: ShareRow) -> str | None:
    """Return the method with the larger share of ratings; None where both have the same."""
    if row.wins == row.losses:
        return None
    return row.method_a if row.wins > row.losses else row.method_b


def _of(rows: Sequence[ShareRow], pair: tuple[str, str]) -> list[ShareRow]:
    return [row for row in rows if (row.method_a, row.method_b) == pair]


def _datasets(rows: Sequence[ShareRow]) -> list[str | None]:
    return [*dict.fromkeys(row.dataset for row in rows if row.dataset is not None), None]


def _at(rows: Sequence[ShareRow], criterion: str, dataset: str | None) -> ShareRow | None:
    return next((row for row in rows if (row.criterion, row.dataset) == (criterion, dataset)), None)


def _split(rows: Sequence[ShareRow]) -> Table:
    """Return tie-split shares by dataset, both methods for each criterion (`tab:humaneval_resultglacs`)."""
    first = rows[0]
    criteria = list(dict.fromkeys(row.criterion for row in rows))
    cells: list[tuple[Cell, ...]] = []
    for dataset in _datasets(rows):
        line: list[Cell] = [dataset or ALL]
        for criterion in criteria:
            row = _at(rows, criterion, dataset)
            shares = ("", "") if row is None else (number(100 * (1 - row.pooled)), number(100 * row.pooled))
            line += shares
        cells.append(tuple(line))
    tests = "; ".join(
        f"{title(row.criterion)} p = {_p(row.paper_test)} (n = {row.n})"
        for row in rows
        if row.dataset is None
    )
    methods = [f"{title(c)}: {method}" for c in criteria for method in (first.method_b, first.method_a)]
    return Table(
        columns=("Dataset", *methods),
        rows=tuple(cells),
        caption=f"Share of {RATERS[first.rater_kind]} favouring a strategy, ties split, %",
        note=f"Exact binomial test on non-tied ratings, taken as independent: {tests}.",
        strong=frozenset({len(cells) - 1}),
    )


def _wins(rows: Sequence[ShareRow], comparisons: Sequence[tuple[str, str]]) -> Table:
    """Return wins, losses and ties by criterion, each comparison beside the last (`tab:llm_judgements`)."""
    judged = [pair for pair in comparisons if _of(rows, pair)]
    criteria = list(dict.fromkeys(row.criterion for row in rows))
    lines: list[tuple[Cell, ...]] = []
    pooled: list[Cell] = [OVERALL]
    notes = []
    for pair in judged:
        whole = sum((_counts(row) for row in _of(rows, pair) if row.dataset is None), NO_VERDICTS)
        pooled += _percentages(whole)
        notes.append(f"{pair[0]} against {pair[1]} p = {_p(binomial(whole.wins, whole.losses))}")
    for criterion in criteria:
        line: list[Cell] = [title(criterion)]
        for pair in judged:
            row = _at(_of(rows, pair), criterion, None)
            line += ("", "", "") if row is None else _percentages(_counts(row))
        lines.append(tuple(line))
    heads = [head for a, b in judged for head in (f"{a} wins", f"{b} wins", "Tie")]
    several = len(criteria) > 1
    warning = (
        f"{OVERALL} pools the criteria as if each were a rating of its own; where they measure the same "
        f"thing its test ({'; '.join(notes)}) counts one opinion several times."
    )
    return Table(
        columns=("Criterion", *heads),
        rows=(tuple(pooled), *lines) if several else tuple(lines),
        caption=f"Wins and ties, judged by {RATERS[rows[0].rater_kind]}, %",
        note=warning if several else "",
        strong=frozenset({0}) if several else frozenset(),
    )


def _beside(people: Sequence[ShareRow], others: Sequence[ShareRow]) -> list[Table]:
    """Return people beside another kind of rater, with "Agree?" (`tab:llm_with_human`)."""
    shared = [c for c in dict.fromkeys(row.criterion for row in people) if _at(others, c, None)]
    if not shared:
        return []
    lines: list[tuple[Cell, ...]] = []
    strong = set()
    for criterion in shared:
        for dataset in _datasets(people):
            human, other = _at(people, criterion, dataset), _at(others, criterion, dataset)
            if human is None or other is None:
                continue
            strong |= {len(lines)} if dataset is None else set()
            agree = favoured(human) is not None and favoured(human) == favoured(other)
            figures = (*_percentages(_counts(human)), *_percentages(_counts(other)))
            lines.append((title(criterion), dataset or OVERALL, *figures, "yes" if agree else "no"))
    a, b, kind = people[0].method_a, people[0].method_b, RATERS[others[0].rater_kind]
    heads = [f"{who}: {what}" for who in ("people", kind) for what in (a, b, "ties")]
    return [
        Table(
            columns=("Criterion", "Dataset", *heads, "Agree?"),
            rows=tuple(lines),
            caption=f"People beside {kind}, %",
            note="Agree: the same method has the larger share for both; an equal share is no agreement.",
            text_columns=2,
            strong=frozenset(strong),
        )
    ]


def _counts(row: ShareRow) -> VerdictCounts:
    return VerdictCounts(wins=row.wins, ties=row.ties, losses=row.losses)


def _percentages(counts: VerdictCounts) -> tuple[str, str, str]:
    parts = (counts.wins, counts.losses, counts.ties)
    first, second, third = (number(100 * part / counts.n, 1) for part in parts)
    return first, second, third


def _p(test: TestResult) -> str:
    """Return the p-value with four significant digits, as the paper prints it."""
    return "none" if test.p_value is None else f"{test.p_value:.4g}"
