"""The current texts: those of the run whose recipe matches study.toml and its model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from guard_eval.errors import StudyError
from guard_eval.generation.strategies import parse
from guard_eval.generation.strategies.own import source_of
from guard_eval.records import Continuation, Prompt, Recipe
from guard_eval.study.folder import Study
from guard_eval.texts.continuations import continuation_files, read_continuations, read_run_folders
from guard_eval.texts.models import known_revision

ANY = "any"
"""Texts by any engine."""

Known = Mapping[str, str | None]
"""What is known of the model's `revision` and `dtype` beyond study.toml; None for what is not."""

Texts = Mapping[tuple[str, int], Continuation]
"""A strategy's texts, by the prompt's id and the number of its text: 1, 2, …."""


def find_generated(
    study: Study,
    prompts: Mapping[str, Iterable[Prompt]],
    *,
    known: Known | None = None,
    engine: str | None = ANY,
) -> dict[str, Texts]:
    """Return the texts that the study's settings ask for, by strategy, as far as they exist.

    All are of one run's folder. Within it, all texts of a strategy are by one engine.

    Args:
        study: The study.
        prompts: The prompts whose texts are needed, by the strategy's signature.
        known: By default a model's weights are read only where study.toml alone does not decide.
        engine: The `Recipe.engine` whose texts count where no engine has made all: a name, None for
            transformers, or by default the one that has made the most.

    Raises:
        StudyError: Several runs match study.toml.
    """
    folder = _find_run(study, known)
    if folder is None:
        return {name: {} for name in prompts}
    by_id = {name: {prompt.id: prompt for prompt in each} for name, each in prompts.items()}
    return {name: _texts_in(folder, study, name, each, engine=engine) for name, each in by_id.items()}


def other_runs(study: Study, known: Known | None = None) -> list[str]:
    """Return in words how each run's folder that study.toml does not ask for differs from it."""
    required = _required(study, known or {"revision": model_revision(study)})
    return [
        f"{folder.name} has {', '.join(differences)}"
        for folder, recipe in read_run_folders(study.continuations).items()
        if (differences := _differences(recipe, required))
    ]


def model_revision(study: Study, *, read: bool = True) -> str | None:
    """Return the model's revision as far as this machine knows it; `read` also that of a folder."""
    model = study.settings.model
    return known_revision(study.locate_model(model.name), model.revision, read=read)


def _find_run(study: Study, known: Known | None) -> Path | None:
    """Return the one run's folder that matches study.toml, if there is one.

    A model's folder is only read if study.toml alone leaves several runs or none.
    """
    runs = read_run_folders(study.continuations)
    matching = {}
    for read in (False, True) if runs else ():
        required = _required(study, known or {"revision": model_revision(study, read=read)})
        matching = {path: recipe for path, recipe in runs.items() if not _differences(recipe, required)}
        if len(matching) == 1:
            break
    if len(matching) > 1:
        recipes = {path.name: recipe for path, recipe in matching.items()}
        named = (f"{name} ({r['model']} {r['revision']}, {r['dtype']})" for name, r in recipes.items())
        raise StudyError(
            f"several runs in {study.continuations} match study.toml: {', '.join(named)}. Set model.dtype or "
            "model.revision to choose one, or move the others away"
        )
    return next(iter(matching), None)


def _required(study: Study, known: Known) -> dict[str, object]:
    """Return what a run's recipe must be, as far as study.toml and the model say; None leaves it open."""
    model = study.settings.model
    generation = study.settings.generation
    revision = known.get("revision")
    dtype = known.get("dtype") or model.dtype
    return {
        "model": None if _is_content(revision) else model.name,
        "revision": revision,
        "dtype": None if dtype == "auto" else dtype,
        "seed": study.settings.seed,
        "max_new_tokens": generation.max_new_tokens,
        "max_prompt_tokens": generation.max_prompt_tokens,
        "chat": generation.chat,
        "chat_template": generation.template_settings,
        "stop": tuple(generation.stop),
    }


def _differences(recipe: Mapping[str, Any], required: Mapping[str, object]) -> list[str]:
    """Describe how a recipe differs from what is required; its dtype names a quantisation as well."""
    return [
        f"{name} = {recipe[name]!r}, not {value!r}"
        for name, value in required.items()
        if value not in (None, recipe[name])
        and not (name == "dtype" and recipe[name].startswith(f"{value},"))
    ]


def _is_content(revision: str | None) -> bool:
    """Return whether a revision stands for a folder's content, so that its place does not count."""
    return revision is not None and revision.startswith("sha256:")


def _texts_in(
    folder: Path, study: Study, strategy: str, prompts: Mapping[str, Prompt], *, engine: str | None
) -> Texts:
    """Return a strategy's texts in a folder: those of an engine that has made all, or the most."""
    amateur = study.settings.amateur_of(strategy)
    runs = study.settings.runs_of(strategy)
    required = {"strategy": strategy, "source": source_of(parse(strategy)), "amateur": amateur}
    if amateur:
        revision = known_revision(study.locate_model(amateur), study.settings.model.amateur_revision)
        required |= {"amateur_revision": revision} if revision else {}
        if _is_content(revision):
            del required["amateur"]
    variants: dict[Recipe, dict[tuple[str, int], Continuation]] = {}
    for path in continuation_files(folder, strategy):
        for text in read_continuations(path):
            recipe = text.recipe
            prompt = prompts.get(text.prompt_id)
            if prompt is None or text.run > runs or recipe.continuation_id(prompt, text.run) != text.id:
                continue
            if all(getattr(recipe, name) == value for name, value in required.items()):
                variants.setdefault(recipe, {})[prompt.id, text.run] = text
    complete = [texts for texts in variants.values() if len(texts) == len(prompts) * runs]
    started = [texts for recipe, texts in variants.items() if engine in {ANY, recipe.engine}]
    return max(complete or started, key=len, default={})
