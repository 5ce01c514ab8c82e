"""Which texts count: those that the study's settings and models would make now, and of one kind."""

from __future__ import annotations

import itertools
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from guard_eval.errors import StudyError
from guard_eval.records import Continuation, Prompt, Recipe
from guard_eval.strategies import parse
from guard_eval.strategies.own import source_of
from guard_eval.study.folder import Study, locate_model
from guard_eval.study.settings import Settings
from guard_eval.texts.continuations import continuation_files, read_continuations
from guard_eval.texts.model_files import known_revision

_ID = re.compile("[0-9a-f]{16}")

Wanted = Mapping[str, object]
"""What a recipe must hold, by its fields; those that are not named may hold anything."""

_Place = tuple[str, int]
"""A prompt's id and a run."""


def wanted(strategy: str, settings: Settings, **known: str | None) -> dict[str, object]:
    """Return what `settings` ask of a strategy's recipe.

    Args:
        strategy: Its signature.
        settings: The study's.
        known: Of `revision`, `dtype` and `amateur_revision` what is known beyond the settings.
    """
    required: dict[str, object] = {
        "model": settings.model.name,
        "strategy": strategy,
        "seed": settings.seed,
        "max_new_tokens": settings.generation.max_new_tokens,
        "max_prompt_tokens": settings.generation.max_prompt_tokens,
        "amateur": settings.amateur_of(strategy),
        "chat": settings.generation.chat,
        "source": source_of(parse(strategy)),
        "stop": tuple(settings.generation.stop),
    }
    if settings.model.dtype != "auto":
        required["dtype"] = settings.model.dtype
    if required["amateur"] is None:
        known.pop("amateur_revision", None)
    required |= {name: value for name, value in known.items() if value is not None}
    for name, revision in (("model", "revision"), ("amateur", "amateur_revision")):
        if str(required.get(revision)).startswith("sha256:"):
            del required[name]  # the content decides, not the path
    return required


def departures(recipe: Recipe, required: Wanted) -> dict[str, str]:
    """Return by field where a recipe is another one than `required`, in words; nothing where it is not."""
    found = {}
    for name, value in required.items():
        have = getattr(recipe, name)
        # Of a quantised model the recipe names the arithmetic and the quantisation, the setting the former.
        plain = have.partition(",")[0] if name == "dtype" and "," not in str(value) else have
        if plain != value:
            found[name] = f"{name} {have!r}, here {value!r}"
    return found


_KIND = {"revision", "dtype", "amateur_revision", "engine"}
"""Fields in which the texts of one strategy and one study must agree, whatever its settings leave open."""


def current_continuations(
    folder: Path, strategy: str, prompts: Iterable[Prompt], settings: Settings
) -> dict[int, dict[str, Continuation]]:
    """Return the continuations that `settings` ask for, by run and prompt id, as far as they are made.

    A file may also hold runs that are not asked for any more, and what earlier settings or other weights
    made: all texts that are returned are by one
    recipe. Of several that the settings allow it is that of the model's folder as it is now, if it is at
    hand, else the last made of those that continue the most prompts.

    Args:
        folder: The study's continuations.
        strategy: A signature.
        prompts: Those that are needed.
        settings: The study's.

    Raises:
        StudyError: Some of the prompts have texts by this recipe, and others by another model, revision,
            arithmetic or engine alone.
    """
    by_id = {prompt.id: prompt for prompt in prompts}
    study = folder.parent
    required = wanted(strategy, settings, **_revisions(settings, study, read=False))
    fits: dict[Recipe, bool] = {}
    fitting: dict[Recipe, dict[_Place, Continuation]] = {}
    others: dict[Recipe, set[_Place]] = {}
    runs = range(1, settings.runs_of(strategy) + 1)
    for path in continuation_files(folder, strategy):
        for one in read_continuations(path):
            recipe, prompt = one.recipe, by_id.get(one.prompt_id)
            if not prompt or one.run not in runs or recipe.continuation_id(prompt, one.run) != one.id:
                continue
            if recipe not in fits:
                wrong = departures(recipe, required).keys() - _moved(recipe, required)
                if not wrong <= _KIND:
                    continue
                fits[recipe] = not wrong
            if fits[recipe]:
                texts = fitting.pop(recipe, {})
                texts[prompt.id, one.run] = one
                fitting[recipe] = texts  # at the end: the last made
            else:
                others.setdefault(recipe, set()).add((prompt.id, one.run))
    fitting, stale = _of_the_folder_now(fitting, required, strategy, settings, study)
    others |= stale
    chosen = max(reversed(fitting), key=lambda recipe: len(fitting[recipe]), default=None)
    if chosen is None and others:
        have = "; ".join(
            f"{len(texts)} {kind(one)} ({', '.join(departures(one, required).values())})"
            for one, texts in others.items()
        )
        raise StudyError(
            f"{strategy}: its texts are of another kind than study.toml asks for: {have}. Make them again "
            f"with: guard-eval generate {study}; or set model.dtype and model.revision to what made these"
        )
    refuse_mixture(strategy, study, {**others, **{one: set(texts) for one, texts in fitting.items()}}, chosen)
    found: dict[int, dict[str, Continuation]] = {run: {} for run in runs}
    for (name, run), one in fitting[chosen].items() if chosen else ():
        found[run][name] = one
    return found


def _of_the_folder_now(
    fitting: dict[Recipe, dict[_Place, Continuation]],
    required: Wanted,
    strategy: str,
    settings: Settings,
    study: Path,
) -> tuple[dict[Recipe, dict[_Place, Continuation]], dict[Recipe, set[_Place]]]:
    """Return the texts of the model as its folder is now, where there are several, and all others."""
    several = len({recipe.revision for recipe in fitting}) > 1
    if not several and not any(departures(one, required) for one in fitting):
        return fitting, {}
    exact = wanted(strategy, settings, **_revisions(settings, study, read=True))
    named = [one for one in fitting if not departures(one, required)]
    now = [one for one in fitting if not departures(one, exact)] or named
    kept: dict[Recipe, dict[_Place, Continuation]] = {}
    for recipe in (one for one in fitting if one in now):  # a folder that was moved has two names
        here = replace(recipe, model=settings.model.name, amateur=settings.amateur_of(strategy))
        kept[here] = kept.pop(here, {}) | fitting[recipe]
    return kept, {one: set(fitting[one]) for one in named if one not in now}


def refuse_mixture(
    strategy: str, study: Path, kinds: Mapping[Recipe, set[_Place]], chosen: Recipe | None = None
) -> None:
    """Make sure that there are texts of one kind wherever there are texts of any kind.

    Args:
        strategy: Its signature.
        study: The study's folder.
        kinds: Prompts, by their ids, and runs that each recipe has texts of.
        chosen: The recipe that must have all; the one of the most texts if left out.

    Raises:
        StudyError: They do not; kinds, counts and remedy are named.
    """
    chosen = chosen or max(kinds, key=lambda recipe: len(kinds[recipe]), default=None)
    if chosen is None:
        return
    left = {recipe: len(texts - kinds[chosen]) for recipe, texts in kinds.items()}
    if any(left.values()):
        more = "; ".join(f"{number} are only {kind(one)}" for one, number in left.items() if number)
        raise StudyError(
            f"{strategy}: texts of several kinds must not be mixed: {len(kinds[chosen])} are "
            f"{kind(chosen)}; {more}. Make what is missing with: guard-eval generate {study}; or set "
            "model.dtype and model.revision in study.toml to what made the others"
        )


def _moved(recipe: Recipe, required: Wanted) -> set[str]:
    """Return the names of models that do not count, for folders are known by their content."""
    pairs = (("model", recipe.revision), ("amateur", recipe.amateur_revision))
    return {name for name, revision in pairs if required.get(name) and str(revision).startswith("sha256:")}


def _revisions(settings: Settings, study: Path, *, read: bool) -> dict[str, str | None]:
    """Return the revisions of the models as far as this machine knows them."""
    model = settings.model
    names = {"revision": (model.name, model.revision)}
    if model.amateur is not None:
        names["amateur_revision"] = (model.amateur, model.amateur_revision)
    return {
        field: known_revision(locate_model(name, study), revision, read=read)
        for field, (name, revision) in names.items()
    }


def kind(recipe: Recipe) -> str:
    """Return what distinguishes texts of one strategy and one study."""
    amateur = f", amateur {recipe.amateur_revision}" if recipe.amateur else ""
    engine = f", by {recipe.engine}" if recipe.engine else ""
    return f"({recipe.dtype}, {recipe.model} {recipe.revision}{amateur}{engine})"


def current_texts(
    study: Study, strategies: Iterable[str], prompts: Sequence[Prompt]
) -> dict[str, dict[str, Continuation]]:
    """Return the first run of `current_runs`, by strategy and prompt id."""
    return {strategy: runs[1] for strategy, runs in current_runs(study, strategies, prompts).items()}


def current_runs(
    study: Study, strategies: Iterable[str], prompts: Sequence[Prompt]
) -> dict[str, dict[int, dict[str, Continuation]]]:
    """Return `current_continuations` of each strategy, all of them by one model in one arithmetic.

    Engines may differ between strategies, for not every engine runs every strategy.

    Raises:
        StudyError: As `current_continuations`, or the strategies differ in model, revision or arithmetic.
    """
    found = {
        strategy: current_continuations(study.continuations, strategy, prompts, study.settings)
        for strategy in strategies
    }
    kinds: dict[tuple[str, str], list[str]] = {}
    for strategy, runs in found.items():
        for one in itertools.islice((one for texts in runs.values() for one in texts.values()), 1):
            kinds.setdefault((one.recipe.revision, one.recipe.dtype), []).append(strategy)
    if len(kinds) > 1:
        named = "; ".join(
            f"{', '.join(names)} in {dtype} by {revision}" for (revision, dtype), names in kinds.items()
        )
        raise StudyError(
            f"the strategies' texts must not be compared, for not the decoding alone differs: {named}. Make "
            f"them alike with: guard-eval generate {study.folder}"
        )
    return found


class MadeAlready:
    """What a strategy has made just as it would make it now: `(prompt, run) in made`.

    It holds eight bytes a text, however long the texts are.

    Attributes:
        seconds: How long those texts took, together.
        devices: Where they were made.
    """

    def __init__(
        self,
        folder: Path,
        strategy: str,
        required: Wanted,
        prompts: Iterable[Prompt],
        *,
        runs: int = 1,
        engine: str | None = None,
    ) -> None:
        """Read what there is, text by text.

        Args:
            folder: The study's continuations.
            strategy: A signature.
            required: `wanted`, with all that is known of the model.
            prompts: Those that are needed. What another engine made, or a recipe that `required` leaves open,
                counts where it has made all their texts: texts of several kinds are not mixed.
            runs: How many texts of each prompt are needed.
            engine: The `Recipe.engine` that would make what is missing.
        """
        self._ids = _Ids()
        spent: dict[Recipe, tuple[int, float, set[str]]] = {}
        for path in continuation_files(folder, strategy):
            for one in read_continuations(path):
                if _ID.fullmatch(one.id):
                    self._ids.add(one.id)
                    count, seconds, devices = spent.get(one.recipe, (0, 0.0, set()))
                    spent[one.recipe] = (count + 1, seconds + one.seconds, devices | {one.device})
        self._required = required
        fitting = [recipe for recipe in reversed(spent) if not departures(recipe, required)]
        own = [recipe for recipe in fitting if recipe.engine == engine]
        if len(fitting) > len(own) or len(own) > 1:
            whole = self._whole(fitting, prompts, runs)
            own = [recipe for recipe in fitting if recipe in whole] or own
        self.recipe = own[0] if own else None
        self._others = [recipe for recipe in spent if recipe != self.recipe]
        self._count, self.seconds, made_on = (
            spent.get(self.recipe, (0, 0.0, set())) if self.recipe else (0, 0.0, set())
        )
        self.devices = frozenset(made_on)

    def __len__(self) -> int:
        return self._count

    def __contains__(self, place: tuple[Prompt, int]) -> bool:
        return self.recipe is not None and self.recipe.continuation_id(*place) in self._ids

    def _whole(self, recipes: Sequence[Recipe], prompts: Iterable[Prompt], runs: int) -> set[Recipe]:
        """Return those of `recipes` by which all texts are made."""
        left = set(recipes)
        for prompt, run in ((prompt, run) for prompt in prompts for run in range(1, runs + 1)):
            left = {recipe for recipe in left if recipe.continuation_id(prompt, run) in self._ids}
            if not left:
                break
        return left

    def otherwise(self, missing: Iterable[tuple[Prompt, int]]) -> list[str]:
        """Return in words what was made of the `missing` prompts and runs, and why it does not count."""
        if not self._others:
            return []
        counts = Counter(
            recipe
            for place in missing
            for recipe in self._others
            if recipe.continuation_id(*place) in self._ids
        )
        return [
            f"{number} were made otherwise ("
            + (
                "; ".join(departures(recipe, self._required).values())
                or f"by {recipe.engine or 'transformers'}"
            )
            + ")"
            for recipe, number in counts.items()
        ]


class _Ids:
    """A set of ids of 16 hexadecimal digits, eight bytes each once it is read."""

    def __init__(self) -> None:
        self._new = array("Q")
        self._sorted = np.empty(0, np.uint64)

    def add(self, name: str) -> None:
        self._new.append(int(name, 16))

    def __contains__(self, name: str) -> bool:
        if self._new:
            self._sorted = np.union1d(self._sorted, np.frombuffer(self._new, dtype=np.uint64))
            self._new = array("Q")
        place = int(np.searchsorted(self._sorted, np.uint64(int(name, 16))))
        return place < len(self._sorted) and int(self._sorted[place]) == int(name, 16)
