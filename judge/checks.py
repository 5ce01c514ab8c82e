"""What must be so before a judge goes on with a study that it has begun."""

from __future__ import annotations

from guard_eval.errors import StudyError
from guard_eval.records import Rater
from guard_eval.store import Store
from guard_eval.study.settings import Judge


def check_criteria(store: Store, judge: Judge, rater: Rater) -> None:
    """See that the judge is asked on the criteria on which it has judged so far.

    Raises:
        StudyError: They are others: some pairs would be judged on these and some on those.
    """
    before = store.criteria_judged(rater)
    if before and before != set(judge.criteria):
        raise StudyError(
            f"the judge {rater.name!r} has judged pairs of this study on {', '.join(sorted(before))}, and is "
            f"now asked on {', '.join(judge.criteria)}; take back the change in study.toml, or give the "
            'judge a new name there (name = "…"), under which it starts from the beginning'
        )
