"""Choose one setting of each strategy from the scores of prompts, and say how steady that choice is.

A score is a function of sums over prompts, so it can be had of any prompts: resampled ones, or a part.
The choice may be as good or bad as it likes: the comparison rests on other prompts, and holds all the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True, kw_only=True)
class TriedSettings:
    """The settings of one strategy on the tuning prompts.

    Attributes:
        names: The settings, in their order.
        outcomes: The scores of all settings.
        rule: The rule.
        sizes: The number of prompts in each dataset.
    """

    names: Sequence[str]
    outcomes: Outcomes
    rule: Tuning
    sizes: Mapping[str, int]

    def search(self, strategy: str, *, seed: int) -> Search:
        """Choose a setting; none if all of several miss a condition. The seed decides what is resampled."""
        rng = np.random.default_rng(seed)
        once = {dataset: np.ones((1, n)) for dataset, n in self.sizes.items()}
        resampled = {
            dataset: rng.multinomial(n, np.full(n, 1 / n), RESAMPLES).astype(float)
            for dataset, n in self.sizes.items()
        }
        rated = self.rate(once)
        chosen = 0 if len(self.names) == 1 else pick(rated)[0]
        places = pick(self.rate(resampled))
        scores = {name: self.score(name, once)[0] for name in self.rule.scores}
        settings = [
            TriedSetting(
                name=name,
                scores={score: _mean(values[[index]]) for score, values in scores.items()},
                meets=bool(np.isfinite(rated[0, index])),
                chosen_share=float(np.mean(places == index)),
            )
            for index, name in enumerate(self.names)
        ]
        return Search(
            strategy=strategy,
            chosen="" if chosen < 0 else self.names[chosen],
            settings=settings,
            expected_best=self.expect_best(rng),
        )

    def score(self, name: str, weights: Weights) -> Floats:
        """Return the mean of a score over datasets, NaN where it is undefined, `[resamples, settings]`."""
        resamples = len(next(iter(weights.values())))
        scores = np.zeros((resamples, len(self.names)))
        with np.errstate(divide="ignore", invalid="ignore"):
            for dataset, weight in weights.items():
                for index, setting in enumerate(self.names):
                    outcome = self.outcomes.get((name, dataset, setting))
                    if outcome is None or outcome.parts is None:
                        scores[:, index] = np.nan
                    else:
                        scores[:, index] += outcome.function(weight @ outcome.parts)
        return scores / len(weights)

    def rate(self, weights: Weights) -> Floats:
        """Return how good settings are, −∞ for one that misses a condition, `[resamples, settings]`."""
        best = self.score(self.rule.maximize, weights)
        meets = np.isfinite(best)
        for name, sign, limit in self.rule.conditions:
            values = self.score(name, weights)
            meets &= values >= limit if sign == ">=" else values <= limit
        direction = -1 if self.rule.maximize in LESS_IS_BETTER else 1
        return np.where(meets, np.round(direction * best, DIGITS), -np.inf)

    def expect_best(self, rng: np.random.Generator) -> list[float | None]:
        """Return the score to expect of the best of m = 1, 2, … settings, tried in random order.

        Dodge et al. (2019) show the best score on the prompts that chose it, which rises with m even where
        all settings are alike. Here most prompts choose and the others score, so it does not.
        """
        order = rng.random((RESAMPLES, len(self.names))).argsort(axis=1)
        scoring = {}
        for dataset, n in self.sizes.items():
            ranks = rng.random((RESAMPLES, n)).argsort(axis=1).argsort(axis=1)
            scoring[dataset] = (ranks < max(1, n // FOLDS)).astype(float)
        rated = self.rate({dataset: 1 - weight for dataset, weight in scoring.items()})
        scores = self.score(self.rule.maximize, scoring)
        curve = []
        for m in range(1, len(self.names) + 1):
            places = pick(np.where(order < m, rated, -np.inf))
            curve.append(_mean(scores[np.arange(RESAMPLES), places][places >= 0]))
        return curve


def pick(rated: Floats) -> NDArray[np.int64]:
    """Return the index of the best setting, the first of tied ones, or −1 if all miss a condition."""
    return np.where(np.isfinite(rated).any(axis=1), rated.argmax(axis=1), -1)


def _mean(values: Floats) -> float | None:
    """Return the mean of the finite values, or None if there are none."""
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else None
