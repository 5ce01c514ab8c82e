"""Each rater compared with the others: agreement, ties, preference for a place, and speed."""

from collections.abc import Iterator
from typing import Annotated

import numpy as np
import pandas as pd

from analysis.evidence import Evidence, declare_plan_keys
from analysis.scores.scores import add_unit_column, convert_scores_to_labels, find_item_numbers
from analysis.sections.raters.audits import run_data_audits
from analysis.sections.section import (
    MAX_NOTES,
    Section,
    make_table_section,
    remove_word_simulated,
)
from analysis.stats.proportion import estimate_proportion
from guard_eval.estimate import Estimate
from guard_eval.records import TIE, record
from guard_eval.reporting.words import KIND_PLACE, format_number, format_percent

HABITS = {"unvarying rater", "straight-lining", "one place"}
"""The kinds of audit findings that are about one rater."""
KEYS = ["rater_kind", "rater"]


@record
class RaterRow:
    """The habits of one rater over all comparisons and criteria.

    Attributes:
        rater_kind: The rater's kind.
        rater: The rater's name.
        pairs: The number of pairs.
        verdicts: The number of verdicts.
        tie_share: The share of ties.
        agreement: The share of the verdicts of other raters of this kind that agree, on the same pair and
            criterion.
        compared: The number of other raters' verdicts from which `agreement` is computed.
        first_share: The share of verdicts without ties for the text shown first. The interval is based on
            units, because verdicts on several criteria of a pair depend on each other.
        seconds: The median time for a pair.
    """

    rater_kind: str
    rater: str
    pairs: int
    verdicts: int
    tie_share: float
    agreement: float | None
    compared: int
    first_share: Annotated[Estimate, "first_"]
    seconds: float | None


@declare_plan_keys("alpha", needs=lambda evidence: evidence.are_raters_known)
def measure_rater_habits(evidence: Evidence) -> Iterator[RaterRow]:
    """Return a row per rater over all comparisons and criteria, sorted by kind (people first) and name."""
    scores = evidence.scored.scores_by_kind
    item, _ = find_item_numbers(scores)
    verdict = 3 * item + convert_scores_to_labels(scores)
    counts = scores.assign(others=np.bincount(item)[item] - 1, same=np.bincount(verdict)[verdict] - 1)
    agreeing = counts.groupby(KEYS)[["same", "others"]].sum().T.to_dict("list")
    frame = add_unit_column(evidence.frame)
    seconds = frame["seconds"].astype(float) if "seconds" in frame else np.nan
    first = frame.get("shown_first", pd.Series(index=frame.index, dtype=object))
    frame = frame.assign(is_tie=frame["verdict"] == TIE, seconds=seconds, is_first=frame["verdict"] == first)
    # Sums of all raters at once, because a public arena has thousands of raters.
    sums = frame.groupby(KEYS).agg(
        pairs=("pair_id", "nunique"),
        verdicts=("verdict", "size"),
        tie_share=("is_tie", "mean"),
        seconds=("seconds", "median"),
    )
    is_placed = first.notna() & ~frame["is_tie"]
    placed = dict(iter(frame[is_placed].groupby(KEYS)))
    for kind, name in sorted(sums.index, key=lambda key: (KIND_PLACE[key[0]], key)):
        of_rater = sums.loc[kind, name]
        same, compared = agreeing[kind, name]
        of_places = placed.get((kind, name), frame[:0])
        yield RaterRow(
            rater_kind=kind,
            rater=name,
            pairs=int(of_rater["pairs"]),
            verdicts=int(of_rater["verdicts"]),
            tie_share=float(of_rater["tie_share"]),
            agreement=same / compared if compared else None,
            compared=int(compared),
            first_share=estimate_proportion(
                of_places["is_first"].to_numpy(), of_places["unit"].to_numpy(), level=evidence.plan.level
            ),
            seconds=None if np.isnan(of_rater["seconds"]) else float(of_rater["seconds"]),
        )


def make_section(evidence: Evidence) -> Section | None:
    """Make the section "Is every rater careful?"."""
    habits = [row for row in evidence.rows(run_data_audits) if row.kind in HABITS]
    flagged = {row.where.split(",")[0] for row in habits}
    rows = evidence.rows(measure_rater_habits)
    who = f"{len(flagged)} of {len(rows)}" if flagged else "Nobody"
    return make_table_section(
        rows,
        lambda row: {"Rater": remove_word_simulated(row.rater)},
        lambda row: {
            "Pairs": row.pairs,
            "Ties": format_percent(row.tie_share, 0),
            "Same as others": format_percent(row.agreement, 0),
            "First text won": format_percent(row.first_share.value, 0),
            "Median seconds": format_number(row.seconds, 0),
        },
        csv_name="raters",
        caption="Raters",
        question="Is every rater careful?",
        answer=lambda _: f"{who} answered in a fixed way",
        notes=(f"{remove_word_simulated(row.where)}: {row.what}." for row in habits[:MAX_NOTES]),
    )
