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
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import MISSING, asdict, fields
from pathlib import Path
from typing import Any, TypeVar

from guard_eval.errors import StudyError
from guard_eval.records import Continuation, Recipe, Trace, content_id
from guard_eval.reporting.writing import write_whole
from guard_eval.texts.shards import Shard

RUN_FIELDS = (
    "model",
    "revision",
    "dtype",
    "seed",
    "max_new_tokens",
    "max_prompt_tokens",
    "chat",
    "stop",
)
"""What all texts of a folder share: fields of `Recipe`."""

_STRATEGY_FIELDS = ("amateur", "amateur_revision", "engine", "source")
"""Fields of `Recipe` that a strategy's lines have where they are set."""

_TEXT_FIELDS = tuple(field.name for field in fields(Continuation) if field.default is MISSING)
_SHARDS = r"(\.shard-\d+-of-\d+)?"

_ID = re.compile(rb'\{"id": ?"([^"\\]+)"')

_Parsed = TypeVar("_Parsed")


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
    return {path.parent: _read_recipe(path) for path in sorted(continuations.glob("*/recipe.json"))}


def continuation_files(folder: Path, strategy: str) -> list[Path]:
    """Return the files of a run's folder that hold a strategy's texts, of all shards and variants."""
    return _files(folder, strategy, ".jsonl")


def trace_files(folder: Path, strategy: str) -> list[Path]:
    """Return the files of a run's folder that hold the traces of a strategy's texts."""
    return _files(folder, strategy, ".trace.jsonl")


def _files(folder: Path, strategy: str, end: str) -> list[Path]:
    name = re.compile(rf"{re.escape(strategy)}(\.vllm)?(\.[0-9a-f]{{8}})?{_SHARDS}{re.escape(end)}")
    result = [path for path in folder.iterdir() if name.fullmatch(path.name)] if folder.is_dir() else []
    return sorted(result, key=lambda path: (len(path.name), path.name))


def _stem(recipe: Recipe, shard: Shard) -> str:
    """Return the name of a recipe's file: the strategy, and what else can differ within a run's folder."""
    variant = (recipe.amateur, recipe.amateur_revision, recipe.source)
    engine = f".{recipe.engine}" if recipe.engine else ""
    digits = f".{content_id(*variant)[:8]}" if any(variant) else ""
    return f"{recipe.strategy}{engine}{digits}{shard.suffix}"


def append_continuations(
    continuations: Path,
    batch: Sequence[Continuation],
    shard: Shard = Shard(),  # noqa: B008 (frozen)
) -> None:
    """Append texts to the files of their recipes and sync them. When this returns, they outlive a crash.

    Raises:
        StudyError: A file cannot be written (disk full, no permission). Its earlier lines stay valid, and so
            do the new lines that still found room.
    """
    by_recipe: dict[Recipe, list[Continuation]] = {}
    for text in batch:
        by_recipe.setdefault(text.recipe, []).append(text)
    for recipe, texts in by_recipe.items():
        folder = run_folder(continuations, recipe)
        if not (folder / "recipe.json").exists():
            shared = {name: getattr(recipe, name) for name in RUN_FIELDS}
            content = json.dumps(shared, indent=2, ensure_ascii=False) + "\n"
            write_whole(folder / "recipe.json", content.encode(), make_folder=True)
        _append(folder / f"{_stem(recipe, shard)}.jsonl", b"".join(map(line_of, texts)))


def append_traces(
    continuations: Path,
    recipe: Recipe,
    batch: Iterable[Trace],
    shard: Shard = Shard(),  # noqa: B008
) -> None:
    """Append traces, one object a line, with their values as lists by name.

    They are written before their texts, so that no text lacks its trace. After a crash in between, a trace
    exists twice, with the same values.
    """
    path = run_folder(continuations, recipe) / f"{_stem(recipe, shard)}.trace.jsonl"
    rows = ({"id": trace.id, "prompt_id": trace.prompt_id, **trace.values} for trace in batch)
    _append(path, b"".join(map(_line, rows)))


def line_of(continuation: Continuation) -> bytes:
    """Return a text's line; what it shares with the folder's other texts is in recipe.json."""
    row = asdict(continuation)
    recipe = row.pop("recipe")
    if row["run"] == 1:
        del row["run"]
    strategy = {name: recipe[name] for name in _STRATEGY_FIELDS if recipe[name] is not None}
    return _line({**row, "strategy": recipe["strategy"], **strategy})


def read_continuations(path: Path) -> Iterator[Continuation]:
    """Yield the texts of a file in a run's folder, in the order they were written.

    Raises:
        StudyError: A whole line, or recipe.json beside the file, cannot be read.
    """
    shared = _read_recipe(path.with_name("recipe.json"))

    def parse(row: dict[str, Any]) -> Continuation:
        of_strategy: dict[str, Any] = {name: row.get(name) for name in _STRATEGY_FIELDS}
        recipe = Recipe(**shared, strategy=row["strategy"], **of_strategy)
        return Continuation(
            recipe=recipe,
            run=row.get("run", 1),
            **{name: row[name] for name in _TEXT_FIELDS if name != "recipe"},
        )

    remedy = "remove the line, and guard-eval generate makes the text again"
    yield from _read_lines(path, parse, what="a continuation", remedy=remedy)


def read_ids(path: Path) -> Iterator[str]:
    """Yield the ids of a file's texts, which begin their lines; a torn last line has none."""
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"}\n") and (start := _ID.match(line)):
                yield start[1].decode()


def read_traces(paths: Iterable[Path]) -> list[Trace]:
    """Return the traces of files, each text's once: in the place of its first line, with its last values.

    Raises:
        StudyError: A file cannot be read, or a whole line is not a trace.
    """

    def parse(row: dict[str, Any]) -> Trace:
        names = {name: row.pop(name) for name in ("id", "prompt_id")}
        if not all(isinstance(name, str) for name in names.values()) or not all(
            map(_is_series, row.values())
        ):
            raise TypeError("it must have an id, a prompt_id and lists of numbers by name")
        return Trace(**names, values=row)

    traces: dict[str, Trace] = {}
    for path in paths:
        remedy = "remove the line to go on without it"
        for trace in _read_lines(path, parse, what="a trace of guard-eval generate --trace", remedy=remedy):
            traces[trace.id] = trace
    return list(traces.values())


def _read_recipe(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_bytes())
        recipe = {name: values[name] for name in RUN_FIELDS}
        recipe["stop"] = tuple(recipe["stop"])
    except OSError as error:
        raise StudyError(
            f"cannot read {path}: {error.strerror}; copy it together with the texts beside it"
        ) from None
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise StudyError(
            f"{path} is not a recipe of guard-eval generate ({type(error).__name__}: {error}); restore it, "
            "or move its folder away to make the texts again"
        ) from None
    return recipe


def _read_lines(
    path: Path, parse: Callable[[dict[str, Any]], _Parsed], *, what: str, remedy: str
) -> Iterator[_Parsed]:
    """Yield what `parse` makes of each whole line; a last line without an end is torn, or still written."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if not line.endswith(b"\n"):
                    break
                try:
                    yield parse(json.loads(line))
                except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
                    reason = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
                    raise StudyError(f"{path}, line {number}: not {what} ({reason}); {remedy}") from error
    except OSError as error:
        raise StudyError(f"cannot read {path}: {error.strerror}") from error


def _is_series(values: object) -> bool:
    """Return whether these are finite numbers; Python's JSON knows others, and takes true for 1."""
    return isinstance(values, list) and all(
        type(value) in {int, float} and abs(value) <= sys.float_info.max for value in values
    )


def _append(path: Path, data: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab", buffering=0) as file:  # a buffer would try again to write what found no room
            file.truncate(_whole_lines(path))
            try:
                rest = memoryview(data)
                while rest:
                    rest = rest[file.write(rest) :]
            finally:
                file.truncate(_whole_lines(path))
                os.fsync(file.fileno())
    except OSError as error:
        raise StudyError(
            f"cannot write {path}: {error.strerror}; fix that and run the command again"
        ) from error


def _whole_lines(path: Path) -> int:
    """Return how many bytes of `path` are whole lines."""
    size = path.stat().st_size
    step = 65536
    with path.open("rb") as file:
        for start in range(max(0, size - step), -step, -step):
            file.seek(max(0, start))
            end = file.read(step).rfind(b"\n")
            if end >= 0:
                return max(0, start) + end + 1
    return 0


def _line(row: dict[str, Any]) -> bytes:
    try:
        return json.dumps(row, ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:  # lone surrogates cannot be written as UTF-8; JSON's \\u escapes carry them
        return json.dumps(row).encode() + b"\n"
