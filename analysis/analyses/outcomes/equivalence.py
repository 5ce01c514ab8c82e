"""Is a win share within a declared margin of one half? Two one-sided t tests (Schuirmann 1987)."""

from __future__ import annotations

import math
from typing import Any, Literal

import pandas as pd
from scipy import special

from analysis.analyses.outcomes.shares import correct, deciding_p, shares, totals
from analysis.evidence import CELL_COLUMNS, Evidence, frame_of, honours
from analysis.stats.equivalence import HALF, conservative_error, tost
from guard_eval.errors import StudyError

Conclusion = Literal["equivalent", "different", "different but negligible", "undecided"]
OTHER_TEST = (
    "equivalence is tested for people or judges alone, and a fixed number of items; leave margin out, or this"
)


@honours(
    "alpha",
    "correction",
    "weights",
    "margin",
    "raters",
    "panel",
    "composite",
    refuses={"sequential": OTHER_TEST, "assisted_by": OTHER_TEST},
)
def equivalence(evidence: Evidence) -> pd.DataFrame:
    """Return for every result over all datasets whether its share is shown to lie within the margin.

    Estimate, error and degrees of freedom are those of the share's own t interval, but the error is no
    smaller than a share beyond the margin must have (`conservative_error`). The p-values are corrected as a
    family of their own: a share cannot both be one half and lie beyond the margin.

    Raises:
        StudyError: The error rate is too large, or another test was declared.
    """
    margin, alpha = evidence.context.plan.margin, evidence.alpha
    if margin is None:
        return frame_of([], CELL_COLUMNS)
    if alpha >= HALF:
        raise StudyError(f"equivalence needs an error rate below 0.5; alpha is {alpha:g}, set it to 0.05")
    records = [_record(row, margin, alpha) for row in totals(shares(evidence, by_dataset=()))]
    correct(records, evidence, p="p", adjusted="p_adjusted")
    for record in records:
        record["conclusion"] = _conclusion(record, alpha)
    return frame_of(records)


def _record(row: Any, margin: float, alpha: float) -> dict[str, Any]:  # noqa: ANN401  a row of shares
    p = deciding_p(row)
    record = {name: getattr(row, name) for name in CELL_COLUMNS} | {
        "margin": margin,
        "win_share": row.win_share,
        "low": None,
        "high": None,
        "level": 1 - 2 * alpha,
        "p": None,
        "p_adjusted": None,
        "family": 0,
        "differs": p is not None and p <= alpha,
        "conclusion": "undecided",
        "note": "",
    }
    if row.standard_error is None or row.df is None:
        return record | {"note": row.note or "the share has no standard error"}
    counts, sums = (row.wins, row.ties, row.losses), (row.score_sum, row.score_size, row.score_squares)
    error = float(conservative_error(row.standard_error, counts, row.units, margin=margin, sums=sums))
    half = float(special.stdtrit(row.df, 1 - alpha)) * error
    p_value = float(tost(row.win_share, error, row.df, margin=margin))
    return record | {
        "low": max(0.0, row.win_share - half),
        "high": min(1.0, row.win_share + half),
        "p": None if math.isnan(p_value) else p_value,
    }


def _conclusion(record: dict[str, Any], alpha: float) -> Conclusion:
    """Return both findings: a difference can be certain and too small to matter; or nothing is shown."""
    p = record["p_adjusted"] if record["family"] else record["p"]
    equivalent = p is not None and p <= alpha
    if record["differs"]:
        return "different but negligible" if equivalent else "different"
    return "equivalent" if equivalent else "undecided"
