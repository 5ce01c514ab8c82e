"""Test whether a person agrees with a judge more often than other people do.

A person who copies the answers of a model agrees more often. But so does a person with the taste of models,
and a person who reads with more care than others if the judge reads well. The figures cannot distinguish
these cases.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import binom

from guard_eval.estimate import Floats, sum_by_unit


def compare_raters_with_judge(
    items: ArrayLike,
    raters: ArrayLike,
    labels: ArrayLike,
    judged: ArrayLike,
) -> Floats:
    """Compare each person's agreement with a judge to other people's agreement with the judge, [raters, 4].

    The columns are the number of items that the person, the judge and another person rated; the number of
    these items on which the person agrees with the judge; the share of these items on which other people
    agree with the judge; and the p of the exact binomial test.

    Args:
        items: The item of each verdict, numbered from 0, [verdicts].
        raters: The rater of each verdict, numbered from 0, [verdicts]. A rater has at most one verdict on an
            item.
        labels: The label of each verdict, numbered from 0, [verdicts].
        judged: The judge's label of each item, or −1 if the judge did not rate the item, [items].
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
