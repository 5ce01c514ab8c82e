"""Which counts a printed percentage can come from: the GRIM test (Brown and Heathers 2017) for shares.

A share of n verdicts moves in steps of 1/n. Where these are wider than the rounding, no count gives some
percentages. All arithmetic is exact; a value half-way between two printed ones may be rounded either way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction


def counts(percentage: str, n: int) -> range:
    """Return the counts of `n` that print as `percentage`; empty where none does.

    >>> counts("78.3", 60), len(counts("78.3", 150))
    (range(47, 48), 0)
    """
    half = Fraction(1, 2 * 10 ** len(percentage.partition(".")[2]))
    low = math.ceil((Fraction(percentage) - half) * n / 100)
    high = math.floor((Fraction(percentage) + half) * n / 100)
    return range(max(low, 0), min(high, n) + 1)


def fits(row: Sequence[str], n: int) -> bool:
    """Say whether the percentages of `row`, all of a whole, can be shares of `n` verdicts."""
    result = [counts(percentage, n) for percentage in row]
    return all(result) and sum(each[0] for each in result) <= n <= sum(each[-1] for each in result)


def printed(count: Fraction | int, n: int, decimals: int) -> set[str]:
    """Return what `count` of `n` prints as in percent: two values where it lies half-way.

    >>> printed(Fraction(695, 2), 600, 2), sorted(printed(1, 8, 0))  # 57.917, 12.5
    ({'57.92'}, ['12', '13'])
    """
    units = Fraction(count) / n * 100 * 10**decimals
    half = Fraction(1, 2)
    return {
        str(Decimal(unit).scaleb(-decimals)) for unit in (math.ceil(units - half), math.floor(units + half))
    }


def nearest(percentage: str, n: int) -> str:
    """Return the percentage that a count of `n` gives and that is nearest to `percentage`, as printed.

    >>> nearest("78.3", 150)  # 117/150 = 78.0, 118/150 = 78.67
    '78.0'
    """
    share = Fraction(percentage) / 100
    count = min((math.floor(share * n), math.ceil(share * n)), key=lambda k: abs(Fraction(k, n) - share))
    return max(printed(count, n, len(percentage.partition(".")[2])))
