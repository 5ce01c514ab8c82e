"""What the journal has of a judge's calibration; see `judge.calibration`. It needs no connection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from guard_eval.errors import StudyError
from guard_eval.judge_settings import Judge
from guard_eval.records import Choice
from guard_eval.store import Answer, Showing, Store
from judge.asking import Asking
from judge.calibration import Check, Question, questions
from judge.cost import SAMPLES
from judge.parsing import Parsed

FIRST_SAMPLE = 900_000
"""Where the calibration's samples begin: no study has so many, so its keys are never the study's."""

LOOKED_AT = 3
"""So many questions are looked for in every shape before a judge counts as never calibrated."""

Said = Literal["target", "other", "tie"]
"""A verdict on a calibration's pair: for the text the check is about, for the other, or a tie."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Checked:
    """What a judge said of one item of a check, on one criterion.

    Attributes:
        check: Which check.
        item: The study's pair it was made of, by its id.
        criterion: The criterion.
        said: One verdict for each order asked; fewer than `asked` where an answer could not be had.
        asked: In how many orders it is asked.
    """

    check: Check
    item: str
    criterion: str
    said: tuple[Said, ...]
    asked: int


def left(store: Store, judge: Judge, *, seed: int) -> list[Showing]:
    """Return the calibration's pairs to which the journal has no verdict of the judge, for an estimate.

    Raises:
        StudyError: The study has no pairs.
    """
    asked = of_study(store, seed=seed)
    found = _journalled(store, Asking(judge, seed=seed), asked)
    return [
        Showing(blind=each.blind, sample=FIRST_SAMPLE // SAMPLES)
        for each, verdict in zip(asked, found, strict=True)
        if verdict is None
    ]


def of_study(store: Store, *, seed: int) -> list[Question]:
    """Return the calibration set of a study.

    Raises:
        StudyError: It has no pairs.
    """
    pairs = store.pairs()
    if not pairs:
        raise StudyError("the study has no pairs yet, of which a calibration could be made")
    return questions(pairs, seed=seed)


def results(store: Store, judge: Judge, *, seed: int) -> list[Checked]:
    """Return what the journal has of the judge's calibration; nothing where it was never asked.

    Only answers to the very same requests count: of the same texts, criteria, wording and settings.
    """
    pairs = store.pairs()
    asked = questions(pairs, seed=seed) if pairs else []
    asking = Asking(judge, seed=seed)
    found = _journalled(store, asking, asked)
    verdicts: dict[tuple[Check, str, str], list[Said]] = {}
    orders: dict[tuple[Check, str], int] = {}
    for question, outcome in zip(asked, found, strict=True):
        orders[question.check, question.item] = orders.get((question.check, question.item), 0) + 1
        for criterion in judge.criteria:
            said = verdicts.setdefault((question.check, question.item, criterion), [])
            if isinstance(outcome, Parsed):
                said.append(_said(outcome.choices[criterion], question))
    if not any(verdicts.values()):
        return []
    return [
        Checked(check=check, item=item, criterion=criterion, said=tuple(said), asked=orders[check, item])
        for (check, item, criterion), said in verdicts.items()
    ]


def _said(choice: Choice, question: Question) -> Said:
    if choice == "tie":
        return "tie"
    return "target" if choice == question.target else "other"


def _journalled(store: Store, asking: Asking, asked: Sequence[Question]) -> list[Parsed | None]:
    """Return the verdict on each question, as far as the journal has one."""
    answers = store.answers([asking.question(each.blind, sample=FIRST_SAMPLE).key for each in asked])
    found: list[Parsed | None] = [None] * len(asked)
    for number, each in enumerate(asked):
        if not answers and number == LOOKED_AT and not any(found):
            break
        found[number] = _verdict(store, asking, each, answers)
    return found


def _verdict(store: Store, asking: Asking, asked: Question, known: Mapping[str, Answer]) -> Parsed | None:
    for again in range(SAMPLES):
        sample = FIRST_SAMPLE + again
        main = asking.question(asked.blind, sample=sample)
        ways = [main] if main.key in known else [main, *asking.others(asked.blind, sample=sample)]
        answers = known if main.key in known else store.answers([each.key for each in ways])
        hits = [(answers[each.key], each) for each in ways if each.key in answers]
        if not hits:
            return None
        for answer, question in hits:
            outcome = asking.parse(answer.body, question.form)
            if isinstance(outcome, Parsed):
                return outcome
    return None
