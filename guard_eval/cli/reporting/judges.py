"""What a report is told of the judges: money, failures, models, calibration."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from analysis.results.judge_usage import CheckedItem, FailureCount, JudgeSpending, JudgeUsage, ModelSeen

if TYPE_CHECKING:
    from guard_eval.store import Store
    from guard_eval.study.folder import Study


def judge_run(study: Study, store: Store) -> JudgeUsage | None:
    """Return how the study's judges were asked, or None where none was."""
    spends = store.spend()
    if not spends:
        return None
    from judge.calibration import results
    from judge.orders import rater_name
    from judge.prompt import PROMPT_VERSION
    from judge.replay import asked_otherwise

    seed = study.settings.seed
    judges = [judge for judge in study.settings.judge if rater_name(judge) in {each.judge for each in spends}]
    failed = {(each.rater, each.presentation): each.kind for each in store.failures()}  # the last one counts
    return JudgeUsage(
        prompt=PROMPT_VERSION,
        spent=tuple(
            JudgeSpending(
                judge=each.judge,
                requests=each.requests,
                answers=each.answers,
                lost=each.lost,
                waiting=each.open,
                unmetered=each.unmetered,
                unpriced=each.unpriced,
                input_tokens=each.input_tokens,
                cached_tokens=each.cached_tokens,
                output_tokens=each.output_tokens,
                reasoning_tokens=each.reasoning_tokens,
                usd=each.usd,
                held_usd=each.held_usd,
            )
            for each in spends
        ),
        failed=tuple(
            FailureCount(judge=judge, kind=kind, count=count)
            for (judge, kind), count in sorted(
                Counter((name, kind) for (name, _), kind in failed.items()).items()
            )
        ),
        seen=tuple(
            ModelSeen(
                judge=each.judge,
                model=each.model,
                fingerprint=each.fingerprint,
                answers=each.answers,
                first=each.first,
                last=each.last,
            )
            for each in store.snapshots()
        ),
        checked=tuple(
            CheckedItem(
                judge=rater_name(judge),
                check=each.check,
                item=each.item,
                criterion=each.criterion,
                said=each.said,
                asked=each.asked,
            )
            for judge in judges
            for each in results(store, judge, seed=seed)
        ),
        asked_otherwise=tuple(
            rater_name(judge) for judge in judges if asked_otherwise(store, judge, seed=seed)
        ),
    )
