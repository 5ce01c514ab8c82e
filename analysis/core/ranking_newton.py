"""Davidson's model of comparisons with ties: its probabilities, and Newton's method for many tables at once.

Tables are in pair form: pair p of K methods is the p-th of `numpy.triu_indices(K, 1)`, and its row holds
(wins of the first, ties, wins of the second).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

Floats = NDArray[np.float64]

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
        iterations: Newton steps, `[R]`.
        converged: `[R]`.
    """

    parameters: Floats
    log_likelihood: Floats
    iterations: NDArray[np.int64]
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
    iterations = np.zeros(len(tables), dtype=np.int64)
    converged = np.zeros(len(tables), dtype=np.bool_)
    size = tables.sum(axis=(1, 2))
    for _ in range(_STEPS):
        active = np.flatnonzero(~converged)
        if len(active) == 0:
            break
        gradient, information = moments(parameters[active], tables[active])
        solution = np.linalg.solve(information + _gauge(information), gradient[..., None])
        step = np.asarray(solution[..., 0], dtype=np.float64)
        decrement = (gradient * step).sum(axis=-1)
        step *= np.minimum(1, _REACH / np.maximum(np.abs(step).max(axis=-1), 1e-300))[:, None]
        parameters[active], likelihood[active] = _climb(
            parameters[active], step, tables[active], likelihood[active]
        )
        iterations[active] += 1
        converged[active] = decrement <= _CLOSE * size[active]
    parameters[:, :-1] -= parameters[:, :-1].mean(axis=-1, keepdims=True)
    return Fits(parameters=parameters, log_likelihood=likelihood, iterations=iterations, converged=converged)


def covariance(parameters: Floats, table: Floats) -> Floats:
    """Return the inverse information of one `table`, `[K + 1, K + 1]`, with the strengths summing to 0."""
    information = moments(parameters[None], table[None])[1]
    gauge = _gauge(information)[0]
    found: Floats = np.linalg.inv(information[0] + gauge)
    methods = len(found) - 1
    # The gauge's own direction, all strengths alike, is no uncertainty.
    found[:-1, :-1] -= 1 / (gauge[0, 0] * methods**2)
    return found


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
    squares = (design[:, :, None] * design[:, None, :]).reshape(len(design), -1)
    information[:, :-1, :-1] = (spread @ squares).reshape(-1, methods, methods)
    information[:, :-1, -1] = information[:, -1, :-1] = -(n * lean * tie) @ design
    information[:, -1, -1] = (n * tie * (1 - tie)).sum(axis=-1) + np.isneginf(parameters[:, -1])
    return gradient, information


def _gauge(information: Floats) -> Floats:
    """Return what makes `information` invertible: strengths are told apart only up to a constant."""
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
    logits = np.stack([half, tie, -half], axis=-1)
    found: Floats = special.log_softmax(logits, axis=-1)
    return found


def _log_likelihood(parameters: Floats, tables: Floats) -> Floats:
    log_chance = np.where(tables > 0, _log_probabilities(parameters), 0.0)
    total: Floats = (tables * log_chance).sum(axis=(-2, -1))
    return total


def _climb(parameters: Floats, step: Floats, tables: Floats, before: Floats) -> tuple[Floats, Floats]:
    """Take the step, halved for those tables whose likelihood it would lower."""
    scale = np.ones(len(step))
    for _ in range(_HALVINGS):
        there = parameters + scale[:, None] * step
        after = _log_likelihood(there, tables)
        # Rounding moves the sum by some 1e-14 of itself: near the top that must not stop a good step.
        lower = after < before - 1e-12 * np.abs(before)
        if not lower.any():
            break
        scale[lower] /= 2
    return there, after
