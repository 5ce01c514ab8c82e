"""What the journal has of a judge's requests: verdicts, failures, and what is still to be sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, islice

from guard_eval.store import Judgment, Showing, Store
from guard_eval.study.judge_settings import Judge
from judge.backend import JudgeRequest
from judge.failures import SAMPLES, ErrorKind, JudgeError
from judge.parsing import Choices
from judge.rater import check_criteria, rater_name
from judge.request import RequestBuilder, asks_the_same, parse_answer

_PART = 500
"""How many pairs are read at once."""

_FIRST_ANSWERS = 5
"""So many of a judge's answers are compared with the present requests."""


def look_up(
    store: Store, builder: RequestBuilder, showings: Sequence[Showing]
) -> list[Choices | JudgeError | JudgeRequest]:
    """Return for each showing its verdict, the failure it ended in, or the request that is to be sent next.

    Nothing is sent. A response that no verdict can be read from leads to the request for another sample.
    """
    found: dict[int, Choices | JudgeError | JudgeRequest] = {}
    for start in range(0, len(showings), _PART):
        left = list(range(start, min(start + _PART, len(showings))))
        for again in range(SAMPLES):
            keys = {place: builder.key(showings[place], again=again) for place in left}
            answers = store.answers(keys.values())
            left = []
            for place, key in keys.items():
                if (answer := answers.get(key)) is None:
                    found[place] = builder.build(showings[place], again=again)
                    continue
                outcome = builder.parse(showings[place], answer.body, shape=answer.shape)
                found[place] = outcome
                if isinstance(outcome, JudgeError) and outcome.wants_sample(again):
                    left.append(place)
    return [found[place] for place in range(len(showings))]


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
    unread: dict[ErrorKind, int]


def reparse(store: Store, judge: Judge, *, seed: int) -> Reparsed:
    """Read the judge's answers again, and save their verdicts; nothing is sent.

    Of a presentation's answers the first verdict counts, as in a run.

    Raises:
        StudyError: The judge is asked on other criteria by now, or is revoked.
    """
    rater = store.rater(rater_name(judge), "model")
    check_criteria(store, judge, rater)
    unread: Counter[ErrorKind] = Counter()
    answers = presentations = changed = 0
    groups = (
        (presentation, [answer.body for answer in group])
        for presentation, group in groupby(
            store.answers_of(rater.name), key=lambda answer: answer.presentation or 0
        )
    )
    while part := list(islice(groups, _PART)):
        judgments = []
        showings = store.shown([presentation for presentation, _ in part])
        for (presentation, bodies), showing in zip(part, showings, strict=True):
            answers += len(bodies)
            presentations += 1
            outcomes = [parse_answer(judge, showing.blind, body, seed=seed) for body in bodies]
            outcome = next((each for each in outcomes if not isinstance(each, JudgeError)), outcomes[-1])
            if isinstance(outcome, JudgeError):
                unread[outcome.kind] += 1
            else:
                judgments.append(Judgment(presentation=presentation, choices=outcome))
        changed += store.judge_again(rater, judgments)
    return Reparsed(answers=answers, presentations=presentations, changed=changed, unread=dict(unread))


def requests_changed(store: Store, judge: Judge, *, seed: int) -> bool:
    """Return whether none of the judge's first answers is to a request as it would be put today.

    An answer is journalled under the hash of its request, so this finds a changed prompt, seed, server or
    temperature, and so on; a changed token limit is none of these. Nothing is found where there is no answer.
    """
    answers = list(islice(store.answers_of(rater_name(judge)), _FIRST_ANSWERS))
    builder = RequestBuilder(judge, seed=seed)
    shown = store.shown([answer.presentation or 0 for answer in answers])
    return bool(answers) and not any(
        asks_the_same(answer.key, builder.key(showing, again=again))
        for answer, showing in zip(answers, shown, strict=True)
        for again in range(SAMPLES)
    )
