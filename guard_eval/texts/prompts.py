"""Prompts and references from files.

A row of a file (JSONL, JSON, CSV, TSV, XLSX, Parquet) has `prompt`, and optionally `id`, `dataset` and
`reference`, or other names that files of generations have for these. Plain text (`.txt`) has one prompt a
line.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from guard_eval.errors import StudyError
from guard_eval.records import Prompt
from guard_eval.texts.generation_files import Fields
from guard_eval.texts.rows import Record, read_rows


def read_prompts(path: Path, *, limit: int | None = None, dataset: str | None = None) -> list[Prompt]:
    """Return the prompts of `path` in the file's order, the first `limit` of them.

    A row without `dataset` belongs to `dataset`, by default the file's name; one without `id` is named by
    dataset and line.

    Raises:
        StudyError: There is no such file, no prompt in it, or a row that cannot be used (it is named).
    """
    prompts: dict[str, Prompt] = {}
    for prompt, record in islice(_read_numbered(path, dataset), limit):
        if prompt.id in prompts:
            raise StudyError(f"{record.where}: an earlier prompt has the id {prompt.id!r}, too; change one")
        prompts[prompt.id] = prompt
    if not prompts:
        raise StudyError(
            f'{path} holds no prompts; write one JSON object a line, such as {{"prompt": "Once upon"}}'
        )
    return list(prompts.values())


def read_prompt_columns(path: Path) -> dict[str, dict[str, object]]:
    """Return what the file says of each prompt, by its id and by column.

    `prompt_length`, in characters, is a column too.

    Raises:
        StudyError: The file cannot be read, or has a row that cannot be used.
    """
    return {
        prompt.id: {"prompt_length": len(prompt.text), **record.row}
        for prompt, record in _read_numbered(path)
    }


def _read_numbered(path: Path, dataset: str | None = None) -> Iterator[tuple[Prompt, Record]]:
    """Yield the prompts of a file, each with its row."""
    for record in read_rows(path):
        fields = Fields(record)
        text = fields.string("prompt")
        group = fields.string("dataset") or dataset or path.stem
        name = fields.string("id") or fields.string("prompt_id") or f"{group}-{record.number:04d}"
        prompt = Prompt(id=name, dataset=group, text=text or "", reference=fields.string("reference"))
        if fields.flaws:
            raise StudyError(f"{record.where}: {fields.flaws[0]}; save the file as UTF-8")
        if not prompt.text.strip():
            keys = ", ".join(record.row)
            raise StudyError(
                f"{record.where}: there is no text under the key 'prompt' (keys: {keys:.300}); write one"
            )
        yield prompt, record
