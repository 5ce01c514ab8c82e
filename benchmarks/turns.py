"""Timing two things against each other where PyTorch need not be installed: A B A B … A in one process."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Turns:
    """What A and B took in the same minutes.

    Attributes:
        base: Seconds of A, the median.
        way: Seconds of B, the median.
        ratio: B over the mean of the runs of A around it, the median over the rounds.
        low: The smallest of these ratios.
        high: The largest.
        rounds: How many there were.
    """

    base: float
    way: float
    ratio: float
    low: float
    high: float
    rounds: int


def in_turns(
    base: Callable[[], object], way: Callable[[], object], *, rounds: int, seconds: float = 60
) -> Turns:
    """Run A and B in turns after a run of each that does not count; no round starts after `seconds`."""
    base()
    way()
    started = time.perf_counter()
    of_base, of_way = [took(base)], list[float]()
    while len(of_way) < rounds and (not of_way or time.perf_counter() - started < seconds):
        of_way.append(took(way))
        of_base.append(took(base))
    around = [(before + after) / 2 for before, after in itertools.pairwise(of_base)]
    ratios = [b / a for a, b in zip(around, of_way, strict=True)]
    return Turns(
        base=statistics.median(of_base),
        way=statistics.median(of_way),
        ratio=statistics.median(ratios),
        low=min(ratios),
        high=max(ratios),
        rounds=len(ratios),
    )


def took(run: Callable[[], object]) -> float:
    """Return how many seconds a run takes."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start
