"""What the journal has of a judge's requests: verdicts, failures, and what is still to be sent."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Any

from guard_eval.store import Judgment, Showing, Store
from guard_eval.study.judge_settings import Judge
from judge.backend import JudgeRequest
from judge.failures import SAMPLES, ErrorKind, JudgeError
from judge.parsing import Choices
from judge.providers.envelopes import excerpt
from judge.providers.shapes import RequestShape
from judge.rater import check_criteria, rater_name
from judge.request import RequestBuilder, asks_the_same, question_of

_PART = 500
"""How many pairs are read at once."""

_LONG = {
    **dict.fromkeys(("messages", "input", "system", "contents", "instructions"), "the prompt's words"),
    **dict.fromkeys(("response_format", "text", "output_config"), "the form of the answer"),
}
"""What changed in these fields is too long to be quoted."""

_FIRST_ANSWERS = 5
"""So many of a judge's answers are compared with the present requests."""


def look_up(
    store: Store, builder: RequestBuilder, showings: Sequence[Showing], *, any_limit: bool = False
) -> list[Choices | JudgeError | JudgeRequest]:
    """Return for each showing its verdict, the failure it ended in, or the request that is to be sent next.

    Nothing is sent. A response that no verdict can be read from leads to the request for another sample.

    Args:
        store: The study's database.
        builder: Makes the judge's requests.
        showings: What the judge is to see.
        any_limit: Whether a verdict counts that was given under another token limit; an answer that is cut
            off by one is never counted under another.
    """
    if any_limit:
        return _under_any_limit(store, builder, showings)
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


def _under_any_limit(
    store: Store, builder: RequestBuilder, showings: Sequence[Showing]
) -> list[Choices | JudgeError | JudgeRequest]:
    found = look_up(store, builder, showings)
    left = [place for place, outcome in enumerate(found) if not isinstance(outcome, dict)]
    stored: dict[str, list[str]] = defaultdict(list)
    for key in store.answered() if left else ():
        stored[question_of(key)].append(key)
    for place in left:
        keys = {
            key: None
            for again in range(SAMPLES)
            for key in sorted(stored[question_of(builder.key(showings[place], again=again))])
        }
        for answer in store.answers(keys).values():
            outcome = builder.parse(showings[place], answer.body, shape=answer.shape)
            if not isinstance(outcome, JudgeError):
                found[place] = outcome
                break
    return found


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
    builder = RequestBuilder(judge, seed=seed)
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
            outcomes = [builder.parse(showing, body, shape=None) for body in bodies]
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


def request_changes(store: Store, judge: Judge, *, seed: int) -> tuple[str, ...]:
    """Return what `requests_changed` finds, setting by setting: what was sent first, and what would be now.

    Nothing is found where requests are the same but for the token limit, or where none was kept.
    """
    if not requests_changed(store, judge, seed=seed):
        return ()
    for exchange in islice(store.exchanges(judge=rater_name(judge)), _FIRST_ANSWERS):
        first = next((each for each in exchange.attempts if each.sent and each.shape), None)
        shape = RequestShape.named(first.shape or "") if first is not None else None
        if first is None or first.sent is None or shape is None:
            continue
        builder = RequestBuilder(judge, seed=seed)
        builder.shape = shape
        now = builder.build(Showing(blind=exchange.blind, sample=exchange.sample))
        if changes := _differences(json.loads(first.sent), json.loads(now.body)):
            return tuple(changes)
    return ("the server's address, or headers",)


def _differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    changes = []
    for name in {**before, **after}:
        old, new = before.get(name), after.get(name)
        if old == new or name in ("max_tokens", "max_completion_tokens", "max_output_tokens"):
            continue
        if name in _LONG:
            changes.append(_LONG[name])
        else:
            changes.append(f"{name}: {_shown(old)} → {_shown(new)}")
    return list(dict.fromkeys(changes))


def _shown(value: object) -> str:
    return "none" if value is None else excerpt(json.dumps(value, ensure_ascii=False))
