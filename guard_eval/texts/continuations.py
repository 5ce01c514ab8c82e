"""Continuations on disk: one folder for each run of a model, in it one JSONL file for each strategy.

`continuations/<8 hexadecimal digits>/recipe.json` says what all texts of the folder share: the model, its
arithmetic, the seed and the limits. Texts of different recipes therefore cannot mix. Beside it,
`guard.jsonl` has a line for each text by GUARD. A shard appends to `guard.shard-1-of-4.jsonl`, so no two
processes append to one file, and shards of other machines are joined by copying their files.

Each batch is appended and synced. A process that dies leaves at most one torn last line, which readers skip
and the next append cuts off.
"""

from __future__ import annotations

import json
import mmap
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from io import FileIO
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import Any

from guard_eval.errors import StudyError
from guard_eval.files.opening import LARGEST_TEXT, open_regular, read_bytes
from guard_eval.records import Continuation, Recipe, content_id
from guard_eval.reporting.writing import open_to_append, write_whole
from guard_eval.texts.shards import WHOLE, Shard

RUN_FIELDS = (
    "model", "revision", "dtype", "seed", "max_new_tokens", "max_prompt_tokens",
    "chat", "chat_template", "stop",
)  # fmt: skip
"""What all texts of a folder share: fields of `Recipe`."""

_STRATEGY_FIELDS = ("strategy", "amateur", "amateur_revision", "engine", "source")
"""Fields of `Recipe` that a text's line has where they are set."""

_LONGEST_LINE = 2**26


def run_folder(continuations: Path, recipe: Recipe) -> Path:
    """Return the folder of a recipe's texts in a study's `continuations`.

    Of a model that is a folder, the content counts and the path does not.
    """
    shared = {name: getattr(recipe, name) for name in RUN_FIELDS}
    if recipe.revision.startswith("sha256:"):
        del shared["model"]
    return continuations / content_id("run", shared)[:8]


def read_run_folders(continuations: Path) -> dict[Path, dict[str, Any]]:
    """Return the folders of a study's `continuations` with what their texts share, by `RUN_FIELDS`.

    Raises:
        StudyError: A recipe.json cannot be read.
    """
    return {path.parent: _read_recipe(path.parent) for path in sorted(continuations.glob("*/recipe.json"))}


def _read_recipe(folder: Path) -> dict[str, Any]:
    """Return what recipe.json says, by `RUN_FIELDS`."""
    path = folder / "recipe.json"
    try:
        values = json.loads(read_bytes(path, limit=LARGEST_TEXT))
        return {name: values[name] for name in RUN_FIELDS} | {"stop": tuple(values["stop"])}
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise StudyError(
            f"cannot read the recipe {path} ({type(error).__name__}: {error}); copy it together with the "
            "texts, or move its folder away to make them again"
        ) from None


def continuation_files(folder: Path, strategy: str) -> list[Path]:
    """Return the files of a run's folder that hold a strategy's texts, of all shards and variants."""
    name = re.compile(rf"{re.escape(strategy)}(\.vllm)?(\.[0-9a-f]{{8}})?(\.shard-\d+-of-\d+)?\.jsonl")
    return [path for path in sorted(folder.glob("*.jsonl")) if name.fullmatch(path.name)]


def _stem(recipe: Recipe, shard: Shard) -> str:
    """Return the name of a recipe's file: the strategy, and what else can differ within a run's folder."""
    variant = (recipe.amateur, recipe.amateur_revision, recipe.source)
    engine = f".{recipe.engine}" if recipe.engine else ""
    digits = f".{content_id(*variant)[:8]}" if any(variant) else ""
    return f"{recipe.strategy}{engine}{digits}{shard.suffix}"


def append_continuations(continuations: Path, batch: Sequence[Continuation], shard: Shard = WHOLE) -> None:
    """Append texts to the files of their recipes and sync them. When this returns, they outlive a crash.

    Raises:
        StudyError: A file cannot be written (disk full, no permission). Its earlier lines stay valid, and so
            do the new lines that still found room.
    """
    for recipe, texts in groupby(batch, key=lambda text: text.recipe):
        folder = run_folder(continuations, recipe)
        if not (folder / "recipe.json").exists():
            shared = {name: getattr(recipe, name) for name in RUN_FIELDS}
            content = json.dumps(shared, indent=2, ensure_ascii=False) + "\n"
            write_whole(folder / "recipe.json", content.encode(), make_folder=True)
        append_lines(folder / f"{_stem(recipe, shard)}.jsonl", map(_row, texts))


Trace = dict[str, Any]
"""How a strategy adapted to a text: its `id`, its `prompt_id`, and lists of a number for each token."""


def append_traces(continuations: Path, recipe: Recipe, batch: Iterable[Trace], shard: Shard = WHOLE) -> None:
    """Append traces, one object a line.

    They are written before their texts, so that no text lacks its trace. After a crash in between, a trace
    exists twice, with the same values.
    """
    path = run_folder(continuations, recipe) / f"{_stem(recipe, shard)}.trace.jsonl"
    append_lines(path, batch)


def _row(continuation: Continuation) -> dict[str, Any]:
    """Return what a text's line says; what it shares with the folder's other texts is in recipe.json."""
    row = asdict(continuation)
    recipe = row.pop("recipe")
    return row | {name: recipe[name] for name in _STRATEGY_FIELDS if recipe[name] is not None}


def append_lines(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Append objects as lines and sync them; a line that is torn before or after goes.

    Raises:
        StudyError: The file cannot be written.
    """
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    rest = memoryview(lines.encode("utf-8", "surrogatepass"))
    try:
        with open_to_append(path) as file:  # without a buffer, which would repeat a write that found no room
            file.truncate(_whole_lines(file))
            try:
                while rest:
                    rest = rest[file.write(rest) :]
            finally:
                file.truncate(_whole_lines(file))
                os.fsync(file.fileno())
    except OSError as error:
        raise StudyError(
            f"cannot write {path}: {error.strerror}; fix that and run the command again"
        ) from error


def _whole_lines(file: FileIO) -> int:
    """Return how many bytes of a file are whole lines."""
    if not os.fstat(file.fileno()).st_size:
        return 0
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.rfind(b"\n") + 1


def read_continuations(path: Path) -> Iterator[Continuation]:
    """Yield the texts of a file in a run's folder, in the order they were written.

    Raises:
        StudyError: A whole line, or recipe.json beside the file, cannot be read.
    """
    shared = _read_recipe(path.parent)
    for number, line in _whole_lines_of(path):
        try:
            row = json.loads(line)
            recipe = Recipe(**shared, **{name: row.pop(name, None) for name in _STRATEGY_FIELDS})
            yield Continuation(recipe=recipe, **row)
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise StudyError(
                f"{path}, line {number}: not a continuation ({type(error).__name__}: {error}); remove "
                "it, and guard-eval generate makes the text again"
            ) from error


def read_trace_means(continuations: Path) -> dict[str, dict[str, float]]:
    """Return the means over tokens of what each text's trace records, by the text's id and by name.

    Raises:
        StudyError: A whole line cannot be read.
    """
    means: dict[str, dict[str, float]] = {}
    for path in sorted(continuations.glob("*/*.trace.jsonl")):
        for number, line in _whole_lines_of(path):
            try:
                trace: Trace = json.loads(line)
                lists = {
                    name: values for name, values in trace.items() if isinstance(values, list) and values
                }
                means[trace["id"]] = {name: fmean(values) for name, values in lists.items()}
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
                raise StudyError(
                    f"{path}, line {number}: not a trace ({type(error).__name__}: {error}); remove it"
                ) from error
    return means


def _whole_lines_of(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the numbers and lines of a file, without a last one that is torn or still written."""
    with open_regular(path) as file:
        for number, line in enumerate(iter(partial(file.readline, _LONGEST_LINE), b""), start=1):
            if len(line) == _LONGEST_LINE:
                raise StudyError(f"{path}, line {number}: longer than any text; remove it")
            if not line.endswith(b"\n"):
                return
            yield number, line
