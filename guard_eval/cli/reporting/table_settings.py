"""What is declared of a bare table of verdicts: in a report.toml beside it, and on the command line."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import pandas as pd
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from analysis.reports.context import Context
from analysis.results.shares import Correction, Estimand
from analysis.verdicts.composite import Composite
from analysis.verdicts.family import declared_results
from analysis.verdicts.layout import REMARKS
from analysis.verdicts.panel import JudgePanel, PanelRule
from analysis.verdicts.scores import PROMPT, units, with_units
from analysis.verdicts.tidy import remarks
from guard_eval.errors import StudyError
from guard_eval.records import RaterKind
from guard_eval.rubric import check_weights
from guard_eval.study.problems import explain, problems_of, read_toml

NAME = "report.toml"
"""The file beside a table that is read without being named."""
_PAIR_DESPITE_PROMPTS = (
    f"the unit was declared to be the pair, although several pairs share a {PROMPT}: tests find differences "
    "too often and intervals are too narrow"
)

ReportUnit = Literal["prompt", "pair"]


class TableOptions(TypedDict, total=False):
    """What can be declared of a table; each key is a key of report.toml and an option of `report`."""

    title: str
    question: str
    texts: str
    alpha: float
    correction: Correction
    margin: float
    family: Sequence[str]
    seed: int
    unit: ReportUnit
    raters: Estimand
    rater_kind: RaterKind
    panel: PanelRule
    composite: Mapping[str, float]


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
        correction: For the number of results in the family.
        margin: The largest distance of a share from one half that does not matter, for claims of equivalence.
        family: The results that were declared beforehand: a criterion, `A against B` or
            `A against B: CRITERION` each.
        seed: What the bootstraps' draws come from.
        unit: What tests and intervals take as independent: the pair, or the prompt of the column prompt_id.
        raters: For whom the answer is to hold: these raters, or the population of raters like them.
        rater_kind: Who judged, where the table has no such column.
        panel: The rule by which all judges count as one besides.
        composite: The weights of criteria whose weighted mean is an overall result.
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
    raters: Estimand | None = None
    rater_kind: RaterKind | None = None
    panel: PanelRule | None = None
    composite: Annotated[dict[str, float], AfterValidator(check_weights)] | None = None


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """What holds for a table, and where that was declared.

    Attributes:
        settings: What holds: the command line before the file.
        given: What the command line says.
        file: The file that was read, if any.
        text: The file's content.
        named: Whether the command line names the file.
    """

    settings: TableSettings
    given: TableSettings
    file: Path | None = None
    text: str = ""
    named: bool = False

    @property
    def sources(self) -> tuple[str, ...]:
        """Return, for Methods, what was declared where."""
        given = self.given.model_dump(exclude_none=True)
        own = self.settings.model_dump(exclude_none=True)
        filed = {name: value for name, value in own.items() if name not in given}
        places = [(given, "on the command line"), (filed, f"in {self.file.name}" if self.file else "")]
        notes = [f"Declared {where}: {_worded(values)}." for values, where in places if values]
        if "family" in own:
            notes.append(
                "That the family was declared before the verdicts were collected is its author's word: a "
                "table does not record it."
            )
        return tuple(notes)

    def command(self, table: Path) -> str:
        """Return the command line that was given, for a shell."""
        parts = ["guard-eval", "report", table.name]
        if self.named and self.file is not None:
            parts += ["--settings", self.file.name]
        for name, value in self.given.model_dump(exclude_none=True).items():
            many = [f"{key}={one}" for key, one in value.items()] if isinstance(value, dict) else value
            for one in many if isinstance(many, list) else [many]:
                parts += [f"--{name.replace('_', '-')}", str(one)]
        return shlex.join(parts)


def declared(table: Path, given: TableOptions, settings: Path | None = None) -> Declaration:
    """Return what is declared of a table: by `settings`, or a report.toml beside it, and by `given`.

    Raises:
        StudyError: The file cannot be read, or something in it or in `given` is wrong; all of it is named.
    """
    on_line = _checked(Path("the command line"), given)
    path = settings or table.with_name(NAME)
    if settings is None and not path.is_file():
        return Declaration(settings=on_line, given=on_line)
    filed = _checked(path, read_toml(path))
    text = path.read_text(encoding="utf-8-sig")
    merged = filed.model_dump(exclude_none=True) | on_line.model_dump(exclude_none=True)
    return Declaration(
        settings=TableSettings(**merged), given=on_line, file=path, text=text, named=settings is not None
    )


def stem(table: Path) -> str:
    """Return a table's name without its endings."""
    return table.name.removesuffix(".gz").rsplit(".", 1)[0] or table.name


def table_context(
    table: Path, verdicts: pd.DataFrame, declaration: Declaration, versions: Mapping[str, str]
) -> tuple[pd.DataFrame, Context]:
    """Return the verdicts with the unit that was declared, and what a report says of them beside.

    Raises:
        StudyError: The unit is the prompt and the table names none, or the family names what it has not.
    """
    own = declaration.settings
    verdicts = _with_unit(verdicts, own.unit)
    composite = None if own.composite is None else Composite(weights=own.composite)
    return verdicts, Context(
        name=own.title or stem(table),
        question=own.question or "Which of the compared methods is better?",
        texts=own.texts or "texts",
        seed=own.seed,
        planned=declared_results(verdicts, own.family, composite),
        alpha=own.alpha or 0.05,
        correction=own.correction or "holm",
        margin=own.margin,
        raters=own.raters or "these",
        panel=None if own.panel is None else JudgePanel(rule=own.panel),
        composite=composite,
        declared=declaration.sources,
        settings=declaration.text,
        versions=versions,
        command=declaration.command(table),
    )


def _checked(path: Path, values: Mapping[str, Any]) -> TableSettings:
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
    try:
        return TableSettings.model_validate(plain)
    except ValidationError as error:
        raise StudyError(explain(path, problems_of(error, TableSettings))) from None


def _worded(values: Mapping[str, Any]) -> str:
    """Return settings as TOML has them, in one line."""
    parts = []
    for name, value in values.items():
        many = [f"{key} {one:g}" for key, one in value.items()] if isinstance(value, dict) else value
        text = "; ".join(many) if isinstance(many, list) else many
        parts.append(f"{name} = {text}")
    return ", ".join(parts)


def _with_unit(verdicts: pd.DataFrame, unit: ReportUnit | None) -> pd.DataFrame:
    if unit == "prompt" and (PROMPT not in verdicts.columns or verdicts[PROMPT].isna().all()):
        raise StudyError(
            f"the unit is declared to be the prompt, and the table names none; add a column {PROMPT} that "
            "says which pairs are of one source, or declare unit = pair"
        )
    if unit != "pair" or PROMPT not in verdicts.columns:
        return verdicts
    found = units(with_units(verdicts).drop_duplicates(["method_a", "method_b", "pair_id"]))
    without = verdicts.drop(columns=PROMPT)
    if found.clusters is not None:
        without.attrs[REMARKS] = [
            *remarks(verdicts),
            _PAIR_DESPITE_PROMPTS,
        ]
    return without
