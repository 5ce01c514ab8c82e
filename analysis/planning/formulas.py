"""The power of the report's tests, and the items they need, by formulas from the variance of an item's share.

A rating is 1, ½ or 0 for a win, a tie or a loss, and has the variance s² = (1 − ties)/4 − (share − ½)². If
two raters' ratings of an item correlate by ICC, the mean of m raters' has the variance
s² (1 + (m − 1) ICC) / m, whatever the process behind the ratings is.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import replace

from scipy import special, stats
from statsmodels.stats.power import normal_power_het

from analysis.stats.assisted import PRIOR_UNITS, effective_items
from analysis.stats.population import FEWEST_RATERS
from guard_eval.errors import StudyError
from guard_eval.frozen import record

MAX_ITEMS = 1_000_000
"""Items up to which a plan looks for the power wanted."""
MAX_RATERS = 100
MAX_RESULTS = 10_000
HALF = 0.5


@record
class Design:
    """A planned study: the effect to find, the properties of its raters, and the test.

    Attributes:
        share: The smallest win share worth finding, ties counting half.
        ties: The share of ties among the ratings.
        icc: The correlation of two raters' ratings of an item, ICC(1).
        results: The number of results that Holm's correction runs over: comparisons on criteria. Each is
            planned at `alpha / results`, the least that the correction leaves.
        alpha: The two-sided error rate.
        power: The power wanted.
        rater_sd: The standard deviation of raters' own win shares, if the answer is to hold for other raters
            of the same kind.
        margin: The largest distance from one half that does not matter, if the study is to show equivalence
            where the share is one half. `share` is then not used.
        judge_r: The correlation of a judge's score of an item with people's mean, if a judge assists them.
        judged: Items that the judge judges; people rate a random part of them.

    Raises:
        StudyError: A value is impossible by itself or beside another.
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
        """Refuse the first value that is impossible."""
        for name, (is_possible, remedy) in _list_ranges(self).items():
            if not is_possible:
                raise StudyError(f"--{name.replace('_', '-')} {getattr(self, name):g}: give {remedy}")
        modes = {"--rater-sd": self.rater_sd, "--margin": self.margin, "--judge-r": self.judge_r}
        chosen = [option for option, value in modes.items() if value is not None]
        if len(chosen) > 1:
            raise StudyError(f"{' and '.join(chosen)} are different plans; leave all but one of them out")

    @property
    def distance(self) -> float:
        """Return the distance of the share from one half."""
        return 0.0 if self.margin is not None else abs(self.share - HALF)

    @property
    def level(self) -> float:
        """Return the error rate of one result's test."""
        return self.alpha / self.results

    @property
    def rating_variance(self) -> float:
        """Return the variance of a rating."""
        return (1 - self.ties) / 4 - self.distance**2

    def item_variance(self, raters: int) -> float:
        """Return the variance of the mean of `raters` ratings of an item.

        >>> round(Design(share=0.55, ties=0.32, icc=0.41).item_variance(5), 5)  # .1675 (1 + 4 · .41) / 5
        0.08844
        """
        return self.rating_variance * (1 + (raters - 1) * self.icc) / raters

    def for_these_raters_alone(self) -> Design:
        """Return the design for these raters alone, without a judge."""
        return replace(self, rater_sd=None, judge_r=None)


def _list_ranges(d: Design) -> dict[str, tuple[bool, str]]:
    """Return, for each value of the design, whether it is possible, and otherwise the remedy."""
    room = 1.0 if d.margin is not None else 2 * min(d.share, 1 - d.share)
    is_share = 0 < d.share < 1 and d.share != HALF
    most_sd = math.sqrt(max(0.0, (1 - d.icc) * d.rating_variance))
    return {
        "share": (d.margin is not None or is_share, "the smallest share worth finding, such as 0.55"),
        "ties": (0 <= d.ties < room, f"0 or more ties, and below {room:g}: share = wins + ties/2"),
        "icc": (0 <= d.icc <= 1, "an ICC from 0 (raters agree by chance) to 1"),
        "alpha": (0 < d.alpha < HALF, "an error rate above 0 and below 0.5, say 0.05"),
        "power": (d.alpha < d.power <= 0.99, f"one above α = {d.alpha:g} and up to 0.99, such as 0.8"),
        "results": (1 <= d.results <= MAX_RESULTS, f"a whole number from 1 to {MAX_RESULTS}"),
        "rater_sd": (
            d.rater_sd is None or 0 < d.rater_sd <= most_sd,
            f"a standard deviation of raters' own shares above 0, and with this ICC up to {most_sd:.3f}",
        ),
        "margin": (d.margin is None or 0 < d.margin < HALF, "a distance above 0 and below 0.5, say 0.05"),
        "judge_r": (d.judge_r is None or 0 <= d.judge_r < 1, "a correlation from 0 to below 1, say 0.6"),
        "judged": (2 <= d.judged <= MAX_ITEMS, f"a number of items from 2 to {MAX_ITEMS}"),
    }


def compute_power(design: Design, items: int, raters: int) -> float:
    """Return the power with these numbers of items and of raters of each item.

    Raises:
        StudyError: There are too few raters to plan for others like them.
    """
    if design.margin is not None:
        return _equivalence_power(design, design.margin, items, raters)
    if design.judge_r is not None:
        return _assisted_power(design, design.judge_r, items, raters)
    power = _sign_flip_power(design, items, raters)
    if design.rater_sd is None:
        return power
    return min(power, _random_raters_power(design, design.rater_sd, items, raters))


def find_items_needed(design: Design, raters: int) -> int | None:
    """Return the smallest number of items with enough power; None if the largest number has too little."""
    sizes = range(2, (design.judged if design.judge_r is not None else MAX_ITEMS) + 1)
    index = bisect_left(sizes, design.power, key=lambda items: compute_power(design, items, raters))
    return sizes[index] if index < len(sizes) else None


def _sign_flip_power(design: Design, items: int, raters: int) -> float:
    """Return the power of the sign-flip test, whose null distribution has the variance v + distance²."""
    if items < 1 - math.log2(design.level):  # the smallest p of so few is above α
        return 0.0
    variance = design.item_variance(raters)
    return float(
        normal_power_het(
            design.distance,
            items,
            design.level,
            std_null=math.sqrt(variance + design.distance**2),
            std_alternative=math.sqrt(variance),
        )
    )


def _equivalence_power(
    design: Design,
    margin: float,
    items: int,
    raters: int,
) -> float:
    """Return the power of two one-sided tests where the share is one half (Chow, Shao and Wang 2008, 3.1.3).

    Where nearly all ratings are ties, the test's error is that of a share beyond the margin: of ties and wins
    alone (`outcomes.equivalence.conservative_error`).
    """
    least = margin * (1 - 2 * margin) / 2
    growth = math.sqrt(max(1.0, least / design.rating_variance))
    reach = margin * math.sqrt(items / design.item_variance(raters))
    return max(0.0, 2 * float(special.ndtr(reach - growth * special.ndtri(1 - design.level))) - 1)


def _random_raters_power(
    design: Design,
    rater_sd: float,
    items: int,
    raters: int,
) -> float:
    """Return the power of the t test with items and raters as random effects, with Satterthwaite's freedom.

    The expected mean squares are those of the two-way analysis of variance (Shrout and Fleiss 1979).
    """
    if raters < FEWEST_RATERS:
        raise StudyError(
            f"{raters} raters: a plan for other raters like these takes at least {FEWEST_RATERS}; give "
            "--raters 3,5,10,20"
        )
    between_items = design.icc * design.rating_variance
    residual = design.rating_variance - between_items - rater_sd**2
    squares = (residual + raters * between_items, residual + items * rater_sd**2, -residual)
    freedoms = (items - 1, raters - 1, (items - 1) * (raters - 1))
    total = sum(squares)
    df = total**2 / sum(square**2 / freedom for square, freedom in zip(squares, freedoms, strict=True))
    return _t_power(design, math.sqrt(total / (items * raters)), df)


def _assisted_power(
    design: Design,
    judge_r: float,
    items: int,
    raters: int,
) -> float:
    """Return the power of the t test of people's share, assisted by a judge (`stats.assisted`)."""
    worth = effective_items(items, design.judged, judge_r)
    variance = design.item_variance(raters) * (items / worth + PRIOR_UNITS / items) / (items + PRIOR_UNITS)
    return _t_power(design, math.sqrt(variance), items - 1)


def _t_power(design: Design, error: float, df: float) -> float:
    """Return the power of a two-sided t test."""
    limit = float(special.stdtrit(df, 1 - design.level / 2))
    return float(stats.nct.sf(limit, df, design.distance / error))
