"""Prompts and references from files and from Hugging Face datasets.

A row of a file (JSONL, JSON, CSV, TSV, XLSX, Parquet) has `prompt`, and optionally `id`, `dataset` and
`reference`, or other names that files of generations have for these; other keys are left alone. Plain text
(`.txt`) has one prompt a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from guard_eval.errors import MissingExtraError, StudyError
from guard_eval.records import Prompt
from guard_eval.texts.generation_files import Fields
from guard_eval.texts.rows import Record, read_rows


def read_prompts(path: Path, *, limit: int | None = None) -> list[Prompt]:
    """Return the prompts of `path` in the file's order, the first `limit` of them.

    A row without `dataset` belongs to the dataset named like the file; one without `id` is named by dataset
    and line.

    Raises:
        StudyError: There is no such file, no prompt in it, or a row that cannot be used (it is named).
    """
    prompts: dict[str, Prompt] = {}
    for record in islice(read_rows(path), limit):
        prompt = _prompt(path, record)
        if prompt.id in prompts:
            raise StudyError(f"{record.where}: an earlier prompt has the id {prompt.id!r}, too; change one")
        prompts[prompt.id] = prompt
    if not prompts:
        raise StudyError(
            f'{path} holds no prompts; write one JSON object a line, such as {{"prompt": "Once upon"}}'
        )
    return list(prompts.values())


def _prompt(path: Path, record: Record) -> Prompt:
    fields = Fields(record.where, record.row)
    text, dataset = fields.string("prompt"), fields.string("dataset") or path.stem
    name, reference = fields.string("id") or fields.string("prompt_id"), fields.string("reference")
    if fields.flaws:
        raise StudyError(f"{record.where}: {fields.flaws[0]}; save the file as UTF-8")
    if text is None or not text.strip():
        keys = ", ".join(map(repr, record.row))
        raise StudyError(
            f"{record.where}: there is no text under the key 'prompt' (keys: {keys:.300}); write one"
        )
    return Prompt(
        id=name or f"{dataset}-{record.number:04d}", dataset=dataset, text=text, reference=reference
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
    try:
        import datasets  # noqa: PLC0415 (an extra, and seconds to load)
    except ImportError:
        raise MissingExtraError("datasets", "datasets") from None
    try:
        texts = datasets.load_dataset(name, split=split)[column]
    except (OSError, ValueError, KeyError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        raise StudyError(
            f"cannot load the column {column!r} of the dataset {name!r}, split {split!r}: {reason}; check "
            "these names"
        ) from error
    prompts = list(islice(_cut(Path(name).name, texts, words), limit))
    if not prompts:
        raise StudyError(
            f"no text in column {column!r} of {name!r} is longer than {words} words; ask for fewer"
        )
    return prompts


def _cut(dataset: str, texts: Iterable[object], words: int) -> Iterator[Prompt]:
    begin = re.compile(rf"\s*(?:\S+\s+){{{words - 1}}}\S+")
    for number, text in enumerate(texts):
        match = begin.match(text) if isinstance(text, str) else None
        if match and isinstance(text, str) and (reference := text[match.end() :]).strip():
            name = f"{dataset}-{number}"
            yield Prompt(id=name, dataset=dataset, text=match.group().strip(), reference=reference)
