"""What a pilot says for the planning of a study: how often raters tie, and how alike their ratings are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from analysis.analyses.reliability.agreement import intraclass
from analysis.verdicts.scores import ScoredVerdicts, by_cell, item_numbers
from analysis.verdicts.tidy import read_verdicts
from guard_eval.errors import StudyError
from guard_eval.records import SIMULATED
from guard_eval.reporting.escaping import one_line
from guard_eval.reporting.words import KIND_PLACE, number, number_limits, percent, plural, title


@dataclass(frozen=True, kw_only=True, slots=True)
class Pilot:
    """The comparison and criterion of a pilot that takes the most items.

    The pilot's win share is left out on purpose: to plan for the difference that was seen is to plan for what
    chance made of it. Plan for the smallest that is worth finding.

    Attributes:
        line: What it is about and what it shows, in words.
        ties: The share of ties among its ratings.
        icc: ICC(1), at least 0; None if no item was rated twice.
        criteria: How many criteria the pilot has.
    """

    line: str
    ties: float
    icc: float | None
    criteria: int


def read_pilot(source: Path) -> Pilot:
    """Read a pilot from a study or a table of verdicts: people's verdicts if there are any, or else models'.

    Raises:
        StudyError: It cannot be read, or only simulated raters have rated.
    """
    if source.is_dir():
        from analysis.reports.study_report import study_verdicts  # noqa: PLC0415 (a table needs no database)
        from guard_eval.study import Study  # noqa: PLC0415

        return most_demanding(study_verdicts(Study.open(source)))
    return most_demanding(read_verdicts(source))


def most_demanding(verdicts: pd.DataFrame) -> Pilot:
    """Return the criterion and comparison of a validated table whose items vary the most.

    The mean of m raters varies as (1 − ties) (1 + (m − 1) ICC) / m, and m is taken as 5. Without an ICC the
    number of ties decides.

    Raises:
        StudyError: Only simulated raters have rated.
    """
    frame = verdicts[~verdicts["rater_kind"].isin(SIMULATED)]
    if frame.empty:
        raise StudyError("all raters of the pilot are simulated and say nothing of people or judges")
    kind = min(frame["rater_kind"].unique(), key=KIND_PLACE.__getitem__)
    frame = frame[frame["rater_kind"] == kind]
    scored = ScoredVerdicts.of(frame)
    pilots = []
    for cell, scores in by_cell(scored.by_kind):
        item, first = item_numbers(scores)
        estimate = intraclass(item, scores["net"] / scores["showings"], scores["unit"].iloc[first])
        ties = float((scores["net"] == 0).mean())
        icc = None if estimate.value is None else min(1.0, max(0.0, estimate.value))
        name = one_line(f"{title(cell.criterion)}, {cell.method_a} against {cell.method_b}")
        agreed = estimate.note if icc is None else f"ICC {number(icc)} ({number_limits(estimate)})"
        counts = f"{plural(len(first), 'pair')}, {plural(scores['rater'].nunique(), 'rater')}"
        line = f"{name}: {percent(ties, 0)} ties, {agreed}; {counts}"
        criteria = frame["criterion"].nunique()
        pilots.append(Pilot(line=line, ties=ties, icc=icc, criteria=criteria))
    return max(pilots, key=lambda pilot: (1 - pilot.ties) * (1 + 4 * (pilot.icc or 0.0)))
