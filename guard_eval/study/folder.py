"""Open a study's folder: read and check study.toml, and return a `Study` with its hash and its paths.

The user writes study.toml before the data exist. The declared settings are stored with the first verdict, and
the report names the settings that changed later.
"""

import json
import os
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from itertools import chain, product
from pathlib import Path
from typing import Self

from guard_eval.database_url import locate_database, make_sqlite_url
from guard_eval.errors import StudyError, get_first_line
from guard_eval.files.opening import read_text
from guard_eval.generation.strategies import RecordedStrategy, is_stochastic, own, signature
from guard_eval.proposals import format_study_command
from guard_eval.records import HandOutPlan, JsonObject, hash_text
from guard_eval.reporting.writing import write_atomically
from guard_eval.rubric import CRITERIA
from guard_eval.study.criteria_settings import find_study_file, to_one_line
from guard_eval.study.declared import declare_settings
from guard_eval.study.settings import Settings
from guard_eval.study.system_settings import Model, locate_model
from guard_eval.study.toml import apply_overrides, read_toml, validate_toml_tables
from guard_eval.study.tuning import FILE, JUDGE, TUNING_DATABASE, Choice, remove_parameters

RECORD = "own_strategies.json"
"""The file with the user's own strategies: a strategy as written in study.toml → the known facts about it.

With this record, only commands that make texts need the user's code. The record is data and is never run,
because a study may come from a stranger.
"""


@dataclass(frozen=True)
class Study:
    """A study's folder and its validated settings.

    Attributes:
        folder: The study's folder.
        settings: The settings in study.toml, changed by `overrides`.
        overrides: Changes of settings for this run, each `table.key=value`.
        choice: The settings that `measure --tune` chose, or None without a choice.
    """

    folder: Path
    settings: Settings
    overrides: tuple[str, ...] = ()
    choice: Choice | None = None

    @classmethod
    def open(cls, folder: str | Path, overrides: Sequence[str] = ()) -> Self:
        """Read `folder`/study.toml, and replace settings by those of `--set`.

        Raises:
            StudyError: The file is missing or is not TOML, or settings are wrong. The message names all wrong
                settings.
        """
        folder = Path(folder)
        path = folder / "study.toml"
        name = str(folder)
        with suppress(PermissionError):  # reading the file will report the error
            if not path.exists():
                remedy = f"name a study's folder, or make one with: {format_study_command('new', name)}"
                raise StudyError(f"there is no study.toml in {name!r}; {remedy}")
        register_recorded_strategies(folder)
        tables = apply_overrides(read_toml(path), overrides)
        settings = check_settings(tables, folder)
        choice = _read_tuning_choice(folder, settings)
        if choice is not None:
            settings = settings.replace_grids_by_chosen_settings(choice.chosen)
        return cls(folder, settings, tuple(overrides), choice)

    def format_command(self, name: str, *arguments: str | Path) -> str:
        """Return a command on this study that a shell can run, with the user's `--set` and `--code`.

        >>> study.format_command("generate", "--strategy", "top_k(k=5)")  # doctest: +SKIP
        "guard-eval generate my-study --strategy 'top_k(k=5)'"
        """
        command = format_study_command(name, self.folder, *arguments, overrides=self.overrides)
        strategies = (system.strategy for system in self.settings.systems.values() if system.strategy)
        if name == "generate" and own.list_unloaded_strategies(strategies):
            return f"{command} --code FILE.py"
        return command

    @cached_property
    def declared(self) -> dict[str, str]:
        """Return the settings that can change verdicts or tests, as JSON: for people and for each judge."""
        return declare_settings(self.settings, self.choice.hash if self.choice else None)

    @cached_property
    def hash(self) -> str:
        """Return the SHA-256 hash of all settings that can change a result, without order and comments."""
        metrics = self.settings.metrics.model_dump_json()
        return hash_text(json.dumps([self.declared, metrics], sort_keys=True))

    @property
    def valid_tuning_choice(self) -> Choice | None:
        """Return the choice of [tuning], or None if the rule or the settings have changed since then."""
        choice = self.choice
        return choice if choice is not None and choice.rule == self.settings.tuning_rule_hash else None

    @property
    def has_all_texts_in_files(self) -> bool:
        """Return whether the texts of all systems are in files, so that there are no texts to generate."""
        return all(system.source == "file" for system in self.settings.systems.values())

    @property
    def prompts_path(self) -> Path:
        """Return the file of prompts.

        Raises:
            StudyError: The file is missing, or is not a regular file in the study's folder.
        """
        name = self.settings.prompts.file
        try:
            return find_study_file(self.folder, name)
        except StudyError as error:
            raise StudyError(f"prompts.file: {name!r}: {error}") from None

    @property
    def local_models(self) -> list[Model]:
        """Return the local models that write texts."""
        settings = self.settings
        models: list[Model] = []
        for model in map(settings.find_writing_model, settings.local_systems):
            if model not in models:
                models.append(model)
        return models

    def split_by_model(self) -> list[Self]:
        """Return a study for each local model, with this model as [model] and its strategies.

        Code that writes and finds a model's texts therefore handles only one model and no other systems.
        """
        return [self.restrict_to_model(model) for model in self.local_models]

    def restrict_to_model(self, model: Model) -> Self:
        """Return a study with `model` as [model], and only the strategies of this model."""
        settings = self.settings
        systems = [
            system for system in settings.local_systems if settings.find_writing_model(system) == model
        ]
        strategies = [str(system.strategy) for system in systems]
        generation = settings.generation.model_copy(update={"strategies": strategies})
        values = {"model": model, "generation": generation, "system": []}
        return replace(self, settings=settings.model_copy(update=values))

    def make_tuning_study(self) -> Self:
        """Return a study in which judges compare all settings with the baseline, with its own database.

        Raises:
            StudyError: No judge chooses settings.
        """
        settings = self.settings
        if settings.tuning is None or JUDGE not in settings.tuning.scores:
            path = self.folder / "study.toml"
            raise StudyError(
                f"no judge chooses settings: [tuning] of {path} does not name judge; leave --tune out"
            )
        couples = [[name, settings.metrics.baseline] for name in chain(*settings.grids.values())]
        pairs = settings.pairs.model_copy(update={"compare": couples, "human_pairs": None, "design": "fixed"})
        database = make_sqlite_url(self.folder.resolve() / TUNING_DATABASE)
        return replace(self, settings=settings.model_copy(update={"pairs": pairs, "database": database}))

    @property
    def continuations_folder(self) -> Path:
        """Return the folder of continuations."""
        return self.folder / "continuations"

    @property
    def metrics_folder(self) -> Path:
        """Return the folder of the metrics: tables, figures, and the models' scores of each text."""
        return self.folder / "metrics"

    @property
    def report_folder(self) -> Path:
        """Return the folder of the report."""
        return self.folder / "report"

    @property
    def hand_out_plan(self) -> HandOutPlan:
        """Return the plan for handing out pairs to people or to simulated raters."""
        annotation = self.settings.annotation
        return HandOutPlan(
            seed=self.settings.seed,
            slots=annotation.raters_per_pair,
            lease=timedelta(minutes=annotation.lease_minutes),
            quota=annotation.pairs_per_rater,
            gold_every=annotation.gold_every,
            repeats=annotation.repeats,
            rounds=self.settings.make_round_plan(annotation.criteria, annotation.raters_per_pair),
        )

    @property
    def database(self) -> str:
        """Return the database's URL: the study's own file unless study.toml names a server.

        Raises:
            StudyError: study.toml names a database server that the user's environment does not allow.
        """
        typed = any(assignment.partition("=")[0].strip() == "database" for assignment in self.overrides)
        url = self.settings.database
        if url is None:
            return make_sqlite_url(self.folder.resolve() / "study.db")
        return url if typed else locate_database(url, self.folder)

    @property
    def has_database(self) -> bool:
        """Return whether the study's database exists, or is on a server and may exist."""
        return self.settings.database is not None or (self.folder / "study.db").exists()

    def locate_model(self, name: str) -> str:
        """Return the path of a model's folder (relative names start at the study's folder), or a Hub id."""
        return locate_model(name, self.folder)


def _read_tuning_choice(folder: Path, settings: Settings) -> Choice | None:
    """Return the stored choice of [tuning], or None if study.toml no longer has the chosen settings.

    Raises:
        StudyError: The file cannot be used.
    """
    if settings.tuning is None or not (folder / FILE).exists():
        return None
    try:
        choice = Choice.model_validate_json(read_text(find_study_file(folder, FILE)))
    except ValueError as error:
        reason = get_first_line(error)
        raise StudyError(
            f"cannot use {folder / FILE}: {reason}; remove this file, and choose again"
        ) from None
    is_known = all(choice.chosen.get(name) in tried for name, tried in settings.grids.items())
    return choice if is_known else None


def check_settings(tables: JsonObject, folder: Path) -> Settings:
    """Check the tables of a study.toml and return the settings, or raise a `StudyError` with all problems."""
    declared = tables.get("criteria")
    names = [*CRITERIA, *(declared if isinstance(declared, dict) else ())]
    context = {"folder": folder, "criteria": names, "systems": _list_system_names(tables)}
    return validate_toml_tables(Settings, tables, folder / "study.toml", context=context)


def _list_system_names(tables: JsonObject) -> list[str]:
    """Return the names in the `[[system]]` tables, and the names of strategies with several settings."""
    systems = tables.get("system")
    names = []
    for system, key in product(systems if isinstance(systems, list) else (), ("name", "setting_of")):
        with suppress(ValueError, AttributeError):  # the check of this table will report the error
            names.append(to_one_line(system.get(key)))
    with suppress(LookupError, TypeError):
        names += [remove_parameters(text) for text in tables["generation"]["strategies"] if "[" in text]
    return names


def make_model_folder_relative(folder: Path, model: str) -> str:
    """Return the path of a model's folder for study.toml. Relative paths start at the study's folder."""
    is_relative = Path(model).is_dir() and not Path(model).is_absolute()
    return os.path.relpath(model, folder) if is_relative else model


def record_own_strategies(folder: Path, in_use: Collection[str]) -> None:
    """Record the user's own strategies that the study uses."""
    strategies = own.recorded | own.spellings
    rows = {
        spelling: {
            "text": signature(strategy),
            "drawn": is_stochastic(strategy),
            "digest": own.hash_own_strategy_source(strategy),
        }
        for spelling, strategy in strategies.items()
        if signature(strategy) in in_use
    }
    if rows:
        write_atomically(folder / RECORD, (json.dumps(rows, indent=2, sort_keys=True) + "\n").encode())


def register_recorded_strategies(folder: Path) -> None:
    """Register the names of the strategies that the study recorded.

    Raises:
        StudyError: The record cannot be used.
    """
    if not (folder / RECORD).exists():
        return
    try:
        rows = json.loads(read_text(find_study_file(folder, RECORD)))
        strategies = {spelling: RecordedStrategy(**row) for spelling, row in rows.items()}
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise StudyError(
            f"cannot use {folder / RECORD}: {error}; remove this file, and give your strategies with --code"
        ) from None
    own.recorded.update({strategy.text: strategy for strategy in strategies.values()} | strategies)
