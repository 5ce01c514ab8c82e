"""Prompts and references from files and from Hugging Face datasets.

JSONL: one object a line with `prompt`, and optionally `id`, `dataset` and `reference`; other keys are left
alone. CSV (`.csv`, `.tsv`): the same names as headings. Plain text (`.txt`): one prompt a line.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

from guard_eval.errors import MissingExtraError, StudyError
from guard_eval.records import Prompt


def read_prompts(path: Path, *, limit: int | None = None) -> list[Prompt]:
    """Return the prompts of `path`, as `iter_prompts` yields them.

    Raises:
        StudyError: No such file, no prompt in it, or a line that cannot be read (named by its number).
    """
    return list(iter_prompts(path, limit=limit))


def iter_prompts(path: Path, *, limit: int | None = None) -> Iterator[Prompt]:
    """Yield the prompts of `path` in the file's order, the first `limit` of them; the ids alone are kept.

    A line without `dataset` belongs to the dataset named like the file; one without `id` is named by dataset
    and line.

    Raises:
        StudyError: No such file, no prompt in it, or a line that cannot be read (named by its number).
    """
    seen: dict[str, int] = {}
    for number, prompt in _FORMATS.get(path.suffix.lower(), _json_lines)(path):
        if not prompt.text.strip():
            raise StudyError(f"{path}, line {number}: the prompt is empty; write one, or remove the line")
        if prompt.id in seen:
            first = seen[prompt.id]
            raise StudyError(
                f"{path}, line {number}: the id {prompt.id!r} is that of line {first}; change one"
            )
        seen[prompt.id] = number
        yield prompt
        if len(seen) == limit:
            break
    if not seen:
        raise StudyError(
            f'{path} holds no prompts; write one JSON object a line, such as {{"prompt": "Once upon"}}'
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
    found = 0
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
        found += 1
        if found == limit:
            return


def _lines(path: Path) -> Iterator[str]:
    number = 0
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                yield line.decode("utf-8-sig" if number == 1 else "utf-8").removesuffix("\n")
    except FileNotFoundError:
        raise StudyError(
            f"there is no prompts file {path}; name it under [prompts] file in study.toml"
        ) from None
    except UnicodeDecodeError as error:
        raise StudyError(f"{path}, line {number}: not UTF-8; save the file as UTF-8") from error
    except OSError as error:
        raise StudyError(f"cannot read {path}: {error.strerror}") from error


def _text_lines(path: Path) -> Iterator[tuple[int, Prompt]]:
    for number, line in enumerate(_lines(path), start=1):
        if line.strip():
            yield number, Prompt(id=f"{path.stem}-{number:04d}", dataset=path.stem, text=line.rstrip("\r"))


def _json_lines(path: Path) -> Iterator[tuple[int, Prompt]]:
    for number, line in enumerate(_lines(path), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            reason = getattr(error, "msg", "a number or a nesting that cannot be read")
            raise StudyError(
                f"{path}, line {number}: not valid JSON ({reason}, column {getattr(error, 'colno', 1)})"
            ) from error
        if not isinstance(row, dict):
            raise StudyError(f'{path}, line {number}: not a JSON object; write {{"prompt": "…"}}')
        yield number, _prompt(path, number, row)


def _csv_rows(path: Path) -> Iterator[tuple[int, Prompt]]:
    """Yield the prompts of a table with headings; a number is that of the line where a row ends."""
    lines = _lines(path)
    first = next(lines, "")
    # Spreadsheets write semicolons where a comma is the decimal mark; headings have neither.
    mark = max("\t;," if path.suffix.lower() == ".tsv" else ",;\t", key=first.count)
    reader = csv.reader((f"{line}\n" for line in chain([first], lines)), delimiter=mark, strict=True)
    limit = csv.field_size_limit(max(csv.field_size_limit(), path.stat().st_size if first else 0))
    try:
        head = [name.strip() for name in next(reader, [])]
        if twice := [name for name in dict.fromkeys(head) if name and head.count(name) > 1]:
            raise StudyError(f"{path}: two columns are called {twice[0]!r}; rename one")
        for row in reader:
            if not any(row):
                continue
            if len(row) != len(head):
                raise StudyError(
                    f"{path}, line {reader.line_num}: {len(row)} cells under {len(head)} headings; "
                    f"quote texts that hold {mark!r}"
                )
            # an empty cell says that nothing is known, but of the prompt
            cells = {name: cell for name, cell in zip(head, row, strict=True) if cell or name == "prompt"}
            yield reader.line_num, _prompt(path, reader.line_num, cells)
    except csv.Error as error:
        raise StudyError(
            f"{path}, line {reader.line_num}: not valid CSV ({error}); quote texts with line breaks or quotes"
        ) from error
    finally:
        csv.field_size_limit(limit)


_FORMATS: dict[str, Callable[[Path], Iterator[tuple[int, Prompt]]]] = {
    ".txt": _text_lines,
    ".csv": _csv_rows,
    ".tsv": _csv_rows,
}
"""How a file is read, by its suffix; any other is JSONL."""


def _prompt(path: Path, number: int, row: dict[str, Any]) -> Prompt:
    row = {key: _named(value) if key in {"id", "dataset"} else value for key, value in row.items()}
    dataset = _string(path, number, row, "dataset") or path.stem
    text = _string(path, number, row, "prompt")
    if text is None:
        raise StudyError(
            f"{path}, line {number}: has no key 'prompt', only {', '.join(map(repr, row)) or 'nothing'}"
        )
    return Prompt(
        id=_string(path, number, row, "id") or f"{dataset}-{number:04d}",
        dataset=dataset,
        text=text,
        reference=_string(path, number, row, "reference"),
    )


def _named(value: object) -> object:
    """Return a whole number as the name that it is."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _string(path: Path, number: int, row: dict[str, Any], key: str) -> str | None:
    value = row.get(key)
    if value is not None and not isinstance(value, str):
        raise StudyError(f"{path}, line {number}: {key!r} is {value!r}; it must be a string")
    return value
