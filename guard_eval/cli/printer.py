"""The only code that prints: results, progress, warnings, questions and errors."""

import json
import re
import shlex
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from datetime import timedelta
from pathlib import Path

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
from rich.table import Table as RichTable
from rich.text import Text

from guard_eval.bundled import read_bundled_toml
from guard_eval.progress import Advance, Reporter
from guard_eval.proposals import replace_pages_by_paths
from guard_eval.records import JsonObject
from guard_eval.reporting.data import to_json
from guard_eval.reporting.escaping import NOTHING, escape_invisible_characters
from guard_eval.reporting.tables import Table
from guard_eval.reporting.words import separate_thousands
from guard_eval.results import Result

LOG_SECONDS = 60.0
"""The time between two lines of progress in a log. A terminal has progress bars instead."""

SPEED_SECONDS = 120.0
"""The remaining time of a task is computed from the speed in the last 120 seconds."""

_OF_EVERY_RESULT = {field.name for field in fields(Result)}


class Printer(Reporter):
    """Print for a person or, with `--json`, for a program: standard output then has only one JSON value.

    Attributes:
        as_json: Whether the result is printed as JSON.
        quiet: Whether progress, notices and the next command are left out.
    """

    def __init__(self) -> None:
        self.as_json = False
        self.quiet = False

    def print_result(self, result: Result) -> None:
        """Print the command's result. With `--json`, standard output gets nothing else."""
        if self.as_json:
            for warning in result.warnings:
                self.warn(warning)
            sys.stdout.write(to_json(_convert_result_to_json(result), ascii_only=True))
        else:
            self.show_result(result)

    def show_result(self, result: Result, *, clear_screen: bool = False) -> None:
        """Print a result for a person: lines, tables, warnings and the next commands."""
        console = _make_console(stderr=self.as_json)
        if clear_screen:
            console.clear()
        for warning in result.warnings:
            self.warn(warning)
        for line in result.lines:
            _print_line(console, line)
        for number, table in enumerate(result.tables):
            if number or result.lines:
                console.print()
            _print_table(console, table)
        if result.next and not self.quiet:
            first, *others = map(_insert_program_path, result.next)
            _print_line(console, f"\nNext: {first}")
            for command in others:
                _print_line(console, f"  or: {command}")

    def print_error(self, message: str) -> None:
        """Print an error, with `--json` also as JSON."""
        sys.stdout.flush()
        message = _insert_program_path(message)
        if self.as_json:
            sys.stdout.write(json.dumps({"error": message.removeprefix("error: ")}) + "\n")
        sys.stderr.write(escape_invisible_characters(replace_pages_by_paths(message)) + "\n")

    def warn(self, text: str) -> None:
        """Print a warning to standard error."""
        sys.stderr.write(escape_invisible_characters(replace_pages_by_paths(f"warning: {text}")) + "\n")

    def show_notice(self, text: str) -> None:
        """Print a line to standard error, unless `quiet` is set."""
        if not self.quiet:
            _print_line(_make_console(stderr=True), text)

    def print_text(self, text: str, style: str) -> None:
        """Print part of a line immediately."""
        _make_console(stderr=self.as_json).print(Text(escape_invisible_characters(text), style=style), end="")

    def confirm(self, question: str) -> bool:
        """Ask on standard error. Return whether the answer is yes. Without a user, the answer is no."""
        sys.stderr.write(escape_invisible_characters(f"{question} [y/N] "))
        sys.stderr.flush()
        answer = sys.stdin.readline()
        if not answer.endswith("\n"):
            sys.stderr.write("\n")
        return answer.strip().lower() in {"y", "yes"}

    @contextmanager
    def show_task(self, description: str, total: float | None, unit: str) -> Iterator[Advance]:
        """Show a progress bar in a terminal, or write a line every minute to a log."""
        bars = LoggedProgress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn(escape_invisible_characters(unit), markup=False),
            TimeRemainingColumn(compact=True, elapsed_when_finished=True),
            TextColumn("{task.fields[note]}", markup=False),
            console=_make_console(stderr=True, quiet=self.quiet),
            speed_estimate_period=SPEED_SECONDS,
        )
        with bars:
            bar = bars.add_task(escape_invisible_characters(description), total=total, note="")

            def advance(count: float = 1, /, note: str | None = None) -> None:
                if note is not None:
                    bars.update(bar, note=escape_invisible_characters(note))
                bars.advance(bar, count)

            yield advance


def _convert_result_to_json(result: Result) -> JsonObject:
    """Return a result as JSON: the fields of its class (or else lines and tables), warnings and `next`."""
    extra = [field for field in fields(result) if field.name not in _OF_EVERY_RESULT]
    data = {field.name: getattr(result, field.name) for field in extra if field.metadata.get("json", True)}
    if not extra:
        tables = [
            {
                "caption": table.caption,
                "rows": [dict(zip(table.columns, row, strict=True)) for row in table.rows],
            }
            for table in result.tables
        ]
        data = {"lines": result.lines, "tables": tables}
    return data | {"warnings": result.warnings, "next": result.next}


def replace_unprintable_by_ascii(error: UnicodeError) -> tuple[str, int]:
    """Replace characters that a terminal lacks by ASCII. This is an error handler for `codecs`."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(_convert_character_to_ascii, error.object[error.start : error.end])), error.end


def _convert_character_to_ascii(character: str) -> str:
    r"""Return a character in ASCII: a Greek letter as its name, another character as its parts.

    >>> [_convert_character_to_ascii(character) for character in "κΣ½é…→−中"]
    ['kappa', 'sigma', '1/2', 'e', '...', '->', '-', '\\u4e2d']
    """
    if (name := unicodedata.name(character, "")).startswith("GREEK "):
        return name.split()[-1].lower()
    composed = unicodedata.normalize("NFKD", character).translate(_ASCII)
    return composed.encode("ascii", "ignore").decode() or ascii(character)[1:-1]


_ASCII = str.maketrans(read_bundled_toml(__file__, "ascii.toml"))
"""Replacements in ASCII for the characters in messages and tables."""


def _make_console(*, stderr: bool = False, quiet: bool = False) -> Console:
    """Return a console that prints texts unchanged, never as markup."""
    return Console(markup=False, highlight=False, emoji=False, soft_wrap=True, stderr=stderr, quiet=quiet)


def _insert_program_path(message: str) -> str:
    """Complete the commands that users may copy. If no shell finds `guard-eval`, insert its path."""
    program = Path(sys.argv[0])
    starts = {
        "guard-eval": shlex.quote(str(program)),
        "guard_eval/__main__.py": f"{shlex.quote(sys.executable)} -m guard_eval",
    }
    start = next((start for name, start in starts.items() if program.match(name)), None)
    if start is None or shutil.which("guard-eval"):
        return message
    return re.sub(r"(?<![\w/.-])guard-eval (?=[a-z])", lambda _: f"{start} ", message)


def _print_line(console: Console, line: str) -> None:
    """Print a line. On a terminal, break the line between words, unless it has a command to copy."""
    line = escape_invisible_characters(line)
    whole = not console.is_terminal or "guard-eval " in line
    console.print(
        line if whole else "\n".join(_break_line(paragraph, console.width) for paragraph in line.split("\n"))
    )


def _break_line(line: str, width: int) -> str:
    """Break a line between words. A word that is longer than `width`, such as a path, stays whole."""
    indent = line[: len(line) - len(line.lstrip())]
    return textwrap.fill(
        line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _print_table(console: Console, table: Table) -> None:
    """Print a table: numbers are aligned at the right, other cells break between words.

    If the table is too wide for the words, print each row as lines with heading and cell.
    """
    columns = [escape_invisible_characters(column) for column in table.columns]
    rows = [
        [
            escape_invisible_characters(NOTHING if cell is None else str(separate_thousands(cell)))
            for cell in row
        ]
        for row in table.rows
    ]
    if table.caption:
        _print_line(console, table.caption)
    cells = [[column, *(row[n] for row in rows)] for n, column in enumerate(columns)]
    least = [max((cell_len(word) for cell in column for word in cell.split()), default=1) for column in cells]
    if sum(least) + 2 * (len(columns) - 1) > console.width:
        for row in rows:
            lines = (f"{head}: {cell}" for head, cell in zip(columns, row, strict=True) if cell.strip())
            console.print("\n".join(textwrap.fill(line, console.width) for line in lines) + "\n")
    else:
        gap, widths = _distribute_column_widths(
            [max(map(cell_len, column)) for column in cells], least, console.width
        )
        grid = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, gap - 2))
        for index, column in enumerate(columns):
            side = "left" if table.is_text_column(index) else "right"
            grid.add_column(Text(column), justify=side, overflow="fold", width=widths[index])  # type: ignore[arg-type]
        for row in rows:
            grid.add_row(*(Text(cell) for cell in row))
        console.print(grid, soft_wrap=False)
    if table.note:
        _print_line(console, table.note)


def _distribute_column_widths(
    natural_widths: Sequence[int], least_widths: Sequence[int], width: int
) -> tuple[int, list[int]]:
    """Return the gap between columns, and the width of each column: at least the column's longest word.

    rich could distribute widths itself, but cuts off words in columns with a least width.
    """
    gap = 3 if sum(least_widths) + 3 * (len(least_widths) - 1) <= width else 2
    widths = list(least_widths)
    room = width - gap * (len(least_widths) - 1)
    for index in sorted(
        range(len(least_widths)), key=lambda index: natural_widths[index] - least_widths[index]
    ):
        widths[index] += max(0, min(natural_widths[index] - widths[index], room - sum(widths)))
    return gap, widths


class LoggedProgress(Progress):
    """Progress bars on a terminal, or one line per minute in a log, so that a batch job is not silent."""

    _logged_at: float | None = None

    def advance(self, task_id: TaskID, advance: float = 1) -> None:
        """Advance a bar, or write a line if the last line is a minute old."""
        super().advance(task_id, advance)
        task = self._tasks[task_id]
        now = self.get_time()
        if self.console.is_terminal or now - (self._logged_at or task.start_time or now) < LOG_SECONDS:
            return
        self._logged_at = now
        remaining = task.time_remaining
        time_left = "" if remaining is None else f", {timedelta(seconds=round(remaining))} left"
        rate = "" if not task.speed else f", {60 * task.speed:,.1f} a minute"
        note = f", {task.fields['note']}" if task.fields["note"] else ""
        self.console.print(
            f"{task.description}: {task.completed:,.0f} of {task.total or 0:,.0f}{rate}{note}{time_left}"
        )
