"""Compute the power of the report's tests, and the number of items that a study needs.

A rating is 1, ½ or 0 for a win, a tie or a loss, with the variance s² = (1 − ties)/4 − (share − ½)². If two
raters' ratings of an item have the correlation ICC, the mean of m ratings has the variance
s² (1 + (m − 1) ICC) / m. This holds for any process that makes the ratings.
"""

import math
from bisect import bisect_left
from dataclasses import replace
from typing import Self

import numpy as np
from scipy import special, stats
from statsmodels.stats.power import normal_power_het

from analysis.stats.assisted import PRIOR_UNITS, count_effective_items
from analysis.stats.equivalence import FEWEST_OFF
from analysis.stats.population import FEWEST_RATERS
from guard_eval.errors import StudyError
from guard_eval.records import record

MAX_ITEMS = 1_000_000
"""The largest number of items that a plan tries in order to reach the power."""
MAX_RATERS = 100
MAX_RESULTS = 10_000
HALF = 0.5


@record
class Design:
    """A planned study: the effect to find, the properties of its raters, and the test.

    Attributes:
        share: The smallest win share worth finding. A tie counts half.
        ties: The share of ties among the ratings.
        icc: The correlation of two raters' ratings of an item, ICC(1).
        results: The number of results in Holm's correction: comparisons on criteria. Each result is planned
            with the error rate `alpha / results`, the smallest one in the correction.
        alpha: The two-sided error rate.
        power: The power that the study should have.
        rater_sd: The standard deviation of the raters' win shares, for a result about all raters of the same
            kind. None for a result about these raters only.
        margin: The largest distance from one half that does not matter, for a study of equivalence whose true
            share is one half. `share` is then not used.
        judge_r: The correlation of a judge's score of an item with people's mean, if a judge assists people.
        judged: The number of items that the judge judges. People rate a random part of these items.

    Raises:
        StudyError: A value is impossible, or two values do not fit together.
    """

    share: float = 0.55
    ties: float = 0.32
    icc: float = 0.63
    results: int = 1
    alpha: float = 0.05
    power: float = 0.8
    rater_sd: float | None = None
    margin: float | None = None
    judge_r: float | None = None
    judged: int = 1000

    def __post_init__(self) -> None:
        """Raise an error if a value is impossible."""
        for name, (is_possible, remedy) in _check_design_values(self).items():
            if not is_possible:
                option = f"--{name.replace('_', '-')} {getattr(self, name):g}"
                raise StudyError(f"{option} is not possible. Give {remedy}")
        modes = {"--rater-sd": self.rater_sd, "--margin": self.margin, "--judge-r": self.judge_r}
        chosen = [option for option, value in modes.items() if value is not None]
        if len(chosen) > 1:
            raise StudyError(f"{' and '.join(chosen)} are different plans. Give only one of these options")

    @property
    def distance_from_half(self) -> float:
        """Return the distance between the share and one half."""
        return 0.0 if self.margin is not None else abs(self.share - HALF)

    @property
    def error_rate(self) -> float:
        """Return the error rate for the test of one result."""
        return self.alpha / self.results

    @property
    def most_items(self) -> int:
        """Return the largest number of items that people can rate in this plan."""
        return MAX_ITEMS if self.judge_r is None else self.judged

    @property
    def rating_variance(self) -> float:
        """Return the variance of one rating."""
        return (1 - self.ties) / 4 - self.distance_from_half**2

    def compute_item_variance(self, raters: int) -> float:
        """Return the variance of the mean of `raters` ratings of an item.

        >>> design = Design(share=0.55, ties=0.32, icc=0.41)
        >>> round(design.compute_item_variance(5), 5)  # .1675 (1 + 4 · .41) / 5
        0.08844
        """
        return self.rating_variance * (1 + (raters - 1) * self.icc) / raters

    def restrict_to_these_raters(self) -> Self:
        """Return the same design for a result about these raters only, without a judge."""
        return replace(self, rater_sd=None, judge_r=None)


def _check_design_values(design: Design) -> dict[str, tuple[bool, str]]:
    """Return, for each value of the design, whether the value is possible, and the remedy if not."""
    room = 1.0 if design.margin is not None else 2 * min(design.share, 1 - design.share)
    is_share = 0 < design.share < 1 and design.share != HALF
    most_sd = math.sqrt(max(0.0, (1 - design.icc) * design.rating_variance))
    return {
        "share": (design.margin is not None or is_share, "the smallest share worth finding, such as 0.55"),
        "ties": (0 <= design.ties < room, f"0 or more ties, and below {room:g}: share = wins + ties/2"),
        "icc": (0 <= design.icc <= 1, "an ICC from 0 (raters agree by chance) to 1"),
        "alpha": (0 < design.alpha < HALF, "an error rate above 0 and below 0.5, say 0.05"),
        "power": (
            design.alpha < design.power <= 0.99,
            f"a power above α = {design.alpha:g} and up to 0.99, such as 0.8",
        ),
        "results": (1 <= design.results <= MAX_RESULTS, f"a whole number from 1 to {MAX_RESULTS}"),
        "rater_sd": (
            design.rater_sd is None or 0 < design.rater_sd <= most_sd,
            f"a standard deviation of raters' own shares above 0, and with this ICC up to {most_sd:.3f}",
        ),
        "margin": (
            design.margin is None or 0 < design.margin < HALF,
            "a distance above 0 and below 0.5, say 0.05",
        ),
        "judge_r": (
            design.judge_r is None or 0 <= design.judge_r < 1,
            "a correlation from 0 to below 1, say 0.6",
        ),
        "judged": (2 <= design.judged <= MAX_ITEMS, f"a number of items from 2 to {MAX_ITEMS}"),
    }


def compute_power(design: Design, items: int, raters: int) -> float:
    """Return the power with these numbers of items and of raters per item.

    Raises:
        StudyError: There are too few raters for a result about raters in general.
    """
    if items < 2:
        return 0.0
    if design.margin is not None:
        return _compute_equivalence_power(design, design.margin, items, raters)
    if design.judge_r is not None:
        return _compute_assisted_power(design, design.judge_r, items, raters)
    power = _compute_sign_flip_power(design, items, raters)
    if design.rater_sd is None:
        return power
    return min(power, _compute_random_raters_power(design, design.rater_sd, items, raters))


def find_items_needed(design: Design, raters: int) -> int | None:
    """Return the smallest number of items with enough power, or None if `most_items` are not enough."""
    sizes = range(2, design.most_items + 1)
    index = bisect_left(sizes, design.power, key=lambda items: compute_power(design, items, raters))
    return sizes[index] if index < len(sizes) else None


def _compute_sign_flip_power(design: Design, items: int, raters: int) -> float:
    """Return the power of the sign-flip test, whose null distribution has the variance v + distance².

    The sum of the items' mean ratings has steps of 1 / raters. The exact test rounds its limit up to a step,
    which costs half a step in the mean.
    """
    if items < 1 - math.log2(design.error_rate):  # the smallest p of so few is above α
        return 0.0
    variance = design.compute_item_variance(raters)
    return float(
        normal_power_het(
            max(0.0, design.distance_from_half - HALF / (raters * items)),
            items,
            design.error_rate,
            std_null=math.sqrt(variance + design.distance_from_half**2),
            std_alternative=math.sqrt(variance),
        )
    )


def _compute_equivalence_power(
    design: Design,
    margin: float,
    items: int,
    raters: int,
) -> float:
    """Return the power of two one-sided tests if the share is one half (Chow, Shao and Wang 2008, 3.1.3).

    If nearly all ratings are ties, the standard error is that of a share at the margin, with only ties and
    wins, and larger if few items differ (`stats.equivalence.compute_conservative_standard_error`).
    """
    least = margin * (1 - 2 * margin) / 2
    variance = design.compute_item_variance(raters)
    grown = variance * max(1.0, least / design.rating_variance)
    limit = float(special.stdtrit(items - 1, 1 - design.error_rate))

    used = np.array([max(grown, least), grown])  # with few ratings that are no ties, and with enough
    reach = (margin * math.sqrt(items) - limit * np.sqrt(used)) / math.sqrt(variance)
    if_few, if_enough = np.maximum(0.0, 2 * special.ndtr(reach) - 1)
    off = 1 - max(design.ties, (1 - design.ties) / 2)
    none, few = special.bdtr([0, min(FEWEST_OFF - 1, items)], items, off)
    return float((few - none) * if_few + (1 - few) * if_enough)


def _compute_random_raters_power(
    design: Design,
    rater_sd: float,
    items: int,
    raters: int,
) -> float:
    """Return the power of the t test with random items and raters, and Satterthwaite's degrees of freedom.

    The expected mean squares are those of the two-way analysis of variance (Shrout and Fleiss 1979).
    """
    if raters < FEWEST_RATERS:
        raise StudyError(
            f"{raters} raters are too few for a result about raters in general: at least {FEWEST_RATERS} are "
            "needed. Give --raters 3,5,10,20"
        )
    between_items = design.icc * design.rating_variance
    residual = design.rating_variance - between_items - rater_sd**2
    squares = (residual + raters * between_items, residual + items * rater_sd**2, -residual)
    freedoms = (items - 1, raters - 1, (items - 1) * (raters - 1))
    total = sum(squares)
    df = total**2 / sum(square**2 / freedom for square, freedom in zip(squares, freedoms, strict=True))
    return _compute_t_power(design, math.sqrt(total / (items * raters)), df)


def _compute_assisted_power(
    design: Design,
    judge_r: float,
    items: int,
    raters: int,
) -> float:
    """Return the power of the t test of people's share, assisted by a judge (`stats.assisted`)."""
    worth = count_effective_items(items, design.judged, judge_r)
    variance = (
        design.compute_item_variance(raters) * (items / worth + PRIOR_UNITS / items) / (items + PRIOR_UNITS)
    )
    return _compute_t_power(design, math.sqrt(variance), items - 1)


def _compute_t_power(design: Design, error: float, df: float) -> float:
    """Return the power of a two-sided t test."""
    limit = float(special.stdtrit(df, 1 - design.error_rate / 2))
    return float(stats.nct.sf(limit, df, design.distance_from_half / error))
