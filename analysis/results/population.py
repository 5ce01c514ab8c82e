"""Interval and test of a win share: for the raters who took part, and for raters like them.

The unit is the prompt where it is known, and the pair elsewhere. Pairs of one prompt depend on each other as
ratings of one pair do: a hard prompt is hard in all of them. So they change sides together in the test, and
enter a variance as one.

The usual interval holds for these raters. If the question is what raters like them would say, how raters
differ from each other is part of the error, and more raters help more than more items do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.results.cells import CellRow, cell_fields
from analysis.stats.intervals import Interval, item_mean, t_interval
from analysis.stats.population import FEWEST_EQUAL, FEWEST_RATERS, TwoWayDesign
from analysis.stats.significance import TestResult, reachable, sign_flip, t_test
from analysis.verdicts.scores import (
    ScoredVerdicts,
    Verdicts,
    by_cell,
    item_numbers,
    item_scores,
    unit_sums,
    units,
)
from guard_eval.reporting.words import percent

TOGETHER = "the pairs of a prompt together"


def share_interval(items: pd.DataFrame, *, level: float) -> Interval:
    """Return the mean share of `item_scores`, each item weighing the same, with its interval over units."""
    clusters = units(items).clusters
    return item_mean(items["share"].to_numpy(), items["dataset"].tolist(), clusters=clusters, level=level)


def share_test(items: pd.DataFrame) -> TestResult:
    """Return the sign-flip test of `item_scores`: each unit's sum of scores is as likely as its negative."""
    numerators, denominators, _ = unit_sums(items)
    found = sign_flip(numerators, denominators)
    if len(numerators) == len(items):
        return found
    balanced = ("every prompt is balanced between the methods",)
    return replace(
        found,
        method=f"{found.method}, {TOGETHER}",
        warnings=found.warnings if found.p_value is not None else balanced,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class PopulationShare:
    """A win share for raters like those who took part.

    Attributes:
        share: Win share of method_a, the same as for these raters, with its interval over items and raters.
        test: That the share is one half among all raters like these.
        raters: How many took part.
        rater_sd: The standard deviation of raters' own win shares; 0 where they differ by no more than
            chance, and then interval and test are those for these raters; `None` where raters share too few
            items to tell.
        freedom: Degrees of freedom of interval and test; `None` where they are those for these raters.
    """

    share: Interval
    test: TestResult
    raters: int
    rater_sd: float | None = None
    freedom: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PopulationRow(CellRow):
    """One comparison on one criterion, over all datasets, for raters like those of one kind who took part.

    Attributes:
        found: Share, interval and test.
    """

    found: PopulationShare


def population_rows(verdicts: Verdicts, *, alpha: float = 0.05) -> tuple[PopulationRow, ...]:
    """Return every comparison, criterion and kind of rater for raters like these.

    Fewer than three raters give no interval and no p, and the reason.

    Args:
        verdicts: A table of verdicts.
        alpha: One minus the intervals' level.
    """
    return tuple(
        PopulationRow(
            **cell_fields(cell),
            found=_reachable(population_share(scores, level=1 - alpha), alpha),
        )
        for cell, scores in by_cell(ScoredVerdicts.of(verdicts).scores)
    )


def _reachable(found: PopulationShare, alpha: float) -> PopulationShare:
    return replace(found, test=reachable(found.test, alpha))


def population_share(scores: pd.DataFrame, *, level: float) -> PopulationShare:
    """Return the win share of `rater_scores` of one comparison, kind and criterion for raters like these.

    Every item weighs the same, and so does every rater of an item. Items are a sample within each dataset,
    those of one prompt together.
    """
    items = item_scores(scores)
    these, test = share_interval(items, level=level), share_test(items)
    item, _ = item_numbers(scores)
    design, shares = _design(scores, 1 / np.bincount(item)[item] / (item.max() + 1))
    why = ""
    if design.raters < FEWEST_RATERS:
        why = (
            f"a result for raters like these needs at least {FEWEST_RATERS} raters, and there are "
            f"{design.raters}"
        )
    elif design.equal_raters < FEWEST_EQUAL:
        why = (
            f"a result for raters like these needs at least {FEWEST_RATERS} raters, and most ratings are by "
            f"so few of the {design.raters} that they count as {design.equal_raters:.1f} of equal weight; "
            "have the others rate more"
        )
    if why:
        return PopulationShare(
            share=Interval(
                estimate=these.estimate, level=level, n=these.n, method=design.method, warnings=(why,)
            ),
            test=TestResult(n=test.n, method=design.method, warnings=(why,)),
            raters=design.raters,
        )
    found = design.means(shares)
    between, variance = float(found.raters[0]), float(found.variances[0])
    half, estimate = float(found.half_widths(level)[0]), float(found.estimates[0])
    unknown = math.isnan(between)
    narrower = these.low is None or these.high is None or 2 * half < these.high - these.low + 1e-12
    if variance <= 0 or (narrower if unknown else between <= 0):
        rater_sd = None if unknown else 0.0
        return PopulationShare(share=these, test=test, raters=design.raters, rater_sd=rater_sd)
    # A conclusion on more raters than took part cannot be surer than one on these.
    p = None if test.p_value is None else max(test.p_value, float(found.p_values(0.5)[0]))
    return PopulationShare(
        share=t_interval(
            replace(these, method=design.method, warnings=()),
            math.sqrt(variance),
            float(found.freedoms[0]),
            lowest=0.0,
            highest=1.0,
            units="raters",
        ),
        test=replace(
            test,
            p_value=p,
            statistic=(estimate - 0.5) / math.sqrt(variance),
            method=f"{design.method}; p is at least that of these raters' sign-flip test",
        ),
        raters=design.raters,
        rater_sd=None if unknown else math.sqrt(between),
        freedom=float(found.freedoms[0]),
    )


def rater_mean(scores: pd.DataFrame, *, level: float) -> tuple[Interval, TestResult] | None:
    """Return the mean of raters' own win shares, with interval and test for raters like these.

    Where those who rate more lean to one method, a mean over pairs leans with them, and with any number of
    raters; this one does not (Williamson, Datta and Satten 2003). `None` with fewer than three raters, or
    where all gave as many ratings.

    Args:
        scores: `rater_scores` of one comparison, kind and criterion.
        level: The confidence level.
    """
    rater = pd.factorize(scores["rater"])[0]
    counts = np.bincount(rater)
    if len(counts) < FEWEST_RATERS or counts.min() == counts.max():
        return None
    design, shares = _design(scores, 1 / counts[rater] / len(counts))
    found = design.means(shares)
    method = f"{design.method}, every rater weighing the same"
    share = Interval(estimate=float(found.estimates[0]), level=level, n=len(counts), method=method)
    variance = float(found.variances[0])
    if variance <= 0:
        why = ("the spread cannot be estimated",)
        return replace(share, warnings=why), TestResult(n=len(counts), method=method, warnings=why)
    error, freedom = math.sqrt(variance), float(found.freedoms[0])
    test = t_test(float(found.estimates[0]) - 0.5, error, freedom, n=len(counts), method=method)
    return t_interval(share, error, freedom, lowest=0.0, highest=1.0), test


def leaning(scores: pd.DataFrame, share: Interval) -> list[str]:
    """Warn, in one sentence or none, of a mean over raters outside the interval of the mean over pairs."""
    found = rater_mean(scores, level=share.level)
    if found is None or share.low is None or share.high is None or found[0].estimate is None:
        return []
    if share.low <= found[0].estimate <= share.high:
        return []
    same = f"with every rater weighing the same the share is {percent(found[0].estimate)}"
    return [
        f"{numbers_of_pairs(scores)}; {same}, outside the interval: those who rated more lean to one method"
    ]


def numbers_of_pairs(scores: pd.DataFrame) -> str:
    """Say how many pairs the raters rated."""
    counts = scores["rater"].value_counts()
    return f"raters rated between {counts.min()} and {counts.max()} pairs"


def _design(scores: pd.DataFrame, weight: NDArray[np.float64]) -> tuple[TwoWayDesign, NDArray[np.float64]]:
    """Return who rated which unit, and each one's mean share there, from the weight of each score."""
    share = 0.5 + scores["net"].to_numpy() / (2 * scores["showings"].to_numpy())
    unit, rater = pd.factorize(scores["unit"])[0], pd.factorize(scores["rater"])[0]
    _, first, place = np.unique(unit * len(scores) + rater, return_index=True, return_inverse=True)
    weights = np.bincount(place, weights=weight).astype(float)
    dataset = pd.factorize(scores["dataset"])[0]
    units_of = np.bincount(dataset[np.unique(unit, return_index=True)[1]])
    design = TwoWayDesign(unit[first], rater[first], weights, dataset[first] if units_of.min() > 1 else None)
    return design, np.asarray(np.bincount(place, weights=weight * share) / weights)
