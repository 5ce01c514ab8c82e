"""Under which name a judge rates, and how it sees each pair: each order and sample is a slot of its own."""

from __future__ import annotations

from datetime import timedelta

from guard_eval.records import Plan
from guard_eval.study.settings import Judge

LEASE = timedelta(minutes=1)
"""How long what a run has claimed stays its own after it was last heard of."""


def rater_name(judge: Judge) -> str:
    """Return the name of the judge as a rater: its own, or else its model's."""
    return judge.name or judge.model


def judge_plan(judge: Judge, *, seed: int, lease: timedelta = LEASE) -> Plan:
    """Return how pairs are shown to `judge`.

    Slot 2k is the k-th sample of one order, slot 2k + 1 that of the other; a judge of one order sees every
    other slot.
    """
    return Plan(seed=seed, slots=2 * judge.samples, lease=lease, one_order=judge.orders == "one")
