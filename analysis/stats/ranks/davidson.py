"""Ranking of more than two methods: Davidson's model with ties, and half-win Bradley–Terry for comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csgraph

Floats = NDArray[np.float64]


def why_undefined(wins: Floats, ties: Floats, methods: Sequence[str]) -> str:
    """Return why Davidson's likelihood has no finite maximum, or an empty string where it has one.

    It has one if and only if two things hold. Every method can be reached from every other along comparisons
    that the first did not lose (for Bradley–Terry: Ford 1957). And, if there are ties, some cycle of such
    comparisons holds more wins than ties: otherwise numbers δ exist with δ_i − δ_j ≥ 1 wherever i beat j and
    |δ_i − δ_j| ≤ 1 wherever they tied, and moving the strengths along 2δ and log ν along 1 never lowers the
    likelihood of any verdict. Such δ are the potentials of a graph without a negative cycle.
    """
    count, group_of = csgraph.connected_components(wins + ties, directed=False)
    if count > 1:
        groups = [
            ", ".join(name for name, its in zip(methods, group_of, strict=True) if its == group)
            for group in range(count)
        ]
        names = " and ".join(f"{{{group}}}" for group in groups)
        return f"the groups {names} are never compared with each other; rank each by itself"
    held = (wins > 0) | (ties > 0)
    count, group_of = csgraph.connected_components(held.astype(float), directed=True, connection="strong")
    if count > 1:
        return _one_way(held, methods, group_of)
    if not ties.any():
        return ""
    lengths = np.where(wins > 0, -1.0, np.where(ties > 0, 1.0, 0.0))
    try:
        csgraph.bellman_ford(lengths, directed=True, indices=[0])
    except csgraph.NegativeCycleError:
        return ""
    blame = _blame(
        [name for name, lost in zip(methods, wins.sum(axis=0), strict=True) if not lost],
        [name for name, won in zip(methods, wins.sum(axis=1), strict=True) if not won],
    )
    cause = "no cycle of comparisons holds more wins than ties, so strengths and ν would grow without limit"
    return f"{blame}; {cause}" if blame else cause


def _one_way(held: NDArray[np.bool_], methods: Sequence[str], group_of: NDArray[np.int32]) -> str:
    best: list[str] = []
    worst: list[str] = []
    for group in range(int(group_of.max()) + 1):
        inside = group_of == group
        names = [name for name, member in zip(methods, inside, strict=True) if member]
        if not held[np.ix_(~inside, inside)].any():
            best += names
        if not held[np.ix_(inside, ~inside)].any():
            worst += names
    return _blame(best, worst, " or tie against the other methods") + "; their strengths would be infinite"


def _blame(best: Sequence[str], worst: Sequence[str], more: str = "") -> str:
    parts = [
        f"without a {what}{more}: {', '.join(names)}"
        for names, what in ((best, "loss"), (worst, "win"))
        if names
    ]
    return "; ".join(parts)


_STEPS = 200
_HALVINGS = 40
_CLOSE = 1e-14
"""Newton decrement per comparison at which the step just taken is the last: what is left is rounding."""
_REACH = 5.0
"""Longest step of a log-strength; further out the curvature at hand says nothing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fits:
    """Maximum-likelihood fits of R tables.

    Attributes:
        parameters: Log-strengths summing to 0, then log ν (−∞ where a table has no tie), `[R, K + 1]`.
        log_likelihood: Without the multinomial coefficient, `[R]`.
        converged: `[R]`.
    """

    parameters: Floats
    log_likelihood: Floats
    converged: NDArray[np.bool_]


def to_pairs(wins: Floats, ties: Floats) -> Floats:
    """Return `wins[i, j]` and symmetric `ties[i, j]` in pair form, `[P, 3]`."""
    first, second = np.triu_indices(len(wins), 1)
    return np.stack([wins[first, second], ties[first, second], wins[second, first]], axis=-1)


def to_matrices(table: Floats, methods: int) -> tuple[Floats, Floats]:
    """Return wins and ties, `[K, K]` each, of a `table` in pair form."""
    first, second = np.triu_indices(methods, 1)
    wins, ties = np.zeros((2, methods, methods))
    wins[first, second], wins[second, first] = table[:, 0], table[:, 2]
    ties[first, second] = ties[second, first] = table[:, 1]
    return wins, ties


def shares(parameters: Floats) -> Floats:
    """Return each method's expected win share against the average other method, ties split, `[..., K]`."""
    methods = parameters.shape[-1] - 1
    first, second = (np.eye(methods)[side] for side in np.triu_indices(methods, 1))
    chance = np.exp(_log_probabilities(parameters))
    points = chance[..., 0] + chance[..., 1] / 2
    won: Floats = (points @ first + (1 - points) @ second) / (methods - 1)
    return won


def fit(tables: Floats, start: Floats) -> Fits:
    """Fit Davidson's model (Davidson 1970) to `tables`, `[R, P, 3]`, from `start`, `[K + 1]`.

    P(i beats j) ∝ π_i and P(tie) ∝ ν √(π_i π_j). With log π and log ν as parameters the likelihood is
    concave. A table without ties has ν = 0, which leaves Bradley and Terry's model. The tables must have
    finite estimates; a fit that ends elsewhere is marked, never repeated.
    """
    parameters = np.tile(start, (len(tables), 1))
    no_ties = tables[..., 1].sum(axis=-1) == 0
    parameters[no_ties, -1] = -np.inf
    likelihood = _log_likelihood(parameters, tables)
    converged = np.zeros(len(tables), dtype=np.bool_)
    size = tables.sum(axis=(1, 2))
    for _ in range(_STEPS):
        active = np.flatnonzero(~converged)
        if len(active) == 0:
            break
        gradient, information = moments(parameters[active], tables[active])
        solution = np.linalg.solve(information + gauge(information), gradient[..., None])
        step = np.asarray(solution[..., 0], dtype=np.float64)
        decrement = (gradient * step).sum(axis=-1)
        step *= np.minimum(1, _REACH / np.maximum(np.abs(step).max(axis=-1), 1e-300))[:, None]
        parameters[active], likelihood[active] = _climb(
            parameters[active], step, tables[active], likelihood[active]
        )
        converged[active] = decrement <= _CLOSE * size[active]
    parameters[:, :-1] -= parameters[:, :-1].mean(axis=-1, keepdims=True)
    return Fits(parameters=parameters, log_likelihood=likelihood, converged=converged)


def moments(parameters: Floats, tables: Floats) -> tuple[Floats, Floats]:
    """Return the gradient, `[R, K + 1]`, and the information, `[R, K + 1, K + 1]`.

    A table without ties has no log ν to move: its entry in the information is 1, so that it stays.
    """
    methods = parameters.shape[-1] - 1
    design = _design(methods)
    chance = np.exp(_log_probabilities(parameters))
    n = tables.sum(axis=-1)
    lean, tie = (chance[..., 0] - chance[..., 2]) / 2, chance[..., 1]
    gradient = np.empty_like(parameters)
    gradient[:, :-1] = ((tables[..., 0] - tables[..., 2]) / 2 - n * lean) @ design
    gradient[:, -1] = (tables[..., 1] - n * tie).sum(axis=-1)
    information = np.zeros((len(tables), methods + 1, methods + 1))
    spread = n * ((chance[..., 0] + chance[..., 2]) / 4 - lean**2)
    first, second = np.triu_indices(methods, 1)
    information[:, first, second] = information[:, second, first] = -spread
    information[:, range(methods), range(methods)] = spread @ np.abs(design)
    information[:, :-1, -1] = information[:, -1, :-1] = -(n * lean * tie) @ design
    information[:, -1, -1] = (n * tie * (1 - tie)).sum(axis=-1) + np.isneginf(parameters[:, -1])
    return gradient, information


def gauge(information: Floats) -> Floats:
    """Return what to add to make `information` invertible: strengths are determined only up to a constant."""
    methods = information.shape[-1] - 1
    mean = np.trace(information[:, :-1, :-1], axis1=1, axis2=2) / methods
    out = np.zeros_like(information)
    out[:, :-1, :-1] = (mean / methods)[:, None, None]
    return out


def _design(methods: int) -> Floats:
    """Return `[P, K]`: +1 at the pair's first method, −1 at its second."""
    identity = np.eye(methods)
    first, second = np.triu_indices(methods, 1)
    return identity[first] - identity[second]


def _log_probabilities(parameters: Floats) -> Floats:
    """Return log P of (first wins, tie, second wins), `[..., P, 3]`."""
    half = parameters[..., :-1] @ _design(parameters.shape[-1] - 1).T / 2
    tie = np.broadcast_to(parameters[..., -1:], half.shape)
    whole = np.logaddexp(np.logaddexp(half, -half), tie)
    found: Floats = np.stack([half - whole, tie - whole, -half - whole], axis=-1)
    return found


def _log_likelihood(parameters: Floats, tables: Floats) -> Floats:
    log_chance = np.where(tables > 0, _log_probabilities(parameters), 0.0)
    total: Floats = (tables * log_chance).sum(axis=(-2, -1))
    return total


def _climb(
    parameters: Floats,
    step: Floats,
    tables: Floats,
    before: Floats,
) -> tuple[Floats, Floats]:
    """Take the step, halved for those tables whose likelihood it would lower."""
    scale = np.ones(len(step))
    for _ in range(_HALVINGS):
        moved = parameters + scale[:, None] * step
        after = _log_likelihood(moved, tables)
        # Rounding moves the sum by some 1e-14 of itself: near the top that must not stop a good step.
        lower = after < before - 1e-12 * np.abs(before)
        if not lower.any():
            break
        scale[lower] /= 2
    return moved, after


DAVIDSON = "Davidson's model with ties, maximum likelihood"
HALF_WIN = "Bradley–Terry with each tie as half a win to both, maximum likelihood"
SHRINKS = (
    "half wins shrink the strengths: with many ties a true difference of −1.00 becomes about −0.77; "
    "Davidson's model does not"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranking:
    """Strengths of methods from their comparisons; `None` where the data determine none.

    Attributes:
        methods: Their names, in the order of all that follows.
        strengths: log π, summing to 0.
        log_nu: log ν of the ties; `None` where the model has no ν or there is no tie.
        shares: Expected win share against the average other method, ties split.
        n: Comparisons.
        log_likelihood: Without the multinomial coefficient.
        method: Model and estimator, in words.
        reason: Why there are no strengths, or empty.
        warnings: What a reader must know before using it.
    """

    methods: tuple[str, ...]
    strengths: tuple[float, ...] | None = None
    log_nu: float | None = None
    shares: tuple[float, ...] | None = None
    n: float
    log_likelihood: float | None = None
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


def _fitted(
    wins: Floats, ties: Floats, methods: Sequence[str], method: str, warnings: tuple[str, ...]
) -> Ranking:
    n, tied = float(wins.sum() + ties.sum() / 2), float(ties.sum()) / 2
    whole = Ranking(methods=tuple(methods), n=n, method=method, warnings=warnings)
    reason = why_undefined(wins, ties, methods)
    if reason:
        return replace(whole, reason=reason)
    start = np.zeros(len(methods) + 1)
    if tied:
        # Of equals a share ν / (2 + ν) ties.
        start[-1] = np.log(2 * tied / (n - tied))
    fits = fit(to_pairs(wins, ties)[None], start)
    if not fits.converged[0]:
        return replace(whole, reason=f"Newton's method did not arrive in {_STEPS} steps")
    parameters = fits.parameters[0]
    return replace(
        whole,
        strengths=tuple(parameters[:-1].tolist()),
        log_nu=float(parameters[-1]) if tied else None,
        shares=tuple(shares(parameters).tolist()),
        log_likelihood=float(fits.log_likelihood[0]),
    )


def _checked(wins: ArrayLike, ties: ArrayLike, methods: Sequence[str]) -> tuple[Floats, Floats]:
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
