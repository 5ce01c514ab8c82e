"""How the study's judges were asked, for a report: money, failures, models, calibration."""

from __future__ import annotations

from analysis.results.judges.judge_usage import FailureCount, JudgeUsage, UsedPrompt
from guard_eval.store import Store
from guard_eval.study.folder import Study
from judge.calibration import results
from judge.ledger import failure_reasons
from judge.lookup import request_changes
from judge.prompts.examples import described
from judge.prompts.prompt import prompt_of
from judge.rater import rater_name


def judge_run(study: Study, store: Store) -> JudgeUsage | None:
    """Return how the study's judges were asked, or None where none was."""
    spending = store.spending()
    if not spending:
        return None
    seed = study.settings.seed
    names = {each.judge for each in spending}
    judges = [judge for judge in study.settings.judge if rater_name(judge) in names]
    return JudgeUsage(
        prompts=tuple(
            UsedPrompt(
                judge=rater_name(judge),
                version=prompt_of(judge).version,
                words=described(judge) or "the paper's prompt",
                text=prompt_of(judge).text,
            )
            for judge in judges
        ),
        spent=tuple(spending),
        failed=tuple(
            FailureCount(judge=each.judge, kind=each.kind, reason=each.reason, count=each.count)
            for each in failure_reasons(store.failures())
        ),
        seen=tuple(store.models_seen()),
        checked=tuple(item for judge in judges for item in results(store, judge, seed=seed)),
        asked_otherwise=tuple(
            f"{rater_name(judge)} ({'; '.join(changes)})"
            for judge in judges
            if (changes := request_changes(store, judge, seed=seed))
        ),
    )
