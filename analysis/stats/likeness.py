"""Does a person agree with a judge more often than other people do?

A person who copies a model's answers does. So does a person with the taste of models, or a person who reads
with more care than the others if the judge reads well. The figures alone cannot distinguish them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import binom

from guard_eval.estimate import Floats


def compare_with_judge(
    items: ArrayLike,
    raters: ArrayLike,
    labels: ArrayLike,
    judged: ArrayLike,
) -> Floats:
    """Compare the agreement of each person with a judge to that of other people, [raters, 4].

    The columns are the number of items that the person, the judge and another person rated; the number of
    these on which the person agrees with the judge; the share of them on which other people do; and the p of
    the exact binomial test.

    Args:
        items: The item of each verdict, from 0, [verdicts].
        raters: Who gave it, from 0, [verdicts]; no rater twice on an item.
        labels: The verdict, from 0, [verdicts].
        judged: The judge's label of each item, or −1, [items].
    """
    item, rater, label = (np.asarray(column, dtype=np.int64) for column in (items, raters, labels))
    verdict = np.asarray(judged, dtype=np.int64)
    same = label == verdict[item]
    counts = np.bincount(item)
    agreeing = np.bincount(item, weights=same)
    is_shared = (verdict[item] >= 0) & (counts[item] > 1)
    others = np.maximum(1, counts[item] - 1)
    columns = (np.ones(len(item)), same, (agreeing[item] - same) / others)
    size = int(rater.max(initial=-1)) + 1
    n, k, expected = (np.bincount(rater, weights=column * is_shared, minlength=size) for column in columns)
    share = np.clip(expected / np.maximum(1, n), 0, 1)
    return np.stack([n, k, share, binom.sf(k - 1, n, share)], axis=1)
