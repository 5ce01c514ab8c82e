"""Planning for raters like these: power by items and raters where raters are a sample too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

from analysis.planning.question import PlanningQuestion
from analysis.planning.simulation import Design, own_share_sd, simulate
from analysis.stats.population import TwoWayDesign
from guard_eval.errors import StudyError
from guard_eval.reporting.tables import Table
from guard_eval.reporting.words import percent, plural

MOST_RATINGS = 40_000_000
"""Ratings simulated for one table."""
WIDEST = 3.0
"""The largest standard deviation of raters' biases that is tried, in units of a rater's own noise."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PopulationPower:
    """The power of one size for raters like these.

    Attributes:
        items: Items; `None` for any number of them, which is as good as these raters can get.
        raters: Raters, each of whom rates every item.
        power: The chance that a given criterion is found.
    """

    items: int | None
    raters: int
    power: float


def population_power(
    question: PlanningQuestion, rater_sd: float, items: Sequence[int]
) -> tuple[PopulationPower, ...]:
    """Return the power for raters like these of each number of items and raters, and of any number of items.

    The test is that of `population_share`, at α divided by the number of criteria, which Holm's correction
    never falls below; where raters differ by no more than chance it is the t test on item means.

    Args:
        question: What is planned.
        rater_sd: The standard deviation of raters' own win shares, such as a pilot's report states it.
        items: Numbers of items.

    Raises:
        StudyError: No raters are like that, or the studies are too large to simulate.
    """
    most = question.raters[-1] * max(items)
    studies = min(question.studies, MOST_RATINGS // most)
    if studies < 200:
        raise StudyError(f"{max(items)} items with {question.raters[-1]} raters take too long; give fewer")
    design = replace(_design(question, rater_sd), items=max(items), raters=question.raters[-1])
    rng = np.random.default_rng([question.seed, 2])
    shares = (simulate(design, studies=studies, rng=rng)[:, 0] + np.float32(1)) / 2
    alpha = question.alpha / question.criteria
    found = [
        PopulationPower(
            items=n, raters=raters, power=float((_p_values(shares[:, :n, :raters]) <= alpha).mean())
        )
        for n in items
        for raters in question.raters
    ]
    whole = [
        PopulationPower(items=None, raters=raters, power=_limit(question.share, raters, rater_sd, alpha))
        for raters in question.raters
    ]
    return (*found, *whole)


def population_table(question: PlanningQuestion, cells: Sequence[PopulationPower]) -> Table:
    """Return the power in percent, items down and raters across."""
    rows = dict.fromkeys(cell.items for cell in cells)
    power = {(cell.items, cell.raters): f"{100 * cell.power:.0f}" for cell in cells}
    return Table(
        columns=("Items", *(plural(raters, "rater") for raters in question.raters)),
        rows=tuple(
            ("any number" if items is None else items, *(power[items, raters] for raters in question.raters))
            for items in rows
        ),
        caption="Power for all raters like these, %",
        note=(
            f"Raters' own win shares have a standard deviation of {percent(question.rater_sd)}, and every "
            "rater rates every item. Last row: the limit of ever more items, which only more raters move."
        ),
    )


def _design(question: PlanningQuestion, rater_sd: float) -> Design:
    """Return a study of one criterion whose raters' own shares have that standard deviation."""
    base = replace(question.design(raters=1), criteria=1, panel="random")

    def miss(bias: float) -> float:
        return own_share_sd(replace(base, rater_sd=bias)) - rater_sd

    try:
        bias = float(optimize.brentq(miss, 1e-3, WIDEST, xtol=1e-4))
        return replace(base, rater_sd=bias)
    except ValueError as error:
        raise StudyError(
            f"no raters are like that: own shares with a standard deviation of {rater_sd:g} beside "
            f"κ = {question.agreement:g}; give a smaller --rater-sd or another --kappa"
        ) from error


def _p_values(shares: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return each study's p for raters like these, of shares [studies, items, raters]."""
    studies, items, raters = shares.shape
    item, rater = np.divmod(np.arange(items * raters), raters)
    design = TwoWayDesign(item, rater, np.full(items * raters, 1 / (items * raters)))
    found = design.means(shares.reshape(studies, -1))
    these = stats.ttest_1samp(shares.mean(axis=2, dtype=float), 0.5, axis=1).pvalue
    return np.where(found.raters > 0, np.maximum(found.p_values(0.5), these), these)


def _limit(share: float, raters: int, rater_sd: float, alpha: float) -> float:
    """Return the power of a t test on raters' own shares, which any number of items comes down to."""
    centre, line = (share - 0.5) * raters**0.5 / rater_sd, stats.t.isf(alpha / 2, raters - 1)
    return float(stats.nct.sf(line, raters - 1, centre) + stats.nct.cdf(-line, raters - 1, centre))
