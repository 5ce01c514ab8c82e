"""Does a person agree with a judge more often than other people do?

A person who copies a model's answers does. So does a person with the taste of models, or a person who reads
with more care than the others if the judge reads well. The figures alone cannot distinguish them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import binom

from guard_eval.estimate import Floats, sum_by_unit


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
    item = np.asarray(items, dtype=np.int64)
    rater = np.asarray(raters, dtype=np.int64)
    verdict = np.asarray(judged, dtype=np.int64)[item]
    same = np.asarray(labels) == verdict
    counts = np.bincount(item)[item]
    agreeing = np.bincount(item, weights=same)[item]
    is_shared = (verdict >= 0) & (counts > 1)
    of_others = (agreeing - same) / np.maximum(1, counts - 1)
    n, k, expected = sum_by_unit(
        rater,
        is_shared,
        is_shared & same,
        is_shared * of_others,
    ).T
    share = np.clip(expected / np.maximum(1, n), 0, 1)
    p = binom.sf(k - 1, n, share)
    return np.stack([n, k, share, p], axis=1)
