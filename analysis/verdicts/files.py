"""Read files of verdicts: tables in any format, and other programs' records of one or more verdicts.

Sources of the formats:

- AlpacaEval (tatsu-lab/alpaca_eval, `results/*/*/annotations.json` and `metrics/winrate.py`): each record has
  a preference from 1 (generator_1) to 2 (generator_2). 1.5, or 0 in older files, is a draw, and null is a
  failed request. The sides on which outputs were shown are not recorded.
- Arena-Hard (lmarena/arena-hard-auto, `gen_judgment.py` and `show_result.py`): A is the baseline in the first
  game and the model in the second; a score of null is a judgment without a label.
- FastChat (lm-sys/FastChat, `llm_judge/common.py`, `play_a_match_pair`): winners are model_1, model_2, tie or
  error. The winner of the second game has the sides already changed back. Answers with single grades
  (m1_score) were not shown side by side. Votes: the data sets lmsys/mt_bench_human_judgments and
  lmsys/chatbot_arena_conversations.
- Label Studio (labelstud.io/guide/task_format and /tags/pairwise): `annotations[].result[]` of type `choices`
  or `pairwise`. Text areas called `rater` and `rater_kind` name the annotator if accounts do not.
- Potato (davidjurgens/potato 2.12, `potato/export/tabular_exporter.py` and `schemas/pairwise.py`, where
  `SCHEME.selection` is A, B or tie); version 1's `annotation_output/USER/annotated_instances.jsonl`.

Label Studio and Potato do not name the methods. The methods are in a task's data or in a file of items.
"""

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.verdicts.methods import LONGEST_NAME
from analysis.verdicts.reading import READING, Reading
from analysis.verdicts.table import (
    HEADINGS,
    KNOWN,
    SHOWN,
    convert_json_to_cell,
    convert_to_texts,
    means_no_verdict,
)
from analysis.verdicts.words import find_word_meaning, is_model_name
from guard_eval.errors import StudyError
from guard_eval.files.headings import simplify_heading
from guard_eval.files.rows import LINE, OBJECT, NumberedRows, flatten_objects, open_row_file, unpack_cell
from guard_eval.records import TIE, make_content_id
from guard_eval.reporting.escaping import unescape_csv

MAX_ROWS = 10_000_000
"""The largest number of rows. A report on all of them needs 5 to 9 GB of memory."""
MAX_COLUMNS = 2048
"""The largest number of columns, because columns are compared with each other: 2,000 take a minute."""

_VERDICTS = frozenset(("verdict", "value", *HEADINGS["marking"], *HEADINGS["names"]["verdict"]))
"""Headings of a verdict inside a record."""
_RATERS = frozenset(("rater", *HEADINGS["names"]["rater"]))
NESTED = "nested"
"""The key in a table's `attrs` that lists each column with lists or objects, and where the first one is."""

_HALF = re.compile("[\ud800-\udfff]")
_BATCH_ROWS = 256
"""The number of rows that are read together. With more, Python often searches them for garbage."""

Record = Mapping[str, object]
Batch = tuple[Sequence[int], Sequence[str], Iterable[Sequence[object]]]
"""The numbers of some rows, the headings of their columns, and the cells of each column."""
ItemRecords = Mapping[str, Mapping[str, object]]
"""The records of a file of items, by their ids."""
LEFT_OUT = "left out"
"""The column that says why a record has no verdict."""
Rows = Iterator[dict[str, object] | str]
"""The rows of a record. A text in place of a row says why the record has no verdict."""


@dataclass(frozen=True, slots=True)
class VerdictFormat:
    """The rules to recognise and to read the files of a program.

    Attributes:
        what: The name of a file of this format in messages.
        keys: Lists of keys. The first record has all keys of at least one list.
        fields: The fields from which columns are made. Other fields are not used.
        asks: Whether a file may also have answers to questions that do not ask for a verdict.
        notes: Notes for users if the first record has, or does not have, a key.
    """

    what: str
    keys: Sequence[str]
    fields: Mapping[str, str]
    asks: bool = False
    notes: Sequence[Mapping[str, Any]] = ()

    def matches(self, record: Record) -> bool:
        """Return whether a first record is of this format."""
        return any(record.keys() >= set(keys.split()) for keys in self.keys)


FOREIGN = {name: VerdictFormat(**values) for name, values in HEADINGS["formats"].items()}
_USED = {*KNOWN, *SHOWN}.union(
    *(re.split(", | or ", fields) for form in FOREIGN.values() for fields in form.fields.values())
)
"""The fields that have a role in a program's records."""
_PERSON = re.compile(r"(expert|author|arena_user|human|annotator)(_\d+|\b)", re.IGNORECASE)
_WORDS_OF = {"choices": "choices", "pairwise": "selected", "textarea": "text"}
"""For each type of control in Label Studio, the key under which a result has the chosen words."""
_CONTENT = "content"
"""The column with a hash of a Label Studio task's data. Tasks with the same data have the same hash."""
_WHO = ("rater", "rater_kind")
"""The text areas of Label Studio that name the annotator and the annotator's kind."""
_SELECTION = "selection"
"""The label under which Potato stores the answer of a scheme with one answer."""
_NO_SCHEMES = {"instance_id", "user_id", "rater_kind"}
_NOT_PRESSED = {"False", "None", "", "false", "0"}


class _CodedColumn:
    """A column while the rows of a file are read: each different text is stored once and has a code.

    Attributes:
        codes: The code of each text. A new text gets the next code.
        cells: The codes of the rows.
    """

    def __init__(self) -> None:
        self.codes: defaultdict[str, int] = defaultdict()
        self.codes.default_factory = self.codes.__len__
        self.cells: list[int] = []

    def fill_cells(self, size: int) -> None:
        """Add empty cells for rows that lack the column, until there are `size` cells."""
        if count := size - len(self.cells):
            self.cells += [self.codes[""]] * count

    def add_cells(self, values: Sequence[Any]) -> int | None:
        """Add the cells of the next rows. Return the index of the first list or object, if there is one."""
        if set(map(type, values)) == {str}:  # fast
            self.cells += map(self.codes.__getitem__, values)
            return None
        texts = list(map(convert_json_to_cell, values))
        self.cells += map(self.codes.__getitem__, texts)
        are_nested = (
            isinstance(value, dict | list) and text.startswith(("{", "["))
            for value, text in zip(values, texts, strict=True)
        )
        return next((index for index, is_nested in enumerate(are_nested) if is_nested), None)

    def make_texts(self) -> pd.Categorical:
        """Return the column as categorical texts (`convert_to_texts`)."""
        texts = pd.Index(list(self.codes), dtype=object)
        return convert_to_texts(pd.Series(pd.Categorical.from_codes(self.cells, texts)))


class VerdictFile:
    """A file whose format is not known yet. Its records can be read once.

    Attributes:
        path: The path of the file.
        rows: The rows of the file.
        first: The first record; empty if the file has no records.
        records: All records with their numbers.

    Raises:
        StudyError: The file is missing, unreadable or too large, or a record is not an object.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows = open_row_file(path, most_rows=MAX_ROWS)
        records = self._check_records()
        start = list(islice(records, 1))
        self.first: Record = start[0][1] if start else {}
        self.records = chain(start, records)

    def _check_records(self) -> Iterator[tuple[int, Record]]:
        for number, record in self.rows.records(MAX_ROWS):
            if not isinstance(record, dict):
                cut = str(record)[:40]
                raise StudyError(
                    f"{self.describe_record_place(number)}: {cut!r} is not a JSON object; write one for each "
                    "verdict"
                )
            yield number, record

    def describe_record_place(self, number: int) -> str:
        """Describe the place of a record for a message, such as `votes.csv, line 3`."""
        return f"{self.path}, {self.rows.unit} {number}"

    def read_table(self) -> pd.DataFrame:
        """Return the file's records as a table (`build_table`)."""
        packed = [name for name, value in self.first.items() if unpack_cell(value, OBJECT) is not value]
        headings = self.rows.headings or ()
        if packed or not headings:
            records = (
                (number, flatten_objects(answer))
                for number, record in self.records
                for answer in _split_answers(number, _open_objects(record, packed))
            )
            batches = _batch_records(records)
        else:
            batches = self._batch_rows(headings)
        frame = self.build_table(batches, [name for name in headings if name not in packed])
        if self.rows.unit != LINE or not headings:
            return frame
        # An export writes an apostrophe, so that spreadsheets read no formula.
        plain = {str(name): [unescape_csv(text) for text in frame[name].cat.categories] for name in frame}
        if any(len(set(texts)) < len(texts) for texts in plain.values()):
            return frame  # a real apostrophe, because an export adds it to all equal names
        return frame.assign(
            **{name: frame[name].cat.rename_categories(texts) for name, texts in plain.items()}
        )

    def _batch_rows(self, headings: Sequence[str]) -> Iterator[Batch]:
        """Yield the rows of a table in batches, without a dictionary for each row."""
        start = [(number, [*record.values()]) for number, record in islice(self.records, 1)]
        for batch in _split_into_batches(chain(start, self.rows.rows)):
            numbers, rows = zip(*batch, strict=True)
            yield numbers, headings, zip(*rows, strict=True)

    def build_table(self, batches: Iterable[Batch], headings: Iterable[str] = ()) -> pd.DataFrame:
        """Build a table of categoricals from batches of rows.

        Args:
            batches: The rows, of which each has a verdict.
            headings: Columns that the table has even if no row has them.

        Raises:
            StudyError: There are no rows, or too many rows or columns, or a text has a lone surrogate.
        """
        numbers: list[int] = []
        columns = {name: _CodedColumn() for name in headings}
        nested: dict[str, str] = {}
        for added, names, cells in batches:
            columns |= {name: _CodedColumn() for name in names if name not in columns}
            if len(columns) > MAX_COLUMNS:
                raise StudyError(
                    f"{self.path} has more than {MAX_COLUMNS:,} columns; remove columns that are not needed"
                )
            for name, values in zip(names, cells, strict=True):
                columns[name].fill_cells(len(numbers))
                nested_index = columns[name].add_cells(values)
                if nested_index is not None:
                    nested.setdefault(name, self.describe_record_place(added[nested_index]))
            numbers += added
            if len(numbers) > MAX_ROWS:
                raise StudyError(f"{self.path} has more than {MAX_ROWS:,} rows; split it, or take a sample")
        if not numbers:
            raise StudyError(f"{self.path} has no verdicts")
        for column in columns.values():
            column.fill_cells(len(numbers))
        self._refuse_half_characters(columns, numbers)
        frame = pd.DataFrame(
            {name: column.make_texts() for name, column in columns.items()},
            pd.Index(numbers, name=self.rows.unit),
        )
        frame.attrs = {NESTED: nested}
        return frame

    def _refuse_half_characters(self, columns: Mapping[str, _CodedColumn], numbers: Sequence[int]) -> None:
        """Refuse a lone surrogate in a heading or a cell."""
        for name, column in columns.items():
            for text, code in column.codes.items():
                if _HALF.search(f"{name}{text}"):
                    where = self.describe_record_place(numbers[column.cells.index(code)])
                    raise StudyError(
                        f"{where}: {name!a} has half a character (a lone surrogate) in {text!a}; correct the "
                        "text"
                    )


def _split_into_batches(rows: NumberedRows) -> Iterator[list[tuple[int, Any]]]:
    remaining = iter(rows)
    while batch := list(islice(remaining, _BATCH_ROWS)):
        yield batch


def _batch_records(records: Iterable[tuple[int, Record]]) -> Iterator[Batch]:
    """Yield numbered records in batches. A column that a record lacks has None there."""
    for batch in _split_into_batches(records):
        names = list(dict.fromkeys(chain.from_iterable(record for _, record in batch)))
        numbers = [number for number, _ in batch]
        yield numbers, names, ([record.get(name) for _, record in batch] for name in names)


def _open_objects(record: Record, packed: Iterable[str]) -> Record:
    """Return a record without objects. Some cells have them as text."""
    return flatten_objects({**record, **{name: unpack_cell(record.get(name), OBJECT) for name in packed}})


def _split_answers(number: int, record: Record) -> list[Record]:
    """Return a record for each answer, if the verdicts on an item are in one list of objects.

    The number of the record tells items apart that have no id.
    """
    lists = {
        name: value
        for name, value in record.items()
        if isinstance(value, list) and value and all(map(_is_answer, value))
    }
    item = {key: value for key, value in record.items() if key not in lists}
    if len(lists) != 1 or _is_answer(item):
        return [record]
    [(name, answers)] = lists.items()
    return [
        item
        | {f"{name}.{key}" if key in item else key: value for key, value in answer.items()}
        | {"record": number}
        for answer in answers
    ]


def _is_answer(value: object) -> bool:
    """Return whether a value is the record of a verdict. Without a rater, a label may be an option's."""
    headings = set(map(simplify_heading, value)) if isinstance(value, dict) else set()
    verdicts = headings & _VERDICTS
    return bool(verdicts - {"label", "value"} or (verdicts and headings & _RATERS))


@contextmanager
def name_file_in_errors(path: Path) -> Iterator[None]:
    """Put the path of a file before the message of an error."""
    try:
        yield
    except StudyError as error:
        raise StudyError(str(error) if str(path) in str(error) else f"{path}: {error}") from None


def read_program_file(file: VerdictFile, name: str, items: pd.DataFrame | None) -> pd.DataFrame:
    """Read the verdicts in a file of another program. Return a table with guard-eval's names of columns.

    Raises:
        StudyError: A record does not have the program's format.
    """
    form = FOREIGN[name]
    notes = [rule["note"] for rule in form.notes if (rule["key"] in file.first) == rule["has"]]
    records: ItemRecords = {} if items is None else items.astype(object).T.to_dict()  # type: ignore[assignment]

    def rows() -> Iterator[tuple[int, dict[str, object]]]:
        for number, record in file.records:
            for row in READERS[name](record, file.describe_record_place(number), records):
                yield number, {LEFT_OUT: row} if isinstance(row, str) else row

    frame = file.build_table(_batch_records(rows()))
    if _CONTENT in frame:
        judged = frame[frame["verdict"].notna()]
        # Tasks with the same data are one item, imported for several annotators.
        if not judged.duplicated([_CONTENT, "rater", "criterion"]).any():
            frame = frame.assign(pair_id=frame[_CONTENT])
        frame = frame.drop(columns=_CONTENT)
    frame.attrs[READING] = Reading(notes=(f"{file.path} is read as {form.what}", *notes))
    return frame


def _read_alpaca_eval(record: Record, where: str, _items: object) -> Rows:
    """Yield the verdict for a record's preference: generator_1 if below 1.5, generator_2 if above 1.5."""
    a, b, rater = map(record.get, ("generator_1", "generator_2", "annotator"))
    preference = _read_preference(record.get("preference"), where)
    instruction = str(record.get("instruction"))
    outputs = [record.get("output_1"), record.get("output_2")]
    lengths = [len(text) if isinstance(text, str) else None for text in outputs]
    yield _select_splitting_fields(record) | {
        "pair_id": make_content_id(instruction, *outputs),
        "dataset": record.get("dataset") or "alpaca_eval",
        "prompt_id": make_content_id(instruction),
        "method_a": a,
        "method_b": b,
        "rater": rater,
        "rater_kind": "person" if str(rater).isdecimal() else "model",
        "verdict": {1: a, 0: TIE, -1: b}.get(np.sign(1.5 - preference)),
        "preference_a": round(2 - preference, 12),
        "preference_b": round(preference - 1, 12),
        "length_a": lengths[0],
        "length_b": lengths[1],
    }


def _read_preference(value: object, where: str) -> float:
    """Convert a value to a preference from 1 to 2. A failed request becomes NaN."""
    text = convert_json_to_cell(value)
    if means_no_verdict(text):
        return math.nan
    try:
        preference = float(text)
    except ValueError:
        preference = math.inf
    if preference == 0:
        return 1.5
    if not 1 <= preference <= 2:
        raise StudyError(
            f"{where}: preference is {text[:40]!r}; write a number from 1 (generator_1) to 2 "
            "(generator_2), 1.5 for a draw, or null where the annotator failed"
        )
    return preference


def _read_arena_hard(record: Record, where: str, _items: object) -> Rows:
    """Yield a verdict for each game."""
    methods = [record.get("baseline", "baseline"), record.get("model")]
    name = record.get("question_id", record.get("uid"))
    games = record.get("games")
    if not isinstance(games, list) or not 1 <= len(games) <= len(methods):
        raise StudyError(f"{where}: games must be a list of one game or two; correct it")
    for number, game in enumerate(games):
        yield _select_splitting_fields(record) | {
            "pair_id": name,
            "dataset": record.get("category") or "arena-hard",
            "prompt_id": name,
            "method_a": methods[0],
            "method_b": methods[1],
            "left": methods[number],
            "right": methods[1 - number],
            "rater": record.get("judge"),
            "rater_kind": "model",
            "presentation": number + 1,
            "verdict": game.get("score") if isinstance(game, dict) else None,
        }


def _read_fastchat(record: Record, _where: str, _items: object) -> Rows:
    """Yield a verdict for each game of a judgment, or one verdict for a vote."""
    judge = record.get("judge")
    rater = convert_json_to_cell(judge[0] if isinstance(judge, list) and judge else judge)
    question, turn = (convert_json_to_cell(record.get(key)) for key in ("question_id", "turn"))
    is_vote = "g1_winner" not in record
    a, b = (record.get(f"model_{side}") for side in ("ab" if is_vote else "12"))
    row = _select_splitting_fields(record) | {
        "pair_id": f"{question}, turn {turn}" if question and turn else question,
        "prompt_id": question,
        "turn": turn,
        "method_a": a,
        "method_b": b,
        "rater": rater,
        "rater_kind": "model",
    }
    if is_vote:
        if not is_model_name(rater) and not rater.endswith(("_pair", "_single")):
            row["rater_kind"] = "person" if _PERSON.match(rater) else None
        yield row | {"verdict": record.get("winner")}
        return
    firsts = [None] if "m1_score" in record else [a, b]
    for number, first in enumerate(firsts, start=1):
        verdict = record.get(f"g{number}_winner")
        yield row | {"verdict": verdict, "presentation": number, "shown_first": first}


def _select_splitting_fields(record: Record) -> dict[str, object]:
    """Select the short fields of a record. Results may be split by them, such as by the language."""
    return {
        key: value for key, value in record.items() if key not in _USED and len(str(value)) <= LONGEST_NAME
    }


def _read_label_studio(record: Record, where: str, items: ItemRecords) -> Rows:
    """Yield a row for each annotation and control."""
    data = record.get("data")
    annotations = record.get("annotations")
    if not isinstance(data, dict) or not isinstance(annotations, list):
        raise StudyError(f"{where}: a task needs data and annotations; export the project as JSON")
    if record.get("predictions"):
        yield "predictions are no verdicts"
    if not annotations:
        yield "not annotated"
    data |= items.get(str(data.get("id")), {})
    item = {"pair_id": record.get("id"), **data}
    if "pair_id" not in data:
        item[_CONTENT] = make_content_id(json.dumps(data, sort_keys=True, default=str))
    for annotation in annotations:
        result = annotation.get("result") if isinstance(annotation, dict) else None
        if not isinstance(result, list):
            raise StudyError(f"{where}: an annotation has no list result; export the project as JSON")
        if annotation.get("was_cancelled") is True:
            yield "the annotator skipped it"
            continue
        if not result:
            yield "no answer"
        yield from _read_annotation(item, annotation, result, where)


def _read_annotation(item: Record, annotation: Record, result: Iterable[object], where: str) -> Rows:
    """Yield a row for each control of an annotation."""
    controls = list(_read_controls(result, where))
    who = {name: word for name, word, kind in controls if kind == "textarea"}
    account = annotation.get("completed_by")
    if isinstance(account, dict):
        account = account.get("email") or account.get("username") or account.get("id")
    row = {
        **item,
        "rater": who.get("rater") or account,
        "rater_kind": who.get("rater_kind") or item.get("rater_kind") or "person",
        "seconds": annotation.get("lead_time"),
        "at": annotation.get("created_at"),
    }
    for name, word, kind in controls:
        if kind == "pairwise" and "left" not in item:  # Label Studio shows the first text on the left
            word = {"left": "A", "right": "B"}.get(str(word), word)  # noqa: PLW2901
        if name not in _WHO:
            yield row | {"criterion": name, "verdict": word}


def _read_controls(result: Iterable[object], where: str) -> Iterator[tuple[str, object, str]]:
    """Yield each control's name (or an empty text), chosen word (None if nothing was chosen) and type."""
    for region in result:
        value = region.get("value") if isinstance(region, dict) else None
        if not isinstance(region, dict) or not isinstance(value, dict):
            continue
        name = convert_json_to_cell(region.get("from_name"))
        kind = str(region.get("type"))
        if kind not in _WORDS_OF and not name:  # a mark on the texts, which no control asked for
            continue
        is_comment = kind == "textarea" and name not in _WHO
        answer = None if is_comment else value.get(_WORDS_OF.get(kind))
        words = answer if isinstance(answer, list) else [answer]
        if len(words) > 1:
            raise StudyError(f"{where}: {name or kind} has {len(words)} choices ({words!s:.60}); keep one")
        yield name, words[0] if words else None, kind


def _read_potato(record: Record, where: str, items: ItemRecords) -> Rows:
    """Yield a row for each annotation scheme of an instance."""
    is_old = "label_annotations" in record
    instance = convert_json_to_cell(record.get("id" if is_old else "instance_id"))
    if instance not in items:
        raise StudyError(
            f"{where}: no item has the id {instance!r}, so nothing says which methods were compared. Name "
            "the data file, too, with method_a and method_b for each id: guard-eval report FILE ITEMS"
        )
    item = items[instance]
    methods = {item["method_a"], item["method_b"]}
    user = Path(where).resolve().parent.name if is_old else record.get("user_id")
    row = {**item, "rater": user, "rater_kind": record.get("rater_kind") or "person"}
    for scheme, label, value in _read_potato_labels(record):
        is_button = label in methods or find_word_meaning(label) is not None
        is_answer = isinstance(value, str) and (value in methods or find_word_meaning(value) is not None)
        if label == _SELECTION:
            yield row | {"criterion": scheme, "verdict": value}
        elif is_button and str(value) not in _NOT_PRESSED:
            yield row | {"criterion": scheme, "verdict": label}
        elif is_answer and not is_button:
            yield row | {"criterion": f"{scheme}.{label}", "verdict": value}


def _read_potato_labels(record: Record) -> Iterator[tuple[str, str, object]]:
    """Yield each scheme, label and value. A table has columns SCHEME.LABEL, or SCHEME for one answer."""
    labels = record.get("label_annotations", record.get("labels"))
    if isinstance(labels, dict):
        for scheme, answers in labels.items():
            for label, value in answers.items() if isinstance(answers, dict) else [(_SELECTION, answers)]:
                yield scheme, label, value
        return
    for name, value in record.items():
        scheme, dot, label = name.rpartition(".")
        if dot:
            yield scheme, label, value
        elif name not in _NO_SCHEMES:
            yield name, _SELECTION, value


READERS = {
    "alpaca-eval": _read_alpaca_eval,
    "arena-hard": _read_arena_hard,
    "fastchat": _read_fastchat,
    "label-studio": _read_label_studio,
    "potato": _read_potato,
}
"""The function that reads records of a format. It gets a record, its place, and the records of items."""
