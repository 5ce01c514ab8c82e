"""Find the texts of a study's systems, which come from local models, from servers, or from files."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from guard_eval.errors import StudyError, format_count, suggest_nearest_word
from guard_eval.records import Generation, Prompt, make_generation
from guard_eval.study.criteria_settings import find_study_file
from guard_eval.study.folder import Study
from guard_eval.study.system_settings import System
from guard_eval.texts.current import describe_mismatched_runs, find_generated_texts
from guard_eval.texts.generation_files import TextTable
from guard_eval.texts.prompts import read_study_prompts
from guard_eval.texts.rows import NO_TEXT
from guard_eval.texts.systems.matching import MatchedTexts, PromptIndex, SystemTexts
from guard_eval.texts.systems.served_files import find_served_texts


def find_texts(study: Study, names: Iterable[str], prompts: Sequence[Prompt]) -> dict[str, SystemTexts]:
    """Return the existing texts of these systems for these prompts, by system.

    Args:
        study: The study.
        names: The names of the systems.
        prompts: The prompts whose texts are needed.

    Raises:
        StudyError: A file cannot be read or does not fit the prompts, or several runs of a model match.
    """
    by_id = {prompt.id: prompt for prompt in prompts}
    available = study.settings.systems
    systems = {name: available[name] for name in names}
    result = _find_texts_of_local_models(study, systems, by_id)
    files = [system for system in systems.values() if system.source == "file"]
    # A text's place in its file counts all prompts, also prompts beyond the limit.
    index = PromptIndex(read_study_prompts(study, limited=False) if files else ())
    for system in files:
        result[system.name] = read_system_file(study, system, index, by_id).texts
    for system in systems.values():
        if system.source == "server":
            result[system.name] = find_served_texts(study, system, by_id)
    return {name: result[name] for name in systems}


def find_first_texts_of_systems(
    study: Study, names: Iterable[str], prompts: Sequence[Prompt]
) -> dict[str, dict[str, Generation]]:
    """Return the first text of each system for each prompt: system → prompt's id → text.

    Raises:
        StudyError: A text is missing, or see `find_texts`.
    """
    first = {}
    for name, texts in find_texts(study, names, prompts).items():
        if missing := [prompt.id for prompt in prompts if (prompt.id, 1) not in texts]:
            raise StudyError(
                f"{len(missing)} of {len(prompts)} texts by {name} on drawn prompts are missing (the first: "
                f"{missing[0]!r}); {explain_missing_texts(study, name)}"
            )
        first[name] = {prompt.id: texts[prompt.id, 1] for prompt in prompts}
    return first


def _find_texts_of_local_models(
    study: Study, systems: dict[str, System], prompts: dict[str, Prompt]
) -> dict[str, SystemTexts]:
    """Return the texts of systems that are a local model with a strategy."""
    result: dict[str, SystemTexts] = {}
    for model_study in study.split_by_model():
        names = {
            name: str(system.strategy)
            for name, system in systems.items()
            if system.source == "strategy"
            and study.settings.find_writing_model(system) == model_study.settings.model
        }
        generated = find_generated_texts(model_study, list(names.values()), prompts.values()) if names else {}
        for name, strategy in names.items():
            texts = generated[strategy].items()
            result[name] = {key: make_generation(text, prompts[key[0]], name) for key, text in texts}
    return result


def read_system_file(
    study: Study, system: System, index: PromptIndex, prompt_ids: Collection[str]
) -> MatchedTexts:
    """Return the texts in a system's file for the prompts with these ids.

    Raises:
        StudyError: The file cannot be read, has only other systems, or none of its texts fits a prompt.
    """
    where = f"the texts of {system.name}, {system.file}"
    try:
        path = find_study_file(study.folder, str(system.file))
        texts = read_texts_of_system(system, path, index.prompts)
    except StudyError as error:
        remedy = ". In study.toml, write the key column" if "--column" in f"{error}" else ""
        raise StudyError(f"{where}: {error}{remedy}") from None
    matched = index.match_texts(texts, prompt_ids=prompt_ids)
    if reworded := [text for text in matched.unmatched if text.prompt_id in index.by_id]:
        text = reworded[0]
        raise StudyError(
            f"{where}: {len(reworded)} of {len(texts)} texts have the id of a prompt that "
            f"is worded differently in the study, such as {text.prompt_id!r}; correct the ids, or the prompts"
        )
    strangers = [text.prompt_id for text in matched.unmatched if text.prompt is None]
    if strangers and matched.prompts and len(texts) == len(index.prompts):
        raise StudyError(
            f"{where}: there are as many texts as prompts, but {format_count(len(strangers), 'text')} with "
            f"other ids, such as {strangers[0]!r}. Correct the ids: they may begin with 0 in one file and "
            "with 1 in the other"
        )
    if not matched.prompts:
        raise StudyError(
            f"{where}: none of its {len(texts)} texts belongs to a prompt of the study; give each the id of "
            "its prompt, or the prompt itself"
        )
    return matched


def read_texts_of_system(system: System, path: Path, prompts: Sequence[Prompt] = ()) -> list[Generation]:
    """Return the texts of one system, under the system's name, from a file that may have several systems.

    The ids of `prompts` are recognised in columns of any name.

    Raises:
        StudyError: The file cannot be read, or has only texts of other systems.
    """
    table = TextTable.open(path)
    column = system.column or system.name
    is_column = system.column is not None or (column in table.records[0].row and column not in NO_TEXT)
    columns = [column] if is_column else []
    table = table.add_prompt_ids(prompts, columns=columns)
    by_system: dict[str, list[Generation]] = defaultdict(list)
    for _, text in table.read_texts(columns, by_order=True):
        by_system[text.strategy].append(text)
    if system.name not in by_system and len(by_system) > 1:
        raise StudyError(
            f"it has texts of other systems: {suggest_nearest_word(system.name, list(by_system))}"
        )
    texts = by_system.get(system.name) or next(iter(by_system.values()))
    if texts[0].strategy == system.name:
        return texts
    return [replace(text, strategy=system.name) for text in texts]


def explain_missing_texts(study: Study, name: str) -> str:
    """Explain how to get a system's missing texts, and why texts of other runs do not count."""
    system = study.settings.systems[name]
    if system.source == "file":
        return f"add them to {system.file}"
    if system.source == "strategy":
        model_study = study.restrict_to_model(study.settings.find_writing_model(system))
        if others := describe_mismatched_runs(model_study):
            return (
                f"no run in {study.continuations_folder} matches study.toml: {'; '.join(others)}. Take the "
                f"change back, or run: {study.format_command('generate')}"
            )
    return f"run: {study.format_command('generate')}"
