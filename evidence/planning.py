"""Compare the power that a plan promises with the power in simulated studies.

python evidence/planning.py --studies 1000
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import product

import numpy as np
from scipy import stats
from simulated_studies import Truth, simulate

from analysis.planning.formulas import Design, find_items_needed
from analysis.stats.population import TwoWayDesign
from guard_eval.sign_flip import sign_flip

RATERS = (1, 3, 5)
MODELS = ("latent", "dirichlet")


def detect_by_sign_flips(truth: Truth, items: int, raters: int, criteria: int, studies: int) -> float:
    """Return how often the sign-flip test with Holm's correction is significant for a criterion."""
    rng = np.random.default_rng([1, items, raters])
    result = 0
    for _ in range(studies):
        nets = simulate(truth, studies=criteria, items=items, raters=raters, rng=rng).sum(axis=2)
        p_values = np.sort([1.0 if (p := sign_flip(net).p) is None else p for net in nets])
        holds = p_values <= 0.05 / np.arange(criteria, 0, -1)
        result += criteria if holds.all() else int(holds.argmin())
    return result / studies / criteria


def detect_equivalence(truth: Truth, items: int, raters: int, margin: float, studies: int) -> float:
    """Return how often two one-sided t tests show that a share is within the margin."""
    rng = np.random.default_rng([2, items, raters])
    shares = 0.5 + simulate(truth, studies=studies, items=items, raters=raters, rng=rng).mean(axis=2) / 2
    errors = shares.std(axis=1, ddof=1) / np.sqrt(items)
    half = stats.t.ppf(0.95, items - 1) * errors
    return float((np.abs(shares.mean(axis=1) - 0.5) + half <= margin).mean())


def detect_for_other_raters(truth: Truth, items: int, raters: int, studies: int) -> float:
    """Return how often the test for other raters of the same kind is significant."""
    rng = np.random.default_rng([3, items, raters])
    shares = 0.5 + simulate(truth, studies=studies, items=items, raters=raters, rng=rng) / 2
    item, rater = np.divmod(np.arange(items * raters), raters)
    design = TwoWayDesign(item, rater, np.full(items * raters, 1 / (items * raters)))
    fixed = stats.ttest_1samp(shares.mean(axis=2), 0.5, axis=1).pvalue
    result = 0
    for study, p in zip(shares.reshape(studies, -1), fixed, strict=True):
        mean = design.estimate_mean(study)
        is_random = mean.raters > 0 and mean.variance > 0
        t = abs(mean.value - 0.5) / np.sqrt(mean.variance) if is_random else np.inf
        result += max(p, 2 * stats.t.sf(t, mean.df)) <= 0.05
    return result / studies


def compute_share_sd(truth: Truth) -> float:
    """Return the standard deviation of raters' own win shares."""
    rng = np.random.default_rng(4)
    shares = 0.5 + simulate(truth, studies=1, items=4000, raters=2000, rng=rng)[0] / 2
    return float(shares.mean(axis=0).std())


def write_tables(studies: int) -> Iterator[str]:
    """Yield the tables."""
    yield "| share | ties | κ | model | ICC | criteria | raters | items by formula | their power |"
    yield f"|{' ---: |' * 9}"
    settings = ((0.55, 0.32, 0.41), (0.6, 0.32, 0.41), (0.55, 0.67, 0.05), (0.7, 0.2, 0.3), (0.8, 0.1, 0.41))
    for (share, ties, kappa), model, criteria in product(settings, MODELS, (1, 3)):
        truth = Truth(share=share, ties=ties, kappa=kappa, model=model)
        design = Design(share=share, ties=ties, icc=truth.icc, results=criteria)
        for raters in RATERS:
            items = find_items_needed(design, raters) or 0
            power = detect_by_sign_flips(truth, items, raters, criteria, studies)
            cells = (share, ties, kappa, model, f"{truth.icc:.2f}", criteria, raters, items, f"{power:.3f}")
            yield f"| {' | '.join(map(str, cells))} |"
    yield "\n| margin | model | raters | items by formula | their power |"
    yield f"|{' ---: |' * 5}"
    for margin, model, raters in product((0.05, 0.1), MODELS, RATERS):
        truth = Truth(model=model)
        items = find_items_needed(Design(margin=margin, icc=truth.icc), raters) or 0
        power = detect_equivalence(truth, items, raters, margin, 4 * studies)
        yield f"| {margin} | {model} | {raters} | {items} | {power:.3f} |"
    yield "\n| raters' own shares, sd | raters | items by formula | their power |"
    yield f"|{' ---: |' * 4}"
    for bias, raters in product((0.1, 0.2), (5, 10, 20)):
        truth = Truth(share=0.6, rater_sd=bias)
        sd = compute_share_sd(truth)
        items = find_items_needed(Design(share=0.6, icc=truth.icc, rater_sd=sd), raters)
        if items is not None and items < 3000:
            power = detect_for_other_raters(truth, items, raters, studies)
            yield f"| {sd:.3f} | {raters} | {items} | {power:.3f} |"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=1000)
    options = parser.parse_args()
    for line in write_tables(options.studies):
        print(line, flush=True)


if __name__ == "__main__":
    main()
