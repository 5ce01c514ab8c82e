"""The win share at equal length, by a linear model on the ratio of lengths."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from statsmodels.genmod.cov_struct import Independence
from statsmodels.genmod.generalized_estimating_equations import GEE

from guard_eval.estimate import UNBOUNDED, Estimate

METHOD = "GEE on log₂ of the length ratio, bias-reduced errors over units, t"
BEYOND = "the line predicts a share beyond 0 or 1 at equal length"
EXTRAPOLATED = "the same method's text is longer in every pair, so the share is extrapolated"


def share_at_equal_length(
    shares: ArrayLike, ratios: ArrayLike, strata: ArrayLike, unit: ArrayLike, *, level: float = 0.95
) -> tuple[Estimate, Estimate]:
    """Estimate the win share at equal length, and the slope on length, by a linear model of item means.

    share = α + β · log₂(ratio) + the dataset's effect, the effects summing to zero over items. α is the share
    at a ratio of 1, in the spirit of AlpacaEval's length-controlled win rate (Dubois et al. 2024). Errors are
    Mancl and DeRouen's (2001) over units, with units − k degrees of freedom. It is observational: a text may
    be preferred because it is longer, or be long because it is good, and α takes away both.

    Args:
        shares: Item means, 0 to 1, [items].
        ratios: log₂ of the method's length over the other's, [items].
        strata: Each item's dataset as a number from 0, [items].
        unit: Each item's unit, [items].
        level: The confidence level.
    """
    y, x = np.asarray(shares, dtype=float), np.asarray(ratios, dtype=float)
    index = np.unique(np.asarray(unit), return_inverse=True)[1]
    code, count = np.asarray(strata, dtype=np.int64), np.bincount(np.asarray(strata, dtype=np.int64))
    columns = [np.ones(len(x)), x]
    if len(count) > 1 and count.min() >= 2:
        columns += [(code == number) - count[number] / len(x) for number in range(1, len(count))]
    design, units = np.column_stack(columns), int(index.max(initial=-1)) + 1
    order = np.argsort(index, kind="stable")
    why, df = _why_undefined(y, design, index), units - design.shape[1]
    if not why:
        model = GEE(y[order], design[order], groups=index[order], cov_struct=Independence())
        fit = model.fit(cov_type="bias_reduced", maxiter=1)
        errors = np.sqrt(np.diag(fit.cov_params()))
        share, slope = (
            Estimate(value=float(fit.params[at]), level=level, n=units, method=METHOD).with_error(
                float(errors[at]), df, null=null, bounds=bounds
            )
            for at, (null, bounds) in enumerate(((0.5, (0.0, 1.0)), (0.0, UNBOUNDED)))
        )
        if not 0 <= (share.value or 0.0) <= 1:
            share = Estimate(level=level, n=units, method=METHOD, note=BEYOND)
        elif not x.min() <= 0 <= x.max():
            share = share.with_note(EXTRAPOLATED)
        return share, slope
    return (Estimate(level=level, n=units, method=METHOD, note=why),) * 2


def _why_undefined(y: NDArray[np.float64], design: NDArray[np.float64], unit: NDArray[np.int64]) -> str:
    """Return why the model cannot be fitted, or nothing."""
    units, k = int(unit.max(initial=-1)) + 1, design.shape[1]
    if units <= k:
        return f"{units} units are too few for {k} coefficients"
    if np.ptp(design[:, 1]) == 0:
        return "the length ratio is the same in every pair"
    if np.linalg.matrix_rank(design) < k:
        return "the length ratio does not vary within datasets"
    residuals = y - design @ (np.linalg.pinv(design) @ y)
    leverage = np.zeros((units, k, k))
    q = np.linalg.qr(design)[0]
    np.add.at(leverage, unit, q[:, :, None] * q[:, None, :])
    # One unit alone determines a coefficient, or all items lie on the line.
    if np.linalg.eigvalsh(leverage).max() > 1 - 1e-9 or np.abs(residuals).max() < 1e-12:
        return "the line goes through some or all items, so their spread about it is unknown"
    return ""
