"""Declarations about a table of verdicts without a study: in a report.toml beside it, and with `--set`."""

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal

import pandas as pd
from pydantic import Field

from analysis.evidence import Context
from analysis.scores.scores import (
    PROMPT,
    Planned,
    UnitScores,
    add_composite_results,
    add_unit_column,
)
from analysis.sections.results.by_column import find_split_column
from analysis.verdicts.reading import add_reading_notes
from analysis.verdicts.table import Declarations
from guard_eval.errors import StudyError
from guard_eval.records import PEOPLE_OF, TIE, Couple, RaterKind
from guard_eval.reporting.words import join_with_and
from guard_eval.rubric import COMPOSITE, Weights
from guard_eval.study.test_plan import Heading, SplitPlan
from guard_eval.study.toml import apply_overrides, read_toml, validate_toml_tables

FILE_NAME = "report.toml"
"""The name of the file that declares a table's plan. A report finds it in the folder of the table."""
_PAIR_DESPITE_PROMPTS = (
    f"the declared unit is the pair, although several pairs share a {PROMPT}: tests find differences too "
    "often, and intervals are too narrow"
)
ReportUnit = Literal["prompt", "pair"]


_Text = Annotated[str, Field(strict=False, coerce_numbers_to_str=True)]
"""A heading or a word. In a data frame it may be a number."""


class TableSettings(SplitPlan):
    """All settings of report.toml: the plan of the tests (see `SplitPlan`), and settings for tables only.

    Attributes:
        title: The report's title. Default: the table's file name.
        question: The question that the report answers.
        texts: The kind of compared texts, in the plural, such as translations or summaries.
        family: The results that were declared beforehand. Each is a criterion, `A against B` or
            `A against B: CRITERION`.
        seed: The seed of randomly drawn signs.
        unit: The unit that tests and intervals treat as independent: the pair, or the prompt in the column
            prompt_id.
        rater_kind: The kind of raters, if the table has no such column.
        columns: The table's heading for each column: `method_a = "System 1"`. An empty heading says that the
            table does not have this column.
        verdicts: The meaning of the words in the table's verdicts: `"left one" = "a"`. A meaning is `a`, `b`,
            `tie`, a method, or an empty text for a missing verdict.
        format: The format of the files, if two formats are possible.
        ties: Whether raters could choose a tie. Default: they could if the table has a tie.
        random_part: Whether people rated a random part of the judged pairs, within each dataset.
        record: The name of the file that says what weakens the answer of the study, if the table comes from a
            study. Without this file beside the table, there is no report.
    """

    title: Heading | None = None
    question: Heading = "Which of the compared methods is better?"
    texts: Heading = "texts"
    family: list[str] | None = Field(default=None, min_length=1)
    seed: int | None = Field(default=None, ge=0, lt=2**63)
    unit: ReportUnit | None = None
    rater_kind: RaterKind | None = None
    columns: dict[str, _Text] | None = None
    verdicts: dict[_Text, _Text] | None = None
    format: str | None = None
    ties: bool | None = None
    random_part: bool = False
    record: str | None = None

    def select_reading_settings(self, split_columns: Sequence[str] = ()) -> Declarations:
        """Return the declarations that decide how a table is read."""
        return Declarations(
            columns=self.columns or {},
            words=self.verdicts or {},
            form=self.format,
            rater_kind=self.rater_kind,
            groups=(*self.by, *split_columns),
        )


def read_table_settings(
    tables: Sequence[Path], overrides: Sequence[str], recorded: Mapping[str, object] = MappingProxyType({})
) -> tuple[TableSettings, Path | None]:
    """Read the declarations about tables. Return them with the path of their file, if there is one.

    Args:
        tables: The tables, which are read as one. A report.toml beside a table is read.
        overrides: Assignments such as `margin=0.05`, which replace values of the file.
        recorded: The plan of the study from which the table comes. The file replaces its values.

    Raises:
        StudyError: A file cannot be read, two files differ, or a declaration is wrong.
    """
    paths = dict.fromkeys(table.with_name(FILE_NAME) for table in tables)
    files = {path: dict(read_toml(path)) for path in paths if path.is_file()}
    first, filed = next(iter(files.items()), (None, {}))
    if different := [path for path, values in files.items() if values != filed]:
        raise StudyError(f"{first} and {different[0]} differ; write the same declarations in both, or in one")
    source = first if filed else None
    values = apply_overrides({**recorded, **filed}, overrides)
    settings = check_table_settings(source or "--set", values)
    if settings.record is not None and not recorded:
        raise StudyError(
            f"record = {settings.record!r} says what weakens the answer, and it is not beside {tables[0]}. "
            "Put it there, with the names under which both were published, or remove this setting"
        )
    return settings, source


def check_table_settings(source: Path | str, declared: Mapping[str, object]) -> TableSettings:
    """Check values from a report.toml or from `--set`, and return them as settings.

    Raises:
        StudyError: A value is wrong. The message lists all errors, with the nearest valid names.
    """
    plain = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in declared.items()
        if value is not None
    }
    return validate_toml_tables(TableSettings, plain, source)


def apply_table_settings(
    verdicts: pd.DataFrame, settings: TableSettings, *, name: str, command: str = "", source: str = ""
) -> tuple[pd.DataFrame, Context]:
    """Return the verdicts with the declared unit, and the context of their report.

    Args:
        verdicts: A validated table.
        settings: What is declared of it.
        name: The report's title if no title is declared.
        command: The command that writes the report.
        source: The place of the declarations, as text.

    Raises:
        StudyError: The unit is the prompt but the table has no prompts, or the family has a result that the
            table does not have.
    """
    _check_assisting_judge(verdicts, settings)
    verdicts = _drop_prompts_if_unit_is_pair(verdicts, settings.unit)
    values = settings.model_dump(exclude_unset=True, exclude={"record"})
    words = ", ".join(f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in values.items())
    declared = [f"Declared {source}: {words}."] if values and source else []
    if settings.family:
        declared.append(
            "That the family was declared before the verdicts were collected is its author's word."
        )
    if settings.ties is False and TIE in set(verdicts["verdict"]):
        raise StudyError("ties = false: the table has ties; remove this setting, or correct the verdicts")
    by = tuple(dict.fromkeys(find_split_column(verdicts, heading) for heading in settings.by))
    if settings.composite is not None:
        check_composite_verdicts(settings.composite, verdicts)
    planned = None if settings.family is None else find_named_results(verdicts, settings.family)
    if planned is not None and settings.composite is not None:
        planned = add_composite_results(planned)
    return verdicts, Context(
        name=settings.title or name,
        question=settings.question,
        by=by,
        texts=settings.texts,
        seed=settings.seed,
        plan=settings,
        planned=planned,
        random_part=settings.random_part,
        ties=settings.ties,
        declared=tuple(declared),
        command=command,
    )


def find_named_results(verdicts: pd.DataFrame, result_names: Sequence[str]) -> Planned:
    """Find the results that the entries name, without repeats: (method_a, method_b, criterion).

    Args:
        verdicts: A validated table.
        result_names: Each entry is a criterion, `A against B` or `A against B: CRITERION`.

    Raises:
        StudyError: The table lacks the results of an entry.
    """
    compared = verdicts[["criterion", "method_a", "method_b"]].drop_duplicates()
    named: dict[str, list[tuple[str, str, str]]] = {}
    for c, a, b in sorted(compared.astype(str).itertuples(index=False, name=None)):
        named.setdefault(c, []).append((a, b, c))
        for first, second in ((a, b), (b, a)):
            comparison = f"{first} against {second}"
            for words in (comparison, f"{comparison}: {c}"):
                named.setdefault(words, []).append((first, second, c))
    result: dict[tuple[str, str, str], None] = {}
    way_round: dict[frozenset[str], Couple] = {}  # each comparison keeps its first order of methods
    for entry in result_names:
        if entry not in named:
            raise StudyError(
                f"the family contains {entry!r}, which the table does not compare; write CRITERION, METHOD "
                f"against METHOD or METHOD against METHOD: CRITERION, such as {next(reversed(named))}"
            )
        for a, b, c in named[entry]:
            first, second = way_round.setdefault(frozenset((a, b)), (a, b))
            result[first, second, c] = None
    return tuple(result)


def check_composite_verdicts(weights: Weights, verdicts: pd.DataFrame) -> None:
    """Check that a validated table has verdicts for the composite of these criteria.

    Raises:
        StudyError: A criterion has the name of the composite, or no rater has judged a pair on all of the
            criteria.
    """
    criteria = sorted(map(str, verdicts["criterion"].unique()))
    if COMPOSITE in criteria:
        raise StudyError(
            f"a criterion of the table and the declared composite are both called {COMPOSITE!r}; give "
            "the criterion another name"
        )
    judged = verdicts[verdicts["criterion"].isin(weights)]
    rated = judged.groupby(["method_a", "method_b", "pair_id", "rater"], sort=False)["criterion"]
    if not rated.nunique().eq(len(weights)).any():
        raise StudyError(
            f"composite: no rater has judged a pair on all of {join_with_and(weights)}; leave "
            f"out some of these criteria, or choose from: {', '.join(criteria)}"
        )


def format_command_line(tables: Sequence[Path], overrides: Sequence[str]) -> str:
    """Return the user's command line, quoted for a shell."""
    settings = [word for assignment in overrides for word in ("--set", assignment)]
    return shlex.join(["guard-eval", "report", *(table.name for table in tables), *settings])


def _check_assisting_judge(verdicts: pd.DataFrame, settings: TableSettings) -> None:
    """Check that the table has the judge whose verdicts are declared to assist people's."""
    judges = sorted(verdicts.loc[verdicts["rater_kind"].isin(PEOPLE_OF), "rater"].unique())
    if settings.assisted_by in {None, *judges}:
        return
    remedy = f"choose from: {', '.join(judges)}" if judges else "say in a column rater_kind who is a model"
    raise StudyError(f"assisted_by: the table has no judge {settings.assisted_by!r}; {remedy}")


def _drop_prompts_if_unit_is_pair(verdicts: pd.DataFrame, unit: ReportUnit | None) -> pd.DataFrame:
    """Return the verdicts with the declared unit. If the unit is the pair, prompts are removed."""
    if unit == "prompt" and (PROMPT not in verdicts.columns or verdicts[PROMPT].isna().all()):
        raise StudyError(
            f'unit = "prompt": the table does not name the prompts. Add a column {PROMPT} with the prompt '
            'of each pair, or declare unit = "pair"'
        )
    if unit != "pair" or PROMPT not in verdicts.columns:
        return verdicts
    pairs = add_unit_column(verdicts).drop_duplicates(["method_a", "method_b", "pair_id"])
    without = verdicts.drop(columns=PROMPT)
    if UnitScores.from_items(pairs).n < len(pairs):
        add_reading_notes(without, _PAIR_DESPITE_PROMPTS)
    return without
