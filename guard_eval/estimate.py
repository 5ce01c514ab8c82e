"""Estimates from independent units: jackknife, bootstrap, sign-flip test and adjusted p-values.

A statistic is a smooth function of sums over units, which are prompts: wins and ratings, agreeing pairs of
raters, repeated and counted n-grams. Each unit has a row of parts, `[units, m]`; a function maps their sums
`[..., m]` to values `[...]`, NaN where it is undefined. The parts of one unit may depend on each other.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special, stats
from statsmodels.stats.multitest import multipletests

Floats = NDArray[np.float64]
Statistic = Callable[[Floats], Floats]
"""A statistic as a function of sums: `[..., m]` → `[...]`; NaN where it is undefined."""

METHODS = {"holm": "holm", "bh": "fdr_bh", "by": "fdr_by"}
"""Adjustments of p-values and their names in statsmodels: Holm, Benjamini-Hochberg, Benjamini-Yekutieli."""
MAX_UNDEFINED_SHARE = 0.05
"""With more bootstrap replicates than this without a value there is no interval."""
MAX_DENOMINATOR = 5040
"""Scores are fractions with denominators up to this one, or the sign-flip test enumerates or draws."""
MAX_ADDITIONS = 500_000_000
"""Work that an exact sign-flip test may take, in additions of floats (about a quarter of a second)."""
MAX_ENUMERATED_UNITS = 20
MAX_DRAWS, MAX_DRAWN_SIGNS = 100_000, 50_000_000
_BLOCK_FLOATS = 1 << 22

NO_DATA = "there are no observations"
UNDEFINED = "the statistic is undefined for these data"
ONE_UNIT = "there is only one {unit}, and its spread cannot be estimated"
NO_WIDTH = "every {unit} says the same: an interval would have no width, so none is given"
CUT = "the interval is cut at the end of the possible range"
ROUNDING = 1e-12
"""Relative differences up to this one are rounding."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A statistic with its interval and its test. What is undefined is None, and `note` says why.

    Attributes:
        value: The point estimate.
        low: The lower confidence limit.
        high: The upper confidence limit.
        level: The confidence level.
        error: The standard error behind a t interval.
        df: The degrees of freedom of that error.
        p: The two-sided p-value; positive, as no number of this machine is too small to be written as one.
        n: How many independent units the estimate rests on.
        unit: What a unit is.
        method: The method with its settings.
        note: What a reader must know before using the estimate.
        smallest_p: The smallest p that these units could have given.
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None
    level: float = 0.95
    error: float | None = None
    df: float | None = None
    p: float | None = None
    n: int = 0
    unit: str = "prompt"
    method: str = ""
    note: str = ""
    smallest_p: float = 0.0

    def __post_init__(self) -> None:
        """Refuse an impossible level, and keep a tiny p from becoming 0."""
        if not 0 < self.level < 1:
            raise ValueError(f"a confidence level lies between 0 and 1; {self.level} does not")
        if self.p is not None and self.p < sys.float_info.min:
            object.__setattr__(self, "p", sys.float_info.min)
            object.__setattr__(self, "note", join_notes(self.note, "p is less than the number shown"))

    def with_note(self, note: str) -> Estimate:
        """Return the estimate with one more note."""
        return self if note in self.note else replace(self, note=join_notes(self.note, note))

    def with_error(
        self,
        error: float,
        df: float,
        *,
        null: float | None = None,
        bounds: tuple[float, float] = (-math.inf, math.inf),
    ) -> Estimate:
        """Return a value with its t interval, cut at `bounds`, and its t test against `null`."""
        value = self.value or 0.0
        half = float(special.stdtrit(df, 0.5 + self.level / 2)) * error
        low, high = max(bounds[0], value - half), min(bounds[1], value + half)
        p = None if null is None else 2 * float(special.stdtr(df, -abs(value - null) / error))
        result = replace(self, low=low, high=high, error=error, df=df, p=p)
        is_cut = low > value - half or high < value + half
        return result.with_note(CUT) if is_cut else result


def join_notes(*notes: str) -> str:
    """Join the notes that say something."""
    return "; ".join(note for note in notes if note)


def why_no_p(smallest: float, alpha: float, *, after: str = "") -> str:
    """Return why a test that cannot give a p below `smallest` reports none; empty if it can reach `alpha`.

    >>> why_no_p(0.125, 0.05)
    'no p: with so few prompts that differ it cannot be below 0.125, and so not reach 0.05'
    """
    if smallest <= alpha * (1 + 1e-9):
        return ""
    few = f"no p{after}: with so few prompts that differ it cannot be below {smallest:.3g}"
    return f"{few}, and so not reach {alpha:.3g}"


def jackknife(
    sums: ArrayLike,
    function: Statistic,
    *,
    strata: ArrayLike | None = None,
    level: float = 0.95,
    null: float | None = None,
    bounds: tuple[float, float] = (-math.inf, math.inf),
    noise: float = 0.0,
    unit: str = "prompt",
) -> Estimate:
    """Estimate a statistic with a t interval from the jackknife, which leaves out one unit at a time.

    With strata, the other units of a stratum stand for the one that is left out, so each stratum keeps its
    size (Rust and Rao 1996). The variance is Σ_h (n_h − 1)/n_h Σ_i (θ_(hi) − θ_(h·))², and its degrees of
    freedom are Satterthwaite's. For a mean this is the stratified t interval.

    Args:
        sums: The units' parts of the sums, `[units, m]`.
        function: The statistic of the sums.
        strata: A stratum for each unit (its dataset), `[units]`.
        level: The confidence level.
        null: The value to test against; without it there is no p.
        bounds: The smallest and the largest possible value; limits are cut there.
        noise: The variance of the value from another source than the units, which is added.
        unit: What a unit is, for notes.
    """
    parts = np.asarray(sums, dtype=np.float64)
    units = len(parts)
    result = Estimate(level=level, n=units, unit=unit, method=f"jackknife t interval over {unit}s")
    if units == 0:
        return result.with_note(NO_DATA)
    codes = np.zeros(units, dtype=np.int64)
    if strata is not None:
        codes = np.unique(np.asarray(strata), return_inverse=True)[1]
    if len(codes) != units:
        raise ValueError(f"one stratum for each {unit}: {len(codes)} and {units}")
    count = np.bincount(codes)
    if len(count) > 1 and count.min() < 2:
        result = result.with_note(f"a dataset has only one {unit}, so datasets are ignored (which widens it)")
        codes, count = np.zeros_like(codes), np.array([units])
    with np.errstate(divide="ignore", invalid="ignore"):
        value = float(function(parts.sum(axis=0)))
        without = np.asarray(function(_sums_without(parts, codes, count)), dtype=np.float64)
    if not math.isfinite(value):
        return result.with_note(UNDEFINED)
    result = replace(result, value=value)
    if units == 1:
        return result.with_note(ONE_UNIT.format(unit=unit))
    if not np.isfinite(without).all():
        return result.with_note(f"without one of the {unit}s it is undefined, so its error is unknown")
    off = without - (np.bincount(codes, weights=without) / count)[codes]
    variances = np.bincount(codes, weights=off**2) * (count - 1) / count
    error = math.sqrt(float(variances.sum()))
    if error <= ROUNDING * max(1.0, abs(value)):
        return result.with_note(NO_WIDTH.format(unit=unit))
    error = math.sqrt(error**2 + noise)
    df = float(error**4 / (variances**2 / (count - 1)).sum())
    return result.with_error(error, df, null=null, bounds=bounds)


def _sums_without(parts: Floats, codes: NDArray[np.int64], count: NDArray[np.int64]) -> Floats:
    """Return the sums without each unit, `[units, m]`; with strata, its stratum keeps its size."""
    total = parts.sum(axis=0)
    if len(count) == 1:
        return np.asarray(total - parts)
    means = np.stack([np.bincount(codes, weights=part) for part in parts.T], axis=1) / count[:, None]
    return np.asarray(total - (count / (count - 1))[codes, None] * (parts - means[codes]))


def bootstrap_weights(units: int, *, replicates: int, seed: int) -> Floats:
    """Return how often each unit is drawn in each bootstrap replicate, `[replicates, units]` (Efron 1979).

    Every row sums to `units`, and the seed alone decides.
    """
    drawn = np.random.default_rng(seed).integers(0, units, size=(replicates, units))
    flat = drawn + units * np.arange(replicates)[:, None]
    counts = np.bincount(flat.ravel(), minlength=replicates * units)
    return counts.reshape(replicates, units).astype(np.float64)


def percentile_interval(value: float, replicates: Floats, *, level: float, n: int, seed: int) -> Estimate:
    """Return a value with the percentile interval of its bootstrap replicates, `[R]`; NaN is undefined."""
    method = f"percentile bootstrap over prompts, {len(replicates)} replicates, seed {seed}"
    result = Estimate(value=value, level=level, n=n, method=method)
    defined = replicates[~np.isnan(replicates)]
    if n < 2:
        return result.with_note(ONE_UNIT.format(unit="prompt"))
    if len(defined) < (1 - MAX_UNDEFINED_SHARE) * len(replicates):
        return result.with_note("many resamples have no value: too few prompts have what the metric needs")
    if np.ptp(defined) <= ROUNDING * max(1.0, abs(value)):
        return result.with_note(NO_WIDTH.format(unit="prompt"))
    low, high = np.quantile(defined, [(1 - level) / 2, (1 + level) / 2]).tolist()
    return replace(result, low=low, high=high)


def bootstrap(
    sums: ArrayLike, function: Statistic, *, replicates: int = 2000, seed: int, level: float = 0.95
) -> Estimate:
    """Estimate a statistic of sums `[units, m]` with the percentile interval of resampled units."""
    parts = np.asarray(sums, dtype=np.float64)
    if not len(parts):
        return Estimate(level=level, note=NO_DATA)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = float(function(parts.sum(axis=0)))
        values = function(bootstrap_weights(len(parts), replicates=replicates, seed=seed) @ parts)
    if not math.isfinite(value):
        return Estimate(level=level, n=len(parts), note=UNDEFINED)
    return percentile_interval(value, np.asarray(values), level=level, n=len(parts), seed=seed)


def sign_flip(scores: ArrayLike, *, seed: int = 0, unit: str = "prompt") -> Estimate:
    """Test that units' scores are symmetric about zero, by flipping their signs (Fisher 1935).

    If neither method is better, a unit's score is as likely as its negative, so |Σ score| is compared with
    that of all 2ⁿ patterns of signs. This is exact if the scores are fractions whose distribution can be
    computed in a quarter of a second, or if the units are few enough to enumerate. Otherwise patterns are
    drawn, and p = (1 + as extreme) / (1 + drawn), a valid p by itself (Phipson and Smyth 2010). `method` says
    which.

    Args:
        scores: The units' scores, positive for one method and negative for the other, `[units]`.
        seed: The seed of drawn patterns.
        unit: What a unit is, for notes.

    Returns:
        The mean score with p and the smallest possible p. `n` counts the scores that are not zero.

    >>> sign_flip([1, 1, 1, 1, 1, 1]).p  # 2 of 2⁶ patterns
    0.03125
    """
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 1 or not np.isfinite(values).all():
        raise ValueError("scores are finite numbers in one dimension")
    magnitudes = np.abs(values[values != 0])
    n, name = len(magnitudes), f"sign-flip test over {unit}s"
    if n == 0:
        note = f"no {unit} favours either method" if len(values) else NO_DATA
        return Estimate(unit=unit, method=name, note=note, smallest_p=1.0)
    smallest, p = math.ldexp(1.0, 1 - n), _lattice_p(values)
    sizes, counts = np.unique(magnitudes, return_counts=True)
    limit = abs(float(values.sum())) - ROUNDING * float(magnitudes.sum())
    if p is not None:
        name = f"exact {name}"
    elif n <= MAX_ENUMERATED_UNITS:
        signs = 1.0 - 2 * ((np.arange(1 << n, dtype=np.int64)[:, None] >> np.arange(n)) & 1)
        p, name = float((np.abs(signs @ magnitudes) >= limit).mean()), f"exact {name}"
    else:
        draws = max(1000, min(MAX_DRAWS, MAX_DRAWN_SIGNS // len(sizes)))
        rng, rows, extreme = np.random.default_rng(seed), max(1, _BLOCK_FLOATS // len(sizes)), 0
        for start in range(0, draws, rows):
            shape = (min(rows, draws - start), len(sizes))
            coins = rng.integers(0, 2, size=shape, dtype=np.int8) if counts.max() == 1 else None
            heads = rng.binomial(counts, 0.5, size=shape) if coins is None else coins
            extreme += int((np.abs((2 * heads - counts) @ sizes) >= limit).sum())
        p, smallest = (1 + extreme) / (1 + draws), max(smallest, 1 / (1 + draws))
        name = f"{name}, {draws} drawn patterns, seed {seed}"
    return Estimate(
        value=float(values.mean()), p=min(1.0, p), n=n, unit=unit, method=name, smallest_p=smallest
    )


def _lattice_p(values: Floats) -> float | None:
    """Return the exact p of scores that are fractions; None if they are not, or if it would take too long.

    Σ ± m = 2 Σ m·b − Σ m with fair bits b, so p is twice the chance of the lower tail of Σ m·b. Scores of
    one size are added together, as a binomial number of heads. What lies above the tail never comes down.
    """
    distinct, which = np.unique(values, return_inverse=True)
    fractions = [Fraction(value).limit_denominator(MAX_DENOMINATOR) for value in distinct.tolist()]
    common = math.lcm(*(fraction.denominator for fraction in fractions))
    rounding = np.abs(np.array([float(fraction) for fraction in fractions]) - distinct)
    if (rounding > ROUNDING * np.maximum(1, np.abs(distinct))).any():
        return None
    if common * float(np.abs(values).sum()) > MAX_ADDITIONS:
        return None
    tops = np.array([int(fraction * common) for fraction in fractions], dtype=np.int64)
    scores = tops[which] // np.gcd.reduce(tops)
    total, reach = abs(int(scores.sum())), int(np.abs(scores).sum())
    last = (reach - total) // 2
    if total == 0:
        return 1.0
    sizes, counts = np.unique(np.abs(scores[scores != 0]), return_counts=True)
    groups = list(zip(sizes.tolist(), counts.tolist(), strict=True))
    # Numbers of heads that are too rare to change p are left out. p is seldom far below Hoeffding's bound.
    bound = math.exp(-(total**2) / (2 * float((scores.astype(float) ** 2).sum())))
    p = _tail(groups, last, negligible=1e-17 * bound**2 / len(scores))
    return p if p is None or p > bound**1.5 else _tail(groups, last, negligible=0.0)


def _tail(groups: list[tuple[int, int]], last: int, *, negligible: float) -> float | None:
    """Return twice the chance that Σ size · heads is at most `last`; None if it would take too long."""
    heads = [_fair_coins(count)[: last // size + 1] for size, count in groups]
    kept = [np.flatnonzero(chances > negligible) for chances in heads]
    if (last + 1) * sum(map(len, kept)) > MAX_ADDITIONS:
        return None
    tail = np.zeros(last + 1)
    tail[0] = 1.0
    for (size, _), chances, numbers in zip(groups, heads, kept, strict=True):
        before, tail = tail, np.zeros(last + 1)
        for head in numbers.tolist():
            tail[head * size :] += chances[head] * before[: last + 1 - head * size]
    return 2 * math.fsum(tail)


def _fair_coins(count: int) -> Floats:
    """Return the chances of 0 … `count` heads."""
    if count > 1000:  # beyond, a binomial coefficient is no float
        return np.asarray(stats.binom.pmf(np.arange(count + 1), count, 0.5))
    return np.array([math.ldexp(math.comb(count, heads), -count) for heads in range(count + 1)])


def adjust(
    p_values: Sequence[float | None],
    method: str = "holm",
    *,
    smallest: Sequence[float] | None = None,
    alpha: float = 0.05,
) -> list[float | None]:
    """Return p-values adjusted for the number of declared tests, by Holm or by Benjamini and Hochberg.

    A declared test that could not be made is None. It counts towards the size of the family, which was
    chosen before the data were seen.

    Args:
        p_values: The p-values of the family.
        method: "holm", "bh" or "by".
        smallest: The smallest p of each test. An adjusted p that could not have reached `alpha` becomes None.
        alpha: The error rate.

    >>> adjust([0.01, None, 0.03])
    [0.03, None, 0.06]
    """
    for value in p_values:
        if value is not None and not 0 <= value <= 1:
            raise ValueError(f"a p-value lies between 0 and 1; {value} does not")
    tested = list(p_values)
    if smallest is not None:
        limits = [None if p is None else least for p, least in zip(p_values, smallest, strict=True)]
        reached = adjust(limits, method)
        tested = [limit if limit is None or not why_no_p(limit, alpha) else None for limit in reached]
    whole = [1.0 if value is None else value for value in p_values]
    adjusted = multipletests(whole, method=METHODS[method])[1].tolist() if whole else []
    return [None if test is None else value for test, value in zip(tested, adjusted, strict=True)]
