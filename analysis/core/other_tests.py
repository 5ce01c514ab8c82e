"""Other tests of "neither method is better", to see whether a conclusion hangs on the choice of one."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, special, stats

from analysis.core.significance import TestResult


def majority_sign(scores: ArrayLike) -> TestResult:
    """Return the exact two-sided sign test on items: for which method most of an item's raters were.

    It respects items and throws away by how much each was won; an item without a majority says nothing.

    Args:
        scores: Item scores, positive for one method, negative for the other, `[n]`.

    >>> majority_sign([0.5, 0.25, 1.0, -1.0, 0.0]).p_value  # 3 of 4: 2 · (4 + 1)/16
    0.625
    """
    signs = np.sign(np.asarray(scores, dtype=float))
    wins, losses = int((signs > 0).sum()), int((signs < 0).sum())
    method = "exact sign test on items' majorities"
    if wins + losses == 0:
        why = ("no item has a majority",)
        return TestResult(p_value=None, statistic=0.0, n=0, method=method, warnings=why)
    p_value = float(stats.binomtest(wins, wins + losses, 0.5).pvalue)
    return TestResult(p_value=p_value, statistic=float(wins), n=wins + losses, method=method)


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
        why = ("every item is balanced between the methods",)
        return TestResult(p_value=None, statistic=0.0, n=0, method=method, warnings=why)
    result = stats.wilcoxon(values, zero_method="pratt", correction=True, method="approx")
    few = ("fewer than 20 items off balance: the approximation is rough",) if informative < 20 else ()
    return TestResult(
        p_value=float(result.pvalue),
        statistic=float(result.statistic),
        n=informative,
        method=method,
        warnings=few,
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
        return TestResult(p_value=None, statistic=0.0, n=n, method=method, warnings=("all are ties",))
    mean, variance = _moments(wins, ties, losses)
    if variance <= 0:
        return TestResult(p_value=None, statistic=mean, n=n, method=method, warnings=("all are the same",))
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


def _moments(wins: int, ties: int, losses: int) -> tuple[float, float]:
    n = wins + ties + losses
    mean = (wins - losses) / n
    return mean, (wins + losses) / n - mean**2
