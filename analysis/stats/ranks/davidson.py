"""Davidson's model of comparisons with ties: maximum likelihood, and why it has no maximum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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


MAX_STEPS = 500
CONVERGED = 1e-14
"""Newton decrement per comparison at which the step just taken is the last: what is left is rounding."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Strengths:
    """A fit of Davidson's model.

    Attributes:
        parameters: Log-strengths summing to 0, then log ν (−∞ without ties), [K + 1]; None if undefined.
        reason: Why there are no strengths, or empty.
    """

    parameters: Floats | None = None
    reason: str = ""


def davidson(wins: ArrayLike, ties: ArrayLike, methods: Sequence[str]) -> Strengths:
    """Fit Davidson's model (Davidson 1970): P(i beats j) ∝ π_i, P(tie) ∝ ν √(π_i π_j).

    Without any tie ν is 0 and the model is Bradley and Terry's. Estimates that the data would send to
    infinity are not given, and `reason` names the methods to blame.

    Args:
        wins: `wins[i, j]` is how often method i beat method j, `[K, K]`, zero diagonal.
        ties: `ties[i, j]` is how often i and j tied, `[K, K]`, symmetric, zero diagonal.
        methods: K different names.

    >>> fit = davidson([[0, 8], [2, 0]], [[0, 4], [4, 0]], ["guard", "nucleus"])
    >>> round(float(fit.parameters[0] - fit.parameters[1]), 4)  # log 8/2
    1.3863
    """
    won, tied = np.asarray(wins, dtype=float), np.asarray(ties, dtype=float)
    if reason := why_undefined(won, tied, methods):
        return Strengths(reason=reason)
    return Strengths(parameters=fit(won, tied))


def fit(wins: Floats, ties: Floats) -> Floats:
    """Return the maximum-likelihood log-strengths and log ν, `[K + 1]`, by Newton's method.

    With log π and log ν as parameters the likelihood is concave; the tables must have a finite maximum.
    """
    methods = len(wins)
    first, second = np.triu_indices(methods, 1)
    table = np.stack([wins[first, second], ties[first, second], wins[second, first]], axis=-1)
    n, tied = float(table.sum()), float(table[:, 1].sum())
    # Of equals a share ν / (2 + ν) ties.
    parameters = np.append(np.zeros(methods), np.log(2 * tied / (n - tied)) if tied else -np.inf)
    for _ in range(MAX_STEPS):
        gradient, information = _moments(parameters, table)
        step = np.linalg.solve(information + gauge(information), gradient)
        size = max(2 * float(np.abs(step).max()), 1e-300)
        parameters += step * (np.log1p(size) / size)  # so damped, it never goes too far (Bach 2010)
        if float(gradient @ step) <= CONVERGED * n:
            break
    parameters[:-1] -= parameters[:-1].mean()
    return parameters


def shares(parameters: Floats) -> Floats:
    """Return each method's expected win share against the average other method, ties split, `[..., K]`."""
    methods = parameters.shape[-1] - 1
    first, second = (np.eye(methods)[side] for side in np.triu_indices(methods, 1))
    chance = np.exp(_log_probabilities(parameters))
    points = chance[..., 0] + chance[..., 1] / 2
    return np.asarray((points @ first + (1 - points) @ second) / (methods - 1))


def _moments(parameters: Floats, table: Floats) -> tuple[Floats, Floats]:
    """Return the gradient, `[K + 1]`, and the information, `[K + 1, K + 1]`.

    Without ties there is no log ν to move: its entry in the information is 1, so that it stays.
    """
    methods = len(parameters) - 1
    design, n = _design(methods), table.sum(axis=-1)
    chance = np.exp(_log_probabilities(parameters))
    net, tie = (chance[:, 0] - chance[:, 2]) / 2, chance[:, 1]
    gradient = np.append(((table[:, 0] - table[:, 2]) / 2 - n * net) @ design, (table[:, 1] - n * tie).sum())
    information = np.zeros((methods + 1, methods + 1))
    spread = n * ((chance[:, 0] + chance[:, 2]) / 4 - net**2)
    information[:-1, :-1] = design.T @ (spread[:, None] * design)
    information[:-1, -1] = information[-1, :-1] = -(n * net * tie) @ design
    information[-1, -1] = (n * tie * (1 - tie)).sum() + np.isneginf(parameters[-1])
    return gradient, information


def gauge(information: Floats) -> Floats:
    """Return what to add to make `information` invertible: strengths are determined only up to a constant.

    Args:
        information: `[..., K + 1, K + 1]`.
    """
    methods = information.shape[-1] - 1
    mean = np.trace(information[..., :-1, :-1], axis1=-2, axis2=-1) / methods
    out = np.zeros_like(information)
    out[..., :-1, :-1] = (mean / methods)[..., None, None]
    return out


def _design(methods: int) -> Floats:
    """Return `[P, K]`: +1 at the pair's first method, −1 at its second."""
    first, second = (np.eye(methods)[side] for side in np.triu_indices(methods, 1))
    return np.asarray(first - second)


def _log_probabilities(parameters: Floats) -> Floats:
    """Return log P of (first wins, tie, second wins), `[..., P, 3]`."""
    half = parameters[..., :-1] @ _design(parameters.shape[-1] - 1).T / 2
    tie = np.broadcast_to(parameters[..., -1:], half.shape)
    whole = np.logaddexp(np.logaddexp(half, -half), tie)
    return np.asarray(np.stack([half - whole, tie - whole, -half - whole], axis=-1))
