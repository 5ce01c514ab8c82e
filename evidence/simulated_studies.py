"""Simulate studies with known truth. Two models generate the verdicts.

- *latent*: a rater perceives an item's quality, a normal effect, with normal noise. Two thresholds turn the
  perceived quality into a verdict (an ordinal probit model with random items).
- *dirichlet*: each item has its own random chances of win, tie and loss, so items also differ in their share
  of ties.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special, stats

SCORES = np.array([1.0, 0.0, -1.0])


@dataclass(frozen=True, kw_only=True)
class Truth:
    """The true values, which infinitely many items and raters would show.

    Attributes:
        share: The tie-split win share of method_a.
        ties: The share of ties.
        kappa: Fleiss' κ.
        model: The model that generates the verdicts.
        rater_sd: The standard deviation of raters' biases, in units of a rater's noise. Each study draws new
            biases. Only for the model *latent*.
    """

    share: float = 0.5
    ties: float = 0.32
    kappa: float = 0.41
    model: Literal["latent", "dirichlet"] = "latent"
    rater_sd: float = 0.0

    @property
    def chances(self) -> NDArray[np.float64]:
        """Return the chances of win, tie and loss, `[3]`."""
        return np.array([self.share - self.ties / 2, self.ties, 1 - self.share - self.ties / 2])

    @property
    def icc(self) -> float:
        """Return the correlation of two raters' scores of the same item."""
        if self.model == "dirichlet":
            return self.kappa
        mean = float(SCORES @ self.chances)
        both = SCORES @ _compute_joint_chances(self, _find_latent_correlation(self)) @ SCORES
        return float((both - mean**2) / (SCORES**2 @ self.chances - mean**2))


def simulate(
    truth: Truth, *, studies: int, items: int, raters: int, rng: np.random.Generator
) -> NDArray[np.int8]:
    """Draw verdicts, `[studies, items, raters]`: 1 for method_a, 0 for a tie, −1 for method_b."""
    shape = (studies, items, raters)
    if truth.model == "dirichlet":
        chances = rng.dirichlet(truth.chances * (1 / truth.kappa - 1), (studies, items))
        drawn = rng.random(shape)
        return (drawn < chances[..., :1]).astype(np.int8) - (drawn >= 1 - chances[..., 2:]).astype(np.int8)
    correlation = _find_latent_correlation(truth)
    bias = truth.rater_sd**2
    effect = correlation * (1 + bias) / (1 - correlation)
    felt = rng.standard_normal(shape) + math.sqrt(effect) * rng.standard_normal((studies, items, 1))
    felt += truth.rater_sd * rng.standard_normal((studies, 1, raters))
    lower, upper = _find_thresholds(truth) * math.sqrt(1 + effect + bias)
    return (felt > upper).astype(np.int8) - (felt < lower).astype(np.int8)


def _find_thresholds(truth: Truth) -> NDArray[np.float64]:
    """Return the thresholds of a standard normal number between loss and tie, and between tie and win."""
    return np.array([special.ndtri(truth.chances[2]), special.ndtri(1 - truth.chances[0])])


def _compute_joint_chances(truth: Truth, correlation: float) -> NDArray[np.float64]:
    """Return the joint chances of two raters' verdicts (win, tie, loss) on an item, `[3, 3]`."""
    edges = [-np.inf, *_find_thresholds(truth), np.inf]
    joint = stats.multivariate_normal([0, 0], [[1, correlation], [correlation, 1]])

    def cumulate(first: float, second: float) -> float:
        if -np.inf in (first, second):
            return 0.0
        if np.inf in (first, second):
            return float(special.ndtr(min(first, second)))
        return float(joint.cdf([first, second]))

    table = np.array([[cumulate(first, second) for second in edges] for first in edges])
    return np.diff(np.diff(table, axis=0), axis=1)[::-1, ::-1]


@lru_cache
def _find_latent_correlation(truth: Truth) -> float:
    """Return the correlation of two raters' perceptions of an item that gives the true κ."""
    by_chance = float((truth.chances**2).sum())

    def compute_kappa_error(correlation: float) -> float:
        return (float(np.trace(_compute_joint_chances(truth, correlation))) - by_chance) / (
            1 - by_chance
        ) - truth.kappa

    return float(optimize.brentq(compute_kappa_error, 0.0, 0.9999, xtol=1e-6))
