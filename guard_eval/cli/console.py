"""What every command says and shows: lines, tables, progress.

Nothing is shown where a command's function is called from Python: `speaking` turns it on.
"""

from __future__ import annotations

import json
import math
import re
import shlex
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import fields, is_dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from guard_eval.errors import StudyError
from guard_eval.reporting.escaping import visible


def named_path(text: str) -> Path:
    """Return the path that an argument names: an empty one, as of an unset variable, is not this folder."""
    if not text.strip():
        raise typer.BadParameter("the name is empty; give one")
    return Path(text)


StudyFolder = Annotated[
    Path,
    typer.Argument(metavar="STUDY", help="The study's folder, the one with study.toml.", parser=named_path),
]


def is_study(targets: Sequence[Path]) -> bool:
    """Say whether what is named is one study, there or not, and no files."""
    return len(targets) == 1 and (targets[0].is_dir() or not (targets[0].suffix or targets[0].exists()))


_shown: dict[str, Any] = {
    "lines": False,
    "progress": True,
    "detail": False,
    "json": None,
    "paths": (),
    "study": "STUDY",
}
"""What is shown; of the process, for threads show lines, too."""


@contextmanager
def speaking() -> Iterator[None]:
    """Show what the commands' functions say; options of the command line change it meanwhile."""
    before = dict(_shown)
    _shown["lines"] = True
    try:
        yield
    finally:
        _shown.update(before)


def be_quiet() -> None:
    """Show neither progress nor the next command: `--quiet`."""
    _shown["progress"] = False


def give_details() -> None:
    """Say how long the command took, and where an error arose: `--verbose`."""
    _shown["detail"] = True


def quote_in_commands(arguments: Iterable[object]) -> None:
    """Quote those that are paths, where a shell needs it, in the commands that are shown."""
    names = [str(one) for one in arguments if isinstance(one, Path)]
    _shown["paths"] += tuple(name for name in names if shlex.quote(name) != name)


def name_study(folder: Path) -> None:
    """Write this folder where a command that is shown has STUDY."""
    _shown["study"] = shlex.quote(str(folder))


def print_json() -> None:
    """Print what is recorded as JSON, and all else where errors go: `--json`."""
    _shown["json"] = {}


def details_wanted() -> bool:
    """Say whether details were asked for."""
    return bool(_shown["detail"])


def record(key: str, value: object) -> None:
    """Give what a table shows to `--json`, under a key that stays the same from version to version."""
    if _shown["json"] is not None:
        _shown["json"][key] = _plain(value)


def _plain(value: Any) -> Any:  # noqa: ANN401 (whatever a row holds)
    """Return a value as JSON has it; what is no number is null."""
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, (str, bool, int, float)) else str(value)


@contextmanager
def json_on_stdout() -> Iterator[None]:
    """Print what the command recorded, if JSON is wanted, and nothing else on standard output."""
    found = _shown["json"]
    if found is None:
        yield
        return
    try:
        with redirect_stdout(sys.stderr):
            yield
    except StudyError as error:
        found["error"] = str(error)
        raise
    finally:
        typer.echo(json.dumps(found, indent=2))


def console() -> Console:
    """Return the console; texts are printed as they are, never as markup."""
    return Console(markup=False, highlight=False, emoji=False, soft_wrap=True, quiet=not _shown["lines"])


def progress_console() -> Console:
    """Return the console of what is shown while something is under way."""
    shown = console()
    shown.quiet = shown.quiet or not _shown["progress"]
    return shown


def runnable(text: str) -> str:
    """Return a text whose commands can be copied.

    Paths in them are quoted where a shell needs it; `guard-eval` has its path where it is not found.
    """
    before, *commands = re.split(r"(?=\bguard-eval [a-z])", text)
    for name in _shown["paths"]:
        quoted = shlex.quote(name).replace("\\", r"\\")
        commands = [re.sub(rf"(?<=[ =]){re.escape(name)}", quoted, one) for one in commands]
    commands = [
        re.sub(r"^(guard-eval \w+) STUDY\b", lambda match: f"{match[1]} {_shown['study']}", one)
        for one in commands
    ]
    text = before + "".join(commands)
    program = Path(sys.argv[0])
    if program.name != "guard-eval" or shutil.which("guard-eval"):
        return text
    return re.sub(r"(?<![\w/.-])guard-eval(?= [a-z-])", lambda _: shlex.quote(str(program)), text)


def say(line: str = "") -> None:
    """Print a line: on a terminal broken between words, but whole where it has a command to be copied."""
    shown, line = console(), visible(runnable(line))
    whole = not shown.is_terminal or "guard-eval " in line
    shown.print(line if whole else "\n".join(_broken(part, shown.width) for part in line.split("\n")))


def _broken(line: str, width: int) -> str:
    """Return a line broken between words; a longer word, such as a path, stays whole."""
    indent = line[: len(line) - len(line.lstrip())]
    return textwrap.fill(
        line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def count_of(count: int, word: str, many: str | None = None) -> str:
    """Return `count` and `word`, with an s where there is not exactly one, or the plural given.

    >>> count_of(1, "prompt"), count_of(0, "prompt"), count_of(2, "strategy", "strategies")
    ('1 prompt', '0 prompts', '2 strategies')
    """
    return f"{count} {word if count == 1 else many or f'{word}s'}"


def say_warnings(warnings: Iterable[str]) -> None:
    """Print warnings where errors go."""
    for warning in warnings:
        if _shown["lines"]:
            typer.echo(visible(f"warning: {warning}"), err=True)


def say_next(*commands: str) -> None:
    """Name the next command, or the choice of them."""
    if not _shown["progress"]:
        return
    say(f"\nNext: {commands[0]}")
    for command in commands[1:]:
        say(f"  or: {command}")


def say_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table: numbers stand at the right, other cells are broken between words.

    A star after a number marks it; the others keep its place free. Where the words do not fit beside each
    other, a row becomes lines of heading and cell.
    """
    rows, shown = [[visible(cell) for cell in row] for row in rows], console()
    columns = [visible(column) for column in columns]
    places = [[column, *(row[n] for row in rows)] for n, column in enumerate(columns)]
    least = [max((cell_len(word) for cell in cells for word in cell.split()), default=1) for cells in places]
    if sum(least) + 2 * (len(columns) - 1) > shown.width:
        for row in rows:
            lines = (f"{head}: {cell}" for head, cell in zip(columns, row, strict=True) if cell.strip())
            shown.print("\n".join(textwrap.fill(line, shown.width) for line in lines) + "\n")
        return
    gap, widths = _widths([max(map(cell_len, cells)) for cells in places], least, shown.width)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, gap - 2))
    for index, column in enumerate(columns):
        numeric = all(
            row[index] == "" or row[index].rstrip("* ").lstrip("-−").replace(".", "", 1).isdigit()
            for row in rows
        )
        side: Literal["left", "right"] = "right" if numeric else "left"
        table.add_column(Text(column), justify=side, overflow="fold", width=widths[index])
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    shown.print(table, soft_wrap=False)


def _widths(wanted: Sequence[int], least: Sequence[int], most: int) -> tuple[int, list[int]]:
    """Return how far columns stand apart, and how wide each is: as its longest word at least.

    rich shares the room out by itself, but cuts off what it gave to a column of a least width.
    """
    gap = 3 if sum(least) + 3 * (len(least) - 1) <= most else 2
    widths, room = list(least), most - gap * (len(least) - 1)
    for place in sorted(range(len(least)), key=lambda place: wanted[place] - least[place]):
        widths[place] += max(0, min(wanted[place] - widths[place], room - sum(widths)))
    return gap, widths


LOG_SECONDS = 60.0
"""How often progress is a line in a log, where there is no terminal to draw bars on."""


class LoggedProgress(Progress):
    """Bars on a terminal; elsewhere a line now and then, so that a batch job is not silent for hours."""

    _logged_at = None

    def update(self, task_id: TaskID, **values: Any) -> None:  # noqa: ANN401 (rich's own)
        """Move a bar on, or write a line if the last is a minute old."""
        super().update(task_id, **values)
        self._log(task_id)

    def advance(self, task_id: TaskID, advance: float = 1) -> None:
        """Move a bar on, or write a line if the last is a minute old."""
        super().advance(task_id, advance)
        self._log(task_id)

    def _log(self, task_id: TaskID) -> None:
        task, now = self._tasks[task_id], self.get_time()
        if self.console.is_terminal or now - (self._logged_at or task.start_time or now) < LOG_SECONDS:
            return
        self._logged_at = now
        left = (
            "" if task.time_remaining is None else f", {timedelta(seconds=round(task.time_remaining))} left"
        )
        rate = "" if not task.speed else f", {60 * task.speed:,.1f} a minute"
        note = f", {task.fields['note']}" if task.fields["note"] else ""
        self.console.print(
            f"{task.description}: {task.completed:,.0f} of {task.total or 0:,.0f}{rate}{note}{left}"
        )


def progress(unit: str, *, window: float = 30) -> Progress:
    """Return a progress display that counts `unit`s and shows the time left; tasks need a `note`.

    The time left follows from the speed over the last `window` seconds.
    """
    return LoggedProgress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
        TextColumn("{task.fields[note]}", markup=False),
        console=progress_console(),
        speed_estimate_period=window,
    )
