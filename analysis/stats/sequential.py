"""Test that neither method is better, with a test that is valid after every item and at any stopping time.

Item scores x ∈ [−1, 1] arrive one after another. A gambler who believes that one method is better stakes a
fraction g of the fortune on each item. The fortune becomes Π (1 + g x). If neither method is better, no stake
gains on average, so the fortune is a martingale. It reaches 1/α with a probability of at most α, for any
length of the game and any stopping rule (Ville 1939). The fortune is the e-value. One over the e-value is a
p-value that is valid at any stopping time (Howard, Ramdas, McAuliffe and Sekhon 2021; Ramdas, Grünwald, Vovk
and Shafer 2023).

The best fraction depends on the unknown share, so the stake is split evenly over a grid of fractions for each
of the two methods. The same game against "the share is m" for all m gives a confidence sequence (Waudby-Smith
and Ramdas 2024, betting on a grid): the shares for which the fortune has not reached 1/α. The sequence
excludes one half exactly when the test rejects.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, special

from guard_eval.estimate import NO_DATA, Estimate, Floats

FRACTIONS = tuple(step / 20 for step in range(1, 20))
"""The stakes, .05 to .95, as fractions of the stake with which one item could lose the whole fortune.

In simulations with shares from .52 to .80, this grid needed at most an eighth more items than the best of
nine grids, and no other grid was always better.
"""
MAX_MOMENTS = 2_000
"""The largest number of evenly spaced times at which the confidence sequence is computed and intersected."""
_MAX_CELLS = 5_000_000
"""The largest number of cells (moments × distinct scores) in memory at once."""
_TOLERANCE = 1e-9
"""The numerical tolerance of the limits."""


class SequentialTest(NamedTuple):
    """A two-sided test that is valid at any stopping time.

    Attributes:
        share: The win share, (1 + mean score) / 2, with its confidence sequence, and with p, the smallest
            value of 1/E so far.
        log_e: The natural logarithm of the e-value after each item, [n].
        crossed: The number of items at which E first reached 1/α; None if it never did.
    """

    share: Estimate
    log_e: Floats
    crossed: int | None


def run_anytime_test(
    scores: ArrayLike,
    *,
    sizes: ArrayLike | None = None,
    alpha: float = 0.05,
) -> SequentialTest:
    """Test that each item score has mean zero, given the earlier items. The test is valid at any time.

    **Guarantee.** If every item's score has mean zero given all earlier items, as under the null hypothesis
    of `sign_flip`, then P(E ever reaches 1/α) ≤ α. This holds for any number of items and any stopping rule,
    even a rule that depends on the data. Ratings of one item may depend on each other in any way. Each item
    must count once, as soon as all its ratings exist, and the order must not depend on later scores.

    These p-values are valid at any random time (Howard et al. 2021, lemma 3). With several criteria, Holm's
    correction of the p-values therefore controls the family-wise error at any stopping time.

    The confidence sequence needs one more condition: given the earlier items, every item has the same
    expected share. This is true for similar items in random order, but not for one dataset after another if
    datasets differ.

    Args:
        scores: Item scores from −1 to 1 in the order of arrival, or sums of the scores of each prompt, [n].
        sizes: The number of items in each sum. The largest number must be known beforehand, because it scales
            the stakes. None if each score is of a single item.
        alpha: The error rate; the level of the interval is 1 − α.
    """
    sums = np.asarray(scores, dtype=float)
    weights = np.ones(len(sums)) if sizes is None else np.asarray(sizes, dtype=float)
    unit = "item" if sizes is None else "prompt"
    method = f"betting on {unit}s' mean scores, {len(FRACTIONS)} stakes for each method"
    if not len(sums):
        empty = Estimate(
            level=1 - alpha,
            unit=unit,
            method=method,
            note=NO_DATA,
        )
        return SequentialTest(share=empty, log_e=np.zeros(0), crossed=None)
    scale = weights.max()
    sums = sums / scale
    weights = weights / scale
    log_e = compute_log_e_values(sums)
    share = _find_confidence_sequence(sums, weights, alpha=alpha)
    share = replace(share, unit=unit, method=f"{method}; {share.method}")
    if sums.any():
        peak = float(log_e.max())
        # Before the first score that is not zero, E is 1, apart from rounding.
        share = replace(share, p=math.exp(-peak) if peak >= _TOLERANCE else 1.0)
    else:
        share = share.with_note("every {unit} is balanced between the methods")
    is_reached = log_e >= -math.log(alpha)
    crossed = int(is_reached.argmax()) + 1 if is_reached.any() else None
    return SequentialTest(share=share, log_e=log_e, crossed=crossed)


def compute_log_e_values(scores: Floats) -> Floats:
    """Compute the logarithm of the e-value after each item, [..., n], from scores in [−1, 1], [..., n]."""
    total = np.full(scores.shape, -np.inf)
    for fraction in FRACTIONS:
        for stake in (fraction, -fraction):
            log_fortune = np.cumsum(np.log1p(stake * scores), axis=-1)
            np.logaddexp(total, log_fortune, out=total)
    return total - math.log(2 * len(FRACTIONS))


def _find_confidence_sequence(scores: Floats, weights: Floats, *, alpha: float) -> Estimate:
    """Return the mean share with its anytime-valid limits."""
    n = len(scores)
    method = "confidence sequence" + (f" at {MAX_MOMENTS} moments" if n > MAX_MOMENTS else "")
    value = float((1 + scores.mean() / weights.mean()) / 2)
    result = Estimate(value=value, level=1 - alpha, n=n, method=method)
    log_fortune = _make_log_fortune_function(scores, weights, alpha=alpha)
    bounds = (_TOLERANCE, 1 - _TOLERANCE)
    inside = min(max(value, bounds[0]), bounds[1])
    if log_fortune(inside) >= 0:
        # Each fortune is a convex function of the share, so the largest fortune has only one minimum.
        lowest = optimize.minimize_scalar(
            log_fortune, bounds=bounds, method="bounded", options={"xatol": _TOLERANCE}
        )
        inside = float(lowest.x)
        if log_fortune(inside) >= 0:
            return result.with_note("the share drifted so far that no share fits all items")
        result = result.with_note("the share drifted: earlier items rule out the mean of all items")
    low, high = (
        end
        if log_fortune(limit) < 0
        else float(
            optimize.brentq(
                log_fortune,
                inside,
                limit,
                xtol=_TOLERANCE,
            )
        )
        for end, limit in zip((0.0, 1.0), bounds, strict=True)
    )
    return replace(result, low=low, high=high)


def _make_log_fortune_function(scores: Floats, weights: Floats, *, alpha: float) -> Callable[[float], float]:
    """Return a function of the share: the largest log fortune of a bet against the share, minus log(1/α).

    A unit with the value v (wins) and the weight w contributes (v − share × w) / share to the game.
    """
    # Scores that differ only by rounding are treated as equal.
    distinct = np.round(scores, 12) + 1j * weights
    _, first, codes = np.unique(distinct, return_index=True, return_inverse=True)
    weighed = weights[first]
    values = (weighed + scores[first]) / 2
    n = len(scores)
    moments = max(1, min(MAX_MOMENTS, n, _MAX_CELLS // len(values)))
    borders = np.linspace(0, n, moments + 1).astype(np.int64)
    ends = np.unique(borders[1:])
    moment = np.searchsorted(ends, np.arange(n), side="right")
    counts = np.zeros((len(ends), len(values)))
    np.add.at(counts, (moment, codes), 1)
    counts = counts.cumsum(axis=0)
    stakes = np.array(FRACTIONS)[:, None]
    offset = math.log(2 * len(FRACTIONS)) - math.log(alpha)

    def compute_log_fortune(share: float) -> float:
        for_share = stakes * (values / share - weighed)
        against_share = stakes * ((weighed - values) / (1 - share) - weighed)
        log_gains = np.log1p(np.concatenate([for_share, against_share]))
        fortunes = special.logsumexp(counts @ log_gains.T, axis=1)
        return float(fortunes.max()) - offset

    return compute_log_fortune
