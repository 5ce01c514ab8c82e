"""What is declared of a bare table of verdicts: in a report.toml beside it, and with `--set`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import pandas as pd
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from analysis.analyses.evidence import Context, Correction, RaterSampling
from analysis.verdicts.combined import Composite, PanelRule
from analysis.verdicts.family import declared_results
from analysis.verdicts.reading import READING, Reading, join_readings, reading_of
from analysis.verdicts.scores import PROMPT, UnitScores, with_units
from guard_eval.errors import StudyError
from guard_eval.records import RaterKind
from guard_eval.rubric import Weights
from guard_eval.study.settings import check_guarantees
from guard_eval.study.toml import check_tables, read_toml, with_overrides

FILE_NAME = "report.toml"
"""The file beside a table that is read without being named."""
SAME_IN_CONTEXT = (
    *("question", "texts", "seed", "alpha", "correction", "margin"),
    *("sequential", "raters", "assisted_by", "random_part", "ties"),
)
"""What a report's context calls as the settings do."""
_PAIR_DESPITE_PROMPTS = (
    f"the unit was declared to be the pair, although several pairs share a {PROMPT}: tests find differences "
    "too often and intervals are too narrow"
)
ReportUnit = Literal["prompt", "pair"]


def _one_line(text: str) -> str:
    if not text.strip() or len(text.splitlines()) > 1:
        raise ValueError("is empty or has line breaks; write one line")
    return text


_Line = Annotated[str, AfterValidator(_one_line)]


class TableSettings(BaseModel):
    """All of report.toml.

    Attributes:
        title: The report's title; by default the table's file name.
        question: What was asked.
        texts: What was compared, in the plural: translations, summaries.
        alpha: The error rate.
        correction: For the number of results in the family: holm or bh.
        margin: The largest distance of a share from one half that does not matter, for claims of equivalence.
        family: The results that were declared beforehand: a criterion, `A against B` or
            `A against B: CRITERION` each.
        seed: The seed of drawn signs.
        unit: What tests and intervals take as independent: the pair, or the prompt of the column prompt_id.
        sequential: Verdicts were looked at while they came in; the table has them in an order of its own.
        raters: For whom the answer is to hold: `fixed`, these raters, or `random`, all of the same kind.
        assisted_by: The judge, by name, whose verdicts assist people's in the answer.
        rater_kind: Who judged, if the table has no such column.
        columns: The headings of the table by the column that they are: `method_a = "System 1"`. An empty
            heading says that the table has no such column.
        verdicts: The words of the table's verdicts: `"left one" = "a"`. Their values are `a`, `b`, `tie`, a
            method, or an empty text for a missing verdict.
        format: The format of the files, if it could be one of two.
        panel: The rule by which all judges count as one besides.
        composite: The weights of criteria whose weighted mean is an overall result.
        ties: Raters could choose a tie. By default they could if the table has a tie.
        random_part: The pairs that people rated are a random part, within each dataset, of those judged.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)

    title: _Line | None = None
    question: _Line | None = None
    texts: _Line | None = None
    alpha: float | None = Field(default=None, gt=0, lt=1)
    correction: Correction | None = None
    margin: float | None = Field(default=None, gt=0, lt=0.5)
    family: list[_Line] | None = Field(default=None, min_length=1)
    seed: int | None = Field(default=None, ge=0, lt=2**63)
    unit: ReportUnit | None = None
    sequential: bool | None = None
    raters: RaterSampling | None = None
    assisted_by: str | None = None
    rater_kind: RaterKind | None = None
    columns: dict[str, str] | None = None
    verdicts: dict[str, str] | None = None
    format: str | None = None
    panel: PanelRule | None = None
    composite: Weights | None = None
    ties: bool | None = None
    random_part: bool | None = None

    @model_validator(mode="after")
    def _check_guarantees(self) -> Self:
        changed = {
            "correction": self.correction not in {None, "holm"},
            "margin": self.margin is not None,
            "sequential": self.sequential,
            "raters": self.raters not in {None, "fixed"},
            "assisted_by": self.assisted_by is not None,
        }
        check_guarantees([name for name, differs in changed.items() if differs])
        return self


def read_settings(
    table: Path, settings: Path | None, overrides: Sequence[str]
) -> tuple[TableSettings, Path | None]:
    """Return what is declared of a table, and the file that was read, if any.

    Args:
        table: The table; a report.toml beside it is read unless `settings` names a file.
        settings: The file to read.
        overrides: Assignments such as `margin=0.05`, which go before the file.

    Raises:
        StudyError: The file cannot be read, or something in it or in the assignments is wrong.
    """
    path = settings or table.with_name(FILE_NAME)
    filed = dict(read_toml(path)) if settings is not None or path.is_file() else {}
    source = path if filed or settings is not None else None
    return check_settings(source or Path("--set"), with_overrides(filed, overrides)), source


def check_settings(source: Path, values: Mapping[str, Any]) -> TableSettings:
    """Return declared values, checked.

    Raises:
        StudyError: Something is wrong; all of it is named, with the nearest valid names.
    """
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
    return check_tables(TableSettings, plain, source)


def table_context(
    verdicts: pd.DataFrame, own: TableSettings, *, name: str, command: str = "", source: str = ""
) -> tuple[pd.DataFrame, Context]:
    """Return the verdicts with the declared unit, and the context of their report.

    Args:
        verdicts: A validated table.
        own: What is declared of it.
        name: The report's title unless one is declared.
        command: The command that writes the report.
        source: Where it was declared, in words.

    Raises:
        StudyError: The unit is the prompt and the table names none, or the family names what it has not.
    """
    verdicts = _with_unit(verdicts, own.unit)
    composite = None if own.composite is None else Composite(weights=own.composite)
    values = own.model_dump(exclude_none=True)
    words = ", ".join(f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in values.items())
    declared = [f"Declared {source}: {words}."] if values and source else []
    if own.family:
        declared.append(
            "That the family was declared before the verdicts were collected is its author's word."
        )
    defaults: dict[str, Any] = {"question": "Which of the compared methods is better?", "texts": "texts"}
    return verdicts, Context(
        name=own.title or name,
        planned=declared_results(verdicts, own.family, composite),
        panel=own.panel,
        composite=composite,
        declared=tuple(declared),
        command=command,
        **(defaults | {field: values[field] for field in SAME_IN_CONTEXT if field in values}),
    )


def command_line(tables: Sequence[Path], options: Mapping[str, str | None], overrides: Sequence[str]) -> str:
    """Return the command line that was given, for a shell."""
    chosen = [part for option, value in options.items() if value is not None for part in (option, value)]
    settings = [part for assignment in overrides for part in ("--set", assignment)]
    return shlex.join(["guard-eval", "report", *(table.name for table in tables), *chosen, *settings])


def _with_unit(verdicts: pd.DataFrame, unit: ReportUnit | None) -> pd.DataFrame:
    if unit == "prompt" and (PROMPT not in verdicts.columns or verdicts[PROMPT].isna().all()):
        raise StudyError(
            f"the unit is declared to be the prompt, and the table names none; add a column {PROMPT} that "
            "says which pairs are of one source, or declare unit = pair"
        )
    if unit != "pair" or PROMPT not in verdicts.columns:
        return verdicts
    pairs = with_units(verdicts).drop_duplicates(["method_a", "method_b", "pair_id"])
    without = verdicts.drop(columns=PROMPT)
    if UnitScores.of(pairs).n < len(pairs):
        warning = Reading(notes=(_PAIR_DESPITE_PROMPTS,))
        without.attrs[READING] = join_readings([reading_of(verdicts), warning])
    return without
