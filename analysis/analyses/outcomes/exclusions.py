"""Raters whose verdicts do not count: how many, why, when, and the result with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

import pandas as pd

from analysis.analyses.outcomes.shares import shares
from analysis.evidence import ALL, PLAN_KEYS, Evidence, Exclusion, frame_of, honours
from guard_eval.reporting.words import and_list, plural


@honours(unaffected=PLAN_KEYS)
def excluded_raters(evidence: Evidence) -> pd.DataFrame:
    """Return the excluded raters: when, why, and whether the results had been seen."""
    return frame_of([asdict(each) for each in evidence.context.exclusions])


@honours(
    "alpha",
    "correction",
    "weights",
    "raters",
    "panel",
    "composite",
    unaffected=("margin", "sequential", "assisted_by"),
)
def with_excluded_raters(evidence: Evidence) -> pd.DataFrame:
    """Return the win shares with the verdicts of the excluded raters."""
    if evidence.context.with_excluded is None:
        return frame_of([])
    everybody = shares(Evidence.of(evidence.context.with_excluded, evidence.context), by_dataset=())
    return everybody[everybody["dataset"] == ALL]


def exclusion_words(exclusions: Sequence[Exclusion], kind: str) -> str:
    r"""Say how many raters of a kind were excluded, when and why; empty if none was.

    >>> known = {"rater": "bo", "rater_kind": "person", "at": "", "verdicts": 9}
    >>> late = Exclusion(reason="too fast", results="after", **known)
    >>> exclusion_words([late], "person").replace("\u00a0", " ")
    '1 rater excluded after the results were first seen (too fast)'
    """
    mine = [each for each in exclusions if each.rater_kind == kind]
    parts = []
    for when in ("before", "after"):
        reasons = Counter(each.reason for each in mine if each.results == when)
        if reasons:
            why = and_list([reason if n == 1 else f"{reason}, {n} raters" for reason, n in reasons.items()])
            parts.append(
                f"{plural(reasons.total(), 'rater')} excluded {when} the results were first seen ({why})"
            )
    return " and ".join(parts)
