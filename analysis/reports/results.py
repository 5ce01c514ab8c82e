"""All analyses of one report: each frame is computed once, by the name of its CSV file."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from pkgutil import resolve_name
from typing import Any

import pandas as pd

from analysis.analyses.outcomes.shares import shares
from analysis.evidence import ALL, CELL_COLUMNS, Evidence, frame_of
from guard_eval.errors import StudyError
from guard_eval.records import PEOPLE_OF

MAX_IN_FULL = 24
"""Results (comparison, criterion, who judged) up to which several methods' comparisons are all in full."""
Row = Any
"""A row of a frame, as a tuple with names."""
Analyse = Callable[[Evidence], pd.DataFrame]


def rows_of(frame: pd.DataFrame) -> list[Row]:
    """Return the rows of a frame as tuples with names."""
    return list(frame.itertuples(index=False))


def group_of(row: Row) -> tuple[str, str]:
    """Return who judged a row: a kind of raters and, if it is a judge, its name."""
    return row.rater_kind, row.judge


def grouped(rows: Iterable[Row], key: Callable[[Row], Any]) -> dict[Any, list[Row]]:
    """Return rows by a key, in the order of the first of each."""
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def cell_of(row: Row) -> tuple[str, ...]:
    """Return what no two rows over all datasets share: who judged which methods on which criterion."""
    return (*group_of(row), row.method_a, row.method_b, row.criterion)


class Results:
    """The frames of one report, computed when first needed: `results["agreement"]`.

    Args:
        evidence: The verdicts and their context.

    Raises:
        StudyError: A comparison that was asked for is none.
    """

    def __init__(self, evidence: Evidence) -> None:
        self.evidence, self.context = evidence, evidence.context
        self._frames: dict[str, pd.DataFrame] = {}
        scores = evidence.scored.scores
        pairs = scores[["method_a", "method_b"]].drop_duplicates()
        self.comparisons = tuple(sorted(pairs.itertuples(index=False, name=None)))
        self.in_full = self._compared_in_full()
        self.part = evidence.only(self.in_full) if self.in_full else evidence

    def __getitem__(self, name: str) -> pd.DataFrame:
        """Return a frame by the name of its CSV file; it has no rows if the data do not allow it.

        Raises:
            StudyError: Something that was declared does not fit the data.
        """
        if name not in self._frames:
            self._frames[name] = ANALYSES[name](self)
        return self._frames[name]

    @property
    def has_several_methods(self) -> bool:
        """Return whether three or more methods are compared."""
        return len({name for pair in self.comparisons for name in pair}) > 2

    @property
    def has_judges(self) -> bool:
        """Return whether some rater is a judge."""
        return bool((self.evidence.scored.scores["judge"] != "").any())

    @property
    def has_lengths(self) -> bool:
        """Return whether the table has the lengths of both texts."""
        return {"length_a", "length_b"} <= set(self.evidence.frame.columns)

    @property
    def is_ranked(self) -> bool:
        """Return whether three or more methods are ranked."""
        return len(self["ranking"]) > 0

    @property
    def rankings(self) -> list[list[Row]]:
        """Return the rows of each ranking, the best method first."""
        ranked = grouped(rows_of(self["ranking"]), lambda row: (*group_of(row), row.criterion, row.group))
        return list(ranked.values())

    def exports(self) -> dict[str, pd.DataFrame]:
        """Return every frame with rows, by the name of its CSV file."""
        return {name: self[name] for name in ANALYSES if len(self[name])}

    def _compared_in_full(self) -> tuple[tuple[str, str], ...]:
        """Return the comparisons that are analysed in every way: all, or of many those asked for."""
        asked = []
        for a, b in self.context.compare:
            known = next((pair for pair in self.comparisons if set(pair) == {a, b}), None)
            if known is None:
                names = ", ".join(sorted({name for pair in self.comparisons for name in pair}))
                raise StudyError(f"{a!r} and {b!r} are not compared; name two of the methods: {names}")
            asked.append(known)
        if asked or not self.is_ranked:
            return tuple(asked) or self.comparisons
        cells = self.evidence.scored.scores[["method_a", "method_b", "rater_kind", "judge", "criterion"]]
        return self.comparisons if len(cells.drop_duplicates()) <= MAX_IN_FULL else ()

    @cached_property
    def answering(self) -> list[Row]:
        """Return the rows over all datasets that the answer is about, with the declared way to test them.

        If it was declared, a judge assists people, or tests and intervals hold whenever one looks.
        """
        frame, other = self["win_shares"], pd.DataFrame()
        if self.context.plan.sequential:
            other = self["sequential"]
        elif self.context.plan.assisted_by is not None and len(self["assisted"]):
            other = self["assisted"].rename(columns={"people_assisted": "win_share"})
            other = other[(other["judge"] == self.context.plan.assisted_by) & other["win_share"].notna()]
            other = other.assign(rater_kind=other["rater_kind"].map(PEOPLE_OF), judge="")
        known = {cell_of(row): row for row in rows_of(other)}
        names = ("win_share", "low", "high", "p", "p_adjusted", "method")
        rows = rows_of(frame[frame["dataset"] == ALL])
        for index, row in enumerate(rows):
            if declared := known.get(cell_of(row)):
                changed = {name: getattr(declared, name) for name in names}
                rows[index] = row._replace(**changed, smallest_p=0)
        return rows


def _analysis(function: str, needs: str = "", *, on_part: bool = False) -> Callable[[Results], pd.DataFrame]:
    """Return an analysis whose module is loaded when it is used.

    Args:
        function: Its module in `analysis.analyses`, and its name.
        needs: A property of the results, or a field of the context, without which it finds nothing.
        on_part: Whether it runs on the comparisons alone that are analysed in every way.
    """

    def run(results: Results) -> pd.DataFrame:
        owners = (results, results.context, results.context.plan)
        owner = next((owner for owner in owners if hasattr(owner, needs)), None)
        if needs and not getattr(owner, needs):
            return frame_of([], CELL_COLUMNS)
        analyse: Analyse = resolve_name(f"analysis.analyses.{function}")
        return analyse(results.part if on_part else results.evidence)

    return run


ANALYSES: dict[str, Callable[[Results], pd.DataFrame]] = {
    "win_shares": lambda results: shares(results.evidence, by_dataset=results.in_full),
    "ranking": _analysis("outcomes.ranking:ranking", "has_several_methods"),
    "coverage": _analysis("outcomes.shares:coverage"),
    # Of many methods, no comparison is analysed in every way.
    "sensitivity": _analysis("outcomes.sensitivity:sensitivity", "in_full", on_part=True),
    "agreement": _analysis("reliability.agreement:agreement", on_part=True),
    "raters": _analysis("reliability.raters:raters"),
    "position": _analysis("reliability.position:position"),
    "length": _analysis("reliability.length:length", "has_lengths", on_part=True),
    "judges": _analysis("judging.judges:judges", "has_judges", on_part=True),
    "assisted": _analysis("judging.assisted:assisted", "has_judges"),
    "equivalence": _analysis("outcomes.equivalence:equivalence", "margin"),
    "sequential": _analysis("outcomes.sequential:sequential", "sequential"),
    "audits": _analysis("reliability.audits:audits"),
    "excluded_raters": _analysis("outcomes.exclusions:excluded_raters", "exclusions"),
    "with_excluded_raters": _analysis("outcomes.exclusions:with_excluded_raters", "exclusions"),
    "metrics": lambda results: results.context.metrics,
    "judge_spending": _analysis("judging.judge_run:spending", "judging"),
    "judge_failures": _analysis("judging.judge_run:failures", "judging"),
    "judge_models": _analysis("judging.judge_run:models", "judging"),
    "judge_calibration": _analysis("judging.judge_run:calibration", "judging"),
}
"""Every analysis, by the name of its CSV file."""
