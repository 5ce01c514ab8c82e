"""Does the longer text win, and what is the share at equal length?"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from statsmodels.genmod.cov_struct import Independence
from statsmodels.genmod.generalized_estimating_equations import GEE

from analysis.analyses.evidence import (
    ANSWER_KEYS,
    CELL_COLUMNS,
    Evidence,
    cell_record,
    estimate_record,
    frame_of,
    honours,
)
from analysis.analyses.outcomes.win_share import unit_proportion
from analysis.verdicts.scores import UnitScores, by_cell
from guard_eval.estimate import UNBOUNDED, Estimate, join_notes
from guard_eval.reporting.words import plural

METHOD = "GEE on log₂ of the length ratio, bias-reduced errors over units, t"
BEYOND = "the line predicts a share beyond 0 or 1 at equal length"
EXTRAPOLATED = "the same method's text is longer in every pair, so the share is extrapolated"
_ITEM = ["method_a", "method_b", "pair_id"]


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


@honours("alpha", "panel", "composite", unaffected=ANSWER_KEYS)
def length(evidence: Evidence) -> pd.DataFrame:
    """Return a row per comparison, criterion and who judged; none if no pair has both lengths.

    Lengths may be in any unit, characters or tokens: only their ratio within a pair counts. `longer_share`
    is the share of non-tied verdicts for the longer text; it mixes length and method if one method writes
    longer, and `slope` does not: by how much the share rises if the method's text becomes twice as long.
    """
    frame = evidence.frame
    if not {"length_a", "length_b"} <= set(frame.columns):
        return frame_of([], CELL_COLUMNS)
    lengths = _lengths(frame)
    if not lengths["known"].any():
        return frame_of([], CELL_COLUMNS)
    items = dict(by_cell(evidence.scored.items.merge(lengths, on=_ITEM, how="left")))
    scores = evidence.scored.scores.merge(lengths[[*_ITEM, "ratio"]], on=_ITEM, how="left")
    records = []
    for cell, rated in by_cell(scores):
        group = items[cell]
        known = group[group["known"].astype(bool)]
        toward = (np.sign(rated["net"]) * np.sign(rated["ratio"])).to_numpy()
        sided = np.abs(toward) > 0
        longer = unit_proportion(toward[sided] > 0, rated["unit"].to_numpy()[sided], level=evidence.level)
        if len(known):
            by_unit, strata = UnitScores.of(known), pd.factorize(known["dataset"], sort=True)[0]
            share, slope = share_at_equal_length(
                known["share"], known["ratio"], strata, by_unit.codes, level=evidence.level
            )
        else:
            share = slope = Estimate(level=evidence.level, note="no pair has both lengths")
        unknown = len(group) - len(known)
        left_out = f"{plural(unknown, 'pair')} without both lengths left out" if unknown else ""
        records.append(
            cell_record(cell)
            | {
                "pairs": len(known),
                "length_ratio": float(2 ** known["ratio"].mean()) if len(known) else None,
                **estimate_record(longer, "longer_share", "longer_"),
                **estimate_record(share, "share_at_equal_length", "equal_"),
                "p_share_at_equal_length": share.p,
                **estimate_record(slope, "slope", "slope_"),
                "p_slope": slope.p,
                "method": METHOD,
                "note": join_notes(left_out, share.note),
            }
        )
    return frame_of(records, CELL_COLUMNS)


def _lengths(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one row per pair: log₂ of its length ratio, and whether it is known.

    If the rows of a pair differ in a length, the middle of the least and the greatest is taken.
    """
    lengths = ["length_a", "length_b"]
    # Rows of a pair mostly say the same, so few are left to be compared.
    grouped = frame[[*_ITEM, *lengths]].drop_duplicates().groupby(_ITEM, sort=True)[lengths]
    least, greatest = grouped.min(), grouped.max()
    known, middle = (least > 0).all(axis=1), (least + greatest) / 2
    ratio = np.log2((middle["length_a"] / middle["length_b"]).where(known))
    return pd.DataFrame({"ratio": ratio, "known": known}).reset_index()
