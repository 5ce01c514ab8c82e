"""What the journal has of a judge's requests: verdicts, failures, and what is still to be sent."""

from __future__ import annotations

from collections.abc import Sequence

from guard_eval.store import Showing, Store
from judge.backend import JudgeRequest
from judge.parsing import Parsed, ParseError
from judge.request import RequestBuilder
from judge.retry import wants_sample

_PART = 200
"""How many pairs are looked up in the journal at once."""


def look_up(
    store: Store, builder: RequestBuilder, showings: Sequence[Showing]
) -> list[Parsed | ParseError | JudgeRequest]:
    """Return for each showing its verdict, the failure it ended in, or the request that is to be sent next.

    Nothing is sent. A response that no verdict can be read from leads to the request for another sample.
    """
    found: dict[int, Parsed | ParseError | JudgeRequest] = {}
    for start in range(0, len(showings), _PART):
        left = [(place, 0) for place in range(start, min(start + _PART, len(showings)))]
        while left:
            asked = [(place, again, builder.build(showings[place], again=again)) for place, again in left]
            answers = store.answers([question.key for _, _, question in asked])
            left = []
            for place, again, question in asked:
                if (answer := answers.get(question.key)) is None:
                    found[place] = question
                    continue
                outcome = builder.parse(answer.body, code=question.code, shape=answer.shape)
                found[place] = outcome
                if wants_sample(outcome, again):
                    left.append((place, again + 1))
    return [found[place] for place in range(len(showings))]
