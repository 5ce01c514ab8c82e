"""Which texts count: those of the run whose recipe matches study.toml and the models it names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from guard_eval.errors import StudyError
from guard_eval.records import Continuation, Prompt, Recipe
from guard_eval.strategies import parse
from guard_eval.strategies.own import source_of
from guard_eval.study.folder import Study
from guard_eval.texts.continuations import (
    continuation_files,
    read_continuations,
    read_ids,
    read_run_folders,
)
from guard_eval.texts.model_files import known_revision

ANY = "any"
"""Texts by any engine."""

TextKey = tuple[str, int]
"""A prompt's id and the number of its text by the strategy: 1, 2, …."""


@dataclass(frozen=True, kw_only=True)
class StrategyTexts:
    """A strategy's texts by one recipe.

    Attributes:
        folder: The run's folder; None where there is none.
        recipe: How they were made; None where there are none.
        texts: By prompt and number.
    """

    folder: Path | None = None
    recipe: Recipe | None = None
    texts: Mapping[TextKey, Continuation] = field(default_factory=dict)


def model_revisions(study: Study, *, read: bool) -> dict[str, str | None]:
    """Return `revision` and `amateur_revision` as far as this machine knows them without the network.

    Args:
        study: The study.
        read: Read the weights of a model that is a folder; else its revision is unknown.
    """
    model = study.settings.model
    amateur = model.amateur
    return {
        "revision": known_revision(study.locate_model(model.name), model.revision, read=read),
        "amateur_revision": amateur
        and known_revision(study.locate_model(amateur), model.amateur_revision, read=read),
    }


def find_texts(
    study: Study,
    strategies: Sequence[str],
    prompts: Iterable[Prompt],
    *,
    known: Mapping[str, str | None] | None = None,
    engine: str | None = ANY,
) -> dict[str, StrategyTexts]:
    """Return the texts that the study's settings ask for, by strategy, as far as they exist.

    All are of one run's folder. If several match, because study.toml leaves the model's arithmetic or
    revision open, the folder with the most of these texts counts. Within it, all texts of a strategy are by
    one engine.

    Args:
        study: The study.
        strategies: By signature.
        prompts: The prompts whose texts are needed.
        known: What is known beyond study.toml of `revision`, `dtype` and `amateur_revision`; by default what
            this machine can find without reading weights.
        engine: The `Recipe.engine` whose texts count where no engine has made all: a name, None for
            transformers, or by default the one that has made the most.

    Raises:
        StudyError: Several folders match, and have the same number of texts.
    """
    by_id = {prompt.id: prompt for prompt in prompts}
    folders = _matching_folders(study, known or model_revisions(study, read=False))
    if len(folders) > 1 and known is None:
        exact = _matching_folders(study, model_revisions(study, read=True))
        folders = exact or folders
    by_folder = {
        folder: {
            strategy: _texts_in(study, folder, strategy, by_id, known or {}, engine=engine)
            for strategy in strategies
        }
        for folder in folders
    }
    counts = {folder: sum(len(each.texts) for each in texts.values()) for folder, texts in by_folder.items()}
    largest = [folder for folder, count in counts.items() if count and count == max(counts.values())]
    if len(largest) > 1:
        named = ", ".join(f"{folder.name} ({_describe(folders[folder])})" for folder in largest)
        raise StudyError(
            f"several runs in {study.continuations} match study.toml: {named}. Set model.dtype or "
            "model.revision to choose one, or move the others away"
        )
    return by_folder[largest[0]] if largest else {strategy: StrategyTexts() for strategy in strategies}


def count_texts(study: Study, strategies: Sequence[str], prompts: Sequence[Prompt]) -> dict[str, int]:
    """Return how many of the texts that the settings ask for exist, by strategy, without reading them whole.

    The first text of each file says how all of it were made, and a text's id is a hash of that and its
    prompt. If several runs match, the one with the most texts counts.
    """
    limit = dict.fromkeys(strategies, 0)
    for folder in _matching_folders(study, model_revisions(study, read=False)):
        counts = {strategy: _count_in(study, folder, strategy, prompts) for strategy in strategies}
        limit = max(limit, counts, key=lambda each: sum(each.values()))
    return limit


def _count_in(study: Study, folder: Path, strategy: str, prompts: Sequence[Prompt]) -> int:
    """Return the number of a strategy's texts in a folder, of the engine that has made the most."""
    ids: dict[Recipe, set[str]] = {}
    for path in continuation_files(folder, strategy):
        first = next(read_continuations(path), None)
        if first is not None and _is_asked(study, first.recipe, strategy, None):
            ids.setdefault(first.recipe, set()).update(read_ids(path))
    numbers = range(1, study.settings.runs_of(strategy) + 1)
    return max(
        (
            sum(recipe.continuation_id(prompt, run) in texts for prompt in prompts for run in numbers)
            for recipe, texts in ids.items()
        ),
        default=0,
    )


def find_current(
    study: Study, strategies: Sequence[str], prompts: Iterable[Prompt]
) -> dict[str, StrategyTexts]:
    """Return `find_texts`.

    Raises:
        StudyError: Several runs match. Or none does, while there are texts of other runs.
    """
    result = find_texts(study, strategies, prompts)
    if not any(each.texts for each in result.values()) and (others := other_runs(study)):
        raise StudyError(
            f"no run in {study.continuations} matches study.toml: {'; '.join(others)}. Take the change back, "
            f"or run: {study.command('generate')}"
        )
    return result


def current_runs(
    study: Study, strategies: Iterable[str], prompts: Iterable[Prompt]
) -> dict[str, dict[int, dict[str, Continuation]]]:
    """Return `find_current` by strategy, number of the text and prompt id."""
    result = find_current(study, list(strategies), prompts)
    runs: dict[str, dict[int, dict[str, Continuation]]] = {}
    for strategy, each in result.items():
        runs[strategy] = {run: {} for run in range(1, study.settings.runs_of(strategy) + 1)}
        for (prompt, run), text in each.texts.items():
            runs[strategy][run][prompt] = text
    return runs


def current_texts(
    study: Study, strategies: Iterable[str], prompts: Iterable[Prompt]
) -> dict[str, dict[str, Continuation]]:
    """Return the first text of each prompt (`current_runs`), by strategy and prompt id."""
    return {strategy: runs[1] for strategy, runs in current_runs(study, strategies, prompts).items()}


def missing_texts(
    study: Study, strategy: str, prompts: Iterable[Prompt], existing: StrategyTexts
) -> Iterator[tuple[Prompt, int]]:
    """Yield each prompt and number of a text that a strategy has not made."""
    for prompt in prompts:
        for run in range(1, study.settings.runs_of(strategy) + 1):
            if (prompt.id, run) not in existing.texts:
                yield prompt, run


def other_runs(study: Study, known: Mapping[str, str | None] | None = None) -> list[str]:
    """Return in words how each run's folder that study.toml does not ask for differs from it."""
    required = _required(study, known or model_revisions(study, read=True))
    return [
        f"{folder.name} has {', '.join(changes)}"
        for folder, recipe in read_run_folders(study.continuations).items()
        if (changes := _differences(recipe, required))
    ]


def _matching_folders(study: Study, known: Mapping[str, str | None]) -> dict[Path, dict[str, Any]]:
    required = _required(study, known)
    folders = read_run_folders(study.continuations)
    return {folder: recipe for folder, recipe in folders.items() if not _differences(recipe, required)}


def _required(study: Study, known: Mapping[str, str | None]) -> dict[str, object]:
    """Return what a run's recipe must hold; fields that are not named may hold anything."""
    settings, generation = study.settings, study.settings.generation
    required: dict[str, object] = {
        "model": settings.model.name,
        "seed": settings.seed,
        "max_new_tokens": generation.max_new_tokens,
        "max_prompt_tokens": generation.max_prompt_tokens,
        "chat": generation.chat,
        "stop": tuple(generation.stop),
        "dtype": None if settings.model.dtype == "auto" else settings.model.dtype,
    }
    known = {name: known.get(name) for name in ("revision", "dtype")}
    required |= {name: value for name, value in known.items() if value is not None}
    return {name: value for name, value in required.items() if value is not None}


def _differences(recipe: Mapping[str, Any], required: Mapping[str, object]) -> list[str]:
    """Return in words the fields in which a recipe differs from what is required."""
    result = []
    for name, value in required.items():
        have = recipe[name]
        if name == "model" and str(recipe["revision"]).startswith("sha256:"):
            continue  # of a folder the content counts, not the path
        # Of a quantised model the recipe names the arithmetic and the quantisation, the setting the former.
        plain = have.partition(",")[0] if name == "dtype" and "," not in str(value) else have
        if plain != value:
            result.append(f"{name} = {have!r}, not {value!r}")
    return result


def _texts_in(
    study: Study,
    folder: Path,
    strategy: str,
    prompts: Mapping[str, Prompt],
    known: Mapping[str, str | None],
    *,
    engine: str | None,
) -> StrategyTexts:
    """Return a strategy's texts in a folder: those of an engine that has made all, or the most."""
    revision = known.get("amateur_revision")
    numbers = range(1, study.settings.runs_of(strategy) + 1)
    variants: dict[Recipe, dict[TextKey, Continuation]] = {}
    asked = lru_cache(lambda recipe: _is_asked(study, recipe, strategy, revision))
    for path in continuation_files(folder, strategy):
        for text in read_continuations(path):
            recipe, prompt = text.recipe, prompts.get(text.prompt_id)
            if prompt is None or text.run not in numbers or not asked(recipe):
                continue
            if recipe.continuation_id(prompt, text.run) == text.id:
                variants.setdefault(recipe, {})[text.prompt_id, text.run] = text
    if not variants:
        return StrategyTexts(folder=folder)
    chosen = max(variants, key=lambda recipe: (len(variants[recipe]), recipe.engine == engine))
    complete = len(variants[chosen]) == len(prompts) * len(numbers)
    if engine not in {ANY, chosen.engine} and not complete:
        variants = {recipe: texts for recipe, texts in variants.items() if recipe.engine == engine}
        if not variants:
            return StrategyTexts(folder=folder)
        chosen = max(variants, key=lambda recipe: len(variants[recipe]))
    return StrategyTexts(folder=folder, recipe=chosen, texts=variants[chosen])


def _is_asked(study: Study, recipe: Recipe, strategy: str, amateur_revision: str | None) -> bool:
    """Return whether the settings ask for texts made like this, as far as a run's folder leaves it open."""
    if (recipe.strategy, recipe.source) != (strategy, source_of(parse(strategy))):
        return False
    amateur = study.settings.amateur_of(strategy)
    if amateur is None:
        return recipe.amateur is None
    by_content = str(recipe.amateur_revision).startswith("sha256:")
    same = recipe.amateur == amateur or by_content
    return same and amateur_revision in {None, recipe.amateur_revision}


def _describe(recipe: Mapping[str, Any]) -> str:
    return f"{recipe['model']} {recipe['revision']}, {recipe['dtype']}"
