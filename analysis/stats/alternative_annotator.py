"""Run the alternative-annotator test: may a judge replace an annotator (Calderon, Reichart and Dror 2025)?"""

import numpy as np

from guard_eval.estimate import Integers, adjust_p_values, divide_sums, jackknife, sum_columns_by_unit

FEWEST_UNITS = 30
"""An annotator with fewer units is left out, because the t test needs a nearly normal mean."""
FEWEST_ANNOTATORS = 3
"""The smallest number of annotators. With fewer, there is no consensus for a comparison."""


def run_alternative_annotator_test(
    items: Integers,
    annotators: Integers,
    labels: Integers,
    judge: Integers,
    unit: Integers,
    *,
    epsilon: float,
    q: float = 0.05,
) -> tuple[float | None, str]:
    """Return the share of annotators that the judge beats, or None and the reason.

    The judge is compared with each annotator. On each item, the better one of both is the one who agrees with
    more of the other annotators. H0 says that the annotator's advantage exceeds the judge's by ε or more. The
    test is a one-sided paired t test over units. Because the tests share verdicts, the false discovery rate
    `q` is controlled after Benjamini and Yekutieli. The judge passes if the judge wins against at least half
    of the annotators.

    Args:
        items: The item of each verdict, numbered from 0, [verdicts].
        annotators: The annotator of each verdict, numbered from 0, [verdicts]. An annotator has at most one
            verdict on an item.
        labels: The label of each verdict, numbered from 0, [verdicts].
        judge: The judge's label of each item, [items].
        unit: The unit of each item, numbered from 0, [items].
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
        sums = sum_columns_by_unit(units, ahead[is_own], np.ones(len(units)))
        if len(sums) < FEWEST_UNITS:
            continue
        advantage = jackknife(sums, divide_sums, null=epsilon)
        if advantage.value is None:
            continue
        p = (advantage.p or 0.0) / 2  # if all items are equal, p is the limit of the t test
        p_values.append(p if advantage.value < epsilon else 1 - p)
    if len(p_values) < FEWEST_ANNOTATORS:
        return None, (
            f"the alternative-annotator test takes {FEWEST_ANNOTATORS} people with {FEWEST_UNITS} prompts "
            f"each, shared with the judge and another person; there are {len(p_values)}"
        )
    wins = [p for p in adjust_p_values(p_values, "by") if p is not None and p <= q]
    return len(wins) / len(p_values), ""
