"""Measure how often the interaction test finds a simulated interaction, and its error rate without one.

python evidence/slices.py --studies 400

The win shares in the three thirds of a column differ by `spread` from the lowest to the highest. The planned
power is the power of the F test between three groups of items (noncentral F). The test is the report's
permutation test.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import product

import numpy as np
from scipy import stats
from simulated_studies import Truth, simulate

from analysis.planning.formulas import Design
from analysis.stats.interaction import run_interaction_test

RATERS = 4


def compute_planned_power(spread: float, variance: float, items: int) -> float:
    """Return the power of the F test if the three shares are one half and `spread`/2 below and above."""
    if not spread:
        return 0.05
    noncentrality = items / 3 * 2 * (spread / 2) ** 2 / variance
    limit = stats.f.ppf(0.95, 2, items - 3)
    return float(stats.ncf.sf(limit, 2, items - 3, noncentrality))


def measure_detection(truths: list[Truth], items: int, studies: int) -> float:
    """Return how often the p value of the interaction test is at most .05."""
    rng = np.random.default_rng([5, items, studies])
    thirds = [
        simulate(truth, studies=studies, items=items // 3, raters=RATERS, rng=rng).mean(axis=2)
        for truth in truths
    ]
    scores = np.concatenate(thirds, axis=1)
    values = np.repeat([0, 1, 2], items // 3)
    tests = [
        run_interaction_test(study, np.ones(items), values, np.arange(items), seed=number)
        for number, study in enumerate(scores)
    ]
    return float(np.mean([test.p is not None and test.p <= 0.05 for test in tests]))


def write_table(studies: int) -> Iterator[str]:
    """Yield the table."""
    yield "| ties | κ | model | spread | items | planned | found |"
    yield f"|{' ---: |' * 7}"
    settings = ((0.32, 0.41), (0.67, 0.41), (0.32, 0.05))
    for (ties, kappa), model, spread in product(settings, ("latent", "dirichlet"), (0.0, 0.1, 0.2)):
        truths = [
            Truth(share=0.5 + lead, ties=ties, kappa=kappa, model=model)
            for lead in (-spread / 2, 0.0, spread / 2)
        ]
        variance = Design(ties=ties, icc=truths[1].icc).compute_item_variance(RATERS)
        sizes = range(30, 3000, 3)
        items = (
            150 if not spread else next(n for n in sizes if compute_planned_power(spread, variance, n) >= 0.8)
        )
        planned = compute_planned_power(spread, variance, items)
        rate = measure_detection(truths, items, studies)
        yield f"| {ties} | {kappa} | {model} | {spread} | {items} | {planned:.3f} | {rate:.3f} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=400)
    for line in write_table(parser.parse_args().studies):
        print(line, flush=True)


if __name__ == "__main__":
    main()
