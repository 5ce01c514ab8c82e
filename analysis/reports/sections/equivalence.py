"""Equivalence: is a share within the declared margin of one half?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from analysis.reports.columns import CELL_COLUMNS, cell_table, interval_name
from analysis.reports.section import Section
from analysis.results.equivalence import Conclusion, EquivalenceRow
from guard_eval.reporting.escaping import NOTHING
from guard_eval.reporting.tables import Columns, table_of
from guard_eval.reporting.words import and_list, equals, judged_by, limits, p_value, percent, plural, title

NAMED = 6
"""Up to so many results are named in a sentence."""
MOST_ROWS = 40
"""Rows of the table; with more results the undecided are left out first, then the different."""
GROUPS = 3
"""Up to so many of people and judges have a part of it."""
ORDER: dict[Conclusion, int] = {
    "equivalent": 0,
    "different but negligible": 1,
    "different": 2,
    "undecided": 3,
}
NOTE = (
    "Two one-sided t tests that the share is {margin} or more away from 50 %, with the unit and the error of "
    "the shares' own interval: equivalent where p is at most {alpha:g}, which without a correction is where "
    "the {level} interval lies within {low}–{high} %. Different: the test of no difference, as in the table "
    "of win shares. A share can differ and be negligible; where neither is shown the result is undecided, "
    "and more verdicts may decide it."
)
CORRECTED = (
    " {name}: over {size} of people, or of one judge. Difference and equivalence are families of their own, "
    "since of one share at most one of the two hypotheses is true."
)

COLUMNS: Columns[EquivalenceRow] = {
    **CELL_COLUMNS,
    "margin": lambda row: row.margin,
    "win_share": lambda row: row.share.estimate,
    "low": lambda row: row.share.low,
    "high": lambda row: row.share.high,
    "level": lambda row: row.share.level,
    "interval": lambda row: row.share.method,
    "standard_error": lambda row: row.share.error,
    "degrees_of_freedom": lambda row: row.share.freedom,
    "p_equivalence": lambda row: row.p_value,
    "p_adjusted": lambda row: row.adjusted,
    "correction": lambda row: row.correction,
    "family": lambda row: row.family,
    "differs": lambda row: row.differs,
    "conclusion": lambda row: row.conclusion,
    "no_test_because": lambda row: row.reason,
}


def section(rows: Sequence[EquivalenceRow], *, name_methods: bool) -> Section | None:
    """Return what the results say of the margin; None where none was declared."""
    if not rows:
        return None
    first = rows[0]
    note = NOTE.format(
        margin=points(first.margin),
        alpha=first.alpha,
        level=percent(first.share.level, 0),
        low=f"{100 * (0.5 - first.margin):g}",
        high=f"{100 * (0.5 + first.margin):g}",
    )
    size = max(row.family for row in rows)
    if size > 1:
        name = next(row.correction for row in rows if row.family)
        note += CORRECTED.format(name=name, size=plural(size, "result"))
    reasons = sorted({row.reason for row in rows if row.reason})
    shown = [place for _, place in sorted((ORDER[row.conclusion], place) for place, row in enumerate(rows))]
    kept = [rows[place] for place in sorted(shown[:MOST_ROWS])]
    if len(rows) > len(kept):
        note += f" The other {plural(len(rows) - len(kept), 'result')} are in equivalence.csv."
    table = cell_table(
        kept,
        {
            "Result": lambda row: row.conclusion,
            "Win share": lambda row: percent(row.share.estimate),
            interval_name(first.share.level): lambda row: limits(row.share),
            "p of equivalence": lambda row: p_value(row.p_value),
            first.correction: lambda row: p_value(row.adjusted) if row.family else NOTHING,
        },
        name_methods=name_methods,
        caption=f"Is the share within {points(first.margin)} of 50 %?",
        note=" ".join((note, *(f"No test where {reason}." for reason in reasons))),
        words=1,
    )
    return Section(
        anchor="equivalence",
        title="Equivalence",
        parts=(table,),
        exports={"equivalence": table_of(rows, COLUMNS)},
    )


def sentence(rows: Sequence[EquivalenceRow]) -> str:
    """Return what the results say of the margin in a sentence; nothing where none was declared."""
    declared = [row for row in rows if row.family] or list(rows)
    if not declared:
        return ""
    groups: dict[tuple[str, str], list[EquivalenceRow]] = {}
    for row in declared:
        groups.setdefault(row.who, []).append(row)
    opening = f"With a margin of {points(declared[0].margin)} around 50\u00a0%"
    if len(groups) == 1:
        return f"{opening}: {_found(declared)}."
    if len(groups) > GROUPS:
        return f"{opening}, by people and each judge alone: {_counted(declared)}."
    parts = [f"by {judged_by(*who)} {_found(members)}" for who, members in groups.items()]
    return f"{opening}: {'; '.join(parts)}."


def _found(rows: Sequence[EquivalenceRow]) -> str:
    """Name each result where they are few and of one comparison; else count them."""
    if len(rows) > NAMED or len({(row.method_a, row.method_b) for row in rows}) > 1:
        return _counted(rows)
    parts = []
    for row in rows:
        p = row.adjusted if row.family else row.p_value
        why = "" if p is None or row.conclusion == "different" else f" ({equals(p)} for equivalence)"
        parts.append(f"{title(row.criterion)} is {row.conclusion}{why}")
    return and_list(parts)


def _counted(rows: Sequence[EquivalenceRow]) -> str:
    counts = Counter(row.conclusion for row in rows)
    (first, number), *rest = counts.most_common()
    start = f"{number} of {plural(len(rows), 'result')} {'is' if number == 1 else 'are'} {first}"
    return and_list([start, *(f"{count} {conclusion}" for conclusion, count in rest)])


def points(margin: float) -> str:
    """Return a margin as percentage points."""
    return f"{100 * margin:g}\u00a0points"
