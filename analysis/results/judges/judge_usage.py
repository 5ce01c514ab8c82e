"""How judges were asked: what it took, what failed, which models answered, and how they did on known pairs.

Plain values from any source; nothing here is a verdict of the study.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.stats.intervals import Interval, wilson
from guard_eval.records import CheckedItem, CheckName, JudgeSpending, ModelSeen

CHECKS: tuple[CheckName, ...] = ("identical", "shuffled", "swapped", "padded")
"""In the order in which they are reported."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FailureCount:
    """How many showings of pairs one judge left without a verdict, for one reason, in the server's words."""

    judge: str
    kind: str
    count: int
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class UsedPrompt:
    """The prompt of one judge.

    Attributes:
        judge: Its name as a rater.
        version: The prompt's hash.
        words: What prompt it is.
        text: All of it, with placeholders for the texts.
    """

    judge: str
    version: str
    words: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgeUsage:
    """All there is to say of how judges were asked.

    Attributes:
        prompts: The prompt of each judge, as it is at present.
        spent: What each judge has taken.
        failed: What each left without a verdict.
        seen: Which models answered.
        checked: What judges answered on the calibration's pairs.
        asked_otherwise: Judges whose answers are to requests unlike the present ones.
    """

    prompts: tuple[UsedPrompt, ...] = ()
    spent: tuple[JudgeSpending, ...] = ()
    failed: tuple[FailureCount, ...] = ()
    seen: tuple[ModelSeen, ...] = ()
    checked: tuple[CheckedItem, ...] = ()
    asked_otherwise: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class CalibrationRow:
    """How one judge did on one check, on one criterion.

    Attributes:
        judge: Its name as a rater.
        check: Which check.
        criterion: The criterion.
        hits: Items with the check's outcome: identical texts that tie in every order; intact texts preferred
            over both orders together; swapped pairs with the same verdict both ways round; padded texts
            preferred over both orders together.
        opposite: Items with the opposite outcome: the shuffled or the shorter text is preferred; for the
            other checks whatever is no hit.
        missing: Items that were not answered in every order; they are not counted.
        share: Hits among the items counted, with Wilson's interval: items are independent, orders are not.
    """

    judge: str
    check: CheckName
    criterion: str
    hits: int
    opposite: int
    missing: int
    share: Interval


def calibration_rows(checked: Sequence[CheckedItem], *, alpha: float = 0.05) -> tuple[CalibrationRow, ...]:
    """Return a row per judge, check and criterion, in the order in which they are given and reported."""
    groups: dict[tuple[str, CheckName, str], list[CheckedItem]] = {}
    for each in checked:
        groups.setdefault((each.judge, each.check, each.criterion), []).append(each)
    judges = list(dict.fromkeys(each.judge for each in checked))
    criteria = list(dict.fromkeys(each.criterion for each in checked))
    return tuple(
        _row(judge, check, criterion, groups[judge, check, criterion], alpha=alpha)
        for judge in judges
        for check in CHECKS
        for criterion in criteria
        if (judge, check, criterion) in groups
    )


def _row(
    judge: str, check: CheckName, criterion: str, items: Sequence[CheckedItem], *, alpha: float
) -> CalibrationRow:
    whole = [each.answers for each in items if each.answers and len(each.answers) == each.asked]
    outcomes = [_outcome(check, answers) for answers in whole]
    return CalibrationRow(
        judge=judge,
        check=check,
        criterion=criterion,
        hits=outcomes.count(1),
        opposite=outcomes.count(-1),
        missing=len(items) - len(whole),
        share=wilson(outcomes.count(1), len(whole), level=1 - alpha),
    )


def _outcome(check: CheckName, answers: Sequence[str]) -> int:
    """Return 1 for the check's outcome, −1 for its opposite, 0 between them."""
    if check == "identical":
        return 1 if set(answers) == {"tie"} else -1
    if check == "swapped":
        return 1 if len(set(answers)) == 1 else -1
    lead = answers.count("target") - answers.count("other")
    return (lead > 0) - (lead < 0)


def changed(seen: Sequence[ModelSeen]) -> tuple[tuple[str, tuple[ModelSeen, ...]], ...]:
    """Return the judges of which more than one model answered, each with those, in the order first seen.

    Configurations of the same model are taken together.
    """
    models: dict[str, dict[str, ModelSeen]] = {}
    for one in seen:
        if one.model is None:
            continue
        known = models.setdefault(one.judge, {})
        before = known.get(one.model)
        known[one.model] = one if before is None else _together(before, one)
    return tuple(
        (judge, tuple(sorted(known.values(), key=lambda one: one.first)))
        for judge, known in models.items()
        if len(known) > 1
    )


def _together(before: ModelSeen, one: ModelSeen) -> ModelSeen:
    return ModelSeen(
        judge=one.judge,
        model=one.model,
        fingerprint=None,
        answers=before.answers + one.answers,
        first=min(before.first, one.first),
        last=max(before.last, one.last),
    )
