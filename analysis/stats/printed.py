"""Check printed figures: find the counts behind percentages, and test ratings that are not independent.

A share of n verdicts is a multiple of 1/n. If 1/n is wider than the rounding, no count gives certain
percentages. This is the GRIM test (Brown and Heathers 2017) for shares. All arithmetic is exact. A value
half-way between two printed values may be rounded up or down.

A paper seldom says which ratings belong to one pair. If two ratings of a pair have the correlation ICC, the
variance of the mean of all ratings is multiplied by the design effect 1 + (m − 1) ICC, with m ratings per
pair (Kish 1965).
"""

import math
import sys
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

from scipy import optimize, special


def find_possible_counts(percentage: str, n: int) -> range:
    """Return the counts out of `n` that are printed as `percentage`; empty if there are none.

    >>> find_possible_counts("78.3", 60), len(find_possible_counts("78.3", 150))
    (range(47, 48), 0)
    """
    half = _find_rounding_error(percentage)
    low = math.ceil((Fraction(percentage) - half) * n / 100)
    high = math.floor((Fraction(percentage) + half) * n / 100)
    return range(max(low, 0), min(high, n) + 1)


def are_percentages_possible(percentages: Sequence[str], n: int) -> bool:
    """Return whether these percentages, which make up a whole, can be shares of `n` verdicts."""
    counts = [find_possible_counts(percentage, n) for percentage in percentages]
    if not all(counts):
        return False
    smallest = sum(possible[0] for possible in counts)
    largest = sum(possible[-1] for possible in counts)
    return smallest <= n <= largest


def can_add_up_to_100(percentages: Sequence[str]) -> bool:
    """Return whether rounding explains that the percentages do not add up to 100.

    >>> can_add_up_to_100(["33.3", "33.3", "33.3"]), can_add_up_to_100(["70", "20", "20"])
    (True, False)
    """
    rounding = sum((_find_rounding_error(percentage) for percentage in percentages), Fraction())
    return abs(sum(map(Fraction, percentages), Fraction()) - 100) <= rounding


def round_percentage(count: Fraction | int, n: int, decimals: int) -> set[str]:
    """Return the possible printed percentages of `count` out of `n`: two if the value is half-way.

    >>> round_percentage(Fraction(695, 2), 600, 2), sorted(round_percentage(1, 8, 0))  # 57.917, 12.5
    ({'57.92'}, ['12', '13'])
    """
    units = Fraction(count) / n * 100 * 10**decimals
    half = Fraction(1, 2)
    nearest = {math.ceil(units - half), math.floor(units + half)}
    return {str(Decimal(unit).scaleb(-decimals)) for unit in nearest}


def find_nearest_percentage(percentage: str, n: int) -> str:
    """Return the possible percentage of `n` verdicts that is nearest to `percentage`, as printed.

    >>> find_nearest_percentage("78.3", 150)  # 117/150 = 78.0, 118/150 = 78.67
    '78.0'
    """
    share = Fraction(percentage) / 100
    nearby = (math.floor(share * n), math.ceil(share * n))
    count = min(nearby, key=lambda count: abs(Fraction(count, n) - share))
    return max(round_percentage(count, n, _count_decimals(percentage)))


def _find_rounding_error(percentage: str) -> Fraction:
    return Fraction(1, 2 * 10 ** _count_decimals(percentage))


def _count_decimals(percentage: str) -> int:
    return len(percentage.partition(".")[2])


def compute_clustered_p(
    wins: int,
    losses: int,
    *,
    per_pair: float,
    icc: float,
) -> float:
    """Return the p of wins against losses if two ratings of a pair have the correlation `icc`.

    The test is the exact binomial test, with wins and losses divided by the design effect. If the results are
    not whole numbers, the incomplete beta function extends the test. Thus p is never smaller than for
    independent ratings.

    >>> round(compute_clustered_p(251, 156, per_pair=4, icc=0.41), 4)
    0.002
    >>> compute_clustered_p(24, 0, per_pair=4, icc=1)  # 6 independent pairs, 2 of 2⁶ patterns
    0.03125
    """
    if wins == losses:
        return 1.0
    design_effect = 1 + (per_pair - 1) * icc
    more = max(wins, losses) / design_effect
    fewer = min(wins, losses) / design_effect
    p = 2 * float(special.betainc(more, fewer + 1, 0.5))
    return min(1.0, max(p, sys.float_info.min))


def find_largest_significant_icc(
    wins: int,
    losses: int,
    *,
    per_pair: float,
    alpha: float,
) -> float | None:
    """Return the largest correlation with p ≤ `alpha`: 1 if p is never larger, and None if p always is.

    >>> round(find_largest_significant_icc(115, 81, per_pair=4, alpha=0.05), 2)
    0.14
    """

    def compute_p_excess(icc: float) -> float:
        return compute_clustered_p(wins, losses, per_pair=per_pair, icc=icc) - alpha

    if compute_p_excess(0.0) > 0:
        return None
    return 1.0 if compute_p_excess(1.0) <= 0 else float(optimize.brentq(compute_p_excess, 0.0, 1.0))
