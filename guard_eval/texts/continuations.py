"""Continuations on disk: each run of a model has a folder, which has a JSONL file for each strategy.

`continuations/<8 hexadecimal digits>/recipe.json` has the fields that all texts of the folder share: the
model, its arithmetic, the seed and the limits. Texts of different recipes therefore cannot mix. In the same
folder, `guard.jsonl` has a line for each text by GUARD. A shard appends to `guard.shard-1-of-4.jsonl`, so two
processes never append to the same file. To join shards of other machines, copy their files.

Batches are appended by `append_lines` of `journal`, so a crash loses no text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import chain, groupby
from pathlib import Path
from statistics import fmean
from typing import Any

from guard_eval.errors import StudyError
from guard_eval.files.opening import LARGEST_TEXT, read_bytes
from guard_eval.records import Continuation, Recipe, make_content_id
from guard_eval.reporting.writing import find_target, write_atomically
from guard_eval.texts.journal import append_lines, read_lines
from guard_eval.texts.shards import WHOLE, Shard

RUN_FIELDS = (
    "model", "revision", "dtype", "seed", "max_new_tokens", "max_prompt_tokens",
    "chat", "chat_template", "stop",
)  # fmt: skip
"""The fields of `Recipe` that all texts of a folder share."""

_STRATEGY_FIELDS = ("strategy", "amateur", "amateur_revision", "engine", "source")
"""Fields of `Recipe` that are in a text's line, if they are set."""


def locate_run_folder(continuations: Path, recipe: Recipe) -> Path:
    """Return the folder of a recipe's texts in a study's `continuations`.

    If the model is a folder, the content of this folder counts, not its path.
    """
    shared = _get_run_fields(recipe)
    if recipe.revision.startswith("sha256:"):
        del shared["model"]
    return continuations / make_content_id("run", shared)[:8]


def _get_run_fields(recipe: Recipe) -> dict[str, object]:
    """Return the fields that all recipes of a run share."""
    return {name: getattr(recipe, name) for name in RUN_FIELDS}


def read_run_folders(continuations: Path) -> dict[Path, Mapping[str, object]]:
    """Return the folders of a study's `continuations`, each with the `RUN_FIELDS` that its texts share.

    Raises:
        StudyError: A recipe.json cannot be read.
    """
    return {path.parent: _read_recipe(path.parent) for path in sorted(continuations.glob("*/recipe.json"))}


def _read_recipe(folder: Path) -> dict[str, Any]:
    """Return the fields in a folder's recipe.json."""
    path = folder / "recipe.json"
    find_target(path)
    try:
        values = json.loads(read_bytes(path, limit=LARGEST_TEXT))
        return {name: values[name] for name in RUN_FIELDS} | {"stop": tuple(values["stop"])}
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise StudyError(
            f"cannot read the recipe {path} ({type(error).__name__}: {error}); copy it together with the "
            "texts, or move its folder away to make them again"
        ) from None


def list_continuation_files(folder: Path, strategy: str) -> list[Path]:
    """Return all files with a strategy's texts in a run's folder: every shard and every variant."""
    name = re.compile(rf"{re.escape(strategy)}(\.vllm)?(\.[0-9a-f]{{8}})?(\.shard-\d+-of-\d+)?\.jsonl")
    return [path for path in sorted(folder.glob("*.jsonl")) if name.fullmatch(path.name)]


def _name_file(recipe: Recipe, shard: Shard) -> str:
    """Return the file name of a recipe: the strategy and all fields that differ within a run's folder."""
    variant = (recipe.amateur, recipe.amateur_revision, recipe.source)
    engine = f".{recipe.engine}" if recipe.engine else ""
    digits = f".{make_content_id(*variant)[:8]}" if any(variant) else ""
    return f"{recipe.strategy}{engine}{digits}{shard.suffix}"


def append_continuations(continuations: Path, batch: Sequence[Continuation], shard: Shard = WHOLE) -> None:
    """Append texts to the files of their recipes and sync the files, so that the texts survive a crash.

    Raises:
        StudyError: See `append_lines`.
    """
    for recipe, texts in groupby(batch, key=lambda text: text.recipe):
        folder = locate_run_folder(continuations, recipe)
        if not (folder / "recipe.json").exists():
            content = json.dumps(_get_run_fields(recipe), indent=2, ensure_ascii=False) + "\n"
            write_atomically(folder / "recipe.json", content.encode(), make_folder=True)
        append_lines(folder / f"{_name_file(recipe, shard)}.jsonl", map(_make_row, texts))


Trace = dict[str, Any]
"""How a strategy adapted to a text: the text's `id` and `prompt_id`, and lists with a number per token."""


def append_traces(continuations: Path, recipe: Recipe, batch: Iterable[Trace], shard: Shard = WHOLE) -> None:
    """Append traces, one object per line.

    Write traces before their texts, so that every text has a trace. After a crash between the two writes, a
    trace exists twice, with the same values.
    """
    path = locate_run_folder(continuations, recipe) / f"{_name_file(recipe, shard)}.trace.jsonl"
    append_lines(path, batch)


def _make_row(continuation: Continuation) -> dict[str, object]:
    """Return the line of a text, without the fields that are in recipe.json."""
    row = asdict(continuation)
    recipe = row.pop("recipe")
    return row | {name: recipe[name] for name in _STRATEGY_FIELDS if recipe[name] is not None}


def read_continuations(path: Path) -> Iterator[Continuation]:
    """Yield the texts of a file in a run's folder, in the order of writing.

    Raises:
        StudyError: A complete line, or recipe.json in the same folder, cannot be read.
    """
    shared = _read_recipe(path.parent)

    def build(row: dict[str, Any]) -> Continuation:
        recipe = Recipe(**shared, **{name: row.pop(name, None) for name in _STRATEGY_FIELDS})
        return Continuation(recipe=recipe, **row)

    return read_lines(path, build, "continuation")


def read_trace_means(continuations: Path) -> dict[str, dict[str, float]]:
    """Return the means over tokens of the traced values: a text's id → the value's name → the mean.

    Raises:
        StudyError: A complete line cannot be read.
    """

    def build(trace: Trace) -> tuple[str, dict[str, float]]:
        lists = {name: values for name, values in trace.items() if isinstance(values, list) and values}
        return trace["id"], {name: fmean(values) for name, values in lists.items()}

    paths = sorted(continuations.glob("*/*.trace.jsonl"))
    return dict(chain.from_iterable(read_lines(path, build, "trace") for path in paths))
