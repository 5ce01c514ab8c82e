"""Read prompts and references from files.

A row of a file (JSONL, JSON, CSV, TSV, XLSX, Parquet) has `prompt`, and optionally `id`, `dataset` and
`reference`. Other names for these keys, as in files of generations, are accepted too. Plain text (`.txt`) has
one prompt per line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from guard_eval import progress
from guard_eval.errors import StudyError
from guard_eval.records import Prompt
from guard_eval.study.folder import Study
from guard_eval.texts.generation_files import Fields
from guard_eval.texts.rows import Record, read_rows


def read_prompts(*paths: Path, dataset: str | None = None) -> list[Prompt]:
    """Return the prompts of files, in the order of the files and rows.

    A row without `dataset` belongs to the argument `dataset`, by default the file's name. A row without `id`
    gets an id from dataset and line.

    Raises:
        StudyError: A file is missing or has no prompt, or a row cannot be used. The message names the row.
    """
    prompts: dict[str, Prompt] = {}
    for path in paths:
        before = len(prompts)
        for prompt, record in _read_prompts_with_rows(path, dataset):
            if prompt.id in prompts:
                raise StudyError(
                    f"{record.where}: an earlier prompt has the id {prompt.id!r}, too; change one"
                )
            prompts[prompt.id] = prompt
        if len(prompts) == before:
            raise StudyError(
                f'{path} has no prompts; write one JSON object a line, such as {{"prompt": "Once upon"}}'
            )
    return list(prompts.values())


def read_study_prompts(study: Study, *, limited: bool = True) -> list[Prompt]:
    """Return the prompts of a study: the first `prompts.limit` prompts of each dataset.

    Args:
        study: The study.
        limited: Leave out prompts beyond `prompts.limit`, and report their number.

    Raises:
        StudyError: See `read_prompts`.
    """
    path = study.prompts_path
    status = path.stat()
    prompts = _read_cached_prompts(path, status.st_mtime_ns, status.st_size)
    limit = study.settings.prompts.limit
    if limit is None or not limited:
        return list(prompts)
    counts: Counter[str] = Counter()
    chosen = []
    for prompt in prompts:
        counts[prompt.dataset] += 1
        if counts[prompt.dataset] <= limit:
            chosen.append(prompt)
    if left_out := len(prompts) - len(chosen):
        progress.show_notice(f"prompts.limit = {limit} leaves out {left_out} of {len(prompts)} prompts")
    return chosen


@lru_cache(maxsize=1)  # one command asks several times; a changed file has another modification time
def _read_cached_prompts(path: Path, _changed: int, _size: int) -> tuple[Prompt, ...]:
    return tuple(read_prompts(path))


def read_prompt_columns(path: Path) -> dict[str, dict[str, object]]:
    """Return the table of a file of prompts: a prompt's id → a column's name → the value.

    The column `prompt_length`, in characters, is added.

    Raises:
        StudyError: The file or one of its rows cannot be read.
    """
    return {
        prompt.id: {"prompt_length": len(prompt.text), **record.row}
        for prompt, record in _read_prompts_with_rows(path)
    }


def _read_prompts_with_rows(path: Path, dataset: str | None = None) -> Iterator[tuple[Prompt, Record]]:
    """Yield the prompts of a file, each with its row."""
    for record in read_rows(path):
        fields = Fields(record)
        text = fields.read_prompt()
        group = fields.read_string("dataset") or dataset or path.stem
        name = fields.read_string("id") or fields.read_string("prompt_id") or f"{group}-{record.number:04d}"
        prompt = Prompt(id=name, dataset=group, text=text or "", reference=fields.read_string("reference"))
        if fields.flaws:
            raise StudyError(f"{record.where}: {fields.flaws[0]}; save the file as UTF-8")
        if not prompt.text.strip():
            keys = ", ".join(record.row)
            raise StudyError(
                f"{record.where}: there is no text under the key 'prompt' (keys: {keys:.300}); write one"
            )
        yield prompt, record
