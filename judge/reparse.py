"""Read every journalled answer again, which costs nothing: after the reading of answers was changed.

An answer that gave a verdict and gives another one now becomes a revision of it; one that gave none and gives
one now becomes a verdict. What can no longer be read is counted, and its verdict stays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, islice

from guard_eval.judge_settings import Judge
from guard_eval.store import Answer, Judgment, Store
from judge.checks import check_criteria
from judge.orders import rater_name
from judge.parsing import Parsed, Problem, ProblemKind, parse
from judge.prompt import code

_PART = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class Reparsed:
    """What came of reading the journal again.

    Attributes:
        answers: Answers read.
        presentations: Of so many showings of pairs.
        changed: How many of them have a new verdict, or another than before.
        unread: How many give none, by kind of failure.
    """

    answers: int
    presentations: int
    changed: int
    unread: dict[ProblemKind, int]


def reparse(store: Store, judge: Judge, *, seed: int) -> Reparsed:
    """Read the judge's answers again, and save what they say; nothing is sent.

    Raises:
        StudyError: The judge is asked on other criteria by now, or is revoked.
    """
    rater = store.rater(rater_name(judge), "model")
    check_criteria(store, judge, rater)
    unread: Counter[ProblemKind] = Counter()
    answers = presentations = changed = 0
    groups = _groups(store, rater.name)
    while part := list(islice(groups, _PART)):
        shown = store.shown([presentation for presentation, _ in part])
        judgments = []
        for (presentation, bodies), showing in zip(part, shown, strict=True):
            answers += len(bodies)
            presentations += 1
            outcome = _read(bodies, judge, code(showing.blind, seed))
            if isinstance(outcome, Parsed):
                judgments.append(Judgment(presentation=presentation, choices=outcome.choices))
            else:
                unread[outcome.kind] += 1
        changed += store.judge_again(rater, judgments)
    return Reparsed(answers=answers, presentations=presentations, changed=changed, unread=dict(unread))


def _groups(store: Store, name: str) -> Iterator[tuple[int, list[bytes]]]:
    """Yield each presentation with its answers, the oldest first."""

    def of(answer: Answer) -> int:
        return answer.presentation or 0

    for presentation, answers in groupby(store.answers_of(name), key=of):
        yield presentation, [answer.body for answer in answers]


def _read(bodies: list[bytes], judge: Judge, expected: str) -> Parsed | Problem:
    """Return the first verdict in the answers, as a run would have taken it, or what the last one is."""
    outcome: Parsed | Problem | None = None
    for body in bodies:
        outcome = parse(body, judge.criteria, code=expected)
        if isinstance(outcome, Parsed):
            break
    assert outcome is not None
    return outcome
