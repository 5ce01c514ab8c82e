"""Choose one setting of each strategy from the scores of prompts, and say how steady that choice is.

A score is a function of sums over prompts, so it can be had of any prompts: resampled ones, or a part.
The choice may be as good or bad as it likes: the comparison rests on other prompts, and holds all the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from guard_eval.estimate import Floats
from guard_eval.metrics.inference import Outcomes
from guard_eval.study.choice import Search, TriedSetting
from guard_eval.study.tuning_settings import LESS_IS_BETTER, Tuning

RESAMPLES = 1000
FOLDS = 10
"""One in so many prompts scores what the others chose."""
DIGITS = 9
"""Decimals of a score: settings that differ by less are tied."""

Weights = Mapping[str, Floats]
"""How much each prompt counts, by dataset: `[resamples, prompts]`."""


def search_settings(
    strategy: str,
    settings: Sequence[str],
    outcomes: Outcomes,
    rule: Tuning,
    *,
    sizes: Mapping[str, int],
    seed: int,
) -> Search:
    """Choose a setting of one strategy; none if all miss a condition.

    Args:
        strategy: The strategy.
        settings: The names of its settings, in their order.
        outcomes: The scores of all settings.
        rule: The rule.
        sizes: The number of prompts in each dataset.
        seed: It alone decides what is resampled.
    """
    rng = np.random.default_rng(seed)
    once = {dataset: np.ones((1, n)) for dataset, n in sizes.items()}
    resampled = {
        dataset: rng.multinomial(n, np.full(n, 1 / n), RESAMPLES).astype(float)
        for dataset, n in sizes.items()
    }
    rated = rate_settings(settings, outcomes, rule, once)
    place = pick(rated)[0]
    places = pick(rate_settings(settings, outcomes, rule, resampled))
    scores = {name: score_settings(settings, outcomes, name, once)[0] for name in rule.scores}
    return Search(
        strategy=strategy,
        chosen="" if place < 0 else settings[place],
        settings=[
            TriedSetting(
                name=name,
                scores={score: _mean(values[[index]]) for score, values in scores.items()},
                meets=bool(np.isfinite(rated[0, index])),
                chosen_share=float(np.mean(places == index)),
            )
            for index, name in enumerate(settings)
        ],
        expected_best=expected_best(settings, outcomes, rule, sizes, rng),
    )


def score_settings(settings: Sequence[str], outcomes: Outcomes, score: str, weights: Weights) -> Floats:
    """Return the mean score over datasets of weighed prompts, `[resamples, settings]`; NaN without one."""
    resamples = len(next(iter(weights.values())))
    scores = np.zeros((resamples, len(settings)))
    with np.errstate(divide="ignore", invalid="ignore"):
        for dataset, weight in weights.items():
            for place, name in enumerate(settings):
                outcome = outcomes.get((score, dataset, name))
                if outcome is None or outcome.parts is None:
                    scores[:, place] = np.nan
                else:
                    scores[:, place] += outcome.function(weight @ outcome.parts)
    return scores / len(weights)


def rate_settings(settings: Sequence[str], outcomes: Outcomes, rule: Tuning, weights: Weights) -> Floats:
    """Return how good settings are, −∞ for one that misses a condition, `[resamples, settings]`."""
    direction = -1 if rule.maximize in LESS_IS_BETTER else 1
    best = direction * score_settings(settings, outcomes, rule.maximize, weights)
    meets = np.isfinite(best)
    for score, sign, limit in rule.conditions:
        values = score_settings(settings, outcomes, score, weights)
        meets &= values >= limit if sign == ">=" else values <= limit
    return np.where(meets, np.round(best, DIGITS), -np.inf)


def pick(rated: Floats) -> NDArray[np.int64]:
    """Return the place of the best setting, the first of tied ones, or −1 if all miss a condition."""
    return np.where(np.isfinite(rated).any(axis=1), rated.argmax(axis=1), -1)


def expected_best(
    settings: Sequence[str],
    outcomes: Outcomes,
    rule: Tuning,
    sizes: Mapping[str, int],
    rng: np.random.Generator,
) -> list[float | None]:
    """Return the score to expect of the best of m = 1, 2, … settings, tried in random order.

    Dodge et al. (2019) show the best score on the prompts that chose it, which rises with m even where all
    settings are alike. Here most prompts choose and the others score, so it does not.
    """
    order = rng.random((RESAMPLES, len(settings))).argsort(axis=1)
    scoring = {}
    for dataset, n in sizes.items():
        ranks = rng.random((RESAMPLES, n)).argsort(axis=1).argsort(axis=1)
        scoring[dataset] = (ranks < max(1, n // FOLDS)).astype(float)
    choosing = {dataset: 1 - weight for dataset, weight in scoring.items()}
    rated = rate_settings(settings, outcomes, rule, choosing)
    scores = score_settings(settings, outcomes, rule.maximize, scoring)
    curve = []
    for m in range(1, len(settings) + 1):
        places = pick(np.where(order < m, rated, -np.inf))
        curve.append(_mean(scores[np.arange(RESAMPLES), places][places >= 0]))
    return curve


def _mean(values: Floats) -> float | None:
    """Return the mean of the finite values, or None if there are none."""
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else None
