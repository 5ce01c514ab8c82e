"""Win shares, with intervals and both tests."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from analysis.reports.columns import CELL_COLUMNS, comparisons, interval_name, left_columns
from analysis.reports.forest import ForestLine, forest
from analysis.reports.section import Section
from analysis.results.shares import ShareRow, disagreement, unit_note
from analysis.verdicts.composite import Composite
from guard_eval.reporting.drawing import Drawing, in_rows, short
from guard_eval.reporting.escaping import NOTHING
from guard_eval.reporting.figure_style import BETWEEN, FIRST, SECOND
from guard_eval.reporting.tables import Columns, Table, table_of
from guard_eval.reporting.words import (
    ALL,
    NO_P,
    RATERS,
    judged_by,
    limits,
    p_of,
    p_value,
    percent,
    plural,
    title,
    why_none,
)

TESTS_NOTE = (
    "Win share: wins plus half the ties, averaged over pairs. p by rating: exact binomial on non-tied "
    "ratings, which treats ratings as independent; several ratings of one pair are not, and then it finds "
    "differences too often."
)
THESE_NOTE = (
    "p by item: sign-flip test on item means, which holds however ratings of a pair depend on each other."
)
POPULATION_NOTE = (
    "p for raters like these: t test that takes pairs and raters as samples, which holds however ratings of "
    "a pair or of a rater depend on each other."
)


_NOTES = {"these": THESE_NOTE, "population": POPULATION_NOTE}


def _dataset(row: ShareRow) -> str:
    return row.dataset or ALL


COLUMNS: Columns[ShareRow] = {
    **CELL_COLUMNS,
    "dataset": _dataset,
    "items": lambda row: row.items,
    "raters": lambda row: row.raters,
    "unit": lambda row: row.unit,
    "units": lambda row: row.units,
    "verdicts": lambda row: row.verdicts,
    "wins": lambda row: row.wins,
    "ties": lambda row: row.ties,
    "losses": lambda row: row.losses,
    "win_share_pooled": lambda row: row.pooled,
    "win_share_by_item": lambda row: row.share.estimate,
    "low": lambda row: row.share.low,
    "high": lambda row: row.share.high,
    "level": lambda row: row.level,
    "interval": lambda row: row.share.method,
    "p_by_rating": lambda row: row.paper_test.p_value,
    "rating_test": lambda row: row.paper_test.method,
    "p_by_item": lambda row: row.test.p_value,
    "item_test": lambda row: row.test.method,
    "p_adjusted": lambda row: row.adjusted,
    "correction": lambda row: row.correction,
    "corrected_by": lambda row: row.corrected_by,
    "p_holm": lambda row: row.holm,
    "p_westfall_young": lambda row: row.max_t,
    "family": lambda row: row.family,
    "declared_beforehand": lambda row: row.declared,
    "warnings": lambda row: "; ".join(
        dict.fromkeys(
            (
                *row.warnings,
                *row.share.warnings,
                *row.paper_test.warnings,
                *row.test.warnings,
                *filter(None, [row.out_of_reach]),
            )
        )
    ),
}


def section(rows: Sequence[ShareRow], *, name_methods: bool, composite: Composite | None = None) -> Section:
    """Return the table of people and that of judges, and the figures."""
    kinds = [kind for kind in RATERS if any(row.rater_kind == kind for row in rows)]
    drawings = []
    for number, members in comparisons(rows):
        drawings += [_forest(members, name=f"shares-{number}"), _bars(members, name=f"verdicts-{number}")]
    return Section(
        anchor="shares",
        title="Win shares",
        paragraphs=(
            " ".join((TESTS_NOTE, *estimand_notes(rows), unit_note(rows), *overall_note(rows, composite))),
        ),
        parts=(
            *(
                share_table([row for row in rows if row.rater_kind == kind], name_methods=name_methods)
                for kind in kinds
            ),
            *drawings,
        ),
        exports={"win_shares": table_of(rows, COLUMNS)},
    )


def overall_note(rows: Sequence[ShareRow], composite: Composite | None) -> tuple[str, ...]:
    """Say what the overall result across criteria is, or that there is none; nothing of one criterion."""
    if composite is not None:
        return (f"The composite, declared: {composite}, of each rater on each pair.",)
    if len({row.criterion for row in rows}) == 1:
        return ()
    return ("There is no overall result across criteria, since no composite of them was declared.",)


def estimand_notes(rows: Sequence[ShareRow]) -> list[str]:
    """Say what the item-level tests are, for these raters or for raters like them."""
    estimands = {row.estimand for row in rows}
    return [note for name, note in _NOTES.items() if name in estimands]


def share_table(rows: Sequence[ShareRow], *, name_methods: bool = True) -> Table:
    """Return wins, shares, intervals and both tests: of people, or of judges, a row each."""
    first = rows[0]
    several = len({row.judge for row in rows}) > 1
    tests = [test for row in rows for test in (row.paper_test, row.test)]
    judge: Columns[ShareRow] = {"Judge": lambda row: judged_by(*row.who)}
    left: Columns[ShareRow] = {
        **(judge if several else {}),
        **left_columns(name_methods=name_methods),
        "Dataset": _dataset,
    }
    return table_of(
        rows,
        {
            **left,
            "Wins": lambda row: row.wins,
            "Ties": lambda row: row.ties,
            "Losses": lambda row: row.losses,
            "Win share": lambda row: percent(row.share.estimate),
            interval_name(first.level): lambda row: limits(row.share),
            "p by rating": lambda row: p_of(row.paper_test),
            name_of_test(first): lambda row: p_of(row.test),
            first.correction: adjusted,
        },
        caption=f"Win shares, judged by {'one judge each' if several else judged_by(*first.who)}"
        + ("" if name_methods else f": {first.method_a} against {first.method_b}"),
        note=family_note(rows) + disagreement(rows) + why_none(tests, [row.out_of_reach for row in rows]),
        text_columns=len(left),
        strong=lambda row: row.dataset is None,
    )


def family_note(rows: Sequence[ShareRow]) -> str:
    """Say over what p is corrected."""
    first, several = rows[0], len({row.judge for row in rows}) > 1
    declared = "declared" if any(row.declared for row in rows) else "not declared"
    family = plural(max(row.family for row in rows), "result") + (" of one judge" if several else "")
    return (
        f"{first.correction}: {name_of_test(first)}, adjusted over {family} on all datasets, {declared} "
        "beforehand; rows without it are exploratory."
    )


def name_of_test(row: ShareRow) -> str:
    """Return the heading of the p-values that a conclusion rests on."""
    return "p by item" if row.estimand == "these" else "p for raters like these"


def adjusted(row: ShareRow) -> str:
    """Return the corrected p-value of a row."""
    if row.adjusted is not None:
        return p_value(row.adjusted)
    return NO_P if row.out_of_reach else NOTHING


def _forest(rows: Sequence[ShareRow], *, name: str) -> Drawing:
    """Return win shares with their intervals, for one comparison and one kind of rater."""
    a, b = rows[0].method_a, rows[0].method_b
    return forest(
        [
            ForestLine(label=_label(row), share=row.share, pooled=row.pooled, strong=row.dataset is None)
            for row in rows
        ],
        methods=(a, b),
        name=name,
        heading=f"Win share of {a} against {b}, judged by {judged_by(*rows[0].who)}",
        simulated=rows[0].simulated,
    )


def _bars(rows: Sequence[ShareRow], *, name: str) -> Drawing:
    """Return wins, ties and losses as stacked bars, for one comparison and one kind of rater."""
    first = rows[0]
    parts = (
        (f"{short(first.method_a)} better", FIRST, [row.wins for row in rows]),
        ("tie", BETWEEN, [row.ties for row in rows]),
        (f"{short(first.method_b)} better", SECOND, [row.losses for row in rows]),
    )

    def draw(axes: Axes) -> None:
        left = [0.0] * len(rows)
        for label, colour, counts in parts:
            widths = [100 * count / row.n for count, row in zip(counts, rows, strict=True)]
            axes.barh(range(len(rows)), widths, left=left, height=0.66, color=colour, label=label)
            for place, (start, width) in enumerate(zip(left, widths, strict=True)):
                if width >= 5:
                    axes.text(
                        start + width / 2,
                        place,
                        f"{width:.0f}",
                        ha="center",
                        va="center",
                        color="#111111",
                        fontsize=8.5,
                    )
            left = [start + width for start, width in zip(left, widths, strict=True)]
        axes.set_xlim(0, 100)
        axes.set_xlabel("% of ratings")

    heading = f"Verdicts on {first.method_a} and {first.method_b}, by {judged_by(*first.who)}"
    lines = "; ".join(f"{_label(row)}: {row.wins} wins, {row.ties} ties, {row.losses} losses" for row in rows)
    return in_rows(
        draw,
        [_label(row) for row in rows],
        name=name,
        heading=heading,
        description=f"For {first.method_a}: {lines}.",
        strong={place for place, row in enumerate(rows) if row.dataset is None},
        legend=True,
        grid=False,
        simulated=first.simulated,
    )


def _label(row: ShareRow) -> str:
    return f"{title(row.criterion)} · {_dataset(row)}"
