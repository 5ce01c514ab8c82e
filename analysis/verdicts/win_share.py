"""The win share of one result: for the raters who took part, and for others of the same kind.

The unit is the prompt if it is known, and the pair otherwise. Pairs of one prompt depend on each other as
ratings of one pair do, so they change sides together in the test and enter a variance as one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.stats.population import FEWEST_EQUAL, FEWEST_RATERS, TwoWayDesign
from analysis.verdicts.scores import UnitScores, item_numbers, item_scores
from guard_eval.estimate import Estimate, jackknife, join_notes, ratio
from guard_eval.reporting.words import percent
from guard_eval.sign_flip import flip_limits, sign_flip

LONELY = "a dataset has only one {unit}, so the standard error ignores the datasets (which widens it)"


def unit_scores(items: pd.DataFrame) -> pd.Series:
    """Return the sum of the items' scores, from −1 to 1 each and weighed, by the number of their unit."""
    scores = (2 * items["share"] - 1) * items.get("weight", 1.0)
    return scores.groupby(items["unit"].to_numpy(), sort=False).sum()


def fixed_share(items: pd.DataFrame, *, level: float) -> Estimate:
    """Estimate the mean share of `item_scores`, with the sign-flip test and the interval that inverts it.

    Every item weighs the same, or what the column `weight` says. The test flips the signs of units' summed
    scores. The standard error is the jackknife's, within datasets.
    """
    by_unit = UnitScores.of(items)
    weights = np.full(len(items), items.get("weight", 1.0), dtype=float)
    shares = items["share"].to_numpy(dtype=float)
    share = jackknife(
        by_unit.sums(weights * shares, weights),
        ratio,
        strata=by_unit.strata,
        level=level,
        unit=by_unit.name,
    )
    scores, sizes = by_unit.sums(weights * (2 * shares - 1), weights).T
    test = sign_flip(scores, unit=by_unit.name)
    if share.low is not None:
        low, high = flip_limits(scores, sizes, test.p, alpha=1 - level, bounds=(-1.0, 1.0))
        share = replace(share, low=0.5 + low / 2, high=0.5 + high / 2)
    note = LONELY.format(unit=by_unit.name) if by_unit.lonely else ""
    return replace(
        share,
        p=test.p,
        smallest_p=test.smallest_p,
        method=f"interval by inversion of the test; {test.method}",
        note=join_notes(note, share.note, test.note),
    )


def weigh_by_precision(items: pd.DataFrame, scores: pd.DataFrame) -> pd.DataFrame:
    """Return `item_scores` with the column `weight`: one over the variance of an item's mean score.

    The mean of m ratings has the variance τ² + σ²/m. Both are estimated about zero, from the products of two
    ratings of an item and from their squares. Flipped signs change neither, so the test stays exact.
    """
    item, _ = item_numbers(scores)
    score = (scores["net"] / scores["showings"]).to_numpy(dtype=float)
    count, square = np.bincount(item), float((score**2).sum())
    products = float((np.bincount(item, weights=score) ** 2).sum()) - square
    together = max(0.0, products / max(1, int((count * (count - 1)).sum())))
    variance = together + max(0.0, square / len(score) - together) / count
    is_known = count.max() > 1 and variance.min() > 0
    weight = 1 / variance if is_known else np.ones(len(count))
    return items.assign(weight=weight / weight.mean())


def random_share(scores: pd.DataFrame, items: pd.DataFrame, fixed: Estimate) -> Estimate:
    """Estimate the share for all raters of the same kind, from `rater_scores` of one result.

    Items and raters are samples: the error has the variance between raters in it (`TwoWayDesign`). A claim on
    more raters than took part is never surer than one on these, so p is at least that of `fixed`, and the
    interval holds that of `fixed`.

    Args:
        scores: One row per rater and item.
        items: Their `item_scores`, with weights if these are not equal.
        fixed: The share for these raters.
    """
    item, _ = item_numbers(scores)
    weight = np.full(len(items), items.get("weight", 1.0), dtype=float)
    design, shares = _design(scores, (weight / np.bincount(item))[item] / weight.sum())
    why = ""
    if design.raters < FEWEST_RATERS:
        why = (
            f"a result for other raters needs at least {FEWEST_RATERS} raters, and there are {design.raters}"
        )
    elif design.equal_raters < FEWEST_EQUAL:
        why = (
            f"most ratings are by so few of the {design.raters} raters that they count as "
            f"{design.equal_raters:.1f} of equal weight, and a result for other raters needs {FEWEST_EQUAL:g}"
        )
    if why:
        return Estimate(value=fixed.value, level=fixed.level, n=fixed.n, method=design.method, note=why)
    mean = design.mean(shares)
    if mean.variance <= 0 or mean.raters <= 0:
        return fixed.with_note("raters differ by no more than chance, so this is the result for these raters")
    share = Estimate(
        value=mean.value,
        level=fixed.level,
        n=fixed.n,
        unit=fixed.unit,
        note=f"the raters' own shares have a standard deviation of {math.sqrt(mean.raters):.3f}",
    )
    share = share.with_error(math.sqrt(mean.variance), mean.df, null=0.5, bounds=(0.0, 1.0))
    if fixed.low is not None and fixed.high is not None:
        low, high = min(fixed.low, share.low or 0.0), max(fixed.high, share.high or 1.0)
        share = replace(share, low=low, high=high)
    return replace(
        share,
        value=fixed.value,
        p=None if fixed.p is None else max(fixed.p, share.p or 0.0),
        smallest_p=fixed.smallest_p,
        method=f"{design.method}; never surer than the sign-flip test",
    )


def unequal_weight_note(scores: pd.DataFrame, share: Estimate) -> str:
    """Warn if a mean with equal weight for each rater lies outside the interval of the mean over items.

    If those who rate more lean to one method, a mean over items leans with them, with any number of raters
    (Williamson, Datta and Satten 2003).
    """
    rater = pd.factorize(scores["rater"], sort=True)[0]
    counts = np.bincount(rater)
    if len(counts) < FEWEST_RATERS or counts.min() == counts.max() or share.low is None or share.high is None:
        return ""
    rater_shares = 0.5 + scores["net"].to_numpy() / (2 * scores["showings"].to_numpy())
    mean = float((np.bincount(rater, weights=rater_shares) / counts).mean())
    if share.low <= mean <= share.high:
        return ""
    return (
        f"raters rated between {counts.min()} and {counts.max()} pairs, and with equal weight for each rater "
        f"the share is {percent(mean)}, outside the interval: those who rated more lean to one method"
    )


def without_each_rater(scores: pd.DataFrame, *, level: float) -> Iterator[tuple[str, Estimate]]:
    """Yield for each rater its name, and the share of the others."""
    for name in sorted(map(str, scores["rater"].unique())):
        rest = item_scores(scores[scores["rater"] != name])
        yield name, fixed_share(rest, level=level)


def _design(scores: pd.DataFrame, weight: NDArray[np.float64]) -> tuple[TwoWayDesign, NDArray[np.float64]]:
    """Return the raters of each unit and their mean shares, computed from the weight of each score."""
    share = 0.5 + scores["net"].to_numpy() / (2 * scores["showings"].to_numpy())
    unit, rater = (pd.factorize(scores[name], sort=True)[0] for name in ("unit", "rater"))
    _, first, index = np.unique(unit * len(scores) + rater, return_index=True, return_inverse=True)
    weights = np.bincount(index, weights=weight).astype(float)
    dataset = pd.factorize(scores["dataset"], sort=True)[0]
    units_of = np.bincount(dataset[np.unique(unit, return_index=True)[1]])
    design = TwoWayDesign(unit[first], rater[first], weights, dataset[first] if units_of.min() > 1 else None)
    return design, np.asarray(np.bincount(index, weights=weight * share) / weights)
