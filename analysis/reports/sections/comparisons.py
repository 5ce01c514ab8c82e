"""All comparisons of three or more methods: a matrix to see them at once, and a table to search."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from analysis.reports.columns import interval_name
from analysis.reports.section import Section
from analysis.reports.sections import shares
from analysis.results.ranking import RankingRow
from analysis.results.shares import ShareRow, disagreement, unit_note
from analysis.verdicts.composite import Composite
from guard_eval.reporting.drawing import Drawing, short
from guard_eval.reporting.escaping import Cell
from guard_eval.reporting.tables import Columns, Table, table_of
from guard_eval.reporting.words import judged_by, limits, p_of, percent, plural, title, why_none

MOST_MATRICES = 6
"""Matrices in a report; the table has every comparison."""
MOST_ROWS = 4_000
"""Comparisons in the page's table, those with the smallest p first; all are in win_shares.csv."""
STARS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))
STEP = 0.08
"""Of win shares, from one shade of the matrix to the next."""
DARKEST = 5

MATRIX_NOTE = (
    "How often the method of the row was preferred to that of the column, ties split, in %; columns have the "
    "rows' numbers. A cell rests on {pairs}. Blue: the row is ahead; orange: behind. After "
    "{correction}'s correction over all of {whose} comparisons: * p ≤ .05, ** p ≤ .01, *** p ≤ .001."
)
ON_REQUEST = (
    "One comparison in full, with its datasets, figures, agreement and sensitivity: guard-eval report … "
    "--compare A B."
)


def section(
    rows: Sequence[ShareRow],
    rankings: Sequence[RankingRow],
    *,
    in_full: Sequence[tuple[str, str]] = (),
    composite: Composite | None = None,
) -> Section:
    """Return the matrices, the table of all comparisons, and in full those that were asked for.

    Args:
        rows: Of `share_rows`.
        rankings: Of `ranking_rows`, which give a matrix its order.
        in_full: Comparisons to show by dataset and with figures.
        composite: What was declared as the overall result.
    """
    totals = [row for row in rows if row.dataset is None]
    groups: dict[tuple[tuple[str, str], str], list[ShareRow]] = {}
    for row in totals:
        groups.setdefault((row.who, row.criterion), []).append(row)
    drawn = [
        _matrix(groups[row.who, row.criterion], row) for row in rankings if (row.who, row.criterion) in groups
    ]
    notes = [shares.TESTS_NOTE, *shares.estimand_notes(rows), unit_note(rows)]
    notes += [*shares.overall_note(rows, composite), ON_REQUEST]
    asked = [row for row in rows if (row.method_a, row.method_b) in in_full]
    parts: list[Table | Drawing] = [*drawn[:MOST_MATRICES], _table(totals)]
    if asked:
        parts += shares.section(asked, name_methods=len(in_full) > 1).parts
    return Section(
        anchor="comparisons",
        title="Comparisons",
        paragraphs=(" ".join(notes),),
        parts=tuple(parts),
        exports={"win_shares": table_of(rows, shares.COLUMNS)},
    )


def _matrix(rows: Sequence[ShareRow], ranking: RankingRow) -> Table:
    """Return the win share of each method against each, the strongest first."""
    methods = [ranking.methods[place] for place in ranking.order]
    found: dict[tuple[str, str], tuple[float, ShareRow]] = {}
    for row in rows:
        if row.share.estimate is not None:
            found[row.method_a, row.method_b] = (row.share.estimate, row)
            found[row.method_b, row.method_a] = (1 - row.share.estimate, row)
    lines: list[tuple[Cell, ...]] = []
    shades: dict[tuple[int, int], str] = {}
    for place, method in enumerate(methods):
        cells: list[Cell] = [f"{place + 1}\u2002{short(method)}"]
        for column, other in enumerate(methods):
            if method == other or (method, other) not in found:
                cells.append("" if method == other else "·")
                continue
            share, row = found[method, other]
            cells.append(f"{100 * share:.0f}{_stars(row)}")
            shades[place, column + 1] = _shade(share)
        lines.append(tuple(cells))
    whose = "one judge's" if ranking.judge else "these"
    items = sorted({row.items for row in rows})
    pairs = plural(items[0], "pair") if len(items) == 1 else f"{items[0]} to {plural(items[-1], 'pair')}"
    return Table(
        columns=("Method", *(str(place + 1) for place in range(len(methods)))),
        rows=tuple(lines),
        caption=f"Win shares on {title(ranking.criterion)}, judged by {judged_by(*ranking.who)}",
        note=MATRIX_NOTE.format(correction=rows[0].correction, whose=whose, pairs=pairs),
        shades=shades,
        instead="A matrix of this size is on the page alone." if len(methods) > 12 else "",
    )


def _stars(row: ShareRow) -> str:
    p = row.adjusted
    return "" if p is None else next((mark for line, mark in STARS if p <= line), "")


def _shade(share: float) -> str:
    """Return the class of a cell: `ahead-1` to `ahead-5`, `behind-1` to `behind-5`, or `level`."""
    steps = min(DARKEST, int(abs(share - 0.5) / STEP + 0.5))
    return "level" if steps == 0 else f"{'ahead' if share > 0.5 else 'behind'}-{steps}"


def _table(totals: Sequence[ShareRow]) -> Table:
    """Return every comparison over all datasets, which the page can sort and filter."""
    first = totals[0]
    shown = sorted(totals, key=_p)[:MOST_ROWS]
    left: dict[str, Callable[[ShareRow], Cell]] = {}
    if len({row.who for row in totals}) > 1:
        left["Judged by"] = lambda row: judged_by(*row.who)
    if len({row.criterion for row in totals}) > 1:
        left["Criterion"] = lambda row: title(row.criterion)
    left |= {"Method": lambda row: row.method_a, "Against": lambda row: row.method_b}
    figures: Mapping[str, Callable[[ShareRow], Cell]] = {
        "Pairs": lambda row: row.items,
        "Wins": lambda row: row.wins,
        "Ties": lambda row: row.ties,
        "Losses": lambda row: row.losses,
        "Win share": lambda row: percent(row.share.estimate),
        interval_name(first.level): lambda row: limits(row.share),
        shares.name_of_test(first): lambda row: p_of(row.test),
        first.correction: shares.adjusted,
    }
    columns: Columns[ShareRow] = {**left, **figures}
    more = len(totals) - len(shown)
    rest = f" {more} more, with larger p, are in win_shares.csv." if more else ""
    return table_of(
        shown,
        columns,
        caption=f"All {len(totals)} comparisons, the smallest p first",
        note=shares.family_note(totals) + disagreement(shown) + why_none(row.test for row in totals) + rest,
        text_columns=len(left),
        sortable=True,
        folded=True,
        instead="" if len(totals) <= 60 else "The comparisons are in csv/win_shares.csv.",
    )


def _p(row: ShareRow) -> tuple[float, float]:
    p = row.test.p_value if row.adjusted is None else row.adjusted
    return (2.0 if p is None else p, -abs((row.share.estimate or 0.5) - 0.5))
