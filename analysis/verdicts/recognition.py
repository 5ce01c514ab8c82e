"""Which reader a file of verdicts is for: the one whose keys its first record has."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pandas as pd

from analysis.verdicts.files import Record, VerdictFile, open_file
from analysis.verdicts.layout import REMARKS, number_list
from analysis.verdicts.sides import METHOD_FIELDS, SHOWN
from analysis.verdicts.tables import cells_of, cells_of_json, only_answers, tidied, with_columns
from guard_eval.errors import StudyError, nearest
from guard_eval.reporting.words import and_list

Row = Mapping[str, str | None] | str
"""A verdict's cells by column, or why a record holds no verdict."""
Rows = Iterable[tuple[int, Row]]
"""Rows, each with the number of its record."""


@dataclass(frozen=True, slots=True)
class VerdictFormat:
    """How the files of a program are known and read.

    Attributes:
        what: What such a file is called in messages.
        module: The module whose function `read` yields the file's rows.
        keys: A first record with all keys of one of these lists is of this format.
        asks: Whether raters answered questions, of which some may not ask for a verdict.
    """

    what: str
    module: str
    keys: tuple[str, ...]
    asks: bool = False

    def claims(self, record: Record) -> bool:
        """Return whether a first record is of this format."""
        return any(record.keys() >= set(keys.split()) for keys in self.keys)


TABLE = "table"
FOREIGN = {
    "alpaca-eval": VerdictFormat(
        "AlpacaEval annotations", "alpaca_eval", ("instruction generator_1 generator_2 preference",)
    ),
    "arena-hard": VerdictFormat(
        "Arena-Hard judgments", "arena_hard", ("games model judge question_id", "games model judge uid")
    ),
    "fastchat": VerdictFormat(
        "FastChat judgments or votes (MT-Bench, Chatbot Arena)",
        "fastchat",
        ("question_id judge model_1 model_2 g1_winner g2_winner", "question_id judge model_a model_b winner"),
    ),
    "label-studio": VerdictFormat("a Label Studio export", "label_studio", ("data annotations",), asks=True),
    "potato": VerdictFormat(
        "Potato annotations", "potato", ("instance_id user_id", "id label_annotations"), asks=True
    ),
}
FORMATS: tuple[str, ...] = (*FOREIGN, TABLE)
"""The names that `--set format=` takes."""

_TIDY = {"pair_id", "method_a", "method_b", "rater", "criterion", "verdict"}
_SAMPLES = {"doc_id", "resps", "arguments"}
"""Keys of lm-evaluation-harness' samples, which are texts."""
_JUDGED = re.compile("rater|judge|annotator|user_id|verdict|winner|preference|annotations|criterion")
"""Keys that an item of a data file does not have."""


def load_files(
    files: Sequence[Path], *, form: str | None = None, columns: Mapping[str, str] = MappingProxyType({})
) -> list[tuple[Path, pd.DataFrame]]:
    """Return the verdicts of files in any known format, not yet checked.

    Their `attrs` list what was assumed, under `REMARKS`. Files of items say what the items of Potato and
    Label Studio are.

    Args:
        files: The files.
        form: Their format, one of `FORMATS`; by default the one that their first records are of.
        columns: The headings of tables by the column that they are.

    Raises:
        StudyError: A file cannot be read, is of no known format or could be of two, or holds no verdicts.
    """
    if form is not None and form not in FORMATS:
        raise StudyError(f"there is no format {form!r}; {nearest(form, list(FORMATS))}")
    opened = [open_file(path) for path in files]
    described = [file for file in opened if len(files) > 1 and _is_item(file.first)]
    items: dict[str, dict[str, str]] = {}
    for file in described:
        items |= _reader("potato").items_of(file)
    holding = [file for file in opened if file not in described]
    if not holding:
        raise StudyError(f"{files[0]} holds items and no verdicts; give the annotations, too")
    forms = [form or format_of(file, columns) for file in holding]  # all, before a file is read whole
    return [(file.path, _read(file, name, items, columns)) for file, name in zip(holding, forms, strict=True)]


def _reader(module: str) -> Any:  # noqa: ANN401  a module, loaded when a file is for it
    return import_module(f"analysis.verdicts.formats.{module}")


def _is_item(record: Record) -> bool:
    """Return whether a record is an item of a data file: it names methods, and no rater."""
    names = any({a, b} <= record.keys() for a, b in (*METHOD_FIELDS, SHOWN))
    return names and bool({"id", "instance_id"} & record.keys()) and not any(map(_JUDGED.fullmatch, record))


def _read(
    file: VerdictFile, name: str, items: Mapping[str, Mapping[str, str]], columns: Mapping[str, str]
) -> pd.DataFrame:
    notes: list[str] = []
    if name == TABLE:
        cells = cells_of(file.table, file) if file.table is not None else table_of(cells_of_json(file), file)
        cells = with_columns(cells, columns)
    else:
        form = FOREIGN[name]
        notes.append(f"{file.path} is read as {form.what}")
        word = "sample" if name == "inspect" else file.word
        cells = table_of(_reader(form.module).read(file, notes, items), file, word=word)
        if form.asks:
            cells = only_answers(cells, notes, str(file.path))
        cells.attrs[REMARKS] = [*notes, *cells.attrs[REMARKS]]
    try:
        return tidied(cells)
    except StudyError as error:
        raise StudyError(f"{file.path}: {error}") from None


def format_of(file: VerdictFile, columns: Mapping[str, str] = MappingProxyType({})) -> str:
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


def table_of(rows: Rows, file: VerdictFile, *, word: str = "") -> pd.DataFrame:
    """Return rows as a table, and under `REMARKS` what was left out.

    Raises:
        StudyError: There are no verdicts, or a text has half a character, which no file can hold.
    """
    word = word or file.word
    numbers: list[int] = []
    columns: dict[str, list[str | None]] = {}
    left_out: dict[str, list[int]] = {}
    for number, row in rows:
        if isinstance(row, str):
            left_out.setdefault(row, []).append(number)
            continue
        for name, value in row.items():
            if value is not None:
                cells = columns.setdefault(name, [])
                cells.extend([None] * (len(numbers) - len(cells)))
                cells.append(sys.intern(value))  # a million cells hold few different texts
        numbers.append(number)
    notes = [
        f"{len(result)} left out: {why} ({number_list(sorted(set(result)), word)})"
        for why, result in left_out.items()
    ]
    if not numbers:
        raise StudyError(f"{file.path} holds no verdicts{'; ' + and_list(notes) if notes else ''}")
    for name, cells in columns.items():
        cells.extend([None] * (len(numbers) - len(cells)))
        for text in {name, *cells} - {None}:
            if any("\ud800" <= character <= "\udfff" for character in str(text)):
                where = f"{file.path}, {word} {numbers[cells.index(text) if text in cells else 0]}"
                raise StudyError(
                    f"{where}: {name!a} has {text!a}, with half a character (a lone surrogate); fix it"
                )
    frame = pd.DataFrame(columns, index=pd.Index(numbers, name=word), dtype=object)
    frame.attrs[REMARKS] = notes
    return frame
