"""Check the tests' error rates and the intervals' coverage in simulated studies with known truth.

python evidence/calibration.py --studies 500
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.evidence import Context, Evidence
from analysis.scores.win_share import estimate_share_of_these_raters
from analysis.sections.results.ranking import rank_methods
from analysis.stats.agreement import fleiss_kappa
from analysis.stats.proportion import run_pooled_binomial_test
from analysis.verdicts.checks import check_verdicts

LEAN = 0.9
"""The standard deviation of an item's advantage, in units of a rater's noise: κ is about .4."""


def draw_verdicts(
    rng: np.random.Generator, items: int, raters: int, advantage: float = 0.0
) -> NDArray[np.int64]:
    """Draw verdicts 1, 0 and −1, [items, raters]. Two thresholds divide an item's advantage plus noise."""
    scores = advantage + LEAN * rng.normal(size=(items, 1)) + rng.normal(size=(items, raters))
    return np.where(scores > 0.45, 1, np.where(scores < -0.45, -1, 0)).astype(np.int64)


def check_share_and_kappa(
    rng: np.random.Generator, items: int, raters: int, studies: int
) -> dict[str, float]:
    """Return the tests' error rates without any difference, and the intervals' coverage."""
    large = draw_verdicts(rng, 100_000, raters)
    truth = fleiss_kappa(_count_verdicts(large)).value or 0.0
    hits = np.zeros(4)
    for _ in range(studies):
        drawn = draw_verdicts(rng, items, raters)
        means = 0.5 + drawn.mean(axis=1) / 2
        columns = {"share": means, "dataset": "d", "unit": -1 - np.arange(items)}
        result = estimate_share_of_these_raters(pd.DataFrame(columns), level=0.95)
        pooled = run_pooled_binomial_test(int((drawn > 0).sum()), int((drawn < 0).sum()))
        kappa = fleiss_kappa(_count_verdicts(drawn))
        covers = kappa.low is not None and kappa.high is not None and kappa.low <= truth <= kappa.high
        inside = result.low is not None and result.high is not None and result.low <= 0.5 <= result.high
        hits += ((result.p or 1) <= 0.05, (pooled.p or 1) <= 0.05, inside, covers)
    names = ("error, sign-flip", "error, pooled binomial", "coverage, share", "coverage, κ")
    return dict(zip(names, hits / studies, strict=True))


def _count_verdicts(drawn: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.stack([(drawn == value).sum(axis=1) for value in (1, 0, -1)], axis=1)


def measure_wrong_rank_sets(rng: np.random.Generator, prompts: int, studies: int) -> float:
    """Return how often rank sets place one of three equal methods above another."""
    wrong = 0
    for _ in range(studies):
        rows = [
            {"pair_id": f"{n}{a}{b}", "prompt_id": f"p{n}", "method_a": a, "method_b": b, "verdict": verdict}
            for n in range(prompts)
            for a, b in (("x", "y"), ("x", "z"), ("y", "z"))
            for verdict in (str(rng.choice([a, b, "tie"])),)
        ]
        constants = {"dataset": "d", "rater": "r", "rater_kind": "person", "criterion": "c"}
        methods = rank_methods(
            Evidence.from_verdicts(check_verdicts(pd.DataFrame(rows).assign(**constants)), Context(name="n"))
        )
        wrong += any(row.possible_best not in {None, 1} for row in methods)
    return wrong / studies


def write_tables(studies: int, seed: int) -> Iterator[str]:
    """Yield the tables."""
    rng = np.random.default_rng(seed)
    head: list[str] = []
    for items in (20, 40, 150):
        for raters in (1, 3, 5):
            result = check_share_and_kappa(rng, items, raters, studies)
            if not head:
                head = ["items", "raters", *result]
                yield f"| {' | '.join(head)} |"
                yield f"| {' | '.join(['---:'] * len(head))} |"
            cells = [f"{value:.3f}".lstrip("0") for value in result.values()]
            cells = [*cells[:-1], "–"] if raters == 1 else cells
            yield f"| {items} | {raters} | {' | '.join(cells)} |"
    yield ""
    yield "| prompts | a set of ranks is wrong (nominal .05) |"
    yield "| ---: | ---: |"
    for prompts in (2, 3, 4, 5, 6, 10):
        yield f"| {prompts} | {measure_wrong_rank_sets(rng, prompts, max(50, studies // 5)):.3f} |"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for line in write_tables(options.studies, options.seed):
        print(line, flush=True)


if __name__ == "__main__":
    main()
