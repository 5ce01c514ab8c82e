"""Which prompts choose a setting of each strategy, which are compared, and what each system writes to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain

from guard_eval.errors import StudyError
from guard_eval.records import Prompt
from guard_eval.store import Store, TidyRow, unblind
from guard_eval.study import Study
from guard_eval.study.tuning_settings import JUDGE
from guard_eval.texts.pairing import draw_prompts
from guard_eval.texts.systems import find_texts

TUNE = ("measure", "--tune")


def split_prompts(study: Study, prompts: Sequence[Prompt]) -> tuple[list[Prompt], list[Prompt]]:
    """Return the prompts that choose the settings, none without [tuning], and those that are compared.

    What was drawn once stays drawn, whatever is added to the file of prompts.

    Raises:
        StudyError: No prompt of a dataset would be compared.
    """
    tuning = study.settings.tuning
    if tuning is None:
        return [], list(prompts)
    if tuning.prompts == 0:
        return list(prompts), list(prompts)
    if choice := study.current_choice:
        ids = set(choice.prompts)
    else:
        drawn = draw_prompts(prompts, per_dataset=tuning.prompts, seed=study.settings.seed, purpose="tuning")
        ids = {prompt.id for prompt in drawn}
    compared = [prompt for prompt in prompts if prompt.id not in ids]
    sizes = Counter(prompt.dataset for prompt in prompts)
    for dataset in sizes.keys() - {prompt.dataset for prompt in compared}:
        raise StudyError(
            f"tuning.prompts = {tuning.prompts} leaves none of the {sizes[dataset]} prompts of {dataset} to "
            "be compared; lower it, or add prompts"
        )
    return [prompt for prompt in prompts if prompt.id in ids], compared


def compared_systems(study: Study) -> list[str]:
    """Return the systems without those settings that were tried and not chosen."""
    chosen = study.choice.chosen if study.choice else {}
    tried = {name for names in study.settings.grids.values() for name in names}
    return [name for name in study.settings.systems if name not in tried or name in chosen.values()]


def wanted_prompts(study: Study, prompts: Sequence[Prompt]) -> dict[str, list[Prompt]]:
    """Return the prompts that each system writes to.

    All settings write to the prompts that choose. After the choice, what is compared writes to all prompts.
    """
    choosing, _ = split_prompts(study, prompts)
    is_chosen = study.settings.tuning is None or study.current_choice is not None
    compared = compared_systems(study) if is_chosen else []
    return {name: list(prompts) if name in compared else choosing for name in study.settings.systems}


def read_judged(study: Study) -> list[TidyRow]:
    """Return the verdicts of judges on the settings, if these choose."""
    tuning = study.settings.tuning
    if tuning is None or JUDGE not in tuning.scores:
        return []
    with Store.open(study.of_tuning().database, create=True) as store:
        return unblind.tidy(store)


def hash_choice(study: Study, choosing: Sequence[Prompt]) -> str:
    """Return the hash of all that the choice depends on."""
    settings = study.settings
    rule = settings.rule
    names = [*chain(*rule.grids.values()), *filter(None, [rule.metrics.get("baseline")])]
    texts = find_texts(study, names, choosing)
    ids = [f"{name} {text.id}" for name, each in texts.items() for text in each.values()]
    ids += [f"{row.pair_id} {row.rater} {row.criterion} {row.verdict}" for row in read_judged(study)]
    return rule.hash([prompt.id for prompt in choosing], ids)


def read_compared(study: Study, prompts: Sequence[Prompt]) -> list[Prompt]:
    """Return the prompts that are compared, once the settings are chosen.

    Raises:
        StudyError: No settings are chosen, or they were chosen from other texts than there are.
    """
    choosing, compared = split_prompts(study, prompts)
    if study.settings.tuning is None:
        return compared
    command = study.command(*TUNE)
    if study.current_choice is None:
        state = "is of another rule or other settings" if study.choice else "is not made yet"
        raise StudyError(f"the choice by [tuning] {state}; run: {study.command('generate')}, then {command}")
    if hash_choice(study, choosing) != study.current_choice.hash:
        raise StudyError(f"the settings were chosen from other texts than the study has; run: {command}")
    return compared
