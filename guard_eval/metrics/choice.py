"""Choose one setting of each strategy from the scores of prompts, and say how steady that choice is.

A score is a function of sums over prompts, so it can be had of any prompts: resampled ones, or a part.
The choice may be as good or bad as it likes: the comparison rests on other prompts, and holds all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from guard_eval.estimate import Floats
from guard_eval.metrics.outcomes import Outcome
from guard_eval.study.choice import Search, TriedSetting
from guard_eval.study.tuning_settings import Tuning

RESAMPLES = 1000
FOLDS = 10
"""One in so many prompts scores what the others chose."""
DIGITS = 9
"""Decimals of a score: settings that differ by less are tied."""

Weights = Sequence[Floats]
"""How much each prompt counts: for each dataset `[resamples, prompts]`."""
SettingScores = Mapping[str, Sequence[Outcome]]
"""The outcomes of a setting in each dataset, by the score's name."""


class Field(NamedTuple):
    """How settings fare on weighed prompts.

    Attributes:
        best: The score to maximize, larger is better, `[resamples, settings]`.
        meets: Whether a setting meets the conditions, and has a score, `[resamples, settings]`.
    """

    best: Floats
    meets: NDArray[np.bool_]

    def pick(self) -> NDArray[np.int64]:
        """Return the place of the best setting that meets the conditions, the first of tied ones, or −1."""
        scores = np.where(self.meets, np.round(self.best, DIGITS), -np.inf)
        return np.where(self.meets.any(axis=1), scores.argmax(axis=1), -1)


def search_settings(
    strategy: str,
    settings: Mapping[str, SettingScores],
    rule: Tuning,
    *,
    sizes: Sequence[int],
    seed: int,
) -> Search:
    """Choose a setting of one strategy; `chosen` is empty if none meets the conditions.

    Args:
        strategy: The strategy.
        settings: The scores of its settings, in their order.
        rule: The rule.
        sizes: The number of prompts in each dataset.
        seed: It alone decides what is resampled.
    """
    rng = np.random.default_rng(seed)
    once = [np.ones((1, n)) for n in sizes]
    whole = weigh_settings(settings.values(), rule, once)
    place = int(whole.pick()[0])
    drawn = [rng.multinomial(n, np.full(n, 1 / n), RESAMPLES).astype(np.float64) for n in sizes]
    picked = weigh_settings(settings.values(), rule, drawn).pick()
    names = list(settings)
    return Search(
        strategy=strategy,
        chosen=names[place] if place >= 0 else "",
        settings=[
            TriedSetting(
                name=name,
                scores={score: _number(score_of(each, once)) for score, each in scores.items()},
                meets=bool(whole.meets[0, index]),
                chosen_share=float((picked == index).mean()),
            )
            for index, (name, scores) in enumerate(settings.items())
        ],
        expected_best=expected_best(list(settings.values()), rule, sizes, rng),
    )


def weigh_settings(settings: Iterable[SettingScores], rule: Tuning, weights: Weights) -> Field:
    """Return how settings fare on weighed prompts."""
    best, meets = [], []
    for scores in settings:
        score = rule.direction * score_of(scores[rule.maximize], weights)
        holds = np.isfinite(score)
        for condition in rule.conditions:
            holds &= condition.holds(score_of(scores[condition.score], weights))
        best.append(score)
        meets.append(holds)
    return Field(np.stack(best, axis=1), np.stack(meets, axis=1))


def score_of(outcomes: Sequence[Outcome], weights: Weights) -> Floats:
    """Return the mean over datasets of a score of weighed prompts, `[resamples]`; NaN if it is undefined."""
    total = np.zeros(len(weights[0]))
    with np.errstate(divide="ignore", invalid="ignore"):
        for outcome, weight in zip(outcomes, weights, strict=True):
            total += np.nan if outcome.parts is None else outcome.function(weight @ outcome.parts)
    return total / len(outcomes)


def expected_best(
    settings: Sequence[SettingScores], rule: Tuning, sizes: Sequence[int], rng: np.random.Generator
) -> list[float | None]:
    """Return the score to expect of the best of m = 1, 2, … settings, tried in random order.

    Dodge et al. (2019) show the best score on the prompts that chose it, which rises with m even where all
    settings are alike. Here most prompts choose and the others score, so it does not.
    """
    order = rng.permuted(np.tile(np.arange(len(settings)), (RESAMPLES, 1)), axis=1)
    scoring = []
    for n in sizes:
        ranks = rng.random((RESAMPLES, n)).argsort(axis=1).argsort(axis=1)
        scoring.append((ranks < max(1, n // FOLDS)).astype(np.float64))
    choosing = weigh_settings(settings, rule, [1 - each for each in scoring])
    scores = rule.direction * weigh_settings(settings, rule, scoring).best
    curve = []
    for m in range(1, len(settings) + 1):
        place = Field(choosing.best, choosing.meets & (order < m)).pick()
        values = scores[np.arange(RESAMPLES), place][place >= 0]
        curve.append(_number(values[np.isfinite(values)]))
    return curve


def _number(values: Floats) -> float | None:
    """Return the mean as a number, or None if there is none."""
    mean = float(np.mean(values)) if len(values) else np.nan
    return mean if np.isfinite(mean) else None
