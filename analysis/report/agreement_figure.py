"""A figure of agreement: κ, α and AC1 of each criterion with their intervals."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from analysis.results.agreement import AgreementRow
from guard_eval.reporting.drawing import INK, Drawing, in_rows
from guard_eval.reporting.figure_style import FIRST, SECOND
from guard_eval.reporting.words import RATERS, number, title

MOST_ROWS = 30
"""Rows that a figure can hold; with more there is none."""

_SERIES = (
    ("Fleiss' κ", "o", FIRST, -0.22),
    ("Krippendorff's α", "s", SECOND, 0.0),
    ("Gwet's AC1", "^", INK, 0.22),
)
"""Name, marker, colour, and how far off the row's middle."""

Estimate = tuple[float | None, float | None, float | None]


def dots(rows: Sequence[AgreementRow], *, name_methods: bool) -> tuple[Drawing, ...]:
    """Return the figure, or nothing where no coefficient is defined or there are too many rows for one."""
    shown = [row for row in rows if any(value is not None for value, _, _ in _estimates(row))]
    if not shown or len(shown) > MOST_ROWS:
        return ()

    def draw(axes: Axes) -> None:
        for series, (name, marker, colour, off) in enumerate(_SERIES):
            found = [(place + off, *_estimates(row)[series]) for place, row in enumerate(shown)]
            for place, _, low, high in found:
                if low is not None and high is not None:
                    axes.plot([low, high], [place, place], color=colour, linewidth=1.4, solid_capstyle="butt")
            known = [(value, place) for place, value, _, _ in found if value is not None]
            if known:
                axes.plot(
                    *zip(*known, strict=True),
                    marker=marker,
                    markersize=5,
                    color=colour,
                    linestyle="",
                    label=name,
                )
        axes.axvline(0, color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
        lows = [
            low
            for row in shown
            for value, low, _ in _estimates(row)
            for low in (value, low)
            if low is not None
        ]
        axes.set_xlim(min(-0.1, *lows) - 0.02, 1.02)
        axes.set_xlabel("agreement beyond chance (0: as by chance, 1: complete)")
        axes.grid(visible=True, axis="x", color=INK, alpha=0.12, linewidth=0.6)
        axes.legend(
            loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False, fontsize=9, handlelength=1
        )

    described = "; ".join(f"{_label(row, name_methods=name_methods)}: {_values(row)}" for row in shown)
    return (
        in_rows(
            draw,
            [_label(row, name_methods=name_methods) for row in shown],
            name="agreement-1",
            heading="Agreement between raters of one kind, corrected for chance",
            description=f"{described}. The dashed line is agreement as by chance.",
            legend=True,
            simulated=any(row.rater_kind == "simulated" for row in shown),
        ),
    )


def _estimates(row: AgreementRow) -> tuple[Estimate, Estimate, Estimate]:
    kappa = (row.agreement.value, row.agreement.low, row.agreement.high)
    return kappa, (row.alpha.value, row.alpha.low, row.alpha.high), (row.ac1.value, row.ac1.low, row.ac1.high)


def _label(row: AgreementRow, *, name_methods: bool) -> str:
    methods = f" · {row.method_a}/{row.method_b}" if name_methods else ""
    return f"{title(row.criterion)} · {RATERS[row.rater_kind]}{methods}"


def _values(row: AgreementRow) -> str:
    return ", ".join(
        f"{name} {'undefined' if value is None else number(value)}"
        + ("" if low is None or high is None else f" ({number(low)} to {number(high)})")
        for (name, _, _, _), (value, low, high) in zip(_SERIES, _estimates(row), strict=True)
    )
