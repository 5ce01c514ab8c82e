"""The alternative-annotator test: may a judge replace an annotator (Calderon, Reichart and Dror 2025)?"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from guard_eval.estimate import adjust, jackknife

FEWEST_UNITS = 30
"""Below this many units an annotator is left out: the t test leans on the mean's normality."""
FEWEST_ANNOTATORS = 3
"""Two annotators have no consensus that a third could be measured by."""


def alternative_annotator(
    items: ArrayLike,
    annotators: ArrayLike,
    labels: ArrayLike,
    judge: ArrayLike,
    unit: ArrayLike,
    *,
    epsilon: float,
    q: float = 0.05,
) -> tuple[float | None, str]:
    """Return the share of annotators against whom the judge wins, or None and the reason.

    Each annotator is left out in turn, and measured by the others beside the judge: on an item, who says what
    more of the others say? H0 is that the annotator's advantage exceeds the judge's by ε or more: a one-sided
    paired t test over units. Rejections control the false discovery rate `q` after Benjamini and Yekutieli,
    as the tests share verdicts. The judge passes if it wins against at least half of the annotators.

    Args:
        items: The item of each verdict, from 0, [verdicts].
        annotators: Who gave it, from 0, [verdicts]; no annotator twice on an item.
        labels: The verdict, from 0, [verdicts].
        judge: The judge's label of each item, [items].
        unit: The unit of each item, from 0, [items].
        epsilon: The cost-benefit term, 0 ≤ ε < 1.
        q: The false discovery rate.
    """
    item, who, label = (np.asarray(part, dtype=np.int64) for part in (items, annotators, labels))
    verdict, units = np.asarray(judge, dtype=np.int64), np.asarray(unit, dtype=np.int64)
    many = int(max(label.max(initial=0), verdict.max(initial=0))) + 1
    counts = np.bincount(item * many + label, minlength=len(verdict) * many).reshape(len(verdict), many)
    shared = counts.sum(axis=1)[item] >= 2
    item, who, label = item[shared], who[shared], label[shared]
    judged = verdict[item]
    # How many of the others say the same as the annotator, less how many say the same as the judge.
    ahead = np.sign(counts[item, label] - 1 - (counts[item, judged] - (judged == label)))
    p_values = []
    for name in np.unique(who):
        mask = who == name
        index = np.unique(units[item[mask]], return_inverse=True)[1]
        if index.max(initial=-1) + 1 < FEWEST_UNITS:
            continue
        sums = np.stack([np.bincount(index, weights=ahead[mask]), np.bincount(index)], axis=1)
        advantage = jackknife(sums, lambda sums: sums[..., 0] / sums[..., 1], null=epsilon)
        if advantage.value is None:
            continue
        p = (advantage.p or 0.0) / 2  # on every item the same: p is the t test's limit
        p_values.append(p if advantage.value < epsilon else 1 - p)
    if len(p_values) < FEWEST_ANNOTATORS:
        return None, (
            f"the alternative-annotator test takes {FEWEST_ANNOTATORS} people with {FEWEST_UNITS} prompts "
            f"each, shared with the judge and another person; there are {len(p_values)}"
        )
    adjusted = adjust(p_values, "by")
    return sum(p is not None and p <= q for p in adjusted) / len(adjusted), ""
