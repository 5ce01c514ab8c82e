"""Continuations on disk: each run of a model has a folder with a JSONL file for each strategy.

`continuations/<8 hexadecimal digits>/recipe.json` has the fields that all texts of the folder share: the
model, its arithmetic, the seed and the limits. Texts of different recipes therefore cannot mix. In the same
folder, `guard.jsonl` has a line for each text by GUARD. A shard appends to `guard.shard-1-of-4.jsonl`, so two
processes never append to the same file. To join shards of other machines, copy their files.

`append_lines` syncs each batch of texts. A killed process leaves at most one incomplete last line. Readers
skip this line, and the next append removes it. The hash of a prompt's id decides the prompt's shard, so every
machine divides the prompts in the same way.
"""

import errno
import fcntl
import json
import mmap
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from io import FileIO
from itertools import chain, groupby
from pathlib import Path
from statistics import fmean
from typing import Any, Self, TypeVar

from pydantic import TypeAdapter

from guard_eval.errors import StudyError, get_first_line
from guard_eval.files.opening import LARGEST_TEXT, open_regular_file, read_bytes
from guard_eval.records import Continuation, Recipe, make_content_id
from guard_eval.reporting.writing import (
    explain_write_errors,
    open_to_append,
    resolve_write_target,
    write_atomically,
)


@dataclass(frozen=True)
class Shard:
    """One of `count` parts of a study's prompts. The `number` is 1 to `count`.

    >>> Shard.parse("2/3")
    Shard(number=2, count=3)
    """

    number: int = 1
    count: int = 1

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the shard that a text such as `1/4` means.

        Raises:
            StudyError: The text does not have the form i/n, or i is not in 1 … n.
        """
        match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text.strip())
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise StudyError(f"--shard {text!r} is not a shard; write i/n with i from 1 to n, such as 1/4")
        return cls(int(match[1]), int(match[2]))

    def contains(self, prompt_id: str) -> bool:
        """Return whether the prompt belongs to this shard."""
        return int(make_content_id("shard", prompt_id), 16) % self.count == self.number - 1

    @property
    def suffix(self) -> str:
        """Return the part of a file name that names the shard, or "" if there is only one shard."""
        return "" if self.count == 1 else f".shard-{self.number}-of-{self.count}"


WHOLE = Shard()
"""The only shard of a study that is not divided."""


@contextmanager
def reserve_shard(
    folder: Path, shard: Shard, *, remedy: str = "wait for it, stop it, or give each its own --shard i/n"
) -> Iterator[None]:
    """Prevent other processes from making the same texts in `folder` until the context ends.

    A process with a shard excludes processes with the same shard or the whole study. The locks are the
    operating system's (flock), so they end with the process, even if it is killed. Some network file systems
    have no locks; there, nothing is excluded.

    Raises:
        StudyError: Another process makes these texts. The message ends with `remedy`.
    """
    with ExitStack() as files:
        for suffix in dict.fromkeys(("", shard.suffix)):
            file = files.enter_context(open_to_append(folder / f".generate{suffix}.lock"))
            lock = fcntl.LOCK_EX if suffix == shard.suffix else fcntl.LOCK_SH
            try:
                fcntl.flock(file, fcntl.LOCK_NB | lock)
            except BlockingIOError:
                problem = f"another guard-eval generate is writing these texts in {folder}"
                raise StudyError(f"{problem}; {remedy}") from None
            except OSError as error:
                if error.errno not in {errno.ENOLCK, errno.ENOTSUP}:
                    raise
        yield


Item = TypeVar("Item")

_LONGEST_LINE = 2**26


def append_lines(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    """Append objects as lines and sync the file. Before and after, remove an incomplete last line.

    Raises:
        StudyError: The file cannot be written (disk full, no permission). Earlier lines and complete new
            lines stay valid.
    """
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    unwritten = memoryview(lines.encode("utf-8", "surrogatepass"))
    # The file has no buffer, which would repeat a write after "disk full".
    with explain_write_errors(path), open_to_append(path) as file:
        file.truncate(_count_bytes_of_whole_lines(file))
        try:
            while unwritten:
                unwritten = unwritten[file.write(unwritten) :]
        finally:
            file.truncate(_count_bytes_of_whole_lines(file))
            os.fsync(file.fileno())


def _count_bytes_of_whole_lines(file: FileIO) -> int:
    """Return the size of a file up to the end of its last complete line, in bytes."""
    if not os.fstat(file.fileno()).st_size:
        return 0
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.rfind(b"\n") + 1


def build_items_from_lines(path: Path, build: Callable[[dict[str, Any]], Item], kind: str) -> Iterator[Item]:
    """Build an item from each complete line, and yield the items in the order of writing.

    Args:
        path: The file.
        build: Makes an item from a line's object, or raises a ValueError, TypeError or LookupError.
        kind: The name for a line in messages.

    Raises:
        StudyError: A complete line cannot be read, or a link leads out of the study.
    """
    resolve_write_target(path)
    with open_regular_file(path) as file:
        for number, line in enumerate(iter(partial(file.readline, _LONGEST_LINE), b""), start=1):
            if len(line) == _LONGEST_LINE:
                raise StudyError(f"{path}, line {number}: this line is too long to be a text; remove it")
            if not line.endswith(b"\n"):  # the line is incomplete, or another process is writing it
                return
            try:
                yield build(json.loads(line))
            except (ValueError, TypeError, AttributeError, LookupError, RecursionError) as error:
                raise StudyError(
                    f"{path}, line {number}: not a {kind} ({type(error).__name__}: {get_first_line(error)}); "
                    "remove the line and run guard-eval generate to make the text again"
                ) from error


RUN_FIELDS = (
    "model", "revision", "dtype", "seed", "max_new_tokens", "max_prompt_tokens",
    "chat", "chat_template", "stop",
)  # fmt: skip
"""The fields of `Recipe` that all texts of a folder share."""

_STRATEGY_FIELDS = ("strategy", "amateur", "amateur_revision", "engine", "source")
"""The fields of `Recipe` that are stored with each text, if they are set."""

_RECIPES = TypeAdapter(Recipe)
_CONTINUATIONS = TypeAdapter(Continuation)


def locate_run_folder(continuations: Path, recipe: Recipe) -> Path:
    """Return the folder of a recipe's texts in a study's `continuations`.

    If the model is a folder, the content of this folder counts, not its path.
    """
    shared = _get_run_fields(recipe)
    if recipe.revision.startswith("sha256:"):
        del shared["model"]
    return continuations / make_content_id("run", shared)[:8]


def _get_run_fields(recipe: Recipe) -> dict[str, object]:
    """Return the fields of a recipe that are the same for all texts of its run (`RUN_FIELDS`)."""
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
    resolve_write_target(path)
    try:
        values = json.loads(read_bytes(path, limit=LARGEST_TEXT))
        shared = {name: values[name] for name in RUN_FIELDS}
        return _get_run_fields(_RECIPES.validate_python({**shared, "strategy": ""}))
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise StudyError(
            f"cannot read the recipe {path} ({type(error).__name__}: {get_first_line(error)}); copy the "
            "recipe together with the texts, or move the folder away to make the texts again"
        ) from None


def list_continuation_files(folder: Path, strategy: str) -> list[Path]:
    """Return the files with a strategy's texts in a run's folder, one for each shard."""
    name = re.compile(rf"{re.escape(strategy)}(\.shard-\d+-of-\d+)?\.jsonl")
    return [path for path in sorted(folder.glob("*.jsonl")) if name.fullmatch(path.name)]


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
        append_lines(folder / f"{recipe.strategy}{shard.suffix}.jsonl", map(_make_text_row, texts))


Trace = dict[str, Any]
"""How a strategy's values changed in a text: its `id` and `prompt_id`, and lists with a number per token."""


def append_traces(continuations: Path, recipe: Recipe, batch: Iterable[Trace], shard: Shard = WHOLE) -> None:
    """Append the traces of texts to a file, one JSON object per line.

    Write traces before their texts, so that every text has a trace. After a crash between the two writes, a
    trace exists twice, with the same values.
    """
    folder = locate_run_folder(continuations, recipe)
    append_lines(folder / f"{recipe.strategy}{shard.suffix}.trace.jsonl", batch)


def _make_text_row(continuation: Continuation) -> dict[str, object]:
    """Return a text as a JSON object, without the fields that are in recipe.json."""
    row = asdict(continuation)
    recipe = row.pop("recipe")
    return row | {name: recipe[name] for name in _STRATEGY_FIELDS if recipe[name] is not None}


def read_continuations(path: Path) -> Iterator[Continuation]:
    """Yield the texts of a file in a run's folder, in the order of writing.

    Raises:
        StudyError: A complete line, or recipe.json in the same folder, cannot be read.
    """
    shared = _read_recipe(path.parent)

    def build_continuation(row: dict[str, Any]) -> Continuation:
        recipe = shared | {name: row.pop(name, None) for name in _STRATEGY_FIELDS}
        return _CONTINUATIONS.validate_python({**row, "recipe": recipe})

    return build_items_from_lines(path, build_continuation, "continuation")


def read_trace_means(continuations: Path) -> dict[str, dict[str, float]]:
    """Return the mean over tokens of each traced value: a text's id → the value's name → the mean.

    Raises:
        StudyError: A complete line cannot be read.
    """

    def average_trace(trace: Trace) -> tuple[str, dict[str, float]]:
        lists = {name: values for name, values in trace.items() if isinstance(values, list) and values}
        return str(trace["id"]), {name: fmean(values) for name, values in lists.items()}

    paths = sorted(continuations.glob("*/*.trace.jsonl"))
    return dict(chain.from_iterable(build_items_from_lines(path, average_trace, "trace") for path in paths))
