"""The alternative-annotator test: may a judge replace an annotator (Calderon, Reichart and Dror 2025)?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from guard_eval.estimate import adjust, jackknife, ratio, sum_by_unit

Numbers = NDArray[np.int64]

FEWEST_UNITS = 30
"""Below this many units an annotator is left out: the t test leans on the mean's normality."""
FEWEST_ANNOTATORS = 3
"""Two annotators have no consensus that a third could be measured by."""


def alternative_annotator(
    items: Numbers,
    annotators: Numbers,
    labels: Numbers,
    judge: Numbers,
    unit: Numbers,
    *,
    epsilon: float,
    q: float = 0.05,
) -> tuple[float | None, str]:
    """Return the share of annotators that the judge beats, or None and the reason.

    Each annotator in turn is compared with the judge: on an item, which of the two agrees with more of the
    other annotators? H0 is that the annotator's advantage exceeds the judge's by ε or more: a one-sided
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
    labels_of_items = np.zeros((len(judge), int(max(labels.max(initial=0), judge.max(initial=0))) + 1))
    np.add.at(labels_of_items, (items, labels), 1)
    verdicts = np.arange(len(items))
    others = labels_of_items[items]
    others[verdicts, labels] -= 1
    is_shared = others.any(axis=1)
    ahead = np.sign(others[verdicts, labels] - others[verdicts, judge[items]])
    p_values = []
    for annotator in np.unique(annotators):
        is_own = is_shared & (annotators == annotator)
        units = np.unique(unit[items[is_own]], return_inverse=True)[1]
        sums = sum_by_unit(units, ahead[is_own], np.ones(len(units)))
        if len(sums) < FEWEST_UNITS:
            continue
        advantage = jackknife(sums, ratio, null=epsilon)
        if advantage.value is None:
            continue
        p = (advantage.p or 0.0) / 2  # on every item the same: p is the t test's limit
        p_values.append(p if advantage.value < epsilon else 1 - p)
    if len(p_values) < FEWEST_ANNOTATORS:
        return None, (
            f"the alternative-annotator test takes {FEWEST_ANNOTATORS} people with {FEWEST_UNITS} prompts "
            f"each, shared with the judge and another person; there are {len(p_values)}"
        )
    wins = [p for p in adjust(p_values, "by") if p is not None and p <= q]
    return len(wins) / len(p_values), ""
