"""Generalised estimating equations (Liang and Zeger 1986) by statsmodels, and what can go wrong with them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from statsmodels.genmod.cov_struct import Exchangeable, Independence
from statsmodels.genmod.families import Gaussian
from statsmodels.genmod.generalized_estimating_equations import GEE, OrdinalGEE
from statsmodels.tools.sm_exceptions import ConvergenceWarning, IterationLimitWarning

Floats = NDArray[np.float64]

STEPS = 200
"""Iterations after which a fit counts as not arrived."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Fit:
    """A fitted model.

    Attributes:
        parameters: The estimates, `[k]`; for the ordinal model the thresholds first.
        covariance: Mancl and DeRouen's (2001) bias-reduced sandwich over the clusters, `[k, k]`.
        correlation: Of two ratings of a cluster, as the exchangeable working correlation has it; None where
            the working correlation is independence.
    """

    parameters: Floats
    covariance: Floats
    correlation: float | None


def linear(outcome: Floats, design: Floats, clusters: NDArray[np.int64]) -> Fit | str:
    """Fit a linear model with exchangeable correlation within clusters, or return why there is no fit.

    Where the data determine no correlation it is independence; the sandwich holds with either.

    Args:
        outcome: `[n]`.
        design: `[n, k]`, with the intercept.
        clusters: The cluster of each outcome, `[n]`.
    """
    largest = int(np.bincount(clusters).max())
    if largest > 1:
        structure = Exchangeable()
        fit = _fit(GEE(outcome, design, groups=clusters, family=Gaussian(), cov_struct=structure), structure)
        # Outside these bounds the matrix of correlations is none.
        if isinstance(fit, Fit) and fit.correlation is not None and -1 / (largest - 1) < fit.correlation < 1:
            return fit
    return _fit(GEE(outcome, design, groups=clusters, family=Gaussian(), cov_struct=Independence()), None)


def ordinal(outcome: Floats, design: Floats, clusters: NDArray[np.int64]) -> Fit | str:
    """Fit cumulative logits with common slopes: logit P(outcome > c) = α_c + design · β.

    The working correlation is independence (Lumley 1996); the sandwich sees to the clusters. `design` has no
    intercept and may have no column.
    """
    return _fit(OrdinalGEE(outcome, design, groups=clusters, cov_struct=Independence()), None)


def _fit(model: GEE, structure: Exchangeable | None) -> Fit | str:
    """Fit `model` with its warnings kept from the user: what they mean for him is said in the result."""
    with warnings.catch_warnings(record=True) as caught, np.errstate(all="ignore"):
        warnings.simplefilter("always")
        try:
            result = model.fit(cov_type="bias_reduced", maxiter=STEPS)
            parameters, covariance = np.asarray(result.params), np.asarray(result.cov_params())
        except (ArithmeticError, ValueError, np.linalg.LinAlgError) as error:
            return f"the fit failed ({type(error).__name__})"
    if any(issubclass(one.category, ConvergenceWarning | IterationLimitWarning) for one in caught):
        return f"the fit did not arrive in {STEPS} steps"
    if not (np.isfinite(parameters).all() and np.isfinite(covariance).all()):
        return "the fit has no finite estimate"
    return Fit(
        parameters=parameters,
        covariance=covariance,
        correlation=None if structure is None else float(structure.dep_params),
    )
