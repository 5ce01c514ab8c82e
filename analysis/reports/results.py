"""All analyses of one report: each frame is computed once, by the name of its CSV file."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import pandas as pd

from analysis.analyses import judge_run
from analysis.analyses.agreement import agreement
from analysis.analyses.assisted import assisted
from analysis.analyses.audits import audits
from analysis.analyses.equivalence import equivalence
from analysis.analyses.evidence import ALL, CELL_COLUMNS, Evidence, frame_of
from analysis.analyses.exclusions import excluded_raters, with_excluded_raters
from analysis.analyses.judges import judges, people_beside_judge
from analysis.analyses.length import length
from analysis.analyses.position import position
from analysis.analyses.ranking import ranking
from analysis.analyses.raters import raters
from analysis.analyses.sensitivity import sensitivity
from analysis.analyses.sequential import sequential
from analysis.analyses.shares import coverage, shares
from guard_eval.errors import StudyError
from guard_eval.estimate import adjust
from guard_eval.records import PEOPLE_OF

MAX_IN_FULL = 24
"""Results (comparison, criterion, who judged) up to which several methods' comparisons are all in full."""
Row = Any
"""A row of a frame, as a tuple with names."""


def rows_of(frame: pd.DataFrame) -> list[Row]:
    """Return the rows of a frame as tuples with names."""
    return list(frame.itertuples(index=False))


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
    def is_ranked(self) -> bool:
        """Return whether three or more methods are ranked."""
        return len(self["ranking"]) > 0

    @property
    def rankings(self) -> list[list[Row]]:
        """Return the rows of each ranking, the best method first."""
        keys = ["rater_kind", "judge", "criterion", "group"]
        frame = self["ranking"]
        return [rows_of(group) for _, group in frame.groupby(keys, sort=False)] if len(frame) else []

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
        frame = self["win_shares"]
        frame = frame[frame["dataset"] == ALL]
        other = pd.DataFrame()
        if self.context.sequential:
            other = self["sequential"]
        elif self.context.assisted_by is not None:
            other = self._assisted_shares()
        if not len(other):
            return rows_of(frame)
        key, names = list(CELL_COLUMNS[1:]), ["win_share", "low", "high", "p", "p_adjusted", "method"]
        known = {tuple(row[name] for name in key): row for row in other.to_dict("records")}
        records = []
        for row in frame.to_dict("records"):
            declared = known.get(tuple(row[name] for name in key))
            changed = {} if declared is None else {name: declared[name] for name in names} | {"smallest_p": 0}
            records.append({str(name): cell for name, cell in (row | changed).items()})
        return rows_of(frame_of(records))

    def _assisted_shares(self) -> pd.DataFrame:
        """Return the declared judge's assisted shares as rows of people, corrected over people's family."""
        group = self["assisted"]
        if not len(group):
            return group
        group = group[(group["judge"] == self.context.assisted_by) & group["people_assisted"].notna()]
        return group.assign(
            rater_kind=group["rater_kind"].map(PEOPLE_OF),
            judge="",
            win_share=group["people_assisted"],
            p_adjusted=pd.Series(adjust(list(group["p"])), index=group.index, dtype=object),
        )


def _metrics(results: Results) -> pd.DataFrame:
    return pd.DataFrame() if results.context.metrics is None else results.context.metrics.table


def _equivalence(results: Results) -> pd.DataFrame:
    context = results.context
    if context.margin is not None and (context.sequential or context.assisted_by):
        raise StudyError(
            "equivalence is tested for people or judges alone and a fixed number of items; leave the margin "
            "out, or sequential and assisted_by"
        )
    return equivalence(results.evidence, results["win_shares"])


ANALYSES: dict[str, Callable[[Results], pd.DataFrame]] = {
    "win_shares": lambda results: shares(results.evidence, by_dataset=results.in_full),
    "ranking": lambda results: ranking(results.evidence),
    "coverage": lambda results: coverage(results.evidence),
    # Of many methods, no comparison is analysed in every way.
    "sensitivity": lambda results: sensitivity(results.part) if results.in_full else pd.DataFrame(),
    "agreement": lambda results: agreement(results.part),
    "raters": lambda results: raters(results.evidence),
    "position": lambda results: position(results.evidence),
    "length": lambda results: length(results.part),
    "judges": lambda results: judges(results.part),
    "people_beside_judge": lambda results: people_beside_judge(results.part),
    "assisted": lambda results: assisted(results.evidence if results.context.assisted_by else results.part),
    "equivalence": _equivalence,
    "sequential": lambda results: sequential(results.evidence),
    "audits": lambda results: audits(results.evidence),
    "excluded_raters": lambda results: excluded_raters(results.evidence),
    "with_excluded_raters": lambda results: with_excluded_raters(results.evidence),
    "metrics": _metrics,
    "judge_spending": lambda results: judge_run.spending(results.evidence),
    "judge_failures": lambda results: judge_run.failures(results.evidence),
    "judge_models": lambda results: judge_run.models(results.evidence),
    "judge_calibration": lambda results: judge_run.calibration(results.evidence),
}
"""Every analysis, by the name of its CSV file."""
