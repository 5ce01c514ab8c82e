"""Read prompts and references from files.

A row of a file (JSONL, JSON, CSV, TSV, XLSX, Parquet) has `prompt`, and optionally `id`, `dataset` and
`reference`. Other names for these keys, as in files of generations, are accepted too. Plain text (`.txt`) has
one prompt per line.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

from guard_eval import progress
from guard_eval.errors import StudyError
from guard_eval.records import Prompt, clean_for_raters
from guard_eval.study.folder import Study
from guard_eval.texts.generation_files import UTF8_REMEDY, Fields, TextTable
from guard_eval.texts.rows import KEYS, TEXT, Record, read_rows

_NO_PROPERTIES = {*TEXT, *KEYS, *chain(*KEYS.values()), "dataset", "", "Unnamed: 0", "key"}
_LONGEST_PROPERTY = 100
"""The largest number of characters of a value that describes a prompt, such as its genre."""


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
                    f"{record.where}: an earlier prompt has the id {prompt.id!r}, too; change one, "
                    "or remove the ids of this file"
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
        prompt.id: {"prompt_length": len(prompt.text), **prompt.columns}
        for prompt, _ in _read_prompts_with_rows(path)
    }


def read_prompt_properties(
    sources: Sequence[Path | Any], *, systems: Collection[str] = ()
) -> dict[str, dict[str, object]]:
    """Return the columns that describe prompts, such as the genre: prompt → column → value.

    A column describes prompts if every file has this column, each prompt has one short value there, and not
    all values are the same. The prompts are as raters see them.

    Args:
        sources: Files of prompts or texts, or data frames.
        systems: Columns that contain texts.
    """
    tables = [TextTable.open(source).records for source in sources]
    values: defaultdict[str, dict[str, object]] = defaultdict(dict)  # by column and prompt
    unsuitable = {*_NO_PROPERTIES, *systems}
    for record in chain.from_iterable(tables):
        prompt = clean_for_raters(Fields(record).read_prompt() or "")
        for column, value in record.row.items():
            if value in (None, "") or column in unsuitable:
                continue
            is_short = isinstance(value, str | int | float) and len(str(value)) <= _LONGEST_PROPERTY
            if not is_short or values[column].setdefault(prompt, value) != value:
                unsuitable.add(column)
    properties: defaultdict[str, dict[str, object]] = defaultdict(dict)
    for column, by_prompt in values.items():
        is_in_all_files = all(column in records[0].row for records in tables)
        if is_in_all_files and column not in unsuitable and len(set(by_prompt.values())) > 1:
            for prompt, value in by_prompt.items():
                properties[prompt][column] = value
    return dict(properties)


def _read_prompts_with_rows(path: Path, dataset: str | None = None) -> Iterator[tuple[Prompt, Record]]:
    """Yield the prompts of a file, each with its row."""
    for record in read_rows(path):
        fields = Fields(record)
        text = fields.read_prompt()
        group = fields.read_string("dataset") or dataset or path.stem
        name = fields.read_string("id") or fields.read_string("prompt_id") or f"{group}-{record.number:04d}"
        prompt = Prompt(
            id=name,
            dataset=group,
            text=text or "",
            reference=fields.read_string("reference"),
            columns=record.row,
        )
        if fields.flaws:
            raise StudyError(f"{record.where}: {fields.flaws[0]}; {UTF8_REMEDY}")
        if not prompt.text.strip():
            keys = ", ".join(record.row)
            raise StudyError(
                f"{record.where}: there is no text under the key 'prompt' (keys: {keys:.300}); rename "
                "the key of the prompt, or write a prompt"
            )
        yield prompt, record
