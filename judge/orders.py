"""In which orders a judge sees each pair: each order is a slot of the judge's own pool."""

from __future__ import annotations

from datetime import timedelta

from guard_eval.settings import Judge
from guard_eval.store import Plan


def judge_plan(judge: Judge, *, seed: int, lease: timedelta) -> Plan:
    """Return how pairs are handed to `judge`: both orders are two showings, one order is one."""
    return Plan(seed=seed, slots=2 if judge.orders == "both" else 1, lease=lease)
