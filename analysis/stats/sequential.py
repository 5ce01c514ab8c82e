"""A test of "neither method is better" that may be looked at after every item and stopped at any time.

Item scores x ∈ [−1, 1] arrive one after another. A gambler who believes that one method is better stakes a
fraction g of his fortune on each item: it becomes Π (1 + g x). If neither method is better, no stake gains in
the mean, the fortune is a martingale, and it reaches 1/α with a probability of at most α, however long he
plays and whenever he stops (Ville 1939). The fortune is the e-value; its reciprocal is a p-value that holds
at any stopping time (Howard, Ramdas, McAuliffe and Sekhon 2021; Ramdas, Grünwald, Vovk and Shafer 2023).

Which fraction is best depends on what is not known, so the stake is spread evenly over a grid of fractions
for each of the two methods. The same game against "the share is m" for all m gives a confidence sequence
(Waudby-Smith and Ramdas 2024, betting on a grid): the shares at which the fortune has not reached 1/α. It
leaves out one half exactly when the test rejects.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, special

from analysis.stats.intervals import Interval
from analysis.stats.significance import whole_fractions

FRACTIONS = tuple(step / 20 for step in range(1, 20))
"""Stakes as fractions of the largest that cannot be lost at once, .05 to .95. Simulated at shares from .52 to
.80 it needed at most an eighth more items than the best of nine grids, and none was better throughout."""

MOMENTS = 2_000
"""Moments, evenly spaced, at which the confidence sequence is intersected; up to so many items it is all."""
_CELLS = 5_000_000
"""Moments × distinct scores at a time."""
_CLOSE = 1e-9
"""How exactly the limits are found."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SequentialTest:
    """A two-sided test that holds at any stopping time.

    Attributes:
        log_e: Natural logarithm of the e-value after each item, [n].
        p_value: The smallest 1/E so far, at most 1; `None` means no test: every item is balanced.
        crossed: The number of items at which E first reached 1/α; `None` if it never did.
        n: Items.
        informative: Items whose score is off zero.
        alpha: The error rate of `crossed`; the interval's level is 1 − α.
        interval: The win share, (1 + mean score) / 2, with its confidence sequence.
        method: The test and its settings, in words.
        warnings: What a reader must know before using it.
    """

    log_e: NDArray[np.float64]
    p_value: float | None
    crossed: int | None
    n: int
    informative: int
    alpha: float
    interval: Interval
    method: str
    warnings: tuple[str, ...] = ()

    @property
    def e_value(self) -> float:
        """Return the e-value after the last item: evidence against "neither is better", 1 being none.

        It is cut at the largest number that the machine can hold.
        """
        return math.exp(min(float(self.log_e[-1]), math.log(sys.float_info.max))) if self.n else 1.0


def anytime(
    numerators: ArrayLike,
    denominators: ArrayLike,
    *,
    sizes: ArrayLike | None = None,
    alpha: float = 0.05,
    fractions: Sequence[float] = FRACTIONS,
) -> SequentialTest:
    """Return the anytime-valid test that item scores are zero in the mean, given the items before them.

    **Guarantee.** If every item's score has mean zero given all earlier items, which is so where it is as
    likely as its negative (`sign_flip`'s null), then P(E ever reaches 1/α) ≤ α and P(p is ever ≤ α) ≤ α, for
    any number of items and any rule for stopping, one that looks at the data included. Nothing is assumed of
    how the ratings of one item hang together, nor that items are alike. What it needs is that an item counts
    once, when all its ratings are in, and that the order does not depend on scores that are yet to come.

    Several criteria: p-values of this kind hold at any random time, one chosen by looking at all criteria
    included (Howard et al. 2021, lemma 3); so Holm's correction of them controls the family-wise error at any
    stopping time, whatever the dependence between criteria.

    The confidence sequence needs more: that every item, given the earlier ones, has the same expected share.
    Items of one kind in random order will do; one dataset after another will not, where datasets differ.

    Args:
        numerators: Item scores' integer numerators, such as wins minus losses, in the order of arrival, [n].
        denominators: Their positive integer denominators, such as the number of ratings, [n].
        sizes: How many items each of the n is the sum of, where the prompt is the unit: all its items count
            at once. The largest must be known beforehand, as it is the scale of the stakes. `None` where
            items are alone.
        alpha: The error rate.
        fractions: Stakes, between 0 and 1.
    """
    if not 0 < alpha < 1:
        raise ValueError(f"an error rate lies between 0 and 1; {alpha} does not")
    if not fractions or not all(0 < fraction < 1 for fraction in fractions):
        raise ValueError(f"stakes lie between 0 and 1, and there is at least one: {tuple(fractions)}")
    scores, weights = _scores(numerators, denominators, sizes)
    log_e = log_e_values(scores, fractions=fractions)
    unit = "item" if sizes is None else "prompt"
    informative = int(np.count_nonzero(scores))
    reached = log_e >= -math.log(alpha)
    warnings: tuple[str, ...] = () if informative else (f"every {unit} is balanced between the methods",)
    p_value = None
    if informative:
        # Before the first score off zero E is 1, but for rounding.
        peak = float(log_e.max())
        p_value = 1.0 if peak < _CLOSE else max(math.exp(-peak), sys.float_info.min)
        if peak > -math.log(sys.float_info.min):
            warnings = ("p is below the smallest number the machine can hold; read it as 'less than'",)
    return SequentialTest(
        log_e=log_e,
        p_value=p_value,
        crossed=int(reached.argmax()) + 1 if reached.any() else None,
        n=len(scores),
        informative=informative,
        alpha=alpha,
        interval=_sequence(scores, weights, alpha=alpha, fractions=fractions),
        method=f"betting on item means, {len(fractions)} stakes for each method"
        + ("" if sizes is None else ", the pairs of a prompt together"),
        warnings=warnings,
    )


def log_e_values(
    scores: NDArray[np.float64], *, fractions: Sequence[float] = FRACTIONS
) -> NDArray[np.float64]:
    """Return the logarithm of the e-value after each item, [..., n], of scores in [−1, 1], [..., n]."""
    total = np.full(scores.shape, -np.inf)
    for fraction in fractions:
        for stake in (fraction, -fraction):
            np.logaddexp(total, np.cumsum(np.log1p(stake * scores), axis=-1), out=total)
    return total - math.log(2 * len(fractions))


def _scores(
    numerators: ArrayLike, denominators: ArrayLike, sizes: ArrayLike | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return scores from −1 to 1, and by how much of the largest each weighs, [n] each."""
    tops, bottoms = whole_fractions(numerators, denominators)
    if len(tops) == 0:
        return np.zeros(0), np.zeros(0)
    each = np.ones(len(tops)) if sizes is None else np.asarray(sizes, dtype=float)
    scores: NDArray[np.float64] = tops / bottoms / each.max()
    if (np.abs(tops) > bottoms * each).any():
        raise ValueError(
            f"item scores lie between −1 and 1; {np.abs(tops / bottoms / each).max():g} does not"
        )
    return scores, each / each.max()


def _sequence(
    scores: NDArray[np.float64], weights: NDArray[np.float64], *, alpha: float, fractions: Sequence[float]
) -> Interval:
    """Return the shares that the game has not ruled out at any moment."""
    n = len(scores)
    method = "confidence sequence by betting"
    if n == 0:
        return Interval(level=1 - alpha, n=0, method=method, warnings=("there are no items",))
    if n > MOMENTS:
        method += f", intersected at {MOMENTS} moments"
    excess = _excess(scores, weights, alpha=alpha, fractions=fractions)
    estimate = float((1 + scores.mean() / weights.mean()) / 2)
    whole = Interval(estimate=estimate, level=1 - alpha, n=n, method=method)
    bounds = (_CLOSE, 1 - _CLOSE)
    inside = min(max(estimate, bounds[0]), bounds[1])
    if excess(inside) >= 0:
        # A fortune is a convex function of the share, and so is the largest of several: one valley.
        least = optimize.minimize_scalar(excess, bounds=bounds, method="bounded", options={"xatol": _CLOSE})
        inside = float(least.x)
        if excess(inside) >= 0:
            why = "no one share fits the items throughout: it drifted, and the sequence does not apply"
            return replace(whole, warnings=(why,))
        why = "the share drifted: earlier items rule out what all of them show"
        whole = replace(whole, warnings=(why,))
    low, high = (
        edge if excess(limit) < 0 else float(optimize.brentq(excess, inside, limit, xtol=_CLOSE))
        for edge, limit in zip((0.0, 1.0), bounds, strict=True)
    )
    return replace(whole, low=low, high=high)


def _excess(
    scores: NDArray[np.float64], weights: NDArray[np.float64], *, alpha: float, fractions: Sequence[float]
) -> Callable[[float], float]:
    """Return, as a function of a share, by how much the log fortune against it ever exceeded log 1/α."""
    # What a unit won of what it weighs: its part of the game is (won − share × weight) / share.
    _, first, codes = np.unique(scores + 1j * weights, return_index=True, return_inverse=True)
    values, weighed = (weights[first] + scores[first]) / 2, weights[first]
    count = max(1, min(MOMENTS, len(scores), _CELLS // len(values)))
    ends = np.unique(np.linspace(0, len(scores), count + 1).astype(np.int64)[1:])
    counts = np.zeros((len(ends), len(values)))
    np.add.at(counts, (np.searchsorted(ends, np.arange(len(scores)), side="right"), codes), 1)
    counts = counts.cumsum(axis=0)
    stakes = np.array(fractions)[:, None]
    offset = math.log(2 * len(fractions)) - math.log(alpha)

    def excess(share: float) -> float:
        lost = (weighed - values) / (1 - share)
        gains = np.log1p(stakes * (values / share - weighed)), np.log1p(stakes * (lost - weighed))
        fortunes = special.logsumexp(counts @ np.concatenate(gains).T, axis=1)
        return float(fortunes.max()) - offset

    return excess
