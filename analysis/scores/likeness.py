"""Find signs that a model answered for a person: agreement with a judge, and the use of the page."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import binom

from guard_eval.errors import format_count
from guard_eval.estimate import Floats, adjust_p_values, sum_columns_by_unit
from guard_eval.records import record
from guard_eval.reporting.rendering import render_lines

RARE = 0.001
"""The largest corrected p for which agreement with a judge is a sign. Honest raters rarely reach it."""
ADVANCE = 0.175
"""Agreement with a judge is a sign only if it exceeds other people's agreement by at least this share."""
CONDUCT = {
    "copies": ("copied text and left the page", 3),
    "untrusted": ("a program clicked or typed", 3),
    "driven": ("a program controlled the browser", 1),
}
"""The events that the app counts, with a description and the smallest number of pairs for a sign."""
Conduct = Mapping[str, Mapping[str, int]]
"""For each rater and each event of `CONDUCT`, the number of pairs on which the app counted the event."""
BY_TASTE = (
    "A person who agrees with models by taste looks the same as one who copies: see both signs together."
)


@record
class JudgeLikeness:
    """The agreement of a person with a judge on one criterion.

    Attributes:
        rater_kind: The person's kind.
        rater: The person.
        judge: The judge.
        criterion: The criterion.
        pairs: The pairs that the person, another person and the judge rated.
        same: The number of these pairs on which the person agrees with the judge.
        expected: The share of these pairs on which other people agree with the judge.
        p: The probability of at least this agreement by chance.
        p_adjusted: p after Holm's correction for all people, judges and criteria.
    """

    rater_kind: str
    rater: str
    judge: str
    criterion: str
    pairs: int
    same: int
    expected: float
    p: float
    p_adjusted: float | None = None

    @property
    def is_suspicious(self) -> bool:
        """Return whether the agreement is too high for an honest rater."""
        is_rare = self.p_adjusted is not None and self.p_adjusted <= RARE
        return is_rare and self.same / self.pairs >= self.expected + ADVANCE


def make_judge_likeness_rows(kind: str, people: pd.DataFrame, judged: pd.DataFrame) -> list[JudgeLikeness]:
    """Return each person's agreement with each judge by criterion, if they share pairs.

    Args:
        kind: The kind of people.
        people: Each person's label of an item: `rater`, `criterion`, `item`, and `label`, which is 0, 1 or 2.
        judged: The judges' labels, with the same columns.
    """
    rows = []
    for (judge, criterion), verdicts in judged.groupby(["rater", "criterion"], sort=True, observed=True):
        theirs = people[people["criterion"] == criterion]
        items = pd.Index(theirs["item"].unique())
        labels = verdicts.set_index("item")["label"].reindex(items, fill_value=-1)
        codes, names = pd.factorize(theirs["rater"], sort=True)
        figures = compare_raters_with_judge(items.get_indexer(theirs["item"]), codes, theirs["label"], labels)
        rows += [
            JudgeLikeness(
                rater_kind=kind,
                rater=str(name),
                judge=str(judge),
                criterion=str(criterion),
                pairs=int(pairs),
                same=int(same),
                expected=expected,
                p=p,
            )
            for name, (pairs, same, expected, p) in zip(names, figures.tolist(), strict=True)
            if pairs
        ]
    adjusted = adjust_p_values([row.p for row in rows])
    return [replace(row, p_adjusted=p) for row, p in zip(rows, adjusted, strict=True)]


def describe_signs_of_llm_use(rows: Iterable[JudgeLikeness], conduct: Conduct) -> dict[str, str]:
    """Describe each rater's signs of using a model, by the rater's name. Leave out raters without signs."""
    nearest: dict[str, JudgeLikeness] = {}
    for row in sorted(rows, key=lambda row: row.p):
        nearest.setdefault(row.rater, row)
    signs = {}
    for name in dict.fromkeys((*nearest, *conduct)):
        counts = conduct.get(name, {})
        is_used = any(counts.get(what, 0) >= fewest for what, (_, fewest) in CONDUCT.items())
        closest = nearest.get(name)
        if is_used or (closest is not None and closest.is_suspicious):
            (signs[name],) = render_lines(
                __file__, "signs.txt", closest=closest, counts=counts, conduct=CONDUCT, count=format_count
            )
    return signs


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
    n, k, expected = sum_columns_by_unit(
        rater,
        is_shared,
        is_shared & same,
        is_shared * of_others,
    ).T
    share = np.clip(expected / np.maximum(1, n), 0, 1)
    p = binom.sf(k - 1, n, share)
    return np.stack([n, k, share, p], axis=1)
