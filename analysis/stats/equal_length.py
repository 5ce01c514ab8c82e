"""Estimate the win share at equal length with a linear model on the ratio of lengths."""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from guard_eval.estimate import Estimate, Floats, Integers, sum_columns_by_unit

METHOD = "GEE on log₂ of the length ratio, bias-reduced errors over units, t"
UNFITTABLE = "there are too few units, or their lengths or shares vary too little, to fit a line"
BEYOND = "the line predicts a share beyond 0 or 1 at equal length"
EXTRAPOLATED = "the same method's text is longer in every pair, so the share is extrapolated"


def _make_design(ratios: Floats, strata: Integers) -> Floats:
    """Return the columns of the model, [items, k]: ones, the ratios, and all datasets but the first.

    If a dataset has only one item, datasets are ignored.
    """
    is_in = np.eye(int(strata.max(initial=0)) + 1)[strata]
    columns = [np.ones(len(ratios)), ratios]
    if is_in.sum(axis=0).min() >= 2:
        columns.append((is_in - is_in.mean(axis=0))[:, 1:])
    return np.column_stack(columns)


def estimate_share_at_equal_length(
    shares: ArrayLike, ratios: ArrayLike, strata: ArrayLike, unit: ArrayLike, *, level: float = 0.95
) -> tuple[Estimate, Estimate]:
    """Estimate the win share at equal length, and the slope on length, with a linear model of item means.

    The model is share = α + β · log₂(ratio) + the dataset's effect. The effects sum to zero over items. α is
    the share at a ratio of 1, similar to AlpacaEval's length-controlled win rate (Dubois et al. 2024). Errors
    are by Mancl and DeRouen (2001) over units, with units − k degrees of freedom. The result is
    observational: a text may win because it is long, or be long because it is good. α removes both effects.

    Args:
        shares: The mean share of each item, 0 to 1, [items].
        ratios: log₂ of the first method's length over the other method's length, [items].
        strata: The dataset of each item, numbered from 0, [items].
        unit: The unit of each item, [items].
        level: The confidence level.
    """
    y = np.asarray(shares, dtype=float)
    x = np.asarray(ratios, dtype=float)
    index = np.unique(unit, return_inverse=True)[1]
    units = int(index.max(initial=-1)) + 1
    design = _make_design(x, np.asarray(strata, dtype=np.int64))
    empty = Estimate(level=level, n=units, method=METHOD)
    q, r = np.linalg.qr(design)
    scores = q.T @ y
    off = y - q @ scores
    products = q[:, :, None] * q[:, None, :]
    leverage = np.zeros((units, *products.shape[1:]))
    np.add.at(leverage, index, products)
    is_fittable = (
        units > design.shape[1]
        and np.linalg.matrix_rank(design) == design.shape[1]
        # No coefficient depends on one unit alone, and not all items lie on the line.
        and np.linalg.eigvalsh(leverage).max() <= 1 - 1e-9
        and np.abs(off).max() >= 1e-12
    )
    if not is_fittable:
        empty = empty.with_note(UNFITTABLE)
        return empty, empty
    # The residuals of a unit are multiplied by the inverse of one minus the unit's leverage.
    influence = np.linalg.solve(
        np.eye(len(r)) - leverage, sum_columns_by_unit(index, *(q.T * off))[:, :, None]
    )
    to_coefficients = np.linalg.inv(r)
    df = units - len(r)
    (at_equal, rise, *_) = (to_coefficients @ scores).tolist()
    (error, error_of_rise, *_) = np.linalg.norm(to_coefficients @ influence, axis=(0, 2)).tolist()
    share = replace(empty, value=at_equal).add_t_interval_and_test(error, df, null=0.5, bounds=(0.0, 1.0))
    slope = replace(empty, value=rise).add_t_interval_and_test(error_of_rise, df, null=0.0)
    if not 0 <= at_equal <= 1:
        share = empty.with_note(BEYOND)
    elif not x.min() <= 0 <= x.max():
        share = share.with_note(EXTRAPOLATED)
    return share, slope
