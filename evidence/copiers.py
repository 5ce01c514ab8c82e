"""Measure how many honest raters are flagged as copiers of a judge, and how many copiers are flagged.

python evidence/copiers.py --studies 500

The judge is simulated as one more rater. A copier repeats the judge's verdicts on a share of the pairs.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import product

import numpy as np
from numpy.typing import NDArray
from simulated_studies import Truth, simulate

from analysis.scores.likeness import ADVANCE, RARE, compare_raters_with_judge
from guard_eval.estimate import adjust_p_values

CRITERIA = 2


def flag_raters(labels: NDArray[np.int64], judged: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which raters are flagged, `[raters]`.

    `labels` are the raters' verdicts, [criteria, items, raters]; `judged` are the judge's, [criteria, items].
    """
    items, raters = labels.shape[1:]
    item, rater = np.divmod(np.arange(items * raters), raters)
    tests = [
        compare_raters_with_judge(item, rater, labels[index].ravel(), judged[index])
        for index in range(CRITERIA)
    ]
    n, same, expected, p_values = np.moveaxis(np.array(tests), 2, 0)
    adjusted = np.array(adjust_p_values(p_values.ravel().tolist()), dtype=float).reshape(CRITERIA, raters)
    ahead = same / n - expected
    return np.asarray(((adjusted <= RARE) & (ahead >= ADVANCE)).any(axis=0))


def count_flags(truth: Truth, items: int, raters: int, studies: int, copied: float) -> tuple[float, float]:
    """Return the flagged shares of honest raters and of copiers. Each study has at most one copier."""
    rng = np.random.default_rng([6, items, raters])
    honest = flagged_copiers = 0
    for _ in range(studies):
        drawn = simulate(truth, studies=CRITERIA, items=items, raters=raters + 1, rng=rng).astype(int) + 1
        labels, judged = drawn[:, :, :-1].copy(), drawn[:, :, -1]
        if copied:
            is_copied = rng.random((CRITERIA, items)) < copied
            labels[:, :, 0] = np.where(is_copied, judged, labels[:, :, 0])
        result = flag_raters(labels, judged)
        flagged_copiers += int(result[0])
        honest += int(result[1:].sum()) if copied else int(result.sum())
    return honest / studies / (raters - bool(copied)), flagged_copiers / studies


def write_table(studies: int) -> Iterator[str]:
    """Yield the table."""
    yield "| κ | biases | pairs | raters | honest raters flagged | half copied | four fifths copied |"
    yield f"|{' ---: |' * 7}"
    for kappa, bias, items, raters in product((0.2, 0.41), (0.0, 0.2, 0.4), (100, 200), (4, 12)):
        truth = Truth(kappa=kappa, rater_sd=bias)
        honest, _ = count_flags(truth, items, raters, studies, 0.0)
        shares = {}
        for copied in (0.5, 0.8):
            _, shares[copied] = count_flags(truth, items, raters, max(1, studies // 5), copied)
        cells = " | ".join(f"{share:.2f}" for share in shares.values())
        yield f"| {kappa} | {bias} | {items} | {raters} | {honest:.4f} | {cells} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=500)
    for line in write_table(parser.parse_args().studies):
        print(line, flush=True)


if __name__ == "__main__":
    main()
