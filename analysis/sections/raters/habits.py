"""Each rater compared with the others: agreement, ties, preference for a place, and speed."""

from __future__ import annotations

from dataclasses import field

import numpy as np

from analysis.evidence import Evidence, declare_plan_keys
from analysis.scores.scores import add_unit_column, find_item_numbers, group_by_raters
from analysis.sections.raters.audits import run_data_audits
from analysis.sections.section import (
    MAX_NOTES,
    Section,
    make_limit_column_metadata,
    make_table_section,
    remove_word_simulated,
)
from analysis.stats.proportion import estimate_proportion
from guard_eval.estimate import Estimate
from guard_eval.frozen import record
from guard_eval.records import TIE
from guard_eval.reporting.words import format_number, format_percent

HABITS = {"unvarying rater", "straight-lining", "one place", "one method"}
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
    first_share: Estimate = field(metadata=make_limit_column_metadata("first_"))
    seconds: float | None


@declare_plan_keys("alpha", needs=lambda evidence: evidence.are_raters_known)
def measure_rater_habits(evidence: Evidence) -> list[RaterRow]:
    """Return a row per rater over all comparisons and criteria, sorted by kind (people first) and name."""
    scores = evidence.scored.scores_by_kind
    item, _ = find_item_numbers(scores)
    verdict = 3 * item + np.sign(scores["net"].to_numpy()) + 1
    counts = scores.assign(others=np.bincount(item)[item] - 1, same=np.bincount(verdict)[verdict] - 1)
    agreeing = counts.groupby(KEYS)[["same", "others"]].sum().T.to_dict("list")
    frame = add_unit_column(evidence.frame)
    frame = frame.assign(**{name: None for name in ("shown_first", "seconds") if name not in frame})
    rows = []
    for (kind, name), group in group_by_raters(frame, "rater"):
        same, compared = agreeing[kind, name]
        is_tie = group["verdict"] == TIE
        placed = group[group["shown_first"].notna() & ~is_tie]
        is_hit = placed["verdict"] == placed["shown_first"]
        pace = group["seconds"].astype(float).median()
        rows.append(
            RaterRow(
                rater_kind=kind,
                rater=name,
                pairs=int(group["pair_id"].nunique()),
                verdicts=len(group),
                tie_share=float(is_tie.mean()),
                agreement=same / compared if compared else None,
                compared=int(compared),
                first_share=estimate_proportion(
                    is_hit.to_numpy(), placed["unit"].to_numpy(), level=evidence.plan.level
                ),
                seconds=None if np.isnan(pace) else float(pace),
            )
        )
    return rows


def make_section(evidence: Evidence) -> Section | None:
    """Make the section "Is every rater careful?"."""
    habits = [
        row for row in evidence.rows(run_data_audits) if row.kind in HABITS and row.severity == "warning"
    ]
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
        csv="raters",
        caption="Raters",
        question="Is every rater careful?",
        answer=lambda _: f"{who} answered in a fixed way",
        notes=(f"{remove_word_simulated(row.where)}: {row.what}." for row in habits[:MAX_NOTES]),
    )
