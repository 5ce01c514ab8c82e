"""Models of single ratings, with clusters by item and terms for raters, beside the test of item means.

They are generalised estimating equations (Liang and Zeger 1986) by statsmodels. Their errors rest on
large-sample theory over items, where the default test needs none; they add a weight for uneven overlap, a
term for each rater, and the order of the verdicts. Rater terms are fixed effects whose sum over all ratings
is zero, so that an intercept is the mean over the panel of raters, each weighing as much as he has rated.

A mixed model with random items and raters is left out: no kept-up Python library fits an ordinal one without
sampling (docs/adr/0014), and the linear one is that of `results.population`. So is a logistic model of the
non-tied ratings: beside the rate of wins and the ordinal model it adds only a share on the scale of logits,
where a few ratings of one rater weigh as much as many.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special
from statsmodels.genmod.cov_struct import Exchangeable, Independence
from statsmodels.genmod.families import Gaussian
from statsmodels.genmod.generalized_estimating_equations import GEE, OrdinalGEE
from statsmodels.tools.sm_exceptions import ConvergenceWarning, IterationLimitWarning

from analysis.stats.intervals import Interval
from analysis.stats.significance import TestResult
from analysis.verdicts.scores import with_units
from guard_eval.reporting.words import number, plural

Floats = NDArray[np.float64]

STEPS = 200
"""Iterations after which a fit counts as not arrived."""
MOST_RATINGS = 20_000
"""Verdicts of a table above which no model is fitted: it takes about 0.1 ms each."""
MOST_RATERS = 30
"""Above so many raters a term for each is left out."""
FEWEST = 5
"""Ratings that a rater, or a text shown first, must have for a term: one rating would be fitted exactly."""
FEWEST_ITEMS = 3
"""Items that a model needs at least."""
FEW_ITEMS = 40
"""Below so many items sandwich errors are rough, and the result says so."""

NO_ERROR = "the ratings leave no error to reckon with"
TOO_FEW = "there are too few items"

_ERRORS = (
    "clusters by the unit of the tests, bias-reduced sandwich errors (Mancl and DeRouen "
    "2001), t over clusters"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Modelled:
    """What a model says of one comparison on one criterion.

    Attributes:
        share: Win share of method_a for the panel of raters, with its interval.
        test: That neither method is better.
        note: What the model took in, or why it says nothing.
    """

    share: Interval
    test: TestResult
    note: str


def linear_model(scores: pd.DataFrame, *, level: float = 0.95) -> Modelled:
    """Model scores from −1 to 1 by their mean and the raters: GEE with the identity link.

    Where every rater has rated every item, the estimate is the mean of item means and its variance is
    Σ(m_i − m)² / (n − 1)² for n item means m_i.

    Args:
        scores: `rater_scores` of one comparison, criterion and kind of rater.
        level: The confidence level.
    """
    table = scores.assign(outcome=scores["net"] / scores["showings"])
    method = f"linear GEE of scores −1, 0, 1: {_ERRORS}"
    return _of_mean(table, np.zeros((len(table), 0)), method=method, level=level)


def placed_model(verdicts: pd.DataFrame, *, level: float = 0.95) -> Modelled | None:
    """Model single verdicts as `linear_model` does, with a term for which text was shown first.

    The share is that of a comparison in which each method is shown first equally often. None where the
    verdicts do not say what was shown first.

    Args:
        verdicts: The rows of one comparison, criterion and kind of rater of an oriented table.
        level: The confidence level.
    """
    if "shown_first" not in verdicts.columns:
        return None
    known = with_units(verdicts[verdicts["shown_first"].notna()])
    if known.empty:
        return None
    first = known["shown_first"] == known["method_a"]
    method = f"linear GEE of verdicts −1, 0, 1 with a term for the text shown first: {_ERRORS}"
    fewest = int(min(first.sum(), (~first).sum()))
    if fewest < FEWEST:
        which = known["method_b" if first.mean() > 0.5 else "method_a"].iloc[0]
        seldom = f"{which} was first in {fewest} of {plural(len(known), 'verdict')}"
        why = f"{seldom}: place and method cannot be separated"
        return _nothing(why, n=len(known), level=level, method=method)
    ahead = (known["verdict"] == known["method_a"]).astype(float)
    behind = (known["verdict"] == known["method_b"]).astype(float)
    # ±½ for the place, so that the intercept is half-way between both orders.
    place = np.where(first, 0.5, -0.5)[:, None]
    return _of_mean(known.assign(outcome=ahead - behind), place, method=method, level=level)


def ordinal_model(scores: pd.DataFrame, *, level: float = 0.95) -> Modelled:
    """Model verdicts as ordered (method_b, tie, method_a) by cumulative logits: ordinal GEE.

    With thresholds logit P(not for b) = α₁ and logit P(for a) = α₂ of the panel, neither method is better
    where α₁ = −α₂; the test is of their mean, and the share is (P(not for b) + P(for a)) / 2.

    Arguments as in `linear_model`. Without a verdict of each kind a threshold is infinite. A rater whose
    verdicts are all for one method would have an infinite term; then no rater has one.
    """
    table = scores.assign(outcome=np.sign(scores["net"]).astype(float))
    n, method = len(table), f"ordinal GEE (cumulative logits): {_ERRORS}"
    used = set(table["outcome"])
    if len(used) < 3:
        absent = [word for value, word in ((1, "win"), (0, "tie"), (-1, "loss")) if value not in used]
        return _nothing(f"there is no {' and no '.join(absent)}", n=n, level=level, method=method)
    if table["unit"].nunique() < FEWEST_ITEMS:
        return _nothing(TOO_FEW, n=n, level=level, method=method)
    by_rater = table.groupby("rater")["outcome"]
    one_sided = bool(((by_rater.min() == 1) | (by_rater.max() == -1)).any())
    design, terms = _design(
        table, np.zeros((n, 0)), why_not="a rater is always for one method" if one_sided else ""
    )
    fit = _ordinal(_outcome(table), design[:, 1:], _clusters(table))
    if isinstance(fit, str):
        return _nothing(fit, n=n, level=level, method=method)
    thresholds, covariance = fit.parameters[:2], fit.covariance[:2, :2]
    location, error = float(thresholds.mean()), _error(float(covariance.sum()) / 4)
    if error is None:
        return _nothing(NO_ERROR, n=n, level=level, method=method)
    chances = special.expit(thresholds)
    share = float(chances.mean())
    slopes = chances * (1 - chances) / 2
    logit = float(special.logit(share))
    spread = math.sqrt(float(slopes @ covariance @ slopes)) / (share * (1 - share))
    freedom = table["unit"].nunique() - len(fit.parameters)
    if freedom < 2:
        return _nothing(TOO_FEW, n=n, level=level, method=method)
    half = float(special.stdtrit(freedom, 0.5 + level / 2)) * spread
    ends = [float(special.expit(value)) for value in (logit, logit - half, logit + half)]
    return _modelled(
        table,
        ends,
        statistic=location / error,
        freedom=freedom,
        method=method,
        level=level,
        note=_note(fit, terms),
    )


def _of_mean(table: pd.DataFrame, more: Floats, *, method: str, level: float) -> Modelled:
    """Fit the linear model of `outcome` with the columns `more` beside the intercept and the raters."""
    n = len(table)
    if table["outcome"].nunique() < 2:
        return _nothing("all verdicts are the same", n=n, level=level, method=method)
    if table["unit"].nunique() < FEWEST_ITEMS + more.shape[1]:
        return _nothing(TOO_FEW, n=n, level=level, method=method)
    design, terms = _design(table, more)
    fit = _linear(_outcome(table), design, _clusters(table))
    if isinstance(fit, str):
        return _nothing(fit, n=n, level=level, method=method)
    estimate, error = float(fit.parameters[0]), _error(fit.covariance[0, 0])
    if error is None:
        return _nothing(NO_ERROR, n=n, level=level, method=method)
    if more.shape[1]:
        worth = 50 * float(fit.parameters[1])
        terms = (f"to be shown first and not second is worth {number(worth, 1)} points of share", *terms)
    freedom = table["unit"].nunique() - len(fit.parameters)
    half = float(special.stdtrit(freedom, 0.5 + level / 2)) * error
    ends = [min(1.0, max(0.0, 0.5 + value / 2)) for value in (estimate, estimate - half, estimate + half)]
    return _modelled(
        table,
        ends,
        statistic=estimate / error,
        freedom=freedom,
        method=method,
        level=level,
        note=_note(fit, terms),
    )


def _modelled(
    table: pd.DataFrame,
    ends: list[float],
    *,
    statistic: float,
    freedom: int,
    method: str,
    level: float,
    note: str,
) -> Modelled:
    """Return a share with its limits (`ends`: estimate, low, high) and the t test of its statistic."""
    estimate, low, high = ends
    items = table["unit"].nunique()
    few = (f"{items} items are few for sandwich errors",) if items < FEW_ITEMS else ()
    return Modelled(
        share=Interval(
            estimate=estimate, low=low, high=high, level=level, n=items, method=method, warnings=few
        ),
        test=TestResult(
            p_value=2 * float(special.stdtr(freedom, -abs(statistic))),
            statistic=statistic,
            n=len(table),
            method=f"{method} (df {freedom})",
            warnings=few,
        ),
        note=note,
    )


def _nothing(why: str, *, n: int, level: float, method: str) -> Modelled:
    share = Interval(estimate=None, low=None, high=None, level=level, n=n, method=method, warnings=(why,))
    test = TestResult(n=n, method=method, warnings=(why,))
    return Modelled(share=share, test=test, note=why)


def _design(table: pd.DataFrame, more: Floats, *, why_not: str = "") -> tuple[Floats, tuple[str, ...]]:
    """Return intercept, `more` and a column per rater but the last, and what to say of the raters.

    A rater's column is 1 for his ratings and, for the last rater's, minus the ratio of their numbers, so that
    the terms of all ratings sum to zero: else a rater of few ratings would move the mean as any other does.
    """
    codes, raters = pd.factorize(table["rater"], sort=True)
    plain = np.hstack([np.ones((len(table), 1)), more])
    if len(raters) < 2:
        return plain, ()
    items = table["unit"].nunique()
    if not why_not and len(raters) > MOST_RATERS:
        why_not = f"there are {len(raters)} raters"
    if not why_not and items < plain.shape[1] + len(raters) + 2:
        why_not = TOO_FEW
    each = np.bincount(codes)
    if not why_not and each.min() < FEWEST:
        why_not = f"a rater has fewer than {FEWEST} ratings"
    if not why_not:
        own = (codes[:, None] == np.arange(len(raters))).astype(float)
        whole = np.hstack([plain, own[:, :-1] - own[:, -1:] * (each[:-1] / each[-1])])
        if np.linalg.matrix_rank(whole) == whole.shape[1]:
            return whole, (f"terms for {plural(len(raters), 'rater')}",)
        why_not = "they cannot be separated from the place"
    return plain, (f"no terms for raters: {why_not}",)


def _outcome(table: pd.DataFrame) -> Floats:
    return table["outcome"].to_numpy(dtype=float)


def _clusters(table: pd.DataFrame) -> NDArray[np.int64]:
    # In the order of their first pairs: the sums of a fit hang on it in the last digit.
    first = table.groupby("unit")["pair_id"].transform("min")
    return pd.factorize(first, sort=True)[0].astype(np.int64)


def _error(variance: float) -> float | None:
    """Return the standard error; None where what looks like one is rounding."""
    return math.sqrt(variance) if variance > 1e-14 else None


def _note(fit: Fit, terms: tuple[str, ...]) -> str:
    if fit.correlation is not None:
        terms = (*terms, f"ratings of an item correlate by {number(fit.correlation)}")
    return "; ".join(terms)


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


def _linear(outcome: Floats, design: Floats, clusters: NDArray[np.int64]) -> Fit | str:
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


def _ordinal(outcome: Floats, design: Floats, clusters: NDArray[np.int64]) -> Fit | str:
    """Fit cumulative logits with common slopes: logit P(outcome > c) = α_c + design · β.

    The working correlation is independence (Lumley 1996); the sandwich sees to the clusters. `design` has no
    intercept and may have no column.
    """
    return _fit(OrdinalGEE(outcome, design, groups=clusters, cov_struct=Independence()), None)


def _fit(model: GEE, structure: Exchangeable | None) -> Fit | str:
    """Fit `model`; its warnings are caught, and the result says what they mean."""
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
