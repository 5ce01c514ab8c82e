"""Read the rows of files of texts and prompts: tables of different shapes, JSON, or one prompt per line."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations, pairwise
from operator import itemgetter
from pathlib import Path
from statistics import median
from typing import Any, Literal

from guard_eval.bundled import read_bundled_toml
from guard_eval.errors import StudyError
from guard_eval.files.headings import differ_only_in_side, simplify_heading, split_heading_words
from guard_eval.files.rows import (
    LINE,
    MOST_ROWS,
    ROW,
    Encoding,
    NumberedRows,
    open_row_file,
    parse_json_lines,
)
from guard_eval.records import record
from guard_eval.texts.nested import flatten_record, split_systems

_VOCABULARY = read_bundled_toml(__file__, "keys.toml")
TEXT: list[str] = _VOCABULARY["text"]
"""The possible names of the key of a text. The first name under which there is a text counts."""
KEYS: Mapping[str, list[str]] = _VOCABULARY["values"]
"""The possible names of the key of each other value, such as `prompt`. The first name with a value counts."""
NO_TEXT = {*chain(*KEYS.values()), *KEYS, *_VOCABULARY["other"]}
"""Names of keys that never contain the texts of a system."""
SYSTEMS = frozenset(_VOCABULARY["systems"])
"""Headings of a column that names the systems, if it has several values."""
RUNS = frozenset(_VOCABULARY["runs"])
"""Headings of a column that numbers the texts of a prompt by one system."""
ROW_NUMBERS = frozenset({"index", "idx"})
"""The headings among `RUNS` that may number the rows of the file instead."""
PARTS = frozenset(_VOCABULARY["parts"])
"""Headings of columns that may contain a part of the prompt."""
NOTES = tuple(_VOCABULARY["notes"])
"""Endings of headings of columns that contain remarks on texts."""
_PLAIN = {"".join(filter(str.isalnum, key)): key for key in (*TEXT, *KEYS, *chain(*KEYS.values()))}
"""The known keys by their letters and digits only: `promptid` → `prompt_id`."""


@record
class Record:
    """One row of a file.

    Attributes:
        where: The file and the row's position in the file, for messages.
        number: The number of the line or record, from 1.
        row: The values by key or heading. A cell without a value is "".
        further: The number of further texts of the same prompt in the record.
    """

    where: str
    number: int
    row: Mapping[str, object]
    further: int = 0


def read_rows(
    path: Path, *, errors: Encoding = "strict", plain: Literal["prompt", "text"] = "prompt"
) -> Iterator[Record]:
    """Yield the rows of a file in any format of `open_row_file`, in the file's order.

    A line of plain text is a row with the key `plain`. Bytes that are not UTF-8 are refused, or become lone
    surrogates with `surrogateescape`.

    Raises:
        StudyError: The file cannot be read. The message names file, record, value and remedy.
    """
    file = open_row_file(path, errors=errors, plain=plain)
    yield from _read_records(path, file.unit, file.records(MOST_ROWS), are_prompts=plain == "prompt")


def read_json_lines(name: str, text: str) -> Iterator[Record]:
    """Yield the object on each line of a JSON Lines text. Error messages refer to the text as `name`.

    Raises:
        StudyError: A line is not a JSON object. The message names the line.
    """
    yield from _read_records(name, LINE, parse_json_lines(name, text))


def _read_records(
    path: Path | str, unit: str, rows: NumberedRows, *, are_prompts: bool = False
) -> Iterator[Record]:
    """Yield a record for each row. A row that is a list of objects has several texts of one prompt."""
    for number, row in rows:
        where = f"{path}, {unit} {number}"
        # Contrastive decoding's authors publish such lines.
        first, *further = row if isinstance(row, list) and row else [row]
        if not isinstance(first, dict):
            raise StudyError(
                f'{where}: {str(row)[:40]!r} is not a JSON object, such as {{"prompt": "…", "text": "…"}}'
            )
        renamed = rename_known_keys(first)
        for system_row in [renamed] if are_prompts else split_systems(renamed, TEXT):
            flat = flatten_record(system_row, TEXT, NO_TEXT)
            yield Record(where=where, number=number, row=flat, further=len(further))


def rename_known_keys(row: Mapping[str, object]) -> dict[str, object]:
    """Return a row in which keys such as "Prompt ID" are renamed to `prompt_id`.

    An exact key has priority. Otherwise the first key with this meaning is renamed.
    """
    result: dict[str, object] = {}
    for key, value in row.items():
        name = _PLAIN.get(simplify_heading(key), key)
        result[key if name in row or name in result else name] = value
    return result


SYSTEM_WORDS = {"model", "system", "method", "strategy", "generator"}
"""Words of headings that name systems."""

_SETTING = re.compile("[(=]")
"""The characters that show a setting in a heading, such as top_p(p=1)."""

_LEAST_WORDS = 3
"""A value with fewer words may be a label and not a text."""

_MOST_TEXTS = 10
"""A column with more rows for each of its values is a label, and does not name prompts."""

_LEAST_ROWS = 4
"""In a file with fewer rows, few different values are not a sign that a column has no texts."""


def find_text_columns(records: Sequence[Record], source: object) -> list[str]:
    """Return the columns of texts if each system has a column; an empty list if one column has all texts.

    Raises:
        StudyError: Some columns cannot be texts, so the user must name the columns of texts.
    """
    keys = dict.fromkeys(chain.from_iterable(record.row for record in records))
    candidates = [key for key in keys if key not in NO_TEXT and simplify_heading(key) not in PARTS]
    if set(TEXT) & set(keys) or len(candidates) < 2:
        return []
    texts = _find_columns_with_texts(records, candidates)
    others = [key for key in candidates if key not in texts]
    if len(records) > 1:  # in a single row, each side has one system
        refuse_side_columns(keys, texts, source)
    if not others:
        return candidates
    rows = [record.row for record in records]
    cells = [next((str(row[key]) for row in rows if row.get(key)), "nothing") for key in others]
    doubtful = ", ".join(f"{key!r} holds {cell[:40]!r}" for key, cell in zip(others, cells, strict=True))
    if not texts:
        raise StudyError(
            f"{source} has no column of texts: {doubtful}. Write the texts in a column 'text', and their "
            "systems in a column 'system'"
        )
    options = " ".join(f"--column {key!r}" for key in texts)
    is_nested = any(isinstance(value, list) for value in rows[0].values())
    remedy = ", or write rows without nested values, as docs/formats.md shows" if is_nested else ""
    raise StudyError(
        f"{source} has no column named text, and some columns may have no texts: {doubtful}. Name the column "
        f"of the texts, or one column for each system, such as {options}{remedy}"
    )


def _find_columns_with_texts(records: Sequence[Record], columns: Sequence[str]) -> list[str]:
    """Return the columns with texts: no numbers, remarks or labels, and not far shorter than other texts."""
    words = {}
    for column in columns:
        values = [record.row.get(column) for record in records]
        filled = [value for value in values if value not in (None, "")]
        counts = [len(str(value).split()) for value in filled]
        is_repeated = 2 * len(set(map(str, filled))) <= len(filled)
        are_labels = len(filled) >= _LEAST_ROWS and (is_repeated or max(counts) == 1)
        are_texts = all(isinstance(value, str) for value in filled) and not all(
            map(_is_number, map(str, filled))
        )
        if are_texts and not are_labels and not simplify_heading(column).endswith(NOTES):
            words[column] = median(counts)
    longest = max(words.values(), default=0)
    return [
        column
        for column, count in words.items()
        if 4 * count > longest and (count > _LEAST_WORDS or 2 * count > longest)
    ]


def refuse_side_columns(keys: Iterable[str], columns: Sequence[str], source: object) -> None:
    """Refuse a table with a column for each side, because a side may have a different system in each row.

    Args:
        keys: All headings. Two of them must not name the systems of two sides, such as model_a and model_b.
        columns: The columns of texts, unless the user has named them. Two of them must not be sides.
        source: The file, for messages.

    Raises:
        StudyError: Two columns are the two sides of a comparison.
    """
    naming = [key for key in keys if not SYSTEM_WORDS.isdisjoint(split_heading_words(key))]
    texts = [column for column in columns if len(column) > 1 and not _SETTING.search(column)]
    for first, other in chain(combinations(naming, 2), combinations(texts, 2)):
        if differ_only_in_side(first, other):
            remedy = "Write a row for each text, with its system in a column 'system'"
            if first in texts:
                remedy += (
                    ". If all texts of a column are by one system, say which columns are systems: "
                    f"--column {first!r} --column {other!r}"
                )
            raise StudyError(
                f"{source}: {first!r} and {other!r} are sides, and systems there may differ between rows. "
                f"{remedy}"
            )


def find_system_column(records: Sequence[Record]) -> str:
    """Return the column with an unusual heading that names each text's system, or "".

    Raises:
        StudyError: Only some rows have a value in this column.
    """
    rows = [record.row for record in records]
    if any(row.get(key) for row in rows for key in KEYS["strategy"]):
        return ""
    for key in filter(lambda key: simplify_heading(key) in SYSTEMS, dict.fromkeys(chain.from_iterable(rows))):
        names = [str(row.get(key) or "") for row in rows]
        if len({*names, ""}) > 2:
            if "" in names:
                where = records[names.index("")].where
                raise StudyError(
                    f"{where}: has no value under {key!r}, which names the systems of other rows; write one, "
                    "or remove this row"
                )
            return key
    return ""


def refuse_ambiguous_columns(
    records: Sequence[Record], columns: Sequence[str], system: str, source: object
) -> None:
    """Refuse a column that may divide the texts of one system for one prompt into several prompts or systems.

    Args:
        records: The rows.
        columns: The columns of texts, if each system has a column.
        system: The column that names the systems, if its name is unusual.
        source: The file, for messages.

    Raises:
        StudyError: A column may be a part of the prompt, or may name systems or settings.
    """
    rows = [record.row for record in records]
    naming = [system] if system else KEYS["strategy"]
    groups = [(_find_prompt(row), _find_filled_value(row, naming), str(row.get("setting"))) for row in rows]
    count = len(set(groups))
    if count == len(rows) or not any(prompt for prompt, _, _ in groups):
        return
    runs = [key for key in rows[0] if simplify_heading(key) in RUNS.difference(ROW_NUMBERS)]
    are_numbered = any(
        len({(group, str(row.get(key))) for group, row in zip(groups, rows, strict=True)}) == len(rows)
        for key in runs
    )
    for key in dict.fromkeys(chain.from_iterable(rows)):
        heading = simplify_heading(key)
        if key in (*columns, *TEXT, system) or heading in RUNS:
            continue
        values = ["" if row.get(key) is None else str(row[key]) for row in rows]
        counts = Counter(zip(groups, values, strict=True))
        # A measurement has many different numbers. A text has a word of letters, or several words.
        are_settings = len(set(counts.values())) == 1 and len(rows) >= 2 * len(set(values))
        words = [str(row[key]).split() for row in rows if isinstance(row.get(key), str)]
        are_texts = any(len(every) >= _LEAST_WORDS or any(map(str.isalpha, every)) for every in words)
        may_be_named = are_settings or are_texts
        is_part = heading in PARTS or key in KEYS["prompt"]
        is_doubtful = is_part or (may_be_named and key not in NO_TEXT and not are_numbered)
        if len(counts) > count and (heading in SYSTEMS or key in KEYS["strategy"]):
            remedy = (
                "Rename the one with a setting of each system to 'setting', or write the whole name under "
                "the key 'system' and remove the others"
            )
            if len(columns) > 1:
                remedy = f"Name the one column of the texts: --column {columns[-1]!r}"
            raise StudyError(f"{source}: both {key!r} and other columns may name the systems. {remedy}")
        if len(counts) > count and is_doubtful:
            raise StudyError(
                f"{source}: the column {key!r} differs between texts of one prompt. If it is part of the "
                "prompt, write the whole prompt under the key 'prompt'. If it contains the systems' names, "
                "rename it to 'system'. If it is a setting of each system, rename it to 'setting'. Otherwise "
                "rename it to 'run', or remove it"
            )


def refuse_unnamed_prompts(
    records: Sequence[Record], columns: Sequence[str], system: str, source: object
) -> None:
    """Refuse a column that may name prompts, in a table with several texts of a system and without prompts.

    Otherwise each row would have a prompt of its own, although several rows may share one.

    Args:
        records: The rows.
        columns: The columns of texts, if each system has a column.
        system: The column that names the systems, if its name is unusual.
        source: The file, for messages.

    Raises:
        StudyError: A column of ids or words has repeats, or numbers repeat equally often or in a row.
    """
    rows = [record.row for record in records]
    if any(map(_find_prompt, rows)) or not any(key in rows[0] for key in (*columns, *TEXT)):
        return
    systems = [_find_filled_value(row, [system] if system else KEYS["strategy"]) for row in rows]
    for key in dict.fromkeys(chain.from_iterable(rows)):
        heading = simplify_heading(key)
        is_other = key in NO_TEXT.union(columns, TEXT, [system]).difference(PARTS, RUNS, ["task"])
        if is_other or heading.endswith(NOTES):
            continue
        values = [str(row.get(key)) for row in rows]
        pairs = sorted(zip(systems, values, strict=True), key=itemgetter(0))
        counts = Counter(pairs)
        # A label, such as a language, has few values.
        if not 1 < len(counts) < len(rows) <= _MOST_TEXTS * len(counts) or len(set(values)) == 1:
            continue
        changes = sum(pair != other for pair, other in pairwise(pairs))
        is_cycle = values[len(set(values)) :] == values[: -len(set(values))]
        is_regular = len({*counts.values()}) == 1 or changes == len(counts) - 1 or is_cycle
        if is_regular or heading.endswith("id") or not all(map(_is_number, values)):
            remedy = (
                "If it names the prompts, rename it to 'prompt_id'. If it contains them, rename it to "
                "'prompt'. If it names the systems, rename it to 'system'. Otherwise remove it"
            )
            if heading in RUNS:
                remedy = "If it numbers several texts of a prompt, write the prompts or their ids beside it"
            raise StudyError(
                f"{source}: no column is called prompt or prompt_id, and {key!r} says that several texts may "
                f"have one prompt. {remedy}"
            )


def _find_prompt(row: Mapping[str, object]) -> str:
    return _find_filled_value(row, (*KEYS["prompt"], *KEYS["prompt_id"]))


def _find_filled_value(row: Mapping[str, object], keys: Iterable[str]) -> str:
    """Return the first value under these keys as text, or "" without a value."""
    return next((str(row[key]) for key in keys if row.get(key)), "")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def read_data_frame(frame: Any) -> Iterable[Record]:  # noqa: ANN401 (a data frame of any library)
    """Return the rows of a data frame. A missing value is None."""
    columns = [str(name) for name in frame.columns]
    filled = frame.astype(object).where(frame.notna(), None)
    rows = (map(_convert_arrays, cells) for cells in filled.itertuples(index=False, name=None))
    records = (dict(zip(columns, cells, strict=True)) for cells in rows)
    return _read_records("the data frame", ROW, enumerate(records, start=1))


def _convert_arrays(value: Any) -> object:  # noqa: ANN401 (a cell of a data frame of any library)
    """Return a cell with lists instead of arrays."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list):
        return list(map(_convert_arrays, value))
    if isinstance(value, Mapping):
        return {key: _convert_arrays(cell) for key, cell in value.items()}
    return value
