"""All analyses of one report: each frame is computed once, by the name of its CSV file."""

from __future__ import annotations

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
    """The frames of one report, computed when first needed.

    Args:
        evidence: The verdicts and their context.

    Raises:
        StudyError: A comparison that was asked for is none.
    """

    def __init__(self, evidence: Evidence) -> None:
        self.evidence, self.context = evidence, evidence.context
        scores = evidence.scored.scores
        pairs = scores[["method_a", "method_b"]].drop_duplicates()
        self.comparisons = tuple(sorted(pairs.itertuples(index=False, name=None)))
        self.in_full = self._compared_in_full()
        self.part = evidence.only(self.in_full) if self.in_full else evidence

    def _compared_in_full(self) -> tuple[tuple[str, str], ...]:
        """Return the comparisons that are analysed in every way: all, or of many those asked for."""
        asked = []
        for a, b in self.context.compare:
            known = next((pair for pair in self.comparisons if set(pair) == {a, b}), None)
            if known is None:
                names = ", ".join(sorted({name for pair in self.comparisons for name in pair}))
                raise StudyError(f"{a!r} and {b!r} are not compared; name two of the methods: {names}")
            asked.append(known)
        if asked or self.ranking.empty:
            return tuple(asked) or self.comparisons
        cells = self.evidence.scored.scores[["method_a", "method_b", "rater_kind", "judge", "criterion"]]
        return self.comparisons if len(cells.drop_duplicates()) <= MAX_IN_FULL else ()

    @cached_property
    def ranking(self) -> pd.DataFrame:
        """Return the ranking of three or more methods."""
        return ranking(self.evidence)

    @cached_property
    def shares(self) -> pd.DataFrame:
        """Return win shares, with those by dataset of the comparisons in full."""
        return shares(self.evidence, by_dataset=self.in_full)

    @cached_property
    def answering(self) -> list[Row]:
        """Return the rows over all datasets that the answer is about, with the declared way to test them.

        If it was declared, a judge assists people, or tests and intervals hold whenever one looks.
        """
        frame = self.shares[self.shares["dataset"] == ALL].copy()
        other, names = None, ["win_share", "low", "high", "p", "p_adjusted", "method"]
        if self.context.sequential:
            other = self.sequential
        elif self.context.assisted_by is not None:
            other = self._assisted_shares()
        if other is not None and len(other):
            key = ["rater_kind", "judge", "method_a", "method_b", "criterion"]
            known = {tuple(row[name] for name in key): row for row in other.to_dict("records")}
            for index, row in frame.iterrows():
                found = known.get(tuple(row[name] for name in key))
                if found is not None:
                    for name in names:
                        frame.loc[index, name] = found[name]
                    frame.loc[index, "smallest_p"] = 0.0
        return rows_of(frame)

    def _assisted_shares(self) -> pd.DataFrame:
        """Return the declared judge's assisted shares as rows of people, corrected over people's family."""
        own = self.assisted
        own = own[own["judge"] == self.context.assisted_by] if len(own) else own
        if not len(own) or own["people_assisted"].isna().all():
            return own.iloc[:0]
        own = own[own["people_assisted"].notna()].copy()
        own["rater_kind"], own["judge"] = own["rater_kind"].map(PEOPLE_OF), ""
        own["win_share"] = own["people_assisted"]
        own["p_adjusted"] = pd.Series(adjust(list(own["p"])), index=own.index, dtype=object)
        return own

    @cached_property
    def coverage(self) -> pd.DataFrame:
        """Return who rated what."""
        return coverage(self.evidence)

    @cached_property
    def sequential(self) -> pd.DataFrame:
        """Return the tests that hold whenever one looks, if they were declared."""
        return sequential(self.evidence)

    @cached_property
    def equivalence(self) -> pd.DataFrame:
        """Return the tests that shares are near one half, if a margin was declared.

        Raises:
            StudyError: Tests that hold at all times or are assisted have no fixed error.
        """
        if self.context.margin is not None and (self.context.sequential or self.context.assisted_by):
            raise StudyError(
                "equivalence is tested for people or judges alone and a fixed number of items; leave the "
                "margin out, or sequential and assisted_by"
            )
        return equivalence(self.evidence, self.shares)

    @cached_property
    def sensitivity(self) -> pd.DataFrame:
        """Return the other analyses of the comparisons in full."""
        if not self.in_full:  # of many methods, no comparison is analysed in every way
            return frame_of([], (*CELL_COLUMNS, "analysis", "default", "win_share", "low", "high", "p"))
        return sensitivity(self.part)

    @cached_property
    def agreement(self) -> pd.DataFrame:
        """Return agreement between raters of one kind."""
        return agreement(self.part)

    @cached_property
    def judges(self) -> pd.DataFrame:
        """Return judges beside people."""
        return judges(self.part)

    @cached_property
    def people_beside_judge(self) -> pd.DataFrame:
        """Return people's and judges' counts."""
        return people_beside_judge(self.part)

    @cached_property
    def assisted(self) -> pd.DataFrame:
        """Return people's shares, assisted by judges."""
        return assisted(self.evidence if self.context.assisted_by else self.part)

    @cached_property
    def raters(self) -> pd.DataFrame:
        """Return each rater."""
        return raters(self.evidence)

    @cached_property
    def position(self) -> pd.DataFrame:
        """Return the preference for the first place."""
        return position(self.evidence)

    @cached_property
    def length(self) -> pd.DataFrame:
        """Return the preference for length."""
        return length(self.part)

    @cached_property
    def audits(self) -> pd.DataFrame:
        """Return what the audits found."""
        return audits(self.evidence)

    @cached_property
    def excluded_raters(self) -> pd.DataFrame:
        """Return the excluded raters."""
        return excluded_raters(self.evidence)

    @cached_property
    def with_excluded_raters(self) -> pd.DataFrame:
        """Return the results with them."""
        return with_excluded_raters(self.evidence)

    def exports(self) -> dict[str, pd.DataFrame]:
        """Return every frame with rows, by the name of its CSV file."""
        run = self.evidence
        frames = {
            "win_shares": self.shares,
            "ranking": self.ranking,
            "coverage": self.coverage,
            "sensitivity": self.sensitivity,
            "agreement": self.agreement,
            "raters": self.raters,
            "position": self.position,
            "length": self.length,
            "judges": self.judges,
            "people_beside_judge": self.people_beside_judge,
            "assisted": self.assisted,
            "equivalence": self.equivalence,
            "sequential": self.sequential,
            "audits": self.audits,
            "excluded_raters": self.excluded_raters,
            "with_excluded_raters": self.with_excluded_raters,
            "metrics": pd.DataFrame() if self.context.metrics is None else self.context.metrics.table,
            "judge_spending": judge_run.spending(run),
            "judge_failures": judge_run.failures(run),
            "judge_models": judge_run.models(run),
            "judge_calibration": judge_run.calibration(run),
        }
        return {name: frame for name, frame in frames.items() if len(frame)}
