"""The shapes in which people keep texts: a record for each, a column for each system, or nested samples."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, combinations
from typing import Any

from guard_eval.errors import StudyError, count_of
from guard_eval.texts.rows import (
    KEYS,
    NO_TEXT,
    PARTS,
    RUNS,
    SIDES,
    SYSTEMS,
    TEXT,
    Record,
    plain_key,
    use_plain_keys,
)

_WORD = re.compile(r"[^\W\d_][^\W\dA-Z_]*|\d+")
"""A word of a heading; each number and each capital begins one."""

_SETTING = re.compile("[(=]")
"""What a heading such as top_p(p=1) has, which names a setting."""

_LEAST_WORDS = 3
"""A shorter text may be a label."""

_LEAST_ROWS = 4
"""In a shorter file, few values say nothing."""


def find_text_columns(records: Sequence[Record], source: object) -> list[str]:
    """Return the columns of a file that has one for each system, or nothing if it has a column of texts.

    Raises:
        StudyError: Some of the columns cannot be texts, so that somebody must say which ones are.
    """
    keys = dict.fromkeys(chain.from_iterable(record.row for record in records))
    candidates = [key for key in keys if key not in NO_TEXT and plain_key(key) not in PARTS]
    if set(TEXT) & set(keys) or len(candidates) < 2 or any("arguments" in r.row for r in records[:1]):
        return []
    refuse_sides(candidates, source)
    faults = {key: _describe_values([record.row.get(key) for record in records]) for key in candidates}
    doubtful = [f"{key!r} holds {fault}" for key, fault in faults.items() if fault]
    if not doubtful:
        return candidates
    texts = [key for key, fault in faults.items() if not fault] or candidates
    options = " ".join(f"--column {key!r}" for key in texts)
    raise StudyError(
        f"{source} has no column of texts, and its columns are systems only if all of them hold texts: "
        f"{', '.join(doubtful)}. Say which are systems, such as {options}"
    )


def refuse_sides(columns: Sequence[str], source: object) -> None:
    """Refuse columns that are sides: in each row, another system may have written such a text.

    Raises:
        StudyError: Two columns are sides.
    """
    named = [column for column in columns if not _SETTING.search(column)]
    for first, other in combinations(named, 2):
        if _are_sides(_WORD.findall(first), _WORD.findall(other)):
            raise StudyError(
                f"{source}: {first!r} and {other!r} are sides, and each row may have other systems there. "
                "Write a row for each text, with its system in a column 'system'. If all texts of a column "
                "are by one system, name the column after it"
            )


def _are_sides(first: Sequence[str], other: Sequence[str]) -> bool:
    """Return whether two headings, as words, differ only in the word for the side."""
    different = [{a.casefold(), b.casefold()} for a, b in zip(first, other, strict=False) if a != b]
    is_only_a_letter = len(first) == 1 and len(first[0]) == 1
    return len(first) == len(other) and len(different) == 1 and different[0] in SIDES and not is_only_a_letter


def find_system_column(records: Sequence[Record]) -> str:
    """Return the column of models that names each text's system; "" if there is none, or no need of it."""
    rows = [record.row for record in records]
    prompts = [_prompt_of(row) for row in rows]
    if len(set(prompts)) == 1 or any(key in row for row in rows for key in KEYS["strategy"]):
        return ""
    for key in filter(lambda key: plain_key(key) in SYSTEMS, dict.fromkeys(chain.from_iterable(rows))):
        models = [str(row.get(key) or "") for row in rows]
        if all(models) and len(set(zip(prompts, models, strict=True))) > len(set(prompts)):
            return key
    return ""


def refuse_doubtful_columns(
    records: Sequence[Record], columns: Sequence[str], system: str, source: object
) -> None:
    """Refuse a column that differs between texts of one prompt by one system and may tell them apart.

    Args:
        records: The rows.
        columns: The columns of the systems' texts, if there is one for each.
        system: The column that names the systems, if its name is unusual.
        source: The file, for messages.

    Raises:
        StudyError: A column may be a part of the prompt, or name systems or their settings.
    """
    rows = [record.row for record in records]
    naming = [system] if system else KEYS["strategy"]
    groups = [(_prompt_of(row), _first_filled(row, naming), str(row.get("setting"))) for row in rows]
    count = len(set(groups))
    for key in dict.fromkeys(chain.from_iterable(rows)) if count < len(rows) else ():
        if key in (*columns, *TEXT, system) or plain_key(key) in RUNS:
            continue
        values = ["" if row.get(key) is None else str(row[key]) for row in rows]
        cells = len(set(zip(groups, values, strict=True)))
        if cells > count and any(_may_be_part(key, row.get(key)) for row in rows):
            raise StudyError(
                f"{source}: {key!r} differs between texts of one prompt. If it is a part of the prompt, "
                "write the whole prompt under the key 'prompt'; if not, remove it"
            )
        different = len(set(values))
        are_settings = cells == len(rows) and 1 < different <= len(rows) // 2
        if _is_number(values[0]):  # and no measurement
            are_settings = are_settings and count * different == len(rows)
        if key not in NO_TEXT and count > 1 and are_settings:
            raise StudyError(
                f"{source}: the column {key!r} may name the systems, since it differs between the texts of "
                "each prompt. Rename it to 'system' if it does, to 'setting' if it names a setting of each "
                "system, or to 'run' if neither"
            )


def _may_be_part(key: str, value: object) -> bool:
    """Return whether a value may be a part of the prompt: by its key, or as a text of several words."""
    if plain_key(key) in PARTS or key in KEYS["prompt"]:
        return True
    return key not in NO_TEXT and isinstance(value, str) and len(value.split()) >= _LEAST_WORDS


def _prompt_of(row: Mapping[str, Any]) -> str:
    return _first_filled(row, (*KEYS["prompt"], *KEYS["prompt_id"]))


def _first_filled(row: Mapping[str, Any], keys: Iterable[str]) -> str:
    """Return the first value under some keys, as text; "" if there is none."""
    return next((str(row[key]) for key in keys if row.get(key)), "")


def _describe_values(values: Sequence[object]) -> str:
    """Return why a column's values cannot be texts, or nothing."""
    filled = [value for value in values if value not in (None, "")]
    if not filled:
        return "nothing"
    if all(_is_number(value) for value in filled):
        return "numbers"
    if not all(isinstance(value, str) for value in filled):
        return "lists or objects"
    different = len(set(map(str, filled)))
    if len(filled) >= _LEAST_ROWS and different <= len(filled) // 2:
        return f"only {count_of(different, 'different value')} in {len(filled)} rows"
    return ""


def _is_number(value: object) -> bool:
    if not isinstance(value, str | int | float):
        return False
    try:
        float(value)
    except ValueError:
        return False
    return True


def flatten_sample(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record; one of lm-evaluation-harness has its prompt and its text under plain keys.

    `arguments` are `[[prompt, settings]]`, or in newer versions `{"gen_args_0": {"arg_0": prompt, …}}`.
    """
    if "arguments" not in row or not ("filtered_resps" in row or "resps" in row):
        return dict(row)
    texts = row.get("filtered_resps") or row.get("resps")
    plain = {key: row[key] for key in ("doc_id", "dataset", "strategy", "generator") if key in row}
    return plain | {
        "prompt": _innermost(row["arguments"]),
        "reference": row.get("target") if isinstance(row.get("target"), str) else None,
        "text": _innermost(texts),
    }


def _innermost(value: Any) -> Any:  # noqa: ANN401 (a value of JSON)
    """Return the first value in lists and objects in each other."""
    for _ in range(8):
        if isinstance(value, Mapping):
            value = list(value.values())
        if not isinstance(value, list) or not value:
            break
        value = value[0]
    return value


def read_frame(frame: Any) -> Iterable[Record]:  # noqa: ANN401 (a data frame of any library)
    """Yield the rows of a data frame. A missing value is None."""
    columns = [str(name) for name in frame.columns]
    for number, values in enumerate(frame.itertuples(index=False, name=None), start=1):
        cells = (None if value != value else value for value in values)  # noqa: PLR0124 (NaN is not itself)
        row = use_plain_keys(dict(zip(columns, cells, strict=True)))
        yield Record(where=f"the data frame, row {number}", number=number, row=row)
