"""A judge beside people: may it stand in for one of them, and does it lean to the same side?"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from analysis.stats.correction import benjamini_yekutieli

FEWEST_ITEMS = 30
"""Below this many items an annotator is left out: the t test leans on the mean's normality."""
FEWEST_ANNOTATORS = 3
"""Two annotators have no consensus that a third could be measured by."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LeftOut:
    """Every annotator in turn against the judge, each measured by the others; all arrays are [annotators].

    Attributes:
        n: Items that the annotator shares with the judge and at least one other annotator.
        judge: Items where at least as many of the others say what the judge says as say what it says.
        annotator: The same with the two exchanged; where they are level an item counts in both.
        level: Items where they are level.
        clustered: Where items of a prompt depend on each other, [annotators, 4]: how many prompts, and over
            them the sums of d², d·m and m², d being the sum of a prompt's differences (annotator less judge)
            and m its items; `None` where items are alone.
    """

    n: NDArray[np.int64]
    judge: NDArray[np.int64]
    annotator: NDArray[np.int64]
    level: NDArray[np.int64]
    clustered: NDArray[np.int64] | None = None

    @property
    def units(self) -> NDArray[np.int64]:
        """Return how many items, or prompts, are independent of each other, [annotators]."""
        return self.n if self.clustered is None else self.clustered[:, 0]


def leave_one_out(
    items: ArrayLike,
    annotators: ArrayLike,
    labels: ArrayLike,
    judge: ArrayLike,
    *,
    categories: int,
    clusters: NDArray[np.integer] | None = None,
) -> LeftOut:
    """Count who is closer to the other annotators, the judge or the annotator left out.

    The alignment is accuracy: how many of the others say the same (Calderon, Reichart and Dror 2025, §3).

    Args:
        items: The item of each verdict, from 0, shape [verdicts].
        annotators: Who gave it, from 0, shape [verdicts]; no annotator twice on an item.
        labels: What it was, from 0 to `categories` − 1, shape [verdicts].
        judge: The judge's label of each item, −1 for none, shape [items].
        categories: How many labels there are.
        clusters: The prompt of each item, from 0, shape [items]; `None` where items are alone.

    Raises:
        ValueError: If the shapes differ or a number has no meaning.
    """
    item, who, label = (np.asarray(part, dtype=np.int64) for part in (items, annotators, labels))
    verdict = np.asarray(judge, dtype=np.int64)
    if not item.shape == who.shape == label.shape or item.ndim != 1 or verdict.ndim != 1:
        raise ValueError(
            f"one item, annotator and label per verdict: {item.shape}, {who.shape}, {label.shape}"
        )
    _check_codes(item, who, label, verdict, categories)
    counts = np.bincount(item * categories + label, minlength=len(verdict) * categories)
    counts = counts.reshape(len(verdict), categories)
    shared = (counts.sum(axis=1)[item] >= 2) & (verdict[item] >= 0)
    size = int(who.max()) + 1 if len(who) else 0
    item, who, label = item[shared], who[shared], label[shared]
    judged = verdict[item]
    own = counts[item, label] - 1
    its = counts[item, judged] - (judged == label)
    clustered = None
    if clusters is not None:
        key, place = np.unique(np.stack([who, np.asarray(clusters)[item]]), axis=1, return_inverse=True)
        items_of = np.bincount(place.ravel())
        sums = np.bincount(place.ravel(), weights=np.sign(own - its))
        parts = (np.ones(len(sums)), sums * sums, sums * items_of, items_of * items_of)
        clustered = np.stack([np.bincount(key[0], weights=one, minlength=size) for one in parts], axis=1)
    return LeftOut(
        n=np.bincount(who, minlength=size),
        judge=np.bincount(who[its >= own], minlength=size),
        annotator=np.bincount(who[own >= its], minlength=size),
        level=np.bincount(who[own == its], minlength=size),
        clustered=None if clustered is None else clustered.astype(np.int64),
    )


def _check_codes(
    item: NDArray[np.int64],
    who: NDArray[np.int64],
    label: NDArray[np.int64],
    judge: NDArray[np.int64],
    categories: int,
) -> None:
    for name, values, low, high in (
        ("item", item, 0, len(judge)),
        ("annotator", who, 0, None),
        ("label", label, 0, categories),
        ("judge's label", judge, -1, categories),
    ):
        if len(values) and (values.min() < low or (high is not None and values.max() >= high)):
            raise ValueError(f"the {name} must be from {low}{'' if high is None else f' to {high - 1}'}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Annotator:
    """One annotator against the judge.

    Attributes:
        place: The annotator's number.
        n: Items compared.
        judge_advantage: ρ_j, the share of items on which the judge is at least as close to the others.
        annotator_advantage: The share on which the annotator is; the two overlap where they are level.
        p_value: One-sided paired t test of "the annotator's advantage exceeds the judge's by ε or more".
        adjusted: The same after Benjamini and Yekutieli over the annotators.
        lost: Whether that is rejected: the judge wins against this annotator.
    """

    place: int
    n: int
    judge_advantage: float
    annotator_advantage: float
    p_value: float
    adjusted: float
    lost: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class AlternativeTest:
    """The alternative-annotator test of one judge.

    Attributes:
        winning_rate: ω, the share of annotators the judge wins against; `None` where undefined.
        advantage: ρ, the mean of ρ_j over the annotators; `None` where undefined.
        passed: Whether ω ≥ ½, so that the judge may be used in an annotator's stead.
        epsilon: ε, how much worse than an annotator the judge may be, for being cheaper.
        q: The false discovery rate.
        annotators: One by one.
        reason: Why it is undefined, or empty.
        warnings: What a reader must know before using it.
        method: The test and its settings, in words.
    """

    winning_rate: float | None = None
    advantage: float | None = None
    passed: bool | None = None
    epsilon: float
    q: float
    annotators: tuple[Annotator, ...] = ()
    reason: str = ""
    warnings: tuple[str, ...] = ()
    method: str


def alternative_annotator(
    left_out: LeftOut,
    *,
    epsilon: float,
    q: float = 0.05,
    fewest_items: int = FEWEST_ITEMS,
    fewest_annotators: int = FEWEST_ANNOTATORS,
) -> AlternativeTest:
    """Return whether the judge may replace an annotator (Calderon, Reichart and Dror 2025, §3).

    For each annotator j, H0: P(j at least as close as the judge) − P(the judge at least as close as j) ≥ ε,
    by a one-sided paired t test over items; rejections control the false discovery rate `q` after Benjamini
    and Yekutieli, as the tests share verdicts. The authors advise ε = .2 where annotators are experts, .15
    skilled, .1 from a crowd, at least three annotators, and 30 items for each.

    Args:
        left_out: The counts of `leave_one_out`.
        epsilon: The cost-benefit term, 0 ≤ ε < 1.
        q: The false discovery rate.
        fewest_items: An annotator with fewer is left out, and a warning says so.
        fewest_annotators: With fewer of them the test is undefined.
    """
    if not 0 <= epsilon < 1 or not 0 < q < 1:
        raise ValueError(f"ε lies in [0, 1) and q in (0, 1); got {epsilon} and {q}")
    method = (
        f"alternative-annotator test, accuracy, ε = {epsilon:g}, one-sided paired t tests, "
        f"Benjamini–Yekutieli at {q:g}"
    )
    whole = AlternativeTest(epsilon=epsilon, q=q, method=method)
    unit = "items" if left_out.clustered is None else "prompts"
    enough = left_out.units >= max(fewest_items, 2)
    used = np.flatnonzero(enough)
    short = int((~enough & (left_out.n > 0)).sum())
    if len(used) < fewest_annotators:
        reason = (
            f"it takes {fewest_annotators} annotators with {fewest_items} {unit} each, shared with the judge "
            f"and another annotator; there are {len(used)}"
        )
        return replace(whole, reason=reason)
    p_values, flat = _t_tests(left_out, used, epsilon)
    adjusted = [1.0 if value is None else value for value in benjamini_yekutieli(p_values).p_values]
    n, judge, annotator = (part[used].tolist() for part in (left_out.n, left_out.judge, left_out.annotator))
    annotators = tuple(
        Annotator(
            place=int(place),
            n=n[number],
            judge_advantage=judge[number] / n[number],
            annotator_advantage=annotator[number] / n[number],
            p_value=p_values[number],
            adjusted=after,
            lost=after <= q,
        )
        for number, (place, after) in enumerate(zip(used, adjusted, strict=True))
    )
    won = sum(one.lost for one in annotators) / len(annotators)
    warnings = [f"{short} annotator(s) with fewer than {fewest_items} {unit} are left out"] if short else []
    if flat:
        warnings.append(
            f"{flat} annotator(s) stand to the judge alike on every item: p is the t test's limit"
        )
    return replace(
        whole,
        winning_rate=won,
        advantage=math.fsum(one.judge_advantage for one in annotators) / len(annotators),
        passed=won >= 0.5,
        annotators=annotators,
        warnings=tuple(warnings),
    )


def _t_tests(left_out: LeftOut, used: NDArray[np.intp], epsilon: float) -> tuple[list[float], int]:
    """Return p of "mean difference ≥ ε" for differences −1, 0, 1, and how many of them have no spread."""
    n, level = left_out.n[used], left_out.level[used]
    total = left_out.annotator[used] - left_out.judge[used]
    mean = total / n
    units, variance = n, (n - level - total * total / n) / (n - 1)
    if left_out.clustered is not None:
        units, squared, crossed, sizes = left_out.clustered[used].T
        variance = (squared - 2 * mean * crossed + mean * mean * sizes) * units / (units - 1) / n
    flat = variance <= 1e-12
    error = np.sqrt(np.where(flat, 1.0, variance) / n)
    p_values = np.where(
        flat, np.where(mean < epsilon, 0.0, 1.0), special.stdtr(units - 1, (mean - epsilon) / error)
    )
    return np.maximum(p_values, sys.float_info.min).tolist(), int(flat.sum())
