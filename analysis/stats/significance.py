"""Tests of "neither method is better": the paper's on pooled ratings, and one that respects items."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, special, stats

LATTICE_CELLS = 1 << 22
"""Places of the sum up to which its whole distribution is held: three arrays of 32 MiB."""
LATTICE_WORK = 200_000_000
"""Additions up to which the distribution is convolved: a second or so."""
HALF_SUMS = 1 << 20
"""Sums of half of the items up to which both halves are enumerated: 40 items with 40 different scores."""
SORTING = 32
"""What a sum of a half costs, in additions of the convolution: it is sorted and searched for."""
MANY_ITEMS = 10_000
"""Items of equal weight from which on the normal approximation is off by less than 1 % of p down to 1e-6: the
next term of Edgeworth's series is x⁴ / (12 n) of p at x standard deviations."""
DRAWS = (9_999, 999_999)
"""The fewest and the most sign patterns drawn where neither an exact way nor many items will do."""
DRAWN_SIGNS = 400_000_000
"""Signs drawn at most, unless the fewest patterns need more."""
_BLOCK = 12
"""Items whose sums are looked up together when patterns are drawn."""


BALANCED = "every item is balanced between the methods"


@dataclass(frozen=True, kw_only=True, slots=True)
class TestResult:
    """A two-sided test.

    Attributes:
        p_value: `None` means no test: the data hold no information on the question.
        statistic: What was compared with its null distribution.
        n: How many units carried information (non-tied ratings, or items off one half).
        method: The test and its settings, in words.
        warnings: What a reader must know before using it.
        smallest: The smallest p that a discrete test can give with these units, whatever their outcome; 0
            where p can be as small as one likes.
    """

    __test__ = False  # pytest would take the name for a test class

    p_value: float | None = None
    statistic: float = 0.0
    n: int
    method: str
    warnings: tuple[str, ...] = ()
    smallest: float = 0.0

    @property
    def withheld(self) -> bool:
        """Return whether there is a test and no p, since none could be small (`reachable`)."""
        return self.p_value is None and self.smallest > 0

    def __post_init__(self) -> None:
        """Keep a p that the machine cannot hold from becoming 0."""
        if self.p_value is not None and self.p_value < sys.float_info.min:
            why = "p is below the smallest number the machine can hold; read it as 'less than'"
            object.__setattr__(self, "p_value", sys.float_info.min)
            object.__setattr__(self, "warnings", (*self.warnings, why))


def t_test(distance: float, error: float, freedom: float, *, n: int, method: str) -> TestResult:
    """Return the two-sided t test that a quantity is zero, from its estimate and the estimate's error."""
    t = distance / error
    return TestResult(p_value=2 * float(special.stdtr(freedom, -abs(t))), statistic=t, n=n, method=method)


def sign_limit(n: int) -> float:
    """Return the smallest two-sided p of a test on `n` fair signs: all the same, 2 of 2ⁿ patterns.

    >>> sign_limit(5)
    0.0625
    """
    return math.ldexp(1.0, 1 - n) if n else 1.0


def reachable(test: TestResult, alpha: float) -> TestResult:
    """Return `test` without its p, and with the reason, where no outcome could bring p down to `alpha`."""
    if test.p_value is None or not (why := out_of_reach(test.smallest, alpha)):
        return test
    return replace(test, p_value=None, warnings=(*test.warnings, why))


def out_of_reach(smallest: float, alpha: float, *, after: str = "") -> str:
    """Return why a test whose p cannot be below `smallest` has none; empty where it can reach `alpha`.

    >>> out_of_reach(0.125, 0.05)
    'no p: with so few that differ it cannot be below 0.125, and so not reach 0.05'
    """
    if smallest <= alpha * (1 + 1e-9):
        return ""
    return (
        f"no p{after}: with so few that differ it cannot be below {smallest:.3g}, and so not reach "
        f"{alpha:.3g}"
    )


def binomial(wins: int, losses: int) -> TestResult:
    """Return the exact two-sided binomial test on non-tied ratings (`tab:humaneval_resultglacs`).

    It takes every rating for independent. Several ratings of one pair are not, and then its error rate is
    above α.

    >>> binomial(251, 156).p_value
    2.874966592398616e-06
    """
    method = "exact two-sided binomial test on non-tied ratings, taken as independent"
    return _sign_test(wins, losses, method, nothing="every rating is a tie")


def _sign_test(first: int, second: int, method: str, *, nothing: str) -> TestResult:
    """Return the exact test that either side is as likely; `nothing` says why there is none."""
    if first < 0 or second < 0:
        raise ValueError(f"counts cannot be negative: {first} and {second}")
    n = first + second
    if n == 0:
        return TestResult(n=0, method=method, warnings=(nothing,))
    p_value = float(stats.binomtest(first, n, 0.5).pvalue)
    return TestResult(p_value=p_value, statistic=float(first), n=n, method=method, smallest=sign_limit(n))


def majority_sign(scores: ArrayLike) -> TestResult:
    """Return the exact two-sided sign test on items: for which method most of an item's raters were.

    It respects items and throws away by how much each was won; an item without a majority says nothing.

    Args:
        scores: Item scores, positive for one method, negative for the other, `[n]`.

    >>> majority_sign([0.5, 0.25, 1.0, -1.0, 0.0]).p_value  # 3 of 4: 2 · (4 + 1)/16
    0.625
    """
    values = np.asarray(scores, dtype=float)
    wins, losses = int((values > 0).sum()), int((values < 0).sum())
    method = "exact sign test on items' majorities"
    return _sign_test(wins, losses, method, nothing="no item has a majority")


def sign_flip(numerators: ArrayLike, denominators: ArrayLike, *, seed: int = 0) -> TestResult:
    """Return the two-sided sign-flip (randomisation) test that units' scores are symmetric about zero.

    Under "neither method is better" a unit's score is as likely as its negative, whatever its ratings have
    to do with each other; so the null distribution of |Σ score| is that of all 2ⁿ sign patterns. It is taken
    exactly, in integers, the cheaper way: by convolution over the distinct magnitudes, or from the sorted
    sums of two halves of the units (Horowitz and Sahni 1974). Where both cost too much it is the normal
    distribution's, with many units, or that of drawn patterns, p = (1 + as extreme) / (1 + drawn), which is a
    valid p by itself (Phipson and Smyth 2010); `method` says which.

    Scores whose common denominator is too large are rounded to some 2⁻⁶⁰ of their sum, and whatever may be
    as extreme as the data counts as such: no tie is lost, and p is never too small.

    Args:
        numerators: The units' scores' integer numerators, such as wins minus losses of an item, shape [n].
        denominators: Their positive integer denominators, such as the number of ratings, shape [n].
        seed: Of the drawn patterns.
    """
    scores, slack, n = _integers(numerators, denominators)
    if n == 0:
        return TestResult(n=0, method="sign-flip test on item means", warnings=(BALANCED,))
    total, reach = abs(int(scores.sum())), int(np.abs(scores).sum())
    # (Σ ± m + Σ m) / 2 = Σ m·b with fair bits b, and p is twice the chance of its lower tail.
    last = (reach - max(0, total - slack)) // 2
    p_value, how = (1.0, "exact") if total <= slack else _tails(np.abs(scores[scores != 0]), last, seed)
    exact = "exact " if how == "exact" else ""
    return TestResult(
        p_value=min(1.0, p_value),
        statistic=float(scores.sum() / reach),
        n=n,
        method=f"{exact}sign-flip test on item means" + ("" if exact else f", {how}"),
        smallest=sign_limit(n),
    )


def _integers(numerators: ArrayLike, denominators: ArrayLike) -> tuple[NDArray[np.int64], int, int]:
    """Bring fractions onto one denominator, and return the numerators without their common factor.

    Also returned are by how much rounding can have moved the sum of the scores against that of any other sign
    pattern, 0 where all is exact, and how many scores are off zero.
    """
    tops, bottoms = whole_fractions(numerators, denominators)
    if len(tops) == 0:
        return tops, 0, 0
    factors = np.gcd(tops, bottoms)
    tops, bottoms = tops // factors, bottoms // factors
    n = int(np.count_nonzero(tops))
    most = float(np.abs(tops / bottoms).sum()) + 1.0
    common = 1
    for bottom in np.unique(bottoms).tolist():
        common = math.lcm(common, int(bottom))
        if common * most >= 2**61:
            break
    else:
        scaled = (tops * (common // bottoms)).astype(np.int64)
        factor = int(np.gcd.reduce(scaled))
        return (scaled // factor if factor else scaled), 0, n
    grid = 2**60 // math.ceil(most)
    rounded = [
        (2 * abs(top) * grid + bottom) // (2 * bottom) * (1 if top > 0 else -1)
        for top, bottom in zip(tops.tolist(), bottoms.tolist(), strict=True)
    ]
    # A half for each score, in the data's sum and in the other.
    return np.array(rounded, dtype=np.int64), len(rounded), n


def whole_fractions(
    numerators: ArrayLike, denominators: ArrayLike
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return numerators and denominators as arrays, [n] each.

    Raises:
        ValueError: If they are not integers over as many positive integers.
    """
    tops, bottoms = np.asarray(numerators), np.asarray(denominators)
    if tops.shape != bottoms.shape or tops.ndim != 1:
        raise ValueError(f"one denominator per numerator: shapes {tops.shape} and {bottoms.shape}")
    whole = tops.dtype.kind in "iu" and bottoms.dtype.kind in "iu"
    if tops.size and (not whole or bottoms.min() < 1):
        raise ValueError("item scores are integers over positive integers")
    return tops.astype(np.int64), bottoms.astype(np.int64)


def _tails(magnitudes: NDArray[np.int64], last: int, seed: int) -> tuple[float, str]:
    """Return 2 · P(Σ magnitude · fair bit ≤ last), and how it was found."""
    sizes, counts = np.unique(magnitudes, return_counts=True)
    groups = list(zip(sizes.tolist(), counts.tolist(), strict=True))
    halves = _halves(groups)
    sums = max(math.prod(count + 1 for _, count in half) for half in halves)
    cells, additions = 1, 0
    for size, count in groups:
        additions += cells * (count + 1)
        cells += size * count
    lattice = cells <= LATTICE_CELLS and additions <= LATTICE_WORK
    if sums <= HALF_SUMS and not (lattice and additions <= 2 * SORTING * sums):
        return 2 * _met(*halves, last), "exact"
    if lattice:
        return 2 * math.fsum(_distribution(groups, last)), "exact"
    squares = magnitudes.astype(float) ** 2
    variance = float(squares.sum())
    if variance**2 / float((squares**2).sum()) >= MANY_ITEMS:
        # The sum moves in steps of 2, hence the continuity correction of 1.
        distance = max(0.0, cells - 2.0 - 2 * last)
        p_value = float(special.erfc(distance / math.sqrt(2 * variance)))
        return p_value, f"normal approximation ({len(magnitudes)} items)"
    low, high = DRAWS
    draws = min(high, max(low, DRAWN_SIGNS // len(magnitudes)))
    p_value = _drawn(groups, last, draws=draws, seed=seed)
    return p_value, f"Monte Carlo of {draws} sign patterns, seed {seed}, the data counted among them"


Groups = list[tuple[int, int]]
"""Magnitudes, smallest first, and how many scores have each."""


def _halves(groups: Groups) -> tuple[Groups, Groups]:
    """Split magnitudes so that both halves have about as many sums."""
    halves: tuple[Groups, Groups] = ([], [])
    sums = [1, 1]
    for size, count in sorted(groups, key=lambda group: -group[1]):
        smaller = int(sums[1] < sums[0])
        halves[smaller].append((size, count))
        sums[smaller] *= count + 1
    return halves


def _met(left: Groups, right: Groups, last: int) -> float:
    """Return P(Σ ≤ last): each sum of one half meets those of the other that leave room for it."""
    (own, chances), (others, weights) = _sums(left), _sums(right)
    mine, order = np.argsort(own), np.argsort(others)  # the search is faster in order
    below = np.concatenate([[0.0], weights[order].cumsum()])
    return float(chances[mine] @ below[np.searchsorted(others[order], last - own[mine], side="right")])


def _sums(groups: Groups) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return every sum of magnitudes times bits, and its chance."""
    sums, chances = np.zeros(1, dtype=np.int64), np.ones(1)
    for size, count in groups:
        sums = (sums[:, None] + size * np.arange(count + 1)).ravel()
        chances = (chances[:, None] * _fair(count)).ravel()
    return sums, chances


def _drawn(groups: Groups, last: int, *, draws: int, seed: int) -> float:
    """Return (1 + as extreme patterns) / (1 + patterns) of `draws` random ones."""
    rng = np.random.default_rng(seed)
    total, singly, reach = np.zeros(draws, dtype=np.int64), [], 0
    for size, count in groups:
        reach += size * count
        if count > 8 * _BLOCK:
            total += size * rng.binomial(count, 0.5, draws)
        else:
            singly += [size] * count
    for start in range(0, len(singly), _BLOCK):
        sums, _ = _sums([(size, 1) for size in singly[start : start + _BLOCK]])
        total += sums[rng.integers(0, len(sums), draws)]
    return (1 + int(((total <= last) | (total >= reach - last)).sum())) / (1 + draws)


def _fair(count: int) -> NDArray[np.float64]:
    """Return the chances of 0 … `count` heads of fair coins, as near as the machine holds them."""
    if count > 1000:  # beyond, a binomial coefficient is no float
        return stats.binom.pmf(np.arange(count + 1), count, 0.5)
    return np.array([math.ldexp(math.comb(count, heads), -count) for heads in range(count + 1)])


def _distribution(groups: Groups, last: int) -> NDArray[np.float64]:
    """Return the chances of Σ magnitude · fair bit on 0 … `last`."""
    distribution = np.ones(1)
    for size, count in groups:
        distribution = _spread(distribution, _fair(count), size, last + 1)
    return distribution


def _spread(
    distribution: NDArray[np.float64], flips: NDArray[np.float64], size: int, most: int
) -> NDArray[np.float64]:
    """Convolve `distribution` with `flips` placed `size` apart, at the cost of the shorter way round.

    Only the first `most` places are kept: what is above never comes down again.
    """
    out = np.zeros(min(most, len(distribution) + size * (len(flips) - 1)))
    if len(flips) <= size:
        for step, weight in enumerate(flips[: -(-len(out) // size)]):
            room = out[step * size : step * size + len(distribution)]
            room += weight * distribution[: len(room)]
        return out
    for phase in range(min(size, len(distribution), len(out))):
        room = out[phase::size]
        room[:] = np.convolve(distribution[phase::size], flips)[: len(room)]
    return out


def signed_rank(scores: ArrayLike) -> TestResult:
    """Return Wilcoxon's signed-rank test on item scores, normal approximation with ties (Wilcoxon 1945).

    Balanced items are ranked and then left out (Pratt 1959), so that they do not make the rest look larger.

    Args:
        scores: Item scores, `[n]`.
    """
    values = np.asarray(scores, dtype=float)
    method = "Wilcoxon signed-rank test on item means, Pratt's zeros, normal approximation"
    informative = int((values != 0).sum())
    if informative == 0:
        return TestResult(n=0, method=method, warnings=(BALANCED,))
    result = stats.wilcoxon(values, zero_method="pratt", correction=True, method="approx")
    few = ("fewer than 20 items off balance: the approximation is rough",) if informative < 20 else ()
    return TestResult(
        p_value=float(result.pvalue),
        statistic=float(result.statistic),
        n=informative,
        method=method,
        warnings=few,
        smallest=sign_limit(informative),
    )


def clustered(wins: int, ties: int, losses: int, *, raters: float, correlation: float) -> TestResult:
    """Return the test of the tie-split share that counts suggest if ratings of an item correlate by ρ.

    For tables that print counts and not ratings. The variance of the mean of n ratings is multiplied by the
    design effect 1 + (m − 1)ρ (Kish 1965), m ratings an item; normal approximation.

    Args:
        wins: Ratings for one method.
        ties: Ties.
        losses: Ratings for the other.
        raters: m.
        correlation: ρ, the intra-item correlation of scores +1, 0, −1.
    """
    n = wins + ties + losses
    method = f"normal test of the tie-split share at intra-item correlation {correlation:.2f}"
    if wins + losses == 0:
        return TestResult(n=n, method=method, warnings=("all are ties",))
    mean = (wins - losses) / n
    variance = (wins + losses) / n - mean**2
    if variance <= 0:
        return TestResult(statistic=mean, n=n, method=method, warnings=("all are the same",))
    z = mean / math.sqrt(variance * (1 + (raters - 1) * correlation) / n)
    return TestResult(p_value=2 * float(special.ndtr(-abs(z))), statistic=z, n=n, method=method)


def tolerated_correlation(
    wins: int, ties: int, losses: int, *, raters: float, alpha: float = 0.05
) -> float | None:
    """Return the intra-item correlation up to which `clustered` stays significant at `alpha`.

    None if it is significant at none or no test can be made; 1 if at every one.
    """

    def excess(correlation: float) -> float | None:
        p_value = clustered(wins, ties, losses, raters=raters, correlation=correlation).p_value
        return None if p_value is None else p_value - alpha

    low, high = excess(0.0), excess(1.0)
    if low is None or high is None or low > 0:
        return None
    if high <= 0:
        return 1.0
    return float(optimize.brentq(lambda rho: excess(rho) or 0.0, 0.0, 1.0))
