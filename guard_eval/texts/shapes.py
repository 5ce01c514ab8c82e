"""Read texts from files of different shapes: a record per text, a column per system, or nested samples."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, combinations
from typing import Any

from guard_eval.errors import StudyError, format_count
from guard_eval.files.headings import differ_only_in_side, simplify_heading, split_heading_words
from guard_eval.texts.rows import (
    KEYS,
    NO_TEXT,
    NOTES,
    PARTS,
    ROW_NUMBERS,
    RUNS,
    SYSTEMS,
    TEXT,
    Record,
    rename_known_keys,
)

SYSTEM_WORDS = {"model", "system", "method", "strategy", "generator"}
"""Words of headings that name systems."""

_SETTING = re.compile("[(=]")
"""The characters that show a setting in a heading, such as top_p(p=1)."""

_LEAST_WORDS = 3
"""A text with fewer words may be a label."""

_LEAST_ROWS = 4
"""In a file with fewer rows, a small number of different values means nothing."""


def find_text_columns(records: Sequence[Record], source: object) -> list[str]:
    """Return the columns of a file with a column per system, or nothing for a file with one column of texts.

    Raises:
        StudyError: Some columns cannot be texts, so the user must name the columns of texts.
    """
    keys = dict.fromkeys(chain.from_iterable(record.row for record in records))
    candidates = [key for key in keys if key not in NO_TEXT and simplify_heading(key) not in PARTS]
    if set(TEXT) & set(keys) or len(candidates) < 2 or any("arguments" in r.row for r in records[:1]):
        return []
    faults = {key: _describe_fault(key, [record.row.get(key) for record in records]) for key in candidates}
    doubtful = ", ".join(f"{key!r} holds {fault}" for key, fault in faults.items() if fault)
    texts = [key for key, fault in faults.items() if not fault]
    refuse_sides(keys, texts, source)
    if not doubtful:
        return candidates
    if not texts:
        raise StudyError(
            f"{source} has no column of texts: {doubtful}. Write the texts in a column 'text', and their "
            "systems in a column 'system'"
        )
    options = " ".join(f"--column {key!r}" for key in texts)
    raise StudyError(
        f"{source} has no column named text. Its columns could be systems, but some do not hold texts: "
        f"{doubtful}. Name the columns that are systems, such as {options}"
    )


def refuse_sides(keys: Iterable[str], columns: Sequence[str], source: object) -> None:
    """Refuse columns for two sides, because each row may have a different system on a side.

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
                f"{source}: {first!r} and {other!r} are sides, and each row may have other systems there. "
                f"{remedy}"
            )


def find_system_column(records: Sequence[Record]) -> str:
    """Return the column that names each text's system, or "" if the file has or needs no such column."""
    rows = [record.row for record in records]
    prompts = [_find_prompt(row) for row in rows]
    if len(set(prompts)) == 1 or any(key in row for row in rows for key in KEYS["strategy"]):
        return ""
    for key in filter(lambda key: simplify_heading(key) in SYSTEMS, dict.fromkeys(chain.from_iterable(rows))):
        models = [str(row.get(key) or "") for row in rows]
        if all(models) and len(set(zip(prompts, models, strict=True))) > len(set(prompts)):
            return key
    return ""


def refuse_doubtful_columns(
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
        if key in (*columns, *TEXT, system) or simplify_heading(key) in RUNS:
            continue
        values = ["" if row.get(key) is None else str(row[key]) for row in rows]
        cells = len(set(zip(groups, values, strict=True)))
        different = len(set(values))
        # A measurement has different numbers for each prompt.
        few = count * different if _is_number(values[0]) else 2 * different
        are_settings = key not in NO_TEXT and cells == len(rows) and count > 1 and few <= len(rows)
        are_parts = any(_may_be_part(key, None if are_numbered else row.get(key)) for row in rows)
        if cells > count and ((are_settings and not are_numbered) or are_parts):
            raise StudyError(
                f"{source}: the column {key!r} differs between texts of one prompt. If it is a part of the "
                "prompt, write the whole prompt under the key 'prompt'. If it may name the systems, rename "
                "it to 'system', or to 'setting' if it names a setting of each system. Otherwise rename it "
                "to 'run', or remove it"
            )


def _may_be_part(key: str, value: object) -> bool:
    """Return whether a value may be a part of the prompt: by its key, or because it has several words."""
    if simplify_heading(key) in PARTS or key in KEYS["prompt"]:
        return True
    words = value.split() if isinstance(value, str) and key not in NO_TEXT else []
    return len(words) >= _LEAST_WORDS or (bool(words) and all(map(str.isalpha, words)))


def _find_prompt(row: Mapping[str, object]) -> str:
    return _find_filled_value(row, (*KEYS["prompt"], *KEYS["prompt_id"]))


def _find_filled_value(row: Mapping[str, object], keys: Iterable[str]) -> str:
    """Return the first value under these keys as text, or "" without a value."""
    return next((str(row[key]) for key in keys if row.get(key)), "")


def _describe_fault(key: str, values: Sequence[object]) -> str:
    """Return why a column's values cannot be texts, or "" if they can."""
    filled = [value for value in values if value not in (None, "")]
    different = len(set(map(str, filled)))
    is_long = len(filled) >= _LEAST_ROWS
    faults = {
        "nothing": not filled,
        "numbers": all(map(_is_number, filled)),
        "lists or objects": not all(isinstance(value, str) for value in filled),
        "remarks": simplify_heading(key).endswith(NOTES),
        f"only {format_count(different, 'different value')} in {len(filled)} rows": is_long
        and different <= len(filled) // 2,
        "single words": is_long and all(len(str(value).split()) == 1 for value in filled),
    }
    return next((fault for fault, applies in faults.items() if applies), "")


def _is_number(value: object) -> bool:
    if not isinstance(value, str | int | float):
        return False
    try:
        float(value)
    except ValueError:
        return False
    return True


def flatten_sample(row: Mapping[str, object]) -> dict[str, object]:
    """Return a record. If it is from lm-evaluation-harness, move prompt and text to the top level.

    `arguments` is `[[prompt, settings]]`, or in newer versions `{"gen_args_0": {"arg_0": prompt, …}}`.
    """
    if "arguments" not in row or not ("filtered_resps" in row or "resps" in row):
        return dict(row)
    texts = row.get("filtered_resps") or row.get("resps")
    plain = {key: row[key] for key in ("doc_id", "dataset", "strategy", "generator") if key in row}
    return plain | {
        "prompt": _find_innermost_value(row["arguments"]),
        "reference": row.get("target") if isinstance(row.get("target"), str) else None,
        "text": _find_innermost_value(texts),
    }


def _find_innermost_value(value: object) -> object:
    """Return the first value inside nested lists and objects."""
    for _ in range(8):
        if isinstance(value, Mapping):
            value = list(value.values())
        if not isinstance(value, list) or not value:
            break
        value = value[0]
    return value


def read_data_frame(frame: Any) -> Iterable[Record]:  # noqa: ANN401 (a data frame of any library)
    """Yield the rows of a data frame. A missing value is None."""
    columns = [str(name) for name in frame.columns]
    for number, values in enumerate(frame.itertuples(index=False, name=None), start=1):
        cells = (None if value != value else value for value in values)  # noqa: PLR0124 (NaN is not itself)
        row = rename_known_keys(dict(zip(columns, cells, strict=True)))
        yield Record(where=f"the data frame, row {number}", number=number, row=row)
