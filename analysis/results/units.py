"""Interval and test of a win share: their unit is the prompt where it is known, and the pair elsewhere.

Pairs of one prompt depend on each other as ratings of one pair do: a hard prompt is hard in all of them. So
they change sides together in the test, and enter the interval's variance as one.
"""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from analysis.stats.intervals import Interval, item_mean
from analysis.stats.significance import TestResult, sign_flip
from analysis.verdicts.scores import unit_sums, units

TOGETHER = "the pairs of a prompt together"


def share_interval(items: pd.DataFrame, *, level: float) -> Interval:
    """Return the mean share of `item_scores`, each item weighing the same, with its interval over units."""
    clusters = units(items).clusters
    return item_mean(items["share"].to_numpy(), items["dataset"].tolist(), clusters=clusters, level=level)


def share_test(items: pd.DataFrame) -> TestResult:
    """Return the sign-flip test of `item_scores`: each unit's sum of scores is as likely as its negative."""
    numerators, denominators, _ = unit_sums(items)
    found = sign_flip(numerators, denominators)
    if len(numerators) == len(items):
        return found
    balanced = ("every prompt is balanced between the methods",)
    return replace(
        found,
        method=f"{found.method}, {TOGETHER}",
        warnings=found.warnings if found.p_value is not None else balanced,
    )
