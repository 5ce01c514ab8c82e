"""Check that intervals agree with tests, and that refined methods gain power without more errors.

python evidence/shares_and_ranks.py --table intervals --studies 2000
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from itertools import combinations, product

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats
from simulated_studies import Truth, simulate

from analysis.evidence import Context, Evidence
from analysis.scores.win_share import (
    estimate_share_of_all_raters,
    estimate_share_of_these_raters,
    weigh_items_by_precision,
)
from analysis.sections.results.ranking import rank_methods
from analysis.stats.assisted import estimate_assisted_share
from analysis.verdicts.checks import check_verdicts
from guard_eval.estimate import adjust_p_values
from guard_eval.joint_flips import compute_max_t_p
from guard_eval.sign_flip import sign_flip
from guard_eval.study.test_plan import TestPlan

Numbers = NDArray[np.int64]
SEED = 20261129


def check_intervals(studies: int) -> Iterator[tuple[object, ...]]:
    """Yield the coverage of the inverted test's interval, and how often Student's interval disagrees."""
    yield "model", "κ", "ties", "share", "items", "raters", "coverage", "Student's", "Student's disagrees"
    settings = (("latent", 0.41, 0.32), ("dirichlet", 0.05, 0.67))
    for (model, kappa, ties), share in product(settings, (0.5, 0.6)):
        truth = Truth(model=model, kappa=kappa, ties=ties, share=share)
        for items, raters in product((8, 20, 40, 150), (1, 3)):
            rng = np.random.default_rng([SEED, items, raters])
            drawn = simulate(truth, studies=studies, items=items, raters=raters, rng=rng).mean(axis=2)
            hits = np.array([_check_coverage(0.5 + means / 2, share) for means in drawn if np.ptp(means) > 0])
            yield model, kappa, ties, share, items, raters, *hits.mean(axis=0)


def _check_coverage(shares: NDArray[np.float64], truth: float) -> tuple[bool, bool, bool]:
    columns = {"share": shares, "dataset": "d", "unit": -1 - np.arange(len(shares))}
    ours = estimate_share_of_these_raters(pd.DataFrame(columns), level=0.95)
    low, high = stats.t.interval(0.95, len(shares) - 1, shares.mean(), stats.sem(shares))
    covers = ours.low is not None and ours.high is not None and ours.low <= truth <= ours.high
    return covers, low <= truth <= high, (ours.p is not None and ours.p <= 0.05) == (low <= 0.5 <= high)


def compare_weights(studies: int) -> Iterator[tuple[object, ...]]:
    """Yield error rate and power if half of the pairs have one rating and the others have more."""
    yield "pairs", "ratings of a pair", "share", "found, equal weights", "found, precision"
    for pairs, more, share in product((40, 100), (3, 8), (0.5, 0.6)):
        count = np.where(np.arange(pairs) % 2, 1, more)
        rng, detections = np.random.default_rng([SEED, pairs, more]), np.zeros(2)
        truth = Truth(share=share, kappa=0.05)
        for drawn in simulate(truth, studies=studies, items=pairs, raters=more, rng=rng):
            is_rated = np.arange(more) < count[:, None]
            item, net = np.nonzero(is_rated)[0], drawn[is_rated]
            scores = pd.DataFrame({"item": item, "net": net, "showings": 1})
            mean = np.bincount(item, weights=net) / count
            items = pd.DataFrame({"share": 0.5 + mean / 2, "dataset": "d", "unit": -1 - np.arange(pairs)})
            ways = (items, weigh_items_by_precision(items, scores))
            detections += [(estimate_share_of_these_raters(way, level=0.95).p or 1) <= 0.05 for way in ways]
        yield pairs, f"1 or {more}", share, *detections / studies


def compare_corrections(studies: int) -> Iterator[tuple[object, ...]]:
    """Yield how often any of six criteria is an error, and how often a real difference is found."""
    yield "correlation", "prompts", "any error, Holm", "any error, max-T", "found, Holm", "found, max-T"
    for correlation, prompts in product((0.0, 0.4, 0.8), (40, 150)):
        rng, rates = np.random.default_rng([SEED, prompts]), np.zeros(4)
        for _, (index, advantage) in product(range(studies), enumerate((0.0, 2.6 / math.sqrt(prompts)))):
            common = rng.standard_normal((prompts, 1))
            separate = rng.standard_normal((prompts, 6))
            felt = math.sqrt(correlation) * common + math.sqrt(1 - correlation) * separate
            felt[:, 0] += 1.3 * advantage
            scores = np.sign(np.where(np.abs(felt) > 0.45, felt, 0.0))
            p_values = adjust_p_values([sign_flip(column).p for column in scores.T])
            p_values = [1.0 if p is None else p for p in p_values]
            ways = (p_values, np.minimum(p_values, compute_max_t_p(scores)))
            rates[2 * index : 2 * index + 2] += [(way[0] if index else min(way)) <= 0.05 for way in ways]
        yield correlation, prompts, *rates / studies


def check_unequal_loads(studies: int) -> Iterator[tuple[object, ...]]:
    """Yield how often the interval for other raters misses, with very unequal numbers of ratings."""
    yield "pairs of each rater", "leans", "missed, these raters", "missed, others", "width over these raters'"
    of_raters = (
        [50] * 8,
        [200, 100, 60, 40, 20, 20, 10, 10],
        [120, 80, 20, 10, 10, 5, 5],
        [100, 60] + [3] * 20,
    )
    for counts, lean in product(of_raters, (0.0, 0.4)):
        rater = np.repeat(np.arange(len(counts)), counts)
        rng, rows = np.random.default_rng([SEED, len(counts)]), []
        for _ in range(studies):
            felt = rng.normal(0, lean, len(counts))[rater] + rng.normal(0, 1.35, len(rater))
            net = np.sign(np.where(np.abs(felt) > 0.45, felt, 0.0)).astype(int)
            unit = np.arange(len(rater))
            columns = {"item": unit, "unit": -1 - unit, "dataset": "d", "rater": rater, "net": net}
            scores = pd.DataFrame(columns | {"showings": 1, "share": 0.5 + net / 2})
            these = estimate_share_of_these_raters(scores, level=0.95)
            others = estimate_share_of_all_raters(scores, scores, these)
            ends = [(estimate.low, estimate.high) for estimate in (these, others)]
            if None not in ends[1]:
                spans = [high - low for low, high in ends]
                rows.append([*(not low <= 0.5 <= high for low, high in ends), spans[1] / spans[0]])
        missed = np.array(rows)
        named = ", ".join(map(str, counts[:8])) + (", …" if len(counts) > 8 else "")
        yield named, lean, *missed[:, :2].mean(axis=0), np.median(missed[:, 2])


def check_assisted_shares(studies: int) -> Iterator[tuple[object, ...]]:
    """Yield coverage and power of people's share, assisted by a judge with smaller differences."""
    yield "judge's scores shrunk to", "λ, median", "coverage", "found, share .57", "found, people alone"
    truth = _compute_true_share()
    for shrunk in (1.0, 0.5, 0.25):
        rng, rows = np.random.default_rng([SEED, 4]), []
        for _ in range(studies):
            quality = rng.normal(0.25, 1, 800)
            people = np.clip(0.5 + 0.28 * (quality + 0.5 * rng.standard_normal(800)), 0, 1)
            judge = 0.5 + shrunk * 0.28 * (quality + 0.5 * rng.standard_normal(800))
            rated = np.where(np.arange(800) < 80, people, np.nan)
            result = estimate_assisted_share(rated, np.clip(judge, 0, 1), np.zeros(800), np.arange(800))
            alone = stats.ttest_1samp(people[:80], 0.5).pvalue
            low, high = result.share.low or 0.0, result.share.high or 1.0
            is_detected = (result.share.p or 1) <= 0.05
            rows.append([result.weight, low <= truth <= high, is_detected, alone <= 0.05])
        table = np.array(rows, dtype=float)
        yield shrunk, np.median(table[:, 0]), *table[:, 1:].mean(axis=0)


def _compute_true_share() -> float:
    """Return the mean of people's scores of all texts. Scores are limited to 0 … 1."""
    felt = stats.norm(0.5 + 0.28 * 0.25, 0.28 * math.sqrt(1.25))
    return float(felt.expect(lambda score: min(max(score, 0.0), 1.0)))


def check_rank_sets(studies: int) -> Iterator[tuple[object, ...]]:
    """Yield how often rank sets of equal methods are wrong, if each study draws new raters."""
    yield "methods", "prompts", "raters, each rates", "leans", "wrong, these raters", "wrong, others"
    settings = (
        *product((4,), (40,), (4, 5, 8), (1.0,), ("none", "normal", "skewed")),
        *product((6,), (60,), (5,), (1.0,), ("normal",)),
        *product((4,), (60,), (20,), (0.15,), ("normal",)),
    )
    for methods, prompts, raters, rated_share, leans in settings:
        rng, wrong = np.random.default_rng([SEED, methods, raters]), np.zeros(2)
        for _ in range(studies):
            table = _draw_equal_methods(rng, methods, prompts, raters, rated_share=rated_share, leans=leans)
            for index, sampling in enumerate(("fixed", "random")):
                context = Context(name="n", plan=TestPlan(raters=sampling))
                rows = rank_methods(Evidence.from_verdicts(table, context))
                sets = [(row.possible_best or 1, row.possible_worst or methods) for row in rows]
                wrong[index] += any(rank_set != (1, methods) for rank_set in sets)
        yield methods, prompts, f"{raters}, {rated_share:.0%}", leans, *wrong / studies


def _draw_equal_methods(
    rng: np.random.Generator, methods: int, prompts: int, raters: int, *, rated_share: float, leans: str
) -> pd.DataFrame:
    """Draw verdicts on methods that are equal on average, although each rater prefers some of them."""
    size = (raters, methods)
    liking = {
        "none": np.zeros(size),
        "normal": rng.normal(0, 0.4, size),
        "skewed": 0.4 * (rng.exponential(1, size) - 1),
    }[leans]
    first, second = np.array(list(combinations(range(methods), 2))).T
    prompt, rater, pair = (grid.ravel() for grid in np.indices((prompts, raters, len(first))))
    is_rated = rng.random(len(prompt)) < rated_share
    prompt, rater, pair = prompt[is_rated], rater[is_rated], pair[is_rated]
    quality = rng.normal(0, 0.6, (prompts, methods))[prompt] + liking[rater]
    row, a, b = np.arange(len(prompt)), first[pair], second[pair]
    felt = quality[row, a] - quality[row, b] + 1.2 * rng.standard_normal(len(row))
    name_a, name_b = (np.array(list("abcdef"))[side] for side in (a, b))
    columns = {
        "pair_id": [f"{p}-{q}" for p, q in zip(prompt, pair, strict=True)],
        "prompt_id": [f"p{p}" for p in prompt],
        "rater": [f"r{r}" for r in rater],
        "method_a": name_a,
        "method_b": name_b,
        "verdict": np.where(felt > 0.45, name_a, np.where(felt < -0.45, name_b, "tie")),
    }
    return check_verdicts(pd.DataFrame(columns).assign(dataset="d", rater_kind="person", criterion="c"))


TABLES: dict[str, Callable[[int], Iterator[tuple[object, ...]]]] = {
    "intervals": check_intervals,
    "weights": compare_weights,
    "criteria": compare_corrections,
    "loads": check_unequal_loads,
    "assisted": check_assisted_shares,
    "ranks": check_rank_sets,
}


def _format(cell: object) -> str:
    """Format a rate without the leading zero, a ratio with two digits, and a setting unchanged."""
    if isinstance(cell, np.float64):
        return f"{cell:.3f}".removeprefix("0") if cell < 1 else f"{cell:.3f}"
    return str(cell)


def main() -> None:
    """Print a table, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", choices=TABLES, action="append")
    parser.add_argument("--studies", type=int, default=400)
    options = parser.parse_args()
    for name in options.table or TABLES:
        head, *rows = TABLES[name](options.studies)
        print(f"\n| {' | '.join(map(str, head))} |\n|{' ---: |' * len(head)}")
        for row in rows:
            cells = (_format(cell) for cell in row)
            print(f"| {' | '.join(map(str, cells))} |", flush=True)


if __name__ == "__main__":
    main()
