"""The current texts: those of the run whose recipe matches study.toml and its models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from guard_eval.errors import StudyError
from guard_eval.records import Continuation, Prompt, Recipe
from guard_eval.strategies import parse
from guard_eval.strategies.own import source_of
from guard_eval.study.folder import Study
from guard_eval.texts.continuations import continuation_files, read_continuations, read_run_folders
from guard_eval.texts.model_files import known_revision

ANY = "any"
"""Texts by any engine."""

Known = Mapping[str, str | None]
"""What is known beyond study.toml of `revision`, `dtype` and `amateur_revision`; None for what is not."""


@dataclass(frozen=True, kw_only=True)
class StrategyTexts:
    """A strategy's texts by one recipe.

    Attributes:
        folder: The run's folder; None where there is none.
        texts: By the prompt's id and the number of its text: 1, 2, ….
    """

    folder: Path | None = None
    texts: Mapping[tuple[str, int], Continuation] = field(default_factory=dict)

    def of_run(self, number: int) -> dict[str, Continuation]:
        """Return the texts with a number, by the prompt's id."""
        return {prompt: text for (prompt, run), text in self.texts.items() if run == number}


def find_texts(
    study: Study,
    strategies: Sequence[str],
    prompts: Iterable[Prompt],
    *,
    known: Known | None = None,
    engine: str | None = ANY,
) -> dict[str, StrategyTexts]:
    """Return the texts that the study's settings ask for, by strategy, as far as they exist.

    All are of one run's folder. Within it, all texts of a strategy are by one engine.

    Args:
        study: The study.
        strategies: By signature.
        prompts: The prompts whose texts are needed.
        known: By default a model's weights are read only where study.toml alone does not decide.
        engine: The `Recipe.engine` whose texts count where no engine has made all: a name, None for
            transformers, or by default the one that has made the most.

    Raises:
        StudyError: Several runs match study.toml.
    """
    by_id = {prompt.id: prompt for prompt in prompts}
    folder, known = _find_run(study, known)
    if folder is None:
        return dict.fromkeys(strategies, StrategyTexts())
    model, revision = study.settings.model, known.get("amateur_revision")
    if revision is None and model.amateur and any(map(study.settings.amateur_of, strategies)):
        # of a folder the content counts, wherever it lies by now
        revision = known_revision(study.locate_model(model.amateur), model.amateur_revision)
    return {
        name: _texts_in(folder, study, name, by_id, revision=revision, engine=engine) for name in strategies
    }


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


def current_texts(
    study: Study, strategies: Sequence[str], prompts: Iterable[Prompt]
) -> dict[str, dict[str, Continuation]]:
    """Return the first text of each prompt (`find_current`), by strategy and prompt id."""
    return {name: each.of_run(1) for name, each in find_current(study, strategies, prompts).items()}


def missing_texts(
    study: Study, strategy: str, prompts: Iterable[Prompt], existing: StrategyTexts
) -> Iterator[tuple[Prompt, int]]:
    """Yield each prompt and number of a text that a strategy has not made."""
    for prompt in prompts:
        for run in range(1, study.settings.runs_of(strategy) + 1):
            if (prompt.id, run) not in existing.texts:
                yield prompt, run


def other_runs(study: Study, known: Known | None = None) -> list[str]:
    """Return in words how each run's folder that study.toml does not ask for differs from it."""
    known = known or model_revisions(study, read=True)
    return [
        f"{folder.name} has {', '.join(changes.values())}"
        for folder, recipe in read_run_folders(study.continuations).items()
        if (changes := _differences(study, recipe, known))
    ]


def model_revisions(study: Study, *, read: bool) -> Known:
    """Return the models' revisions as far as this machine knows them; `read` also those of folders."""
    model = study.settings.model
    models = {
        "revision": (model.name, model.revision),
        "amateur_revision": (model.amateur, model.amateur_revision),
    }
    return {
        key: name and known_revision(study.locate_model(name), revision, read=read)
        for key, (name, revision) in models.items()
    }


def _find_run(study: Study, known: Known | None) -> tuple[Path | None, Known]:
    """Return the one run's folder that matches study.toml, if there is one, and what is known of models."""
    runs = read_run_folders(study.continuations)
    matching: list[Path] = []
    for read in (False, True):
        revisions = known or model_revisions(study, read=read)
        differences = {folder: _differences(study, recipe, revisions) for folder, recipe in runs.items()}
        matching = [folder for folder, changes in differences.items() if not changes]
        if len(matching) == 1:
            return matching[0], revisions
        if not matching and not any(changes.keys() == {"model"} for changes in differences.values()):
            break  # the weights would tell nothing
    if not matching:
        return None, revisions
    named = (
        f"{folder.name} ({recipe['model']} {recipe['revision']}, {recipe['dtype']})"
        for folder, recipe in runs.items()
        if folder in matching
    )
    raise StudyError(
        f"several runs in {study.continuations} match study.toml: {', '.join(named)}. Set model.dtype or "
        "model.revision to choose one, or move the others away"
    )


def _differences(study: Study, recipe: Mapping[str, Any], known: Known) -> dict[str, str]:
    """Describe how a run's recipe differs from study.toml and from the model."""
    settings, generation, revision = study.settings, study.settings.generation, known.get("revision")
    dtype, have = known.get("dtype") or settings.model.dtype, dict(recipe)
    if "," not in dtype:  # of a quantised model the recipe names the quantisation, too
        have["dtype"] = have["dtype"].partition(",")[0]
    required: dict[str, object] = {
        "model": None if _is_content(revision) else settings.model.name,
        "revision": revision,
        "dtype": None if dtype == "auto" else dtype,
        "seed": settings.seed,
        "max_new_tokens": generation.max_new_tokens,
        "max_prompt_tokens": generation.max_prompt_tokens,
        "chat": generation.chat,
        "stop": tuple(generation.stop),
    }
    return {
        name: f"{name} = {recipe[name]!r}, not {value!r}"
        for name, value in required.items()
        if value is not None and have[name] != value
    }


def _is_content(revision: str | None) -> bool:
    """Return whether a revision stands for a folder's content, so that its place does not count."""
    return revision is not None and revision.startswith("sha256:")


def _texts_in(
    folder: Path,
    study: Study,
    strategy: str,
    prompts: Mapping[str, Prompt],
    *,
    revision: str | None,
    engine: str | None,
) -> StrategyTexts:
    """Return a strategy's texts in a folder: those of an engine that has made all, or the most."""
    amateur, runs = study.settings.amateur_of(strategy), study.settings.runs_of(strategy)
    required = {"strategy": strategy, "source": source_of(parse(strategy))}
    if not (amateur and _is_content(revision)):
        required["amateur"] = amateur
    if amateur and revision:
        required["amateur_revision"] = revision
    variants: dict[Recipe, dict[tuple[str, int], Continuation]] = {}
    for path in continuation_files(folder, strategy):
        for text in read_continuations(path):
            recipe, prompt = text.recipe, prompts.get(text.prompt_id)
            if prompt is None or text.run > runs:
                continue
            if any(getattr(recipe, name) != value for name, value in required.items()):
                continue
            if recipe.continuation_id(prompt, text.run) == text.id:
                variants.setdefault(recipe, {})[prompt.id, text.run] = text
    complete = [texts for texts in variants.values() if len(texts) == len(prompts) * runs]
    started = [texts for recipe, texts in variants.items() if engine in {ANY, recipe.engine}]
    return StrategyTexts(folder=folder, texts=max(complete or started, key=len, default={}))
