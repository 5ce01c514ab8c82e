"""When a gold pair or a repeat comes, between the study's pairs: places that seed and rater alone decide."""

from __future__ import annotations

from guard_eval.records import content_id
from guard_eval.store.values import Plan


def gold_place(plan: Plan, rater: str, number: int) -> int:
    """Return after how many of the study's pairs gold pair `number` (0, 1, …) comes: one in each block.

    Raises:
        ValueError: The plan has no gold pairs.
    """
    if plan.gold_every is None:
        raise ValueError("the plan has no gold pairs")
    return number * plan.gold_every + 1 + _drawn(plan.gold_every, plan.seed, "gold", rater, number)


def repeat_place(plan: Plan, rater: str, number: int, *, pairs: int) -> int:
    """Return after how many of the study's pairs repeat `number` (0, 1, …) comes: all in the second half.

    Args:
        plan: With the quota, and how many repeats share that half.
        rater: The rater's name.
        number: Which repeat.
        pairs: The study's pairs; a rater sees so many, or its quota.
    """
    expected = min(pairs, pairs if plan.quota is None else plan.quota)
    half = (expected + 1) // 2
    start, end = (half + turn * (expected - half) // plan.repeats for turn in (number, number + 1))
    return max(1, start + _drawn(max(1, end - start), plan.seed, "repeat", rater, number))


def most_repeats(plan: Plan, shown: int) -> int:
    """Return how many repeats a rater of `shown` pairs gets: only the older half is repeated."""
    return min(plan.repeats, shown // 2)


def gold_until(plan: Plan, rater: str, shown: int, *, pairs: int) -> int:
    """Return how many of `pairs` gold pairs a rater of `shown` of the study's pairs has had."""
    if plan.gold_every is None:
        return 0
    blocks = min(pairs, shown // plan.gold_every + 1)
    return sum(gold_place(plan, rater, number) <= shown for number in range(blocks))


def _drawn(below: int, *key: object) -> int:
    return int(content_id(*key), 16) % below
