"""Divide a study's prompts into those for tuning and those for the comparison of systems."""

from collections.abc import Sequence
from itertools import chain

from guard_eval.errors import StudyError
from guard_eval.records import Prompt, clean_for_raters, make_content_id
from guard_eval.store import Store, TidyRow, unblind
from guard_eval.study import Study
from guard_eval.study.tuning import JUDGE, TUNING_DATABASE, Search
from guard_eval.texts.pairing import draw_prompts, drop_repeated_prompts
from guard_eval.texts.prompts import read_study_prompts
from guard_eval.texts.systems import find_texts

TUNE = ("measure", "--tune")


def split_prompts_for_tuning(study: Study) -> tuple[list[Prompt], list[Prompt]]:
    """Return two lists: the prompts for tuning (empty without [tuning]), and the prompts to compare.

    The draw does not change if prompts are added to the file. A prompt with the words of a prompt for tuning
    is not compared.

    Raises:
        StudyError: A dataset would have no prompt to compare.
    """
    prompts = read_study_prompts(study)
    tuning = study.settings.tuning
    if tuning is None:
        return [], prompts
    distinct = drop_repeated_prompts(prompts)
    if tuning.prompts == 0:
        return distinct, prompts
    seed = study.settings.seed
    drawn = draw_prompts(distinct, per_dataset=tuning.prompts, seed=seed, purpose="tuning")
    choice = study.valid_tuning_choice
    ids = set(choice.prompts) if choice else {prompt.id for prompt in drawn}
    choosing = [prompt for prompt in prompts if prompt.id in ids]
    words = {clean_for_raters(prompt.text) for prompt in choosing}
    compared = [prompt for prompt in prompts if clean_for_raters(prompt.text) not in words]
    used_up = {prompt.dataset for prompt in choosing} - {prompt.dataset for prompt in compared}
    if used_up:
        raise StudyError(
            f"tuning.prompts = {tuning.prompts} leaves no prompts of {', '.join(sorted(used_up))} to "
            "compare; lower tuning.prompts, or add prompts"
        )
    return choosing, compared


def list_compared_systems(study: Study) -> list[str]:
    """Return the names of the systems to compare: all except settings that tuning did not choose."""
    chosen = study.choice.chosen.values() if study.choice else ()
    tried = {*chain(*study.settings.grids.values())}.difference(chosen)
    return [name for name in study.settings.systems if name not in tried]


def group_systems_by_prompts(study: Study) -> list[tuple[list[str], list[Prompt]]]:
    """Return groups of systems, each with the prompts that these systems continue.

    All settings continue the prompts for tuning. After the choice, the compared systems continue all prompts.
    """
    choosing, _ = split_prompts_for_tuning(study)
    systems = list(study.settings.systems)
    if study.settings.tuning is not None and study.valid_tuning_choice is None:
        return [(systems, choosing)]
    compared = list_compared_systems(study)
    others = [name for name in systems if name not in compared]
    return [(compared, read_study_prompts(study)), (others, choosing)]


def read_tuning_verdicts(study: Study) -> list[TidyRow]:
    """Return the judges' verdicts on the tried settings; an empty list if judges do not choose settings."""
    tuning = study.settings.tuning
    if tuning is None or JUDGE not in tuning.scores:
        return []
    if not (study.folder / TUNING_DATABASE).exists():
        return []
    with Store.open_study(study.make_tuning_study()) as store:
        return unblind.read_tidy_rows(store)


def hash_tuning_choice(study: Study, searches: Sequence[Search]) -> str:
    """Return the hash of a choice of settings, with the rule, texts and verdicts that it depends on."""
    settings = study.settings
    prompts, _ = split_prompts_for_tuning(study)
    texts = find_texts(study, chain(*settings.grids.values()), prompts)
    ids = [(name, text.id) for name, by_prompt in texts.items() for text in by_prompt.values()]
    verdicts = [(row.pair_id, row.rater, row.criterion, row.verdict) for row in read_tuning_verdicts(study)]
    dumps = [search.model_dump(mode="json") for search in searches]
    named = sorted(prompt.id for prompt in prompts)
    return make_content_id(settings.tuning_rule_hash, named, sorted(ids), sorted(verdicts), dumps)


def read_compared_prompts(study: Study) -> list[Prompt]:
    """Return the prompts to compare. Settings must have been chosen.

    Raises:
        StudyError: No settings are chosen, or they were chosen by another rule or from other texts.
    """
    _, compared = split_prompts_for_tuning(study)
    if study.settings.tuning is not None:
        choice = study.valid_tuning_choice
        if choice is None:
            generate = "" if study.has_all_texts_in_files else f"{study.format_command('generate')}, then "
            steps = f"{generate}{study.format_command(*TUNE)}"
            raise StudyError(f"no setting is chosen yet by the rule in [tuning]; run: {steps}")
        if choice.hash != hash_tuning_choice(study, choice.searches):
            problem = "the texts that chose the settings, or tuning.json, have changed since"
            raise StudyError(f"{problem}; run: {study.format_command(*TUNE)}")
    return compared
