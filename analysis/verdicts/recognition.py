"""Which reader a file of verdicts is for: the one whose keys its first record has."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.verdicts.columns import HEADINGS
from analysis.verdicts.draft import METHODS, Declared, ItemCells
from analysis.verdicts.files import Record, VerdictFile, open_file
from analysis.verdicts.formats.fields import id_key, is_verdict, item_couples, read_items
from analysis.verdicts.layout import distinct_rows
from analysis.verdicts.reading import READING, Reading, join_readings, reading_of
from analysis.verdicts.tables import tidied
from guard_eval.errors import StudyError, nearest
from guard_eval.reporting.words import and_list


@dataclass(frozen=True, slots=True)
class VerdictFormat:
    """How the files of a program are known and read.

    Attributes:
        what: What such a file is called in messages.
        keys: A first record with all keys of one of these lists is of this format.
        fields: The fields from which columns are made; the others are the program's own.
        asks: Whether raters answered questions, of which some may not ask for a verdict.
    """

    what: str
    keys: Sequence[str]
    fields: Mapping[str, str]
    asks: bool = False

    def claims(self, record: Record) -> bool:
        """Return whether a first record is of this format."""
        return any(record.keys() >= set(keys.split()) for keys in self.keys)


TABLE = "table"
FOREIGN = {name: VerdictFormat(**values) for name, values in HEADINGS["formats"].items()}
FORMATS: tuple[str, ...] = (*FOREIGN, TABLE)
"""The names that `--set format=` takes."""

_TIDY = {"pair_id", "method_a", "method_b", "rater", "criterion", "verdict"}
_SAMPLES = {"doc_id", "resps", "arguments"}
"""Keys of lm-evaluation-harness' samples, which are texts."""
_JUDGED = re.compile(
    "rater|judge|annotator|user_id|verdict|winner|loser|preference|choice|annotations|criterion|chosen|instruction"
    r"|win(ner_)?\w+",
    re.IGNORECASE,
)
"""Keys that an item of a data file does not have."""


def load_files(files: Sequence[Path], declared: Declared) -> list[tuple[Path, pd.DataFrame]]:
    """Return the verdicts of files in any known format as tidy tables, not yet checked.

    A file of items says which methods the items of the other files compare.

    Raises:
        StudyError: A file cannot be read, is of no known format or could be of two, or holds no verdicts.
    """
    form = declared.form
    if form is not None and form not in FORMATS:
        raise StudyError(f"there is no format {form!r}; {nearest(form, list(FORMATS))}")
    opened = [open_file(path) for path in files]
    described = [file for file in opened if len(files) > 1 and _is_item(file.first)]
    items: dict[str, dict[str, str]] = {}
    headings = {name for file in opened if file not in described for name in file.first}
    for file in described:
        records = ((file.at(number), record) for number, record in file.records())
        items |= read_items(records, id_key(file.first, headings) or "id")
    holding = [file for file in opened if file not in described]
    if not holding:
        raise StudyError(f"{files[0]} holds items and no verdicts; give the annotations, too")
    forms = [
        form or format_of(file, declared.columns) for file in holding
    ]  # all, before a file is read whole
    tables = []
    for file, name in zip(holding, forms, strict=True):
        try:
            if name == TABLE:
                frame = tidied(file.table(), declared, items)
            else:
                foreign = _foreign_table(file, name, items)
                frame = tidied(foreign, replace(declared, columns={}), fields=FOREIGN[name].fields)
        except StudyError as error:
            raise StudyError(
                str(error) if str(file.path) in str(error) else f"{file.path}: {error}"
            ) from None
        tables.append((file.path, frame))
    return tables


def _foreign_table(file: VerdictFile, name: str, items: ItemCells) -> pd.DataFrame:
    """Return the verdicts of another program's file, with the columns' own names."""
    form = FOREIGN[name]
    notes = [f"{file.path} is read as {form.what}"]
    module: Any = import_module(f"analysis.verdicts.formats.{name.replace('-', '_')}")
    frame = file.table_of(module.read(file, notes, items))
    frame.attrs[READING] = join_readings([Reading(notes=tuple(notes)), reading_of(frame)])
    return keep_answers(frame, str(file.path)) if form.asks else frame


def _is_item(record: Record) -> bool:
    """Return whether a record is an item: it has methods, and no rater or verdict."""
    return bool(item_couples(record)) and not any(map(_JUDGED.fullmatch, record))


def format_of(file: VerdictFile, columns: Mapping[str, str]) -> str:
    """Return the name of a file's format.

    Raises:
        StudyError: Two formats could be its own, or it holds texts and no verdicts.
    """
    first = file.first
    if first.keys() >= _TIDY or columns:
        return TABLE
    if first.keys() >= _SAMPLES:
        raise StudyError(
            f"{file.path} holds texts of lm-evaluation-harness and no verdicts; docs/formats.md says how "
            "guard-eval measure scores them"
        )
    names = [name for name, form in FOREIGN.items() if form.claims(first)]
    if len(names) > 1:
        raise StudyError(
            f"{file.path} could be {and_list([FOREIGN[name].what for name in names])}; say which: "
            f"--set format={' or --set format='.join(names)}"
        )
    if not names and (isinstance(first.get("text"), list) or isinstance(first.get("data"), dict)):
        raise StudyError(
            f"{file.path} holds what raters saw, and neither methods nor verdicts; give the annotations "
            "and the file that names the methods by id"
        )
    return names[0] if names else TABLE


def keep_answers(frame: pd.DataFrame, path: str) -> pd.DataFrame:
    """Return the answers to questions of verdicts: the other questions ask for comments or ratings.

    Raises:
        StudyError: No answer is a verdict.
    """
    names = ["criterion", "verdict", *METHODS]
    table = frame.reindex(columns=list(dict.fromkeys([*frame.columns, *names])))
    table = table.astype(
        {name: "category" for name in names if table[name].dtype == object or table[name].isna().all()}
    )
    numbers, rows = distinct_rows(table, names)
    asked = {
        criterion for criterion, verdict, a, b in rows if is_verdict(verdict, {"method_a": a, "method_b": b})
    }
    if not asked:
        raise StudyError(
            f"{path} holds no verdicts: no answer is one; write the methods, A, B, left, right or tie"
        )
    kept: pd.DataFrame = frame[np.array([row[0] in asked for row in rows])[numbers]]
    if other := sorted({str(row[0]) for row in rows} - asked):
        reading = Reading(
            unused=tuple(other),
            notes=(f"not read, since no answer is a verdict: {and_list(list(map(repr, other)))}",),
        )
        kept.attrs[READING] = join_readings([reading_of(frame), reading])
    return kept
