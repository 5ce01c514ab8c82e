"""Models of single ratings with clusters by item and terms for raters: do they say what the item means say?

They are a second opinion. Their errors rest on large-sample theory over items, where the default test needs
none; what they add is a weight for uneven overlap, a term for each rater, and the order of the verdicts.

A mixed model with random items and raters (a cumulative link mixed model, as R's `ordinal` fits) is left out:
no kept-up Python library fits one without sampling, and sampled results depend on the machine that made them.
A logistic model of the non-tied ratings is left out too: what it adds to the rate of wins among them and to
the ordinal model is a rater's share on the scale of logits, where a few ratings of one rater weigh as much as
many. Rater terms are fixed effects whose sum over all ratings is zero, so that an intercept is the mean over
the panel of raters, each of whom weighs as much as he has rated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special

from analysis.results import gee
from analysis.stats.intervals import Interval
from analysis.stats.significance import TestResult
from analysis.verdicts.scores import with_units
from guard_eval.reporting.words import number, plural

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
    "clusters by item, or by prompt where it is known, bias-reduced sandwich errors (Mancl and DeRouen "
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
        why = f"{seldom}: place and method cannot be told apart"
        return _nothing(why, n=len(known), level=level, method=method)
    ahead = (known["verdict"] == known["method_a"]).astype(float)
    behind = (known["verdict"] == known["method_b"]).astype(float)
    # ±½ for the place, so that the intercept lies half-way between both orders.
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
    design, said = _design(
        table, np.zeros((n, 0)), why_not="a rater is always for one method" if one_sided else ""
    )
    fit = gee.ordinal(_outcome(table), design[:, 1:], _clusters(table))
    if isinstance(fit, str):
        return _nothing(fit, n=n, level=level, method=method)
    thresholds, covariance = fit.parameters[:2], fit.covariance[:2, :2]
    location, error = float(thresholds.mean()), _error(float(covariance.sum()) / 4)
    if error is None:
        return _nothing(NO_ERROR, n=n, level=level, method=method)
    chances = special.expit(thresholds)
    share = float(chances.mean())
    slopes = chances * (1 - chances) / 2
    spread = math.sqrt(float(slopes @ covariance @ slopes)) / (share * (1 - share))
    return _result(
        table,
        logit=float(special.logit(share)),
        error=spread,
        statistic=location / error,
        parameters=len(fit.parameters),
        method=method,
        level=level,
        note=_said(fit, said),
    )


def _of_mean(table: pd.DataFrame, more: gee.Floats, *, method: str, level: float) -> Modelled:
    """Fit the linear model of `outcome` with the columns `more` beside the intercept and the raters."""
    n = len(table)
    if table["outcome"].nunique() < 2:
        return _nothing("all verdicts are the same", n=n, level=level, method=method)
    if table["unit"].nunique() < FEWEST_ITEMS + more.shape[1]:
        return _nothing(TOO_FEW, n=n, level=level, method=method)
    design, said = _design(table, more)
    fit = gee.linear(_outcome(table), design, _clusters(table))
    if isinstance(fit, str):
        return _nothing(fit, n=n, level=level, method=method)
    estimate, error = float(fit.parameters[0]), _error(fit.covariance[0, 0])
    if error is None:
        return _nothing(NO_ERROR, n=n, level=level, method=method)
    if more.shape[1]:
        worth = 50 * float(fit.parameters[1])
        said = (f"to be shown first and not second is worth {number(worth, 1)} points of share", *said)
    freedom = table["unit"].nunique() - len(fit.parameters)
    half = float(special.stdtrit(freedom, 0.5 + level / 2)) * error
    limits = [min(1.0, max(0.0, 0.5 + value / 2)) for value in (estimate - half, estimate + half)]
    share = Interval(
        estimate=min(1.0, max(0.0, 0.5 + estimate / 2)),
        low=limits[0],
        high=limits[1],
        level=level,
        n=table["unit"].nunique(),
        method=method,
        warnings=_few(table),
    )
    return _modelled(
        table, share, statistic=estimate / error, freedom=freedom, method=method, note=_said(fit, said)
    )


def _result(
    table: pd.DataFrame,
    *,
    logit: float,
    error: float,
    parameters: int,
    method: str,
    level: float,
    note: str,
    statistic: float | None = None,
) -> Modelled:
    """Return a share known by its logit, tested by `statistic` where that is another."""
    items = table["unit"].nunique()
    freedom = items - parameters
    if freedom < 2:
        return _nothing(TOO_FEW, n=len(table), level=level, method=method)
    half = float(special.stdtrit(freedom, 0.5 + level / 2)) * error
    estimate, low, high = (float(special.expit(value)) for value in (logit, logit - half, logit + half))
    share = Interval(
        estimate=estimate, low=low, high=high, level=level, n=items, method=method, warnings=_few(table)
    )
    reached = logit / error if statistic is None else statistic
    return _modelled(table, share, statistic=reached, freedom=freedom, method=method, note=note)


def _modelled(
    table: pd.DataFrame, share: Interval, *, statistic: float, freedom: int, method: str, note: str
) -> Modelled:
    test = TestResult(
        p_value=2 * float(special.stdtr(freedom, -abs(statistic))),
        statistic=statistic,
        n=len(table),
        method=f"{method} (df {freedom})",
        warnings=_few(table),
    )
    return Modelled(share=share, test=test, note=note)


def _nothing(why: str, *, n: int, level: float, method: str) -> Modelled:
    share = Interval(estimate=None, low=None, high=None, level=level, n=n, method=method, warnings=(why,))
    test = TestResult(p_value=None, statistic=0.0, n=n, method=method, warnings=(why,))
    return Modelled(share=share, test=test, note=why)


def _design(
    table: pd.DataFrame, more: gee.Floats, *, why_not: str = ""
) -> tuple[gee.Floats, tuple[str, ...]]:
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
        why_not = "they cannot be told from the place"
    return plain, (f"no terms for raters: {why_not}",)


def _outcome(table: pd.DataFrame) -> gee.Floats:
    return table["outcome"].to_numpy(dtype=float)


def _clusters(table: pd.DataFrame) -> NDArray[np.int64]:
    # In the order of their first pairs: the sums of a fit hang on it in the last digit.
    first = table.groupby("unit")["pair_id"].transform("min")
    return pd.factorize(first, sort=True)[0].astype(np.int64)


def _error(variance: float) -> float | None:
    """Return the standard error; None where what looks like one is rounding."""
    return math.sqrt(variance) if variance > 1e-14 else None


def _few(table: pd.DataFrame) -> tuple[str, ...]:
    items = table["unit"].nunique()
    return (f"{items} items are few for sandwich errors",) if items < FEW_ITEMS else ()


def _said(fit: gee.Fit, said: tuple[str, ...]) -> str:
    if fit.correlation is not None:
        said = (*said, f"ratings of an item correlate by {number(fit.correlation)}")
    return "; ".join(said)
