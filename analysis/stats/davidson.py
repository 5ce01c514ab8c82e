"""Fit Davidson's model of comparisons with ties."""

from typing import NamedTuple, Self

import numpy as np
from scipy import special
from scipy.sparse import csgraph

from guard_eval.estimate import Floats, Integers

UTILITIES = np.array([[0.5, -0.5, 0.0], [0.0, 0.0, 1.0], [-0.5, 0.5, 0.0]])
"""Rows: a win, a tie and a loss of the first method. Columns: the factors of both log-strengths and log ν."""
LEAST_LOG_NU = -1e6
"""A log ν that makes a tie impossible. Unlike −∞ it can be multiplied by 0."""
MAX_STEPS = 500
CONVERGED = 1e-14
"""The Newton decrement per comparison at which the iteration ends. Smaller steps are rounding errors."""


class ComparedPairs(NamedTuple):
    """The probabilities, expectations and information of comparisons in Davidson's model.

    Attributes:
        places: The indices of each comparison's parameters: two log-strengths and log ν, [n, 3].
        chances: The probabilities of a win, a tie and a loss of the first method, [n, 3].
        expected: The mean of `UTILITIES` over these probabilities, [n, 3].
        information: The Fisher information of the comparison on its three parameters, [n, 3, 3].
    """

    places: Integers
    chances: Floats
    expected: Floats
    information: Floats

    @classmethod
    def from_strengths(
        cls,
        parameters: Floats,
        first: Integers,
        second: Integers,
    ) -> Self:
        """Apply the model to comparisons of the methods numbered `first` and `second`, [n] each."""
        log_nu = np.full(len(first), len(parameters) - 1)
        places = np.stack([first, second, log_nu], axis=-1)
        utilities = np.maximum(parameters, LEAST_LOG_NU)[places] @ UTILITIES.T
        chances = special.softmax(utilities, axis=-1)
        expected = chances @ UTILITIES
        products = UTILITIES[:, :, None] * UTILITIES[:, None, :]
        mean_products = np.tensordot(chances, products, 1)
        information = mean_products - expected[:, :, None] * expected[:, None, :]
        return cls(places, chances, expected, information)

    def sum_fisher_information(self, weights: Floats) -> Floats:
        """Return the weighted sum of all information as an invertible matrix, `[K + 1, K + 1]`.

        Strengths are determined only up to a constant, so their mean information is added to each entry. If
        there are no ties, the entry of log ν is 1, so that log ν does not change.
        """
        size = int(self.places.max()) + 1
        total = np.zeros((size, size))
        np.add.at(
            total, make_parameter_matrix_indices(self.places), weights[:, None, None] * self.information
        )
        total[:-1, :-1] += np.trace(total[:-1, :-1]) / (size - 1) ** 2
        if total[-1, -1] == 0:
            total[-1, -1] = 1
        return total


def make_parameter_matrix_indices(parameter_numbers: Integers) -> tuple[Integers, Integers]:
    """Return the row and column indices of each comparison's parameters in a matrix, for cells [n, 3, 3]."""
    return parameter_numbers[:, :, None], parameter_numbers[:, None, :]


def fit_strengths(wins: Floats, ties: Floats) -> Floats:
    """Fit Davidson's model (Davidson 1970): P(i beats j) ∝ π_i, P(tie) ∝ ν √(π_i π_j).

    Without ties, ν is 0 and the model is the Bradley–Terry model. In log π and log ν the likelihood is
    concave, and Newton's method finds the maximum. The maximum must be finite (`has_finite_strengths`).

    Args:
        wins: `wins[i, j]` is how often method i beat method j, `[K, K]`, zero diagonal.
        ties: `ties[i, j]` is how often i and j tied, `[K, K]`, symmetric, zero diagonal.

    Returns:
        Log-strengths summing to 0, then log ν (−∞ without ties), `[K + 1]`.

    >>> first, second, _ = fit_strengths(np.array([[0, 8], [2, 0]]), np.array([[0, 4], [4, 0]]))
    >>> round(float(first - second), 4)  # log 8/2
    1.3863
    """
    methods = len(wins)
    first, second = np.triu_indices(methods, 1)
    table = np.stack([wins[first, second], ties[first, second], wins[second, first]], axis=-1)
    n = table.sum(axis=-1)
    total = float(n.sum())
    tied = float(table[:, 1].sum())
    # Start at equal strengths, where the share of ties is ν / (2 + ν).
    log_nu = np.log(2 * tied / (total - tied)) if tied else -np.inf
    parameters = np.append(np.zeros(methods), log_nu)
    for _ in range(MAX_STEPS):
        model = ComparedPairs.from_strengths(parameters, first, second)
        surprise = table @ UTILITIES - n[:, None] * model.expected
        gradient = np.zeros(methods + 1)
        np.add.at(gradient, model.places, surprise)
        step = np.linalg.solve(model.sum_fisher_information(n), gradient)
        # A damped step never goes too far (Bach 2010).
        size = max(2 * float(np.abs(step).max()), 1e-300)
        damping = np.log1p(size) / size
        parameters += damping * step
        if float(gradient @ step) <= CONVERGED * total:
            break
    parameters[:-1] -= parameters[:-1].mean()
    return parameters


def compute_expected_shares(parameters: Floats) -> Floats:
    """Return each method's expected win share against the average other method, `[K]`. Ties count half."""
    methods = len(parameters) - 1
    first, second = np.triu_indices(methods, 1)
    chances = ComparedPairs.from_strengths(parameters, first, second).chances
    points = chances[:, 0] + chances[:, 1] / 2
    total = np.bincount(first, weights=points, minlength=methods)
    total += np.bincount(second, weights=1 - points, minlength=methods)
    return total / (methods - 1)


def has_finite_strengths(wins: Floats, ties: Floats) -> bool:
    """Return whether Davidson's likelihood has a finite maximum.

    Two conditions are necessary and sufficient. First, each method can be reached from each other method by a
    path of comparisons in which the earlier method did not lose (for Bradley–Terry: Ford 1957). Second, if
    there are ties, some cycle of such comparisons has more wins than ties. Otherwise numbers δ exist with
    δ_i − δ_j ≥ 1 if i beat j, and |δ_i − δ_j| ≤ 1 if i and j tied. Then adding 2δ to the strengths and 1 to
    log ν never lowers the likelihood of a verdict. The numbers δ are the potentials of a graph without a
    negative cycle.
    """
    not_lost = (wins > 0) | (ties > 0)
    groups, _ = csgraph.connected_components(not_lost.astype(float), directed=True, connection="strong")
    if groups > 1 or not ties.any():
        return bool(groups == 1)
    lengths = np.select([wins > 0, ties > 0], [-1.0, 1.0], 0.0)
    try:
        csgraph.bellman_ford(lengths, directed=True, indices=[0])
    except csgraph.NegativeCycleError:
        return True
    return False
