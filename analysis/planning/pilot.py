"""Read a pilot to plan a study: the share of ties, and the correlation of ratings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.reports.command import read_table_evidence
from analysis.scores.combined import compute_mean_scores
from analysis.scores.scores import ResultKey, ScoredVerdicts, find_item_numbers, group_by_result
from analysis.stats.agreement import intraclass_correlation
from guard_eval.errors import StudyError
from guard_eval.frozen import record
from guard_eval.records import SIMULATED
from guard_eval.reporting.escaping import join_lines
from guard_eval.reporting.words import (
    KIND_PLACE,
    count_in_words,
    find_criterion_title,
    format_limits,
    format_number,
    format_percent,
)
from guard_eval.study.test_plan import TestPlan


@record
class Pilot:
    """A pilot's figures for the criterion that needs the largest study. All comparisons are pooled.

    The win share of the pilot is left out on purpose, because chance has a large effect on it. Plan for the
    smallest share that is worth finding.

    Attributes:
        line: A line that describes the pilot and its figures.
        ties: The share of ties among the ratings.
        icc: ICC(1), at least 0; None if no item was rated twice.
        results: The number of results in the report's correction: comparisons on criteria.
        plan: The plan for the tests that the pilot declares.
    """

    line: str
    ties: float
    icc: float | None
    results: int
    plan: TestPlan = field(default_factory=TestPlan)

    @property
    def relative_items_needed(self) -> float:
        """Return a number proportional to the items that 5 raters need: (1 − ties) (1 + 4 ICC)."""
        return (1 - self.ties) * (1 + 4 * (self.icc or 0.0))


def read_pilot(source: Path, overrides: Sequence[str] = ()) -> Pilot:
    """Read a pilot in the same way as `report`. Use people's verdicts, or models' verdicts without people.

    Args:
        source: A study, or a table of verdicts with its report.toml.
        overrides: Settings for this run.

    Raises:
        StudyError: The pilot cannot be read, or has only simulated raters.
    """
    if source.is_dir():
        from analysis.reports.study_report import read_study_verdicts  # noqa: PLC0415 (a table needs no database)
        from guard_eval.study import Study  # noqa: PLC0415

        study = Study.open(source, overrides)
        pilot = find_most_demanding_criterion(read_study_verdicts(study))
        return replace(pilot, plan=study.settings.analysis)
    evidence = read_table_evidence([source], overrides=overrides)
    return replace(find_most_demanding_criterion(evidence.frame), plan=evidence.plan)


def find_most_demanding_criterion(verdicts: pd.DataFrame) -> Pilot:
    """Find the criterion of a validated table whose items vary the most.

    The variance of the mean of m raters is proportional to (1 − ties) (1 + (m − 1) ICC) / m, with m = 5. If
    there is no ICC, the number of ties decides. The ICC is the mean over comparisons, weighted by pairs,
    because the largest ICC is often large by chance.

    Raises:
        StudyError: All raters are simulated.
    """
    frame = verdicts[~verdicts["rater_kind"].isin(SIMULATED)]
    if frame.empty:
        raise StudyError("all raters of the pilot are simulated. Name a pilot with people or judges")
    kind = min(frame["rater_kind"].unique(), key=KIND_PLACE.__getitem__)
    scored = ScoredVerdicts.from_verdicts(frame[frame["rater_kind"] == kind])
    cells = list(group_by_result(scored.scores_by_kind))
    criteria = dict.fromkeys(cell.criterion for cell, _ in cells)
    pilots = [
        _summarise_pilot_criterion(
            [(cell, scores) for cell, scores in cells if cell.criterion == criterion], len(cells)
        )
        for criterion in criteria
    ]
    return max(pilots, key=lambda pilot: pilot.relative_items_needed)


def _summarise_pilot_criterion(cells: Sequence[tuple[ResultKey, pd.DataFrame]], results: int) -> Pilot:
    """Return the share of ties and the ICC of a pilot on one criterion, over all comparisons."""
    scores = pd.concat([rows for _, rows in cells])
    estimates = []
    values = []
    pairs_rated_twice = []
    pairs = 0
    for _, rows in cells:
        item, first = find_item_numbers(rows)
        pairs += len(first)
        estimate = intraclass_correlation(item, compute_mean_scores(rows), rows["unit"].iloc[first])
        if estimate.value is not None:
            estimates.append(estimate)
            values.append(estimate.value)
            pairs_rated_twice.append((np.bincount(item) >= 2).sum())
    ties = float((scores["net"] == 0).mean())
    icc = None
    agreed = f"{estimate.note}, so the plan uses --icc or its default"
    if estimates:
        icc = float(np.clip(np.average(values, weights=pairs_rated_twice), 0, 1))
        source = f"the mean of {len(estimates)}, by their pairs"
        if len(estimates) == 1:
            source = format_limits(estimates[0])
        agreed = f"ICC {format_number(icc)} ({source})"
    cell = cells[0][0]
    compared = f"{cell.method_a} against {cell.method_b}" if len(cells) == 1 else f"{len(cells)} comparisons"
    counts = f"{count_in_words(pairs, 'pair')}, {count_in_words(scores['rater'].nunique(), 'rater')}"
    name = join_lines(f"{find_criterion_title(cell.criterion)}, {compared}")
    line = f"{name}: {format_percent(ties, 0)} ties, {agreed}; {counts}"
    return Pilot(line=line, ties=ties, icc=icc, results=results)
