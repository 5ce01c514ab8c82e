"""Does a person say what a judge says more often than other people do?

A person who copies a model's answers does. So does one who agrees with models by taste, or who reads with
more care than the others if the judge reads well: the figures alone cannot tell them apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom

from guard_eval.estimate import Floats


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Likeness:
    """Each person's agreement with a judge.

    Attributes:
        items: The number of items that the person, the judge and another person rated, [raters].
        same: On how many of them the person says what the judge says, [raters].
        expected: The share of them on which other people do, [raters].
        p: The chance of as many by the exact binomial test, [raters].
    """

    items: NDArray[np.int64]
    same: NDArray[np.int64]
    expected: Floats
    p: Floats


def compare_with_judge(items: ArrayLike, raters: ArrayLike, labels: ArrayLike, judged: ArrayLike) -> Likeness:
    """Return how far each person agrees with a judge, beside other people.

    Args:
        items: The item of each verdict, from 0, [verdicts].
        raters: Who gave it, from 0, [verdicts]; no rater twice on an item.
        labels: The verdict, from 0, [verdicts].
        judged: The judge's label of each item, or −1, [items].
    """
    item, rater, label = (np.asarray(part, dtype=np.int64) for part in (items, raters, labels))
    verdict = np.asarray(judged, dtype=np.int64)
    people = int(rater.max(initial=-1)) + 1
    many = int(max(label.max(initial=0), verdict.max(initial=0))) + 1
    tally = np.bincount(item * many + label, minlength=len(verdict) * many).reshape(len(verdict), many)
    counts = tally.sum(axis=1)
    is_shared = (verdict[item] >= 0) & (counts[item] > 1)
    item, rater, label = item[is_shared], rater[is_shared], label[is_shared]
    others = counts[item] - 1
    same = label == verdict[item]
    others_same = (tally[item, verdict[item]] - same) / others

    def add_up(values: ArrayLike | None = None) -> Floats:
        return np.asarray(np.bincount(rater, weights=values, minlength=people), dtype=np.float64)

    n = add_up()
    agreeing = add_up(same)
    expected = np.clip(add_up(others_same) / np.maximum(1.0, n), 0.0, 1.0)
    return Likeness(
        items=n.astype(np.int64),
        same=agreeing.astype(np.int64),
        expected=expected,
        p=np.asarray(binom.sf(agreeing - 1, n, expected)),
    )
