"""How judges were asked: tokens, money, failures, models that answered, and known pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from analysis.evidence import (
    ANSWER_KEYS,
    PLAN_KEYS,
    Evidence,
    JudgeUsage,
    estimate_record,
    frame_of,
    honours,
)
from analysis.stats.proportion import unit_proportion
from guard_eval.reporting.words import and_list

CHECKS = ("identical", "shuffled", "swapped", "padded")
"""In the order in which they are reported."""


@honours(unaffected=PLAN_KEYS)
def spending(evidence: Evidence) -> pd.DataFrame:
    """Return tokens and cost of each judge, over all runs, calibration included."""
    return frame_of(_usage(evidence).spent)


@honours(unaffected=PLAN_KEYS)
def failures(evidence: Evidence) -> pd.DataFrame:
    """Return what each judge left without a verdict, by kind and reason, the most frequent first."""
    return frame_of(_usage(evidence).failed)


@honours(unaffected=PLAN_KEYS)
def models(evidence: Evidence) -> pd.DataFrame:
    """Return which models answered each judge's requests; a judge should have one."""
    return frame_of(_usage(evidence).seen)


def changed_models(usage: JudgeUsage) -> tuple[str, ...]:
    """Return the judges of which more than one model answered, each with these, in a sentence."""
    known: dict[str, dict[str, None]] = {}
    for row in sorted(usage.seen, key=lambda row: row["first"]):
        if row["model"] is not None:
            known.setdefault(row["judge"], {})[row["model"]] = None
    return tuple(
        f"The model behind {judge} changed while it judged: {', then '.join(names)}."
        for judge, names in known.items()
        if len(names) > 1
    )


def mixed_forms(usage: JudgeUsage) -> tuple[str, ...]:
    """Return the judges whose verdicts were asked for in more than one form, each in a sentence."""
    forms: dict[str, list[str]] = {}
    for row in usage.prompts:
        if row["verdicts"]:
            forms.setdefault(row["judge"], []).append(f"{row['verdicts']} with {row['manner']}")
    return tuple(
        f"The verdicts of {judge} were asked for in different ways, which may change them: {and_list(ways)}."
        for judge, ways in forms.items()
        if len(ways) > 1
    )


@honours("alpha", unaffected=("panel", "composite", *ANSWER_KEYS))
def calibration(evidence: Evidence) -> pd.DataFrame:
    """Return how each judge did on pairs whose answer is known, by check and criterion.

    `hits` are identical texts that tie in every order; intact texts that are preferred to their own words in
    disorder; swapped pairs with the same verdict both ways round; padded texts that are preferred. Items
    that were not answered in every order are `missing` and not counted.
    """
    groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    checked = _usage(evidence).checked
    for each in sorted(checked, key=lambda row: (row["judge"], CHECKS.index(row["check"]), row["criterion"])):
        groups.setdefault((each["judge"], each["check"], each["criterion"]), []).append(each)
    records = []
    for (judge, check, criterion), items in groups.items():
        whole = [each["answers"] for each in items if len(each["answers"]) == each["asked"]]
        outcomes = [_outcome(check, answers) for answers in whole]
        hits = [outcome == 1 for outcome in outcomes]
        share = unit_proportion(hits, pd.RangeIndex(len(hits)).to_numpy(), level=evidence.level)
        records.append(
            {
                "judge": judge,
                "check": check,
                "criterion": criterion,
                "items": len(whole),
                "missing": len(items) - len(whole),
                "hits": sum(hits),
                "opposite": outcomes.count(-1),
                **estimate_record(share, "share"),
            }
        )
    return frame_of(records)


def _outcome(check: str, answers: Sequence[str]) -> int:
    """Return 1 for the check's outcome, −1 for its opposite, 0 between them."""
    match check:
        case "identical":
            return 1 if set(answers) == {"tie"} else -1
        case "swapped":
            return 1 if len(set(answers)) == 1 else -1
        case "shuffled" | "padded":
            lead = answers.count("target") - answers.count("other")
            return (lead > 0) - (lead < 0)
        case _:
            raise ValueError(f"no check of a calibration is called {check!r}; use one of {', '.join(CHECKS)}")


def _usage(evidence: Evidence) -> JudgeUsage:
    return evidence.context.judging or JudgeUsage()
