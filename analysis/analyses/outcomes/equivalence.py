"""Is a win share within a declared margin of one half? Two one-sided t tests (Schuirmann 1987)."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import special

from analysis.analyses.evidence import CELL_COLUMNS, Evidence, frame_of, honours
from analysis.analyses.outcomes.shares import correct, deciding_p, shares, totals
from guard_eval.errors import StudyError

Conclusion = Literal["equivalent", "different", "different but negligible", "undecided"]
HALF = 0.5
"""The share of methods that do not differ."""
OTHER_TEST = (
    "equivalence is tested for people or judges alone, and a fixed number of items; leave margin out, or this"
)
FEWEST_OFF = 5
"""With fewer units that differ from the others, the correlation of a unit's ratings cannot be estimated."""


@honours(
    "alpha",
    "correction",
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


def tost(estimates: ArrayLike, errors: ArrayLike, df: ArrayLike, *, margin: float) -> NDArray[np.float64]:
    """Return the p-values of two one-sided t tests (Schuirmann 1987) that shares are near one half.

    The hypothesis to reject is that the share is `margin` or more away from one half, on either side; p is
    the larger of the two tests'. p ≤ α says the same as that the t interval at level 1 − 2α lies within the
    margin. NaN where there is no error.

    Args:
        estimates: The shares.
        errors: Their standard errors.
        df: The degrees of freedom of the errors.
        margin: The largest distance from one half that does not matter.

    >>> round(float(tost(0.51, 0.02, 100, margin=0.05)), 4)  # t = (.05 − .01) / .02 = 2
    0.0241
    """
    spread: NDArray[np.float64] = np.asarray(errors, dtype=float)
    distance = margin - np.abs(np.asarray(estimates, dtype=float) - HALF)
    with np.errstate(invalid="ignore", divide="ignore"):
        t = np.where(spread > 0, distance / spread, np.nan)
    return np.asarray(special.stdtr(np.asarray(df, dtype=float), -t))


def conservative_error(
    errors: ArrayLike,
    counts: tuple[ArrayLike, ArrayLike, ArrayLike],
    units: int,
    *,
    margin: float,
    sums: tuple[ArrayLike, ArrayLike, ArrayLike] | None = None,
) -> NDArray[np.float64]:
    """Return the larger of the sample's error and the error that a share at the margin must have.

    If nearly all ratings are ties, a sample often lacks the few others by chance, and then shows neither that
    the share is off one half nor how far it spreads: t tests with its error would find equivalence in up to
    .22 of the studies. A mean of wins, ties and losses that is `margin` off one half has a variance of at
    least margin (1 − 2 margin) / 2, that of ties and wins alone; of scores whose wins are smaller, such as a
    composite's, margin (d − 2 margin) / 2, their size being d. The error grows as far as the ratings vary
    less; and if hardly any unit differs, to that of units whose ratings are all the same.

    Args:
        errors: The standard errors of the sample; an error of 0 stays 0.
        counts: Ratings that were wins, ties and losses.
        units: Of how many units they are.
        margin: As in `tost`.
        sums: The sums of the ratings' scores from −1 to 1, of their sizes, and of their squares; None if
            every win is 1 and every loss −1.

    >>> error = conservative_error(0.01, (5, 95, 0), 100, margin=0.05)
    >>> float(error.round(6))  # .01 · √(.0225 / (.05 · .95 / 4))
    0.013765
    """
    sample = np.asarray(errors, dtype=float)
    wins, ties, losses = (np.asarray(count, dtype=float) for count in counts)
    n = wins + ties + losses
    total, size, square = (
        np.asarray(part, dtype=float) for part in sums or (wins - losses, wins + losses, wins + losses)
    )
    variance = (square / n - (total / n) ** 2) / 4
    step = np.where(size > 0, square / np.where(size > 0, size, 1.0), 1.0)
    least = np.maximum(0.0, margin * (step - 2 * margin) / 2)
    grown = sample * np.sqrt(np.maximum(1.0, least / np.where(variance > 0, variance, np.inf)))
    few = (n - np.maximum(np.maximum(wins, ties), losses)) * units < FEWEST_OFF * n
    floor = math.sqrt(margin * (1 - 2 * margin) / 2 / units)
    return np.where(few & (sample > 0), np.maximum(grown, floor), grown)
