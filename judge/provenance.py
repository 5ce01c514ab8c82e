"""Whether a judge's answers were asked for in the present wording and settings."""

from __future__ import annotations

from itertools import islice

from guard_eval.judge_settings import Judge
from guard_eval.store import Showing, Store
from judge.asking import Asking
from judge.cost import SAMPLES
from judge.orders import rater_name

LOOKED_AT = 5
"""So many of a judge's answers are looked at."""


def asked_otherwise(store: Store, judge: Judge, *, seed: int) -> bool:
    """Return whether none of the judge's first answers is to a request as it would be put today.

    An answer is journalled under the hash of its request, so this finds a changed prompt, seed, temperature
    or token limit; it finds nothing where there is no answer.
    """
    answers = [each for each in islice(store.answers_of(rater_name(judge)), LOOKED_AT) if each.presentation]
    if not answers:
        return False
    asking = Asking(judge, seed=seed)
    shown = store.shown([each.presentation for each in answers if each.presentation])
    return not any(
        answer.key in _keys(asking, showing) for answer, showing in zip(answers, shown, strict=True)
    )


def _keys(asking: Asking, showing: Showing) -> set[str]:
    found = set()
    for again in range(SAMPLES):
        sample = showing.sample * SAMPLES + again
        found.add(asking.question(showing.blind, sample=sample).key)
        found.update(each.key for each in asking.others(showing.blind, sample=sample))
    return found
