"""Find the texts of a study's local model: those of the run whose recipe matches study.toml."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from guard_eval.errors import StudyError
from guard_eval.generation.strategies import parse
from guard_eval.generation.strategies.own import hash_own_strategy_source
from guard_eval.records import Continuation, Prompt, Recipe
from guard_eval.study.folder import Study
from guard_eval.texts.continuations import (
    RUN_FIELDS,
    list_continuation_files,
    read_continuations,
    read_run_folders,
)
from guard_eval.texts.models import find_local_revision

ANY = "any"
"""The value of `engine` that accepts texts by any engine."""

Known = Mapping[str, str | None]
"""The known facts about a model: its `revision` and `dtype`. Unknown facts are missing or None."""

Texts = Mapping[tuple[str, int], Continuation]
"""A strategy's texts, by the prompt's id and the number of its text: 1, 2, …."""


def find_generated_texts(
    study: Study,
    strategies: Sequence[str],
    prompts: Iterable[Prompt],
    *,
    model_facts: Known | None = None,
    engine: str | None = ANY,
) -> dict[str, Texts]:
    """Return the existing texts that match the study's settings, by strategy.

    All texts come from the folder of one run. In this folder, all texts of a strategy come from one engine.

    Args:
        study: The study.
        strategies: The signatures of the strategies.
        prompts: The prompts whose texts are needed.
        model_facts: The known facts about the model. By default, weights are read only if study.toml
            alone does not identify the run.
        engine: If no engine has made all texts, return texts by this engine: a `Recipe.engine`, or None for
            transformers. Default: the engine with the most texts.

    Raises:
        StudyError: Several runs match study.toml.
    """
    by_id = {prompt.id: prompt for prompt in prompts}
    folder = _find_matching_run(study, model_facts)
    return {
        name: _read_texts_of_strategy(folder, study, name, by_id, engine=engine) if folder else {}
        for name in strategies
    }


def describe_mismatched_runs(study: Study, model_facts: Known | None = None) -> list[str]:
    """Describe the runs that do not match study.toml: a line of differences for each."""
    required = _get_required_recipe_fields(study, model_facts or {"revision": find_model_revision(study)})
    differences = {
        folder.name: _describe_recipe_differences(recipe, required)
        for folder, recipe in read_run_folders(study.continuations_folder).items()
    }
    return [f"{name} has {', '.join(parts)}" for name, parts in differences.items() if parts]


def find_model_revision(study: Study, *, may_hash_files: bool = True) -> str | None:
    """Return the revision of the study's model if it is on this machine.

    If `may_hash_files` is false, the files of the model are not read.
    """
    model = study.settings.model
    return find_local_revision(study.locate_model(model.name), model.revision, may_hash_files=may_hash_files)


def _find_matching_run(study: Study, facts: Known | None) -> Path | None:
    """Return the folder of the only run that matches study.toml, if there is one.

    A model's folder is read only if study.toml alone matches several runs or none.
    """
    runs = read_run_folders(study.continuations_folder)
    matching: list[Path] = []
    for may_hash_files in (False, True) if runs else ():
        required = _get_required_recipe_fields(
            study, facts or {"revision": find_model_revision(study, may_hash_files=may_hash_files)}
        )
        matching = [
            path for path, recipe in runs.items() if not _describe_recipe_differences(recipe, required)
        ]
        if len(matching) == 1:
            return matching[0]
    if not matching:
        return None
    names = [
        f"{path.name} ({runs[path]['model']} {runs[path]['revision']}, {runs[path]['dtype']})"
        for path in matching
    ]
    raise StudyError(
        f"several runs in {study.continuations_folder} match study.toml: {', '.join(names)}. Set model.dtype "
        "or model.revision to choose one, or move the others away"
    )


def _get_required_recipe_fields(study: Study, facts: Known) -> dict[str, object]:
    """Return the fields that a matching recipe must have. A field that is None may have any value."""
    model = study.settings.model
    revision = facts.get("revision")
    dtype = facts.get("dtype") or model.dtype
    return study.settings.generation.recipe_fields | {
        "seed": study.settings.seed,
        "model": None
        if str(revision).startswith("sha256:")
        else model.name,  # a folder's content counts, not its path
        "revision": revision,
        "dtype": None if dtype == "auto" else dtype,
    }


def _describe_recipe_differences(recipe: Mapping[str, object], required: Mapping[str, object]) -> list[str]:
    """Describe how a recipe differs from the required fields, such as `seed = 1, not 2`."""
    return [
        f"{name} = {recipe[name]!r}, not {value!r}"
        for name in RUN_FIELDS
        if (value := required[name]) not in (None, recipe[name])
        and not (name == "dtype" and str(recipe[name]).startswith(f"{value},"))
    ]


def _read_texts_of_strategy(
    folder: Path, study: Study, strategy: str, prompts: Mapping[str, Prompt], *, engine: str | None
) -> Texts:
    """Return a strategy's texts in a folder, all by one engine: the one that made the most texts."""
    amateur = study.settings.find_amateur(strategy)
    runs = study.settings.count_texts_per_prompt(strategy)
    required = {"strategy": strategy, "source": hash_own_strategy_source(parse(strategy)), "amateur": amateur}
    if amateur:
        revision = find_local_revision(study.locate_model(amateur), study.settings.model.amateur_revision)
        required |= {"amateur_revision": revision} if revision else {}
        if str(revision).startswith("sha256:"):
            del required["amateur"]
    variants: dict[Recipe, dict[tuple[str, int], Continuation]] = {}
    for path in list_continuation_files(folder, strategy):
        for text in read_continuations(path):
            recipe = text.recipe
            prompt = prompts.get(text.prompt_id)
            if prompt is None or text.run > runs or recipe.make_continuation_id(prompt, text.run) != text.id:
                continue
            if all(getattr(recipe, name) == value for name, value in required.items()):
                variants.setdefault(recipe, {})[prompt.id, text.run] = text
    complete = [texts for texts in variants.values() if len(texts) == len(prompts) * runs]
    started = [texts for recipe, texts in variants.items() if engine in {ANY, recipe.engine}]
    return max(complete or started, key=len, default={})
