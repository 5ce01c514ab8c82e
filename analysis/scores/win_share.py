"""Estimate the win share of a result: for the raters who took part, and for raters in general.

The unit is the prompt if it is known, otherwise the pair. Pairs of one prompt depend on each other, and so do
ratings of one pair. The test therefore flips the signs of a unit together, and a variance is over units.
"""

import math
from dataclasses import replace

import numpy as np
import pandas as pd

from analysis.scores.scores import UnitScores, compute_mean_scores, find_item_numbers
from analysis.stats.population import FEWEST_RATERS, TwoWayDesign, explain_too_few_raters
from guard_eval.estimate import Estimate, Floats, divide_sums, jackknife, join_notes
from guard_eval.reporting.words import format_percent
from guard_eval.sign_flip import invert_sign_flip, sign_flip


def sum_scores_by_unit(items: pd.DataFrame) -> pd.Series:
    """Sum the weighted scores of the items by unit. Each score is from −1 to 1."""
    scores = (2 * items["share"] - 1) * items.get("weight", 1.0)
    return scores.groupby(items["unit"].to_numpy(), sort=False).sum()


def estimate_share_of_these_raters(items: pd.DataFrame, *, level: float) -> Estimate:
    """Estimate the mean share of items, with the sign-flip test and the interval from this test.

    Items have equal weights, or the weights in the column `weight`. The test flips the signs of the summed
    scores of the units. The standard error comes from the jackknife within datasets.
    """
    by_unit = UnitScores.from_items(items)
    weights = np.full(len(items), items.get("weight", 1.0), dtype=float)
    shares = items["share"].to_numpy(dtype=float)
    sums = by_unit.sum_columns(weights * shares, weights)
    share = jackknife(
        sums,
        divide_sums,
        strata=by_unit.strata,
        level=level,
        unit=by_unit.name,
    )
    scores, sizes = by_unit.sum_columns(weights * (2 * shares - 1), weights).T
    test = sign_flip(scores, unit=by_unit.name)
    if share.low is not None:
        low, high = invert_sign_flip(scores, sizes, test.p, alpha=1 - level, bounds=(-1.0, 1.0))
        share = replace(share, low=0.5 + low / 2, high=0.5 + high / 2)
    return replace(
        share,
        p=test.p,
        smallest_p=test.smallest_p,
        method=f"interval by inversion of the test; {test.method}",
        note=join_notes(share.note, test.note),
    )


def weigh_items_by_precision(items: pd.DataFrame, scores: pd.DataFrame) -> pd.DataFrame:
    """Add the column `weight` to items: one over the variance of the item's mean score.

    The mean of m ratings has the variance τ² + σ²/m. Both terms are estimated about zero, from the products
    of two ratings of an item and from the squares of ratings. Flipped signs do not change these numbers, so
    the test stays exact.
    """
    item, _ = find_item_numbers(scores)
    score = compute_mean_scores(scores).to_numpy(dtype=float)
    count = np.bincount(item)
    total = np.bincount(item, weights=score)
    squares = float((score**2).sum())
    products = float((total**2).sum()) - squares
    rating_pairs = int((count * (count - 1)).sum())
    between_items = max(0.0, products / max(1, rating_pairs))
    within_items = max(0.0, squares / len(score) - between_items)
    variance = between_items + within_items / count
    is_known = count.max() > 1 and variance.min() > 0
    weight = 1 / variance if is_known else np.ones(len(count))
    return items.assign(weight=weight / weight.mean())


def estimate_share_of_all_raters(
    scores: pd.DataFrame, items: pd.DataFrame, share_of_these_raters: Estimate
) -> Estimate:
    """Estimate the share for all raters of the same kind, from raters' scores of one result.

    Items and raters are samples, so the error includes the variance between raters (`TwoWayDesign`). A result
    for raters in general is never more certain than one for these raters: p is at least as large, and the
    interval contains that of `share_of_these_raters`, without which there is no interval.

    Args:
        scores: One row per rater and item.
        items: The items of these scores, with weights if these are not equal.
        share_of_these_raters: The estimate for these raters.
    """
    item, _ = find_item_numbers(scores)
    weight = np.full(len(items), items.get("weight", 1.0), dtype=float)
    weight_of_score = weight / weight.sum() / np.bincount(item)
    design, shares = _average_shares_by_unit_and_rater(scores, weight_of_score[item])
    if why := explain_too_few_raters(design.rater_weights, FEWEST_RATERS):
        return Estimate(
            value=share_of_these_raters.value,
            level=share_of_these_raters.level,
            n=share_of_these_raters.n,
            method=design.method,
            note=why,
        )
    mean = design.estimate_mean(shares)
    if mean.variance <= 0 or mean.raters <= 0:
        return share_of_these_raters.with_note(
            "raters differ by no more than chance, so this is the result for these raters"
        )
    share = replace(
        share_of_these_raters,
        value=mean.value,
        method=f"{design.method}; never surer than the sign-flip test",
        note=f"the raters' own shares have a standard deviation of {math.sqrt(mean.raters):.3f}",
    ).add_t_interval_and_test(math.sqrt(mean.variance), mean.df, null=0.5, bounds=(0.0, 1.0))
    if share_of_these_raters.low is None or share_of_these_raters.high is None:
        share = replace(share, low=None, high=None, error=None, df=None).with_note(share_of_these_raters.note)
    else:
        low = min(share_of_these_raters.low, share.low or 0.0)
        high = max(share_of_these_raters.high, share.high or 1.0)
        share = replace(share, low=low, high=high)
    p = None if share_of_these_raters.p is None else max(share_of_these_raters.p, share.p or 0.0)
    return replace(share, value=share_of_these_raters.value, p=p)


def warn_if_rater_weights_matter(scores: pd.DataFrame, share: Estimate) -> str:
    """Warn if the mean with equally weighted raters lies outside the interval of the mean over items.

    If raters with more ratings prefer one method, the mean over items is biased towards this method. More
    raters do not remove the bias (Williamson, Datta and Satten 2003).
    """
    rater = pd.factorize(scores["rater"], sort=True)[0]
    counts = np.bincount(rater)
    is_unequal = len(counts) >= FEWEST_RATERS and counts.min() < counts.max()
    if not is_unequal or share.low is None or share.high is None:
        return ""
    rater_shares = _convert_scores_to_shares(scores)
    mean = float((np.bincount(rater, weights=rater_shares) / counts).mean())
    if share.low <= mean <= share.high:
        return ""
    return (
        f"raters rated between {counts.min()} and {counts.max()} pairs, and with equal weight for each rater "
        f"the share is {format_percent(mean)}, outside the interval: those who rated more prefer one method "
        "more"
    )


def _convert_scores_to_shares(scores: pd.DataFrame) -> Floats:
    """Convert each score to a share: 1 if the rater preferred method_a, 0 if method_b."""
    return (0.5 + compute_mean_scores(scores) / 2).to_numpy(dtype=float)


def _average_shares_by_unit_and_rater(scores: pd.DataFrame, weight: Floats) -> tuple[TwoWayDesign, Floats]:
    """Return a two-way design with one cell per unit and rater, and the mean share of each cell.

    Args:
        scores: One row per rater and item.
        weight: The weight of each row.
    """
    unit, rater, dataset = (pd.factorize(scores[name], sort=True)[0] for name in ("unit", "rater", "dataset"))
    cell = unit * len(scores) + rater
    _, first, index = np.unique(cell, return_index=True, return_inverse=True)
    weights = np.bincount(index, weights=weight).astype(float)
    means = np.bincount(index, weights=weight * _convert_scores_to_shares(scores)) / weights
    _, first_of_unit = np.unique(unit, return_index=True)
    units_by_dataset = np.bincount(dataset[first_of_unit])
    # A dataset with a single unit has no variance within it.
    strata = dataset[first] if units_by_dataset.min() > 1 else None
    design = TwoWayDesign(unit[first], rater[first], weights, strata)
    return design, means
