"""What may be concluded where verdicts were looked at as they came."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from analysis.reports.columns import CELL_COLUMNS, cell_table, comparisons
from analysis.reports.section import Section
from analysis.results.sequential import SequentialRow
from guard_eval.reporting.drawing import GUIDE, INK, Drawing, drawn, short
from guard_eval.reporting.escaping import NOTHING
from guard_eval.reporting.figure_style import BETWEEN, FIRST, SECOND
from guard_eval.reporting.tables import Columns, Table, table_of
from guard_eval.reporting.words import judged_by, limits, number, p_value, percent, sentence, title

GUARANTEE = (
    "The study declares that its verdicts are looked at before all are in. A test for a fixed number of "
    "items then errs more often than it says, and the p-values in the tables of win shares do not "
    "hold. These do: if neither method is better, the e-value ever reaches 1/α with a probability of at most "
    "α, whenever one looks and whatever makes one stop (Ville 1939)."
)
NOTE = (
    "E: the fortune of a gambler who bets on items one after another; 1 is no evidence, and 20 as much as "
    "p = .05. p: the smallest 1/E so far. Holm: that p after Holm's correction over the family, which holds "
    "at any time too. Reached: items after which E first was 1/α. Share: with its confidence sequence, which "
    "holds at all times together if the expected share is the same from item to item."
)
LINES = ("-", "--", "-.", ":")
MOST_POINTS = 1_000
"""Of a line in the figure."""
HEIGHT = 3.3
"""Inches."""

COLUMNS: Columns[SequentialRow] = {
    **CELL_COLUMNS,
    "items": lambda row: row.test.n,
    "items_off_one_half": lambda row: row.test.informative,
    "items_waiting_for_raters": lambda row: row.waiting,
    "order": lambda row: row.order,
    "e_value": lambda row: row.test.e_value,
    "log_e_value": lambda row: float(row.test.log_e[-1]) if row.test.n else 0.0,
    "p_anytime": lambda row: row.test.p_value,
    "p_holm": lambda row: row.adjusted,
    "family": lambda row: row.family,
    "declared_beforehand": lambda row: row.declared,
    "alpha": lambda row: row.test.alpha,
    "reached_after_items": lambda row: row.test.crossed,
    "win_share_by_item": lambda row: row.test.interval.estimate,
    "low": lambda row: row.test.interval.low,
    "high": lambda row: row.test.interval.high,
    "level": lambda row: row.test.interval.level,
    "test": lambda row: row.test.method,
    "interval": lambda row: row.test.interval.method,
    "warnings": lambda row: "; ".join((*row.warnings, *row.test.warnings, *row.test.interval.warnings)),
}


def section(rows: Sequence[SequentialRow], *, name_methods: bool) -> Section | None:
    """Return the anytime-valid tests; `None` without rows, where no looking was declared."""
    if not rows:
        return None
    orders = sorted({row.order for row in rows})
    remarks = sorted({remark for row in rows for remark in (*row.warnings, *row.test.interval.warnings)})
    order = f"Items stand in order {' or '.join(orders)}."
    return Section(
        anchor="sequential",
        title="Looking before the end",
        paragraphs=(GUARANTEE, " ".join((order, *map(sentence, remarks)))),
        parts=(
            _table(rows, name_methods=name_methods),
            *(_figure(members, name=f"sequential-{place}") for place, members in comparisons(rows)),
        ),
        exports={"sequential": table_of(rows, COLUMNS)},
    )


def _table(rows: Sequence[SequentialRow], *, name_methods: bool) -> Table:
    """Return each comparison's e-value, p-value and confidence sequence."""
    waiting = sorted({row.waiting for row in rows})
    many = f"{waiting[0]} to {waiting[-1]}" if waiting[1:] else f"{waiting[0]}"
    left_out = f" Pairs still waiting for raters are left out, {many} in a result." if waiting[-1] else ""
    return cell_table(
        rows,
        {
            "Prompts" if all(row.unit == "prompt" for row in rows) else "Items": lambda row: row.test.n,
            "E": _e_value,
            "p": lambda row: p_value(row.test.p_value),
            "p (Holm)": lambda row: NOTHING if row.adjusted is None else p_value(row.adjusted),
            "Reached": lambda row: NOTHING if row.test.crossed is None else row.test.crossed,
            "Share": lambda row: f"{percent(row.test.interval.estimate)} ({limits(row.test.interval)})",
        },
        name_methods=name_methods,
        caption="Tests that hold whenever one looks",
        note=NOTE + left_out,
    )


def _e_value(row: SequentialRow) -> str:
    """Return an e-value with two or three digits, a large one with a power of ten."""
    tens = float(row.test.log_e[-1]) / math.log(10) if row.test.n else 0.0
    if tens < 4:
        return number(10**tens, 2 if tens < 1 else 0)
    whole = math.floor(tens)
    digits = f"{10 ** (tens - whole):.1f}"
    return f"1.0e{whole + 1}" if digits == "10.0" else f"{digits}e{whole}"


def _figure(rows: Sequence[SequentialRow], *, name: str) -> Drawing:
    """Return the e-values after each item on a logarithmic scale, a line for each criterion."""
    first = rows[0]
    alpha = first.test.alpha

    def draw(axes: Axes) -> None:
        for place, row in enumerate(rows):
            shown = np.unique(np.linspace(0, row.test.n, min(row.test.n + 1, MOST_POINTS)).astype(int))
            tens = np.concatenate([[0.0], row.test.log_e])[shown] / math.log(10)
            axes.plot(
                shown,
                tens,
                color=(FIRST, SECOND, BETWEEN)[place % 3],
                linestyle=LINES[place // 3 % len(LINES)],
                linewidth=1.5,
                label=short(title(row.criterion)),
            )
        axes.axhline(-math.log10(alpha), **GUIDE)
        axes.set(xlabel="items", ylabel="E, powers of ten")
        axes.set_xlim(left=0)
        axes.grid(visible=True, color=INK, alpha=0.12, linewidth=0.6)
        axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5), handlelength=1.8)

    lines = "; ".join(f"{title(row.criterion)}: {_e_value(row)} after {row.test.n} items" for row in rows)
    return drawn(
        draw,
        name=name,
        heading=f"Evidence item by item: {first.method_a} against {first.method_b}, judged by "
        f"{judged_by(*first.who)}",
        description=f"E-values: {lines}. The dashed line is {1 / alpha:g}, where p is {alpha:g}.",
        height=HEIGHT,
        simulated=first.simulated,
    )
