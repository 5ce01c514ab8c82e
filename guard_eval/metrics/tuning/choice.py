"""Choose one setting of each strategy by the scores on prompts, and estimate how stable the choice is.

A score is a function of sums over prompts, so it can be computed for resampled prompts or for a part of the
prompts. A bad choice does not make the comparison invalid, because the comparison uses other prompts.
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
"""One of `FOLDS` prompts scores the setting that the other prompts chose."""
DIGITS = 9
"""The number of decimals of rounded scores. Settings with equal rounded scores are tied."""

Weights = Mapping[str, Floats]
"""The weight of each prompt, by dataset: `[resamples, prompts]`."""


@dataclass(frozen=True, kw_only=True)
class TriedSettings:
    """The settings of one strategy on the tuning prompts.

    Attributes:
        names: The settings, in the order of the study.
        outcomes: The scores of all settings.
        rule: The rule of the choice.
        sizes: The number of prompts in each dataset.
    """

    names: Sequence[str]
    outcomes: Outcomes
    rule: Tuning
    sizes: Mapping[str, int]

    def choose_setting(self, strategy: str, *, seed: int) -> Search:
        """Choose a setting. With several settings, choose none if every setting violates a condition.

        Args:
            strategy: The strategy.
            seed: The seed of the resampling.
        """
        rng = np.random.default_rng(seed)
        once = {dataset: np.ones((1, n)) for dataset, n in self.sizes.items()}
        resampled = {
            dataset: rng.multinomial(n, np.full(n, 1 / n), RESAMPLES).astype(float)
            for dataset, n in self.sizes.items()
        }
        rated = self.compute_ratings(once)
        chosen = 0 if len(self.names) == 1 else find_best_settings(rated)[0]
        resampled_choices = find_best_settings(self.compute_ratings(resampled))
        scores = {name: self.average_scores(name, once)[0] for name in self.rule.scores}
        settings = [
            TriedSetting(
                name=name,
                scores={score: _average_finite(values[[index]]) for score, values in scores.items()},
                meets=bool(np.isfinite(rated[0, index])),
                chosen_share=float(np.mean(resampled_choices == index)),
            )
            for index, name in enumerate(self.names)
        ]
        return Search(
            strategy=strategy,
            chosen="" if chosen < 0 else self.names[chosen],
            settings=settings,
            expected_best=self.estimate_expected_best(rng),
        )

    def average_scores(self, metric: str, weights: Weights) -> Floats:
        """Return a metric's mean over datasets, `[resamples, settings]`. An undefined score is NaN."""
        resamples = len(next(iter(weights.values())))
        scores = np.zeros((resamples, len(self.names)))
        with np.errstate(divide="ignore", invalid="ignore"):
            for dataset, weight in weights.items():
                for index, setting in enumerate(self.names):
                    outcome = self.outcomes.get((metric, dataset, setting))
                    if outcome is None or outcome.parts is None:
                        scores[:, index] = np.nan
                    else:
                        scores[:, index] += outcome.function(weight @ outcome.parts)
        return scores / len(weights)

    def compute_ratings(self, weights: Weights) -> Floats:
        """Return a rating that is higher for a better setting, `[resamples, settings]`.

        A setting that violates a condition has −∞.
        """
        best = self.average_scores(self.rule.maximize, weights)
        meets = np.isfinite(best)
        for name, sign, limit in self.rule.conditions:
            values = self.average_scores(name, weights)
            if sign == ">=":
                meets &= values >= limit
            else:
                meets &= values <= limit
        direction = -1 if self.rule.maximize in LESS_IS_BETTER else 1
        rating = np.round(direction * best, DIGITS)
        return np.where(meets, rating, -np.inf)

    def estimate_expected_best(self, rng: np.random.Generator) -> list[float | None]:
        """Return the expected score of the best of m = 1, 2, … settings that are tried in random order.

        Dodge et al. (2019) report the score on the prompts that chose the setting. That score rises with m
        even if all settings are equally good. Here, most prompts choose and the other prompts score, so the
        score does not rise.
        """
        order = rng.random((RESAMPLES, len(self.names))).argsort(axis=1)
        scoring = {}
        for dataset, n in self.sizes.items():
            # In a random order, the first `n // FOLDS` prompts of each resample score. The others choose.
            ranks = rng.random((RESAMPLES, n)).argsort(axis=1).argsort(axis=1)
            scoring[dataset] = (ranks < max(1, n // FOLDS)).astype(float)
        choosing = {dataset: 1 - weight for dataset, weight in scoring.items()}
        rated = self.compute_ratings(choosing)
        scores = self.average_scores(self.rule.maximize, scoring)
        curve = []
        for m in range(1, len(self.names) + 1):
            best = find_best_settings(np.where(order < m, rated, -np.inf))
            scores_of_best = scores[np.arange(RESAMPLES), best]
            curve.append(_average_finite(scores_of_best[best >= 0]))
        return curve


def find_best_settings(rated: Floats) -> NDArray[np.int64]:
    """Return the index of the best setting, or of the first tied setting, or −1 if all ratings are −∞."""
    has_candidate = np.isfinite(rated).any(axis=1)
    return np.where(has_candidate, rated.argmax(axis=1), -1)


def _average_finite(values: Floats) -> float | None:
    """Return the mean of the finite values, or None if no value is finite."""
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else None
