"""Ranking of more than two methods: Davidson's model with ties, and half-win Bradley–Terry for comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from analysis.core import ranking_newton as newton
from analysis.core.intervals import Interval
from analysis.core.ranking_existence import components_of, why_undefined

DAVIDSON = "Davidson's model with ties, maximum likelihood"
HALF_WIN = "Bradley–Terry with each tie as half a win to both, maximum likelihood"
SHRINKS = (
    "half wins shrink the strengths: with many ties a true difference of −1.00 becomes about −0.77; "
    "Davidson's model does not"
)
PER_COMPARISON = "Wald interval from the information matrix, taking comparisons for independent"


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranking:
    """Strengths of methods from their comparisons; `None` where the data determine none.

    Attributes:
        methods: Their names, in the order of all that follows.
        strengths: log π, summing to 0.
        log_nu: log ν of the ties; `None` where the model has no ν or there is no tie.
        covariance: Inverse information of the strengths and then, if there is one, log ν. It takes
            comparisons for independent.
        shares: Expected win share against the average other method, ties split.
        components: The groups of methods that comparisons connect; strengths compare within a group alone.
        n: Comparisons.
        iterations: Newton steps.
        log_likelihood: Without the multinomial coefficient.
        method: Model and estimator, in words.
        reason: Why there are no strengths, or empty.
        warnings: What a reader must know before using it.
    """

    methods: tuple[str, ...]
    strengths: tuple[float, ...] | None
    log_nu: float | None
    covariance: tuple[tuple[float, ...], ...] | None
    shares: tuple[float, ...] | None
    components: tuple[tuple[str, ...], ...]
    n: float
    iterations: int
    log_likelihood: float | None
    method: str
    reason: str = ""
    warnings: tuple[str, ...] = ()


def davidson(wins: ArrayLike, ties: ArrayLike, methods: Sequence[str]) -> Ranking:
    """Fit Davidson's model (Davidson 1970): P(i beats j) ∝ π_i, P(tie) ∝ ν √(π_i π_j).

    Without any tie ν is 0 and the model is Bradley and Terry's. Estimates that the data would send to
    infinity are not given, and `reason` names the methods to blame.

    Args:
        wins: `wins[i, j]` is how often method i beat method j, `[K, K]`, zero diagonal.
        ties: `ties[i, j]` is how often i and j tied, `[K, K]`, symmetric, zero diagonal.
        methods: K different names.

    >>> found = davidson([[0, 8], [2, 0]], [[0, 4], [4, 0]], ["guard", "nucleus"])
    >>> round(found.strengths[0] - found.strengths[1], 4)  # log 8/2
    1.3863
    """
    won, tied = _checked(wins, ties, methods)
    warnings = ("no comparison is a tie, so ν is 0 and the model is Bradley and Terry's",)
    return _fitted(won, tied, methods, DAVIDSON, () if tied.any() else warnings)


def half_win(wins: ArrayLike, ties: ArrayLike, methods: Sequence[str]) -> Ranking:
    """Fit Bradley and Terry's model (Bradley and Terry 1952) with each tie as half a win to both.

    The arguments are those of `davidson`, which is to be preferred: half wins shrink the strengths, and what
    is maximised is no likelihood of the verdicts.
    """
    won, tied = _checked(wins, ties, methods)
    return _fitted(won + tied / 2, np.zeros_like(tied), methods, HALF_WIN, (SHRINKS,) if tied.any() else ())


def information_intervals(ranking: Ranking, *, level: float = 0.95) -> tuple[Interval, ...]:
    """Return an interval of each strength from the model's information matrix.

    It takes comparisons for independent, which several verdicts on one item are not: then it is too narrow.
    """
    if not 0 < level < 1:
        raise ValueError(f"a confidence level lies between 0 and 1; {level} does not")
    n = int(ranking.n)
    if ranking.strengths is None or ranking.covariance is None:
        blank = Interval(
            estimate=None,
            low=None,
            high=None,
            level=level,
            n=n,
            method=PER_COMPARISON,
            warnings=(ranking.reason,),
        )
        return (blank,) * len(ranking.methods)
    z = float(special.ndtri(0.5 + level / 2))
    halves = z * np.sqrt(np.diag(ranking.covariance))
    return tuple(
        Interval(
            estimate=strength,
            low=strength - float(half),
            high=strength + float(half),
            level=level,
            n=n,
            method=PER_COMPARISON,
        )
        for strength, half in zip(ranking.strengths, halves, strict=False)  # log ν's comes last
    )


def _fitted(
    wins: newton.Floats, ties: newton.Floats, methods: Sequence[str], method: str, warnings: tuple[str, ...]
) -> Ranking:
    n = float(wins.sum() + ties.sum() / 2)
    components = components_of(wins, ties, methods)
    reason = why_undefined(wins, ties, methods)
    if reason:
        return _undefined(
            methods, components=components, n=n, method=method, reason=reason, warnings=warnings
        )
    table = newton.to_pairs(wins, ties)
    start = np.zeros(len(methods) + 1)
    tied = float(ties.sum()) / 2
    if tied:
        # Of equals a share ν / (2 + ν) ties.
        start[-1] = np.log(2 * tied / (n - tied))
    fits = newton.fit(table[None], start)
    if not fits.converged[0]:
        why = f"Newton's method did not arrive in {int(fits.iterations[0])} steps"
        return _undefined(methods, components=components, n=n, method=method, reason=why, warnings=warnings)
    parameters = fits.parameters[0]
    size = len(methods) + (tied > 0)
    covariance = newton.covariance(parameters, table)[:size, :size]
    return Ranking(
        methods=tuple(methods),
        strengths=tuple(parameters[:-1].tolist()),
        log_nu=float(parameters[-1]) if tied else None,
        covariance=tuple(tuple(row) for row in covariance.tolist()),
        shares=tuple(newton.shares(parameters).tolist()),
        components=components,
        n=n,
        iterations=int(fits.iterations[0]),
        log_likelihood=float(fits.log_likelihood[0]),
        method=method,
        warnings=warnings,
    )


def _undefined(
    methods: Sequence[str],
    *,
    components: tuple[tuple[str, ...], ...],
    n: float,
    method: str,
    reason: str,
    warnings: tuple[str, ...],
) -> Ranking:
    return Ranking(
        methods=tuple(methods),
        strengths=None,
        log_nu=None,
        covariance=None,
        shares=None,
        components=components,
        n=n,
        iterations=0,
        log_likelihood=None,
        method=method,
        reason=reason,
        warnings=warnings,
    )


def _checked(wins: ArrayLike, ties: ArrayLike, methods: Sequence[str]) -> tuple[newton.Floats, newton.Floats]:
    won, tied = np.asarray(wins, dtype=float), np.asarray(ties, dtype=float)
    size = len(methods)
    if size < 2 or len(set(methods)) != size:
        raise ValueError(f"a ranking takes two or more different methods; got {list(methods)}")
    for name, matrix in (("wins", won), ("ties", tied)):
        if matrix.shape != (size, size):
            raise ValueError(f"{name} is {size} × {size}, one row per method; got shape {matrix.shape}")
        if not np.isfinite(matrix).all() or (matrix < 0).any():
            raise ValueError(f"{name} are counts, finite and not negative")
        if np.diag(matrix).any():
            raise ValueError(f"no method is compared with itself, but the diagonal of {name} is not zero")
    if (tied != tied.T).any():
        raise ValueError("a tie is a tie of both: ties[i, j] must equal ties[j, i]")
    return won, tied
