"""What is left to ask, and what the journal answers already: pairs in, verdicts and questions out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from guard_eval.store import Judgment, Showing, Store
from judge.asking import Asking
from judge.backend import Question
from judge.cost import SAMPLES
from judge.parsing import Parsed, Problem
from judge.rules import samples

_PART = 200
"""How many pairs are looked up in the journal at once."""


@dataclass(kw_only=True)
class Sorted:
    """Pairs by what is to be done about them.

    Attributes:
        judgments: Those whose verdict the journal has.
        failed: Those of which it has nothing but answers that cannot be read, by presentation.
        questions: Those to be asked, by presentation.
    """

    judgments: list[Judgment] = field(default_factory=list)
    failed: dict[int, Problem] = field(default_factory=dict)
    questions: dict[int, Question] = field(default_factory=dict)


def sort(store: Store, asking: Asking, showings: Sequence[Showing]) -> Sorted:
    """Read what the journal has, sample by sample, and ask for the first sample that it lacks."""
    found = Sorted()
    for start in range(0, len(showings), _PART):
        left = [(each, 0) for each in showings[start : start + _PART]]
        while left:
            left = _round(store, asking, left, found)
    return found


def _round(
    store: Store, asking: Asking, left: Sequence[tuple[Showing, int]], found: Sorted
) -> list[tuple[Showing, int]]:
    """Sort what can be sorted; return what an unreadable answer sends on to its next sample."""
    asked = [
        (showing, again, asking.question(showing.blind, sample=showing.sample * SAMPLES + again))
        for showing, again in left
    ]
    answers = store.answers([question.key for _, _, question in asked])
    further = []
    for showing, again, question in asked:
        number = showing.blind.presentation
        form, body = question.form, None
        if question.key in answers:
            body = answers[question.key].body
        elif showing.asked:
            form, body = _otherwise(store, asking, showing, again)
        if body is None:
            found.questions[number] = question
            continue
        outcome = asking.parse(body, form)
        if isinstance(outcome, Parsed):
            found.judgments.append(Judgment(presentation=number, choices=outcome.choices))
        elif again + 1 < samples(outcome.kind):
            further.append((showing, again + 1))
        else:
            found.failed[number] = outcome
    return further


def _otherwise(store: Store, asking: Asking, showing: Showing, again: int) -> tuple[str, bytes | None]:
    """Return the journal's answer to the question in another shape, if it has one."""
    questions = asking.others(showing.blind, sample=showing.sample * SAMPLES + again)
    answers = store.answers([each.key for each in questions])
    for each in questions:
        if each.key in answers:
            return each.form, answers[each.key].body
    return "", None
