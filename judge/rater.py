"""A judge as a rater of the study: its name, how it sees each pair, and on which criteria."""

from __future__ import annotations

from datetime import timedelta

from guard_eval.errors import StudyError
from guard_eval.records import Plan, Rater
from guard_eval.rubric import reworded
from guard_eval.store import Store
from guard_eval.study.settings import Judge

LEASE = timedelta(minutes=1)
"""How long what a run has claimed stays its own after it was last renewed."""


def rater_name(judge: Judge) -> str:
    """Return the name of the judge as a rater: its own, or else its model's."""
    return judge.name or judge.model


def judge_plan(judge: Judge, *, seed: int, lease: timedelta = LEASE) -> Plan:
    """Return how pairs are shown to `judge`.

    Slot 2k is the k-th sample of one order, slot 2k + 1 that of the other; a judge of one order sees every
    other slot.
    """
    return Plan(seed=seed, slots=2 * judge.samples, lease=lease, one_order=judge.orders == "one")


def check_criteria(store: Store, judge: Judge, rater: Rater) -> None:
    """See that the judge is asked on the criteria on which it has judged so far, and in the same words.

    Raises:
        StudyError: It is not: some pairs would be judged on these and some on those.
    """
    before, now = store.criteria_judged(rater), set(judge.criteria)
    if before and before != now:
        changes = [f"new: {', '.join(sorted(now - before))}"] if now - before else []
        changes += [f"left out: {', '.join(sorted(before - now))}"] if before - now else []
        raise StudyError(
            f"the judge {rater.name!r} has judged pairs of this study on {', '.join(sorted(before))}, and is "
            f"now asked on {', '.join(judge.criteria)} ({'; '.join(changes)}); take back the change in "
            'study.toml, or give the judge a new name there (name = "…"), under which it starts from the '
            "beginning; a second [[judge]] table of another name judges on the new criteria alone"
        )
    check_words(store, judge)


def check_words(store: Store, judge: Judge) -> None:
    """See that criteria on which there are verdicts, of any rater, are still asked in the same words.

    Raises:
        StudyError: One is not.
    """
    if changes := reworded(store.criteria(), judge.rubric):
        raise StudyError(
            f"study.toml rewords a criterion that has verdicts: {'; '.join(changes)}; take back "
            "the change, or define the new words as a criterion of another name"
        )
