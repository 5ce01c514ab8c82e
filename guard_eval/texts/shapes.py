"""The shapes in which people keep texts: a record for each, a column for each system, or nested samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from guard_eval.errors import StudyError, count_of
from guard_eval.texts.rows import KEYS, NO_TEXT, RUNS, SIDE, SYSTEMS, TEXT, Record, plain_key, use_plain_keys

_LEAST_ROWS = 4
"""In a shorter file, few values say nothing."""


def find_text_columns(records: Sequence[Record], source: object) -> list[str]:
    """Return the columns of a file that has one for each system, or nothing if it has a column of texts.

    Raises:
        StudyError: Some of the columns cannot be texts, so that somebody must say which ones are.
    """
    keys = dict.fromkeys(chain.from_iterable(record.row for record in records))
    candidates = [key for key in keys if key not in NO_TEXT]
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
        StudyError: Some of several columns are sides.
    """
    sides = [column for column in columns if SIDE.fullmatch(plain_key(column))]
    if sides and len(columns) > 1:
        raise StudyError(
            f"{source}: {' and '.join(map(repr, sides))} are sides, and each row may have other systems "
            "there. Write a row for each text, with its system in a column 'system'. If all texts of a "
            "column are by one system, name the column after it"
        )


def find_system_column(records: Sequence[Record], source: object) -> str:
    """Return the column that names each text's system; "" if records do under a plain key, or nothing does.

    Raises:
        StudyError: A column of an unknown name differs between the texts of a prompt by one system.
    """
    rows = [record.row for record in records]
    prompts = [_first_filled(row, (*KEYS["prompt"], *KEYS["prompt_id"])) for row in rows]
    count = len(set(prompts))
    if count in {1, len(rows)} or not all(set(TEXT) & row.keys() for row in rows):
        return ""  # one text to each prompt, or nothing says which prompts are the same
    columns = {
        key: [str(value) if (value := row.get(key)) is not None else "" for row in rows]
        for key in dict.fromkeys(chain.from_iterable(rows))
    }
    has_names = any(key in columns for key in KEYS["strategy"])
    of_models = [key for key in columns if not has_names and _names_systems(key, columns[key], prompts)]
    model_column = next(iter(of_models), "")
    systems = [_first_filled(row, [model_column] if model_column else KEYS["strategy"]) for row in rows]
    groups = list(zip(prompts, systems, strict=True))
    if len(set(groups)) == len(rows):
        return model_column
    for key, values in columns.items():
        is_known = key in NO_TEXT or key in TEXT or plain_key(key) in RUNS or key == model_column
        if not is_known and _tells_texts_apart(values, groups):
            raise StudyError(
                f"{source}: the column {key!r} may name the systems, since it differs between the texts of "
                "each prompt. Rename it to 'system' if it does, to 'setting' if it names a setting of each "
                "system, or to 'run' if neither"
            )
    return model_column


def _names_systems(key: str, values: Sequence[str], prompts: Sequence[str]) -> bool:
    """Return whether a column with the heading of a model differs between the texts of a prompt."""
    differs = len(set(zip(prompts, values, strict=True))) > len(set(prompts))
    return plain_key(key) in SYSTEMS and differs and all(values)


def _tells_texts_apart(values: Sequence[str], groups: Sequence[tuple[str, str]]) -> bool:
    """Return whether a column has another value for each text of a group: few words, or the same numbers."""
    cells = set(zip(groups, values, strict=True))
    different = len(set(values))
    if len(cells) < len(values) or different > len(values) // 2:
        return False
    return not _is_number(values[0]) or len(set(groups)) * different == len(values)


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
