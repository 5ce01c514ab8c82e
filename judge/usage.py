"""How the study's judges were asked, as the report tells it: money, failures, models, calibration."""

from __future__ import annotations

from typing import Any

from guard_eval.store import Store, requests
from guard_eval.study.folder import Study
from judge.calibration import read_checks
from judge.command import read_reasons
from judge.prompts.examples import describe_special
from judge.prompts.prompt import prompt_of
from judge.questions import describe_changes


def judge_usage(study: Study, store: Store) -> dict[str, Any] | None:
    """Return how the study's judges were asked, as the report's `JudgeUsage`, or None where none was."""
    with store.read() as db:
        spending, seen, failed = requests.read_spending(db), requests.read_models(db), read_reasons(db)
    if not spending:
        return None
    names, seed = {each.judge for each in spending}, study.settings.seed
    judges = [judge for judge in study.settings.judge if judge.rater_name in names]
    return {
        "prompts": tuple(
            {
                "judge": judge.rater_name,
                "version": prompt_of(judge).version,
                "description": describe_special(judge) or "the paper's prompt",
                "text": prompt_of(judge).text,
            }
            for judge in judges
        ),
        "spent": tuple(each._asdict() for each in spending),
        "failed": tuple(failed),
        "seen": tuple(seen),
        "checked": tuple(item for judge in judges for item in read_checks(store, judge, seed=seed)),
        "asked_otherwise": tuple(
            f"{judge.rater_name} ({'; '.join(changes)})"
            for judge in judges
            if (changes := describe_changes(store, judge))
        ),
    }
