"""All analyses of one report: each frame is computed once, by the name of its CSV file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any

import pandas as pd

from analysis.analyses.evidence import ALL, CELL_COLUMNS, Evidence, frame_of
from analysis.analyses.shares import shares
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


@dataclass(frozen=True, slots=True)
class Analysis:
    """Where the function of an analysis is, which is loaded when it is used, and on what it runs.

    Attributes:
        function: Its module in `analysis.analyses`, and its name.
        needs: A property of the results, or a field of the context, without which it finds nothing.
        on_part: Whether it runs on the comparisons alone that are analysed in every way.
    """

    function: str
    needs: str = ""
    on_part: bool = False

    def run(self, results: Results) -> pd.DataFrame:
        """Return the frame, without rows if there is nothing to find."""
        owner = results if hasattr(results, self.needs) else results.context
        if self.needs and not getattr(owner, self.needs):
            return frame_of([], CELL_COLUMNS)
        module, name = self.function.split(":")
        function = getattr(import_module(f"analysis.analyses.{module}"), name)
        frame: pd.DataFrame = function(results.part if self.on_part else results.evidence)
        return frame


def _shares(results: Results) -> pd.DataFrame:
    return shares(results.evidence, by_dataset=results.in_full)


def _metrics(results: Results) -> pd.DataFrame:
    return pd.DataFrame() if results.context.metrics is None else results.context.metrics.table


def _assisted(results: Results) -> pd.DataFrame:
    whole = results.context.assisted_by is not None
    return Analysis("assisted:assisted", needs="has_judges", on_part=not whole).run(results)


ANALYSES: dict[str, Callable[[Results], pd.DataFrame]] = {
    "win_shares": _shares,
    "ranking": Analysis("ranking:ranking", needs="has_several_methods").run,
    "coverage": Analysis("shares:coverage").run,
    # Of many methods, no comparison is analysed in every way.
    "sensitivity": Analysis("sensitivity:sensitivity", needs="in_full", on_part=True).run,
    "agreement": Analysis("agreement:agreement", on_part=True).run,
    "raters": Analysis("raters:raters").run,
    "position": Analysis("position:position").run,
    "length": Analysis("length:length", needs="has_lengths", on_part=True).run,
    "judges": Analysis("judges:judges", needs="has_judges", on_part=True).run,
    "people_beside_judge": Analysis("judges:people_beside_judge", needs="has_judges", on_part=True).run,
    "assisted": _assisted,
    "equivalence": Analysis("equivalence:equivalence", needs="margin").run,
    "sequential": Analysis("sequential:sequential", needs="sequential").run,
    "audits": Analysis("audits:audits").run,
    "excluded_raters": Analysis("exclusions:excluded_raters", needs="exclusions").run,
    "with_excluded_raters": Analysis("exclusions:with_excluded_raters", needs="exclusions").run,
    "metrics": _metrics,
    "judge_spending": Analysis("judge_run:spending", needs="judging").run,
    "judge_failures": Analysis("judge_run:failures", needs="judging").run,
    "judge_models": Analysis("judge_run:models", needs="judging").run,
    "judge_calibration": Analysis("judge_run:calibration", needs="judging").run,
}
"""Every analysis, by the name of its CSV file."""
