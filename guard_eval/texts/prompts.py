"""Prompts and references from files and from Hugging Face datasets.

A row of a file (JSONL, JSON, CSV, TSV, XLSX, Parquet) has `prompt`, and optionally `id`, `dataset` and
`reference`; other keys are left alone. Plain text (`.txt`) has one prompt a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from guard_eval.errors import MissingExtraError, StudyError
from guard_eval.records import Prompt
from guard_eval.texts.rows import Record, read_rows, text_lines


def read_prompts(path: Path, *, limit: int | None = None) -> list[Prompt]:
    """Return the prompts of `path` in the file's order, the first `limit` of them.

    A row without `dataset` belongs to the dataset named like the file; one without `id` is named by dataset
    and line.

    Raises:
        StudyError: There is no such file, no prompt in it, or a row that cannot be used (it is named).
    """
    if not path.is_file():
        raise StudyError(f"there is no prompts file {path}; name it under [prompts] file in study.toml")
    prompts: dict[str, Prompt] = {}
    places: dict[str, str] = {}
    for record in _text_rows(path) if path.suffix.lower() == ".txt" else read_rows(path):
        at = f"{path}, {record.where}"
        prompt = _prompt(path, at, record)
        if prompt.id in prompts:
            raise StudyError(f"{at}: the id {prompt.id!r} is that of {places[prompt.id]}; change one")
        prompts[prompt.id], places[prompt.id] = prompt, record.where
        if len(prompts) == limit:
            break
        if record.torn:
            raise StudyError(f"{path}, line {record.number + 1}: not valid JSON; complete or remove it")
    if not prompts:
        raise StudyError(
            f'{path} holds no prompts; write one JSON object a line, such as {{"prompt": "Once upon"}}'
        )
    return list(prompts.values())


def _text_rows(path: Path) -> list[Record]:
    return [
        Record(where=f"line {number}", number=number, row={"prompt": line.rstrip("\r")})
        for number, line in enumerate(text_lines(path.read_bytes()), start=1)
        if line.strip()
    ]


def _prompt(path: Path, at: str, record: Record) -> Prompt:
    values: dict[str, str] = {}
    for key in ("id", "dataset", "prompt", "reference"):
        value = record.row.get(key)
        if key in {"id", "dataset"} and isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if value is None or (value == "" and key != "prompt"):
            continue
        if not isinstance(value, str):
            raise StudyError(f"{at}: {key!r} is {value!r}; it must be a string")
        if re.search("[\udc80-\udcff]", value):
            raise StudyError(f"{at}: not UTF-8; save the file as UTF-8")
        values[key] = value
    if "prompt" not in values:
        have = ", ".join(map(repr, record.row)) or "nothing"
        raise StudyError(f"{at}: has no key 'prompt', only {have:.300}")
    if not values["prompt"].strip():
        raise StudyError(f"{at}: the prompt is empty; write one, or remove the row")
    dataset = values.get("dataset", path.stem)
    return Prompt(
        id=values.get("id", f"{dataset}-{record.number:04d}"),
        dataset=dataset,
        text=values["prompt"],
        reference=values.get("reference"),
    )


def read_dataset(
    name: str, *, split: str = "test", column: str = "text", words: int = 32, limit: int | None = None
) -> list[Prompt]:
    """Cut a Hugging Face dataset's texts in two: `words` words of prompt, the rest as reference.

    Texts that are not longer than the prompt (headings, empty lines) are left out.

    Args:
        name: An id on the Hub, or a folder.
        split: Which of its splits.
        column: The column of texts.
        words: Length of a prompt, in words.
        limit: The first so many prompts.

    Raises:
        StudyError: The dataset, the split or the column is missing, or no text is long enough.
    """
    if find_spec("datasets") is None:
        raise MissingExtraError("datasets", "datasets")
    import datasets  # noqa: PLC0415 (an extra, and seconds to load)

    try:
        rows = datasets.load_dataset(name, split=split)
    except (OSError, ValueError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        raise StudyError(
            f"cannot load the dataset {name!r}, split {split!r}: {reason}; check both names"
        ) from error
    if column not in rows.column_names:
        known = ", ".join(rows.column_names)
        raise StudyError(f"the dataset {name!r} has no column {column!r}; choose from: {known}")
    prompts = list(_cut(Path(name).name, rows[column], words, limit))
    if not prompts:
        raise StudyError(
            f"no text in column {column!r} of {name!r} is longer than {words} words; ask for fewer"
        )
    return prompts


def _cut(dataset: str, texts: Iterable[object], words: int, limit: int | None) -> Iterable[Prompt]:
    begin = re.compile(rf"\s*(?:\S+\s+){{{words - 1}}}\S+")
    count = 0
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            continue
        match = begin.match(text)
        if match is None or not text[match.end() :].strip():
            continue
        yield Prompt(
            id=f"{dataset}-{number}",
            dataset=dataset,
            text=match.group().strip(),
            reference=text[match.end() :],
        )
        count += 1
        if count == limit:
            return
