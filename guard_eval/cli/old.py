"""The old command line, for the commands that have not moved yet."""

from __future__ import annotations

import codecs
import errno
import io
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import Annotated

import typer

from guard_eval.cli.commands import CommandGroup, Quiet, Verbose
from guard_eval.cli.console import details_wanted, runnable, speaking
from guard_eval.cli.printer import encode_plainly
from guard_eval.errors import StudyError
from guard_eval.reporting.escaping import visible
from guard_eval.stopping import like_ctrl_c

app = typer.Typer(
    name="guard-eval",
    cls=CommandGroup,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"guard-eval {version('guard-eval')}")
        raise typer.Exit


@app.callback()
def about(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True),
    ] = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Find out which decoding strategy writes better text, and how sure we are.

    A study is a folder. Its commands, in the order of a study: new, generate, measure, pair,
    raters, annotate, progress, judge, report. `status` says what is next, `power` plans a study, and
    `replicate` makes the paper's. Each can be stopped at any moment and run again. Start with:
    guard-eval demo
    """


STOPPED = "stopped; nothing made so far is lost: run the same command again to go on"

_USER_CAN_FIX = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.ENOTDIR}


def main() -> None:
    """Run the command line: exit code 2 for what the user can fix, 130 for Ctrl-C, 143 for SIGTERM."""
    codecs.register_error("guard_eval.plain", encode_plainly)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # it may have no α or …, and a table is worth more than one
            stream.reconfigure(errors="guard_eval.plain")
    try:
        with like_ctrl_c() as signals:
            _run(signals)
    except KeyboardInterrupt:  # before or after typer, which makes an exit of it
        _leave(STOPPED, 130)


def _run(signals: Sequence[int]) -> None:
    began = time.monotonic()
    with speaking():
        try:
            _call(signals)
        finally:
            if details_wanted():
                sys.stdout.flush()
                print(f"took {time.monotonic() - began:.1f} s", file=sys.stderr)  # noqa: T201


def _call(signals: Sequence[int]) -> None:
    try:
        app()
    except StudyError as error:
        _leave("\n".join([f"error: {error}", *(_frames(error) if details_wanted() else ())]), 2)
    except OSError as error:
        if error.errno not in _USER_CAN_FIX:
            raise
        what = error.filename or "the output"
        _leave(f"error: cannot write {what}: {error.strerror}; fix that and run the command again", 2)
    except SystemExit as leaving:
        if leaving.code == 130:
            _leave(STOPPED, 128 + signals[0] if signals else 130)
        raise


def _frames(error: BaseException | None) -> Iterator[str]:
    """Yield where an error and what caused it arose: no values, which may be private."""
    while error is not None:
        yield f"  {type(error).__name__}"
        for frame in traceback.extract_tb(error.__traceback__):
            yield f"    {frame.filename}:{frame.lineno} in {frame.name}"
        error = error.__cause__


def _leave(message: str, code: int) -> None:
    sys.stdout.flush()
    print(visible(runnable(message)), file=sys.stderr)  # noqa: T201 (the one place where a message leaves the program)
    sys.exit(code)
