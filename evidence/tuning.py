"""Measure how often the best of equal settings is wrongly called better than an equal baseline.

python evidence/tuning.py --studies 1000

Each prompt has a score of every setting and of the baseline. All are equal in truth, so at most 2.5 % of the
studies may claim "better". The scores that choose a setting and the scores that test the setting are the
same, or they correlate.
"""

from __future__ import annotations

import argparse
from itertools import product

import numpy as np
from numpy.typing import NDArray

from guard_eval.joint_flips import compute_max_t_p
from guard_eval.metrics.tuning import find_best_settings
from guard_eval.sign_flip import sign_flip

Floats = NDArray[np.float64]
ALPHA = 0.05
CLEARLY_NOT = 1.5
"""A test at .05 never rejects if the sum, divided by its standard error, is smaller than this."""
TESTED = 200
APART = 100
INSTRUMENTS = {"the same scores": 1.0, "a judge, people": 0.6, "a metric, people": 0.3}
"""The correlation of the choosing scores with the testing scores, on the texts of one prompt."""


def draw_scores(rng: np.random.Generator, prompts: int, settings: int, rho: float) -> Floats:
    """Draw scores of settings, `[prompts, settings]`. Two settings have the correlation `rho`."""
    shared = np.sqrt(rho) * rng.normal(size=(prompts, 1))
    return shared + np.sqrt(1 - rho) * rng.normal(size=(prompts, settings))


def choose_setting(scores: Floats) -> int:
    """Return the index of the setting that guard-eval would choose."""
    return int(find_best_settings(scores.mean(axis=0, keepdims=True))[0])


def may_claim(gain: Floats) -> bool:
    """Return whether a test could call a setting better. This quick check avoids most of the slow tests."""
    return float(gain.sum()) > CLEARLY_NOT * float(np.sqrt((gain**2).sum()))


def claims_better(gain: Floats) -> bool:
    """Return whether the sign-flip test calls a setting better than the baseline."""
    return may_claim(gain) and (sign_flip(gain).p or 1.0) <= ALPHA


def measure_errors_on_same_prompts(
    rng: np.random.Generator, settings: int, rho: float, r: float, studies: int
) -> float:
    """Return the share of wrong claims if the same prompts choose and test a setting."""
    wrong = 0
    for _ in range(studies):
        choosing = draw_scores(rng, TESTED, settings, rho)
        testing = r * choosing + np.sqrt(1 - r**2) * draw_scores(rng, TESTED, settings, rho)
        wrong += claims_better(testing[:, choose_setting(choosing)] - rng.normal(size=TESTED))
    return wrong / studies


def measure_errors_on_separate_prompts(
    rng: np.random.Generator, settings: int, rho: float, studies: int
) -> float:
    """Return the share of wrong claims if separate prompts choose the setting."""
    wrong = 0
    for _ in range(studies):
        best = choose_setting(draw_scores(rng, APART, settings, rho))
        wrong += claims_better(draw_scores(rng, TESTED, settings, rho)[:, best] - rng.normal(size=TESTED))
    return wrong / studies


def measure_errors_with_correction(
    rng: np.random.Generator, settings: int, rho: float, studies: int
) -> float:
    """Return the share of wrong claims if the same prompts choose and test, with max-T correction."""
    wrong = 0
    for study in range(studies):
        scores = draw_scores(rng, TESTED, settings, rho)
        gains = scores - rng.normal(size=(TESTED, 1))
        best = choose_setting(scores)
        wrong += may_claim(gains[:, best]) and compute_max_t_p(gains, seed=study)[best] <= ALPHA
    return wrong / studies


def main() -> None:
    """Print a row for each number of settings and each correlation of the settings' scores."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=1000)
    studies = parser.parse_args().studies
    heads = ["settings", "correlation", "prompts apart", "same prompts, max-T", *INSTRUMENTS]
    print(f"| {' | '.join(heads)} |")
    print(f"|{' ---: |' * len(heads)}")
    for settings, rho in product((5, 10, 20), (0.0, 0.5, 0.9)):
        rng = np.random.default_rng(settings)
        shares = [
            measure_errors_on_separate_prompts(rng, settings, rho, studies),
            measure_errors_with_correction(rng, settings, rho, studies),
            *(measure_errors_on_same_prompts(rng, settings, rho, r, studies) for r in INSTRUMENTS.values()),
        ]
        cells = [f"{share:.3f}".lstrip("0") for share in shares]
        print(f"| {settings} | {rho:g} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
