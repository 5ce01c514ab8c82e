"""Run commands: handle the options of every command, signals, errors and exit codes.

Exit codes: 0 for success, 2 for an error that the user can fix, 3 for unfinished work, 130 for Ctrl-C and 143
for SIGTERM.
"""

import codecs
import errno
import gc
import inspect
import io
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from functools import partial
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import Annotated

from cyclopts import App, CycloptsError, Group, Parameter, Token, convert
from cyclopts.completion.detect import ShellDetectionError

from guard_eval import progress, proposals
from guard_eval.cli.commands import COMMANDS, GROUPS, PARENTS
from guard_eval.cli.printer import Printer, replace_unprintable_by_ascii
from guard_eval.errors import StudyError
from guard_eval.results import Result

STOPS = signal.SIGTERM, signal.SIGHUP
"""The signals that end a command as Ctrl-C does: of containers, SLURM and closed terminals."""
STOPPED = "stopped; everything written so far is kept: run the same command again to continue"

_OF_PATHS = {errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG}
_OF_DISKS = {errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
_USER_CAN_FIX = _OF_PATHS | _OF_DISKS

LEAST_COLUMNS = 20
"""If COLUMNS is smaller than this, COLUMNS is ignored, because tables would be too narrow."""

_WITHOUT_COMMAND = {"--help", "-h", "--version", "--install-completion"}

SHARED = Group("Options of every command", sort_key=100)


def main() -> None:
    """Run the command line with the arguments of this process, and end the process."""
    try:
        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # another Ctrl-C, after the first was handled
        code = find_signal_exit_code([])
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends what the interpreter does at its end
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run a command and return its exit code."""
    _prepare_standard_output()
    printer = Printer()
    printer.as_json = "--json" in arguments  # errors in the arguments must be JSON, too
    with stop_on_signals() as signals:
        try:
            return _call_command(arguments, printer)
        except BrokenPipeError:  # the reader, such as `head`, closed the output
            _discard_output()
            return 1
        except BaseException as error:
            if is_caused_by_signal(error, signals):
                printer.print_error(STOPPED)
                return find_signal_exit_code(signals)
            message = _explain_error(error)
            if message is None:
                raise
            printer.print_error(f"error: {message}")
            return 2


@contextmanager
def stop_on_signals() -> Iterator[list[int]]:
    """Make SIGTERM and SIGHUP do the same as Ctrl-C. Yield the list of received signals.

    An event loop that handles Ctrl-C then also handles these signals. Within this context, Python handles
    Ctrl-C even in the background commands of a script, which otherwise ignore Ctrl-C.
    """
    received: list[int] = []

    def interrupt(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        signal.raise_signal(signal.SIGINT)

    before = {number: signal.getsignal(number) for number in (*STOPS, signal.SIGINT)}
    for number in STOPS:
        if before[number] is not signal.SIG_IGN:  # nohup ignores SIGHUP
            signal.signal(number, interrupt)
    if before[signal.SIGINT] is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)


def is_caused_by_signal(error: BaseException, received_signals: Sequence[int]) -> bool:
    """Return whether a signal caused this error, even if a library replaced the error by another one.

    A library that loads files in threads may report the stop as its own failure.
    """
    causes: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in causes:
        causes.append(cause)
        cause = cause.__cause__ or cause.__context__
    return bool(received_signals) or any(isinstance(cause, KeyboardInterrupt) for cause in causes)


def find_signal_exit_code(received_signals: Sequence[int]) -> int:
    """Return the exit code of a stopped command: the first signal's code or, without a signal, Ctrl-C's."""
    return 128 + (received_signals[0] if received_signals else signal.SIGINT)


def _prepare_standard_output() -> None:
    """Prepare standard output so that every character can be printed and no table is too narrow."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdigit() and int(columns) < LEAST_COLUMNS:
        del os.environ["COLUMNS"]
    codecs.register_error("guard_eval.plain", replace_unprintable_by_ascii)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # replace characters such as α rather than fail
            stream.reconfigure(errors="guard_eval.plain")


def _call_command(arguments: Sequence[str], printer: Printer) -> int:
    """Call a command, print its result, and return the exit code."""
    try:
        Path.cwd()  # relative names need the current folder
    except FileNotFoundError:
        raise StudyError("the current folder was deleted; go to another folder with cd") from None
    line = build_app(printer)
    if any(word.partition(" ")[0] in arguments for word in COMMANDS):  # also for the help of a command
        register_study_argument()
        show_whole_docstring_in_help(line, arguments)
    with progress.use_reporter(printer):
        result = line.meta(arguments)
    if isinstance(result, Result):  # --help and --version return none
        printer.print_result(result)
    elif printer.as_json and not _WITHOUT_COMMAND & set(arguments):
        raise StudyError("no command was given; guard-eval --help lists the commands")
    sys.stdout.flush()
    return result.exit_code if isinstance(result, Result) else 0


def _explain_error(error: BaseException) -> str | None:
    """Return the message for an error that the user can fix, or None for a bug."""
    if isinstance(error, CycloptsError):
        if isinstance(error.__cause__, StudyError):  # the error of an argument that names a study
            return str(error.__cause__)
        problem, _, commands = str(error).partition(" Available commands:")
        remedy = (
            "guard-eval --help` lists the commands"
            if commands
            else "guard-eval COMMAND --help` lists its options"
        )
        return f"{problem.rstrip('.')}{' `' if problem.endswith('?') else '; `'}{remedy}"
    if isinstance(error, StudyError):
        return str(error)
    if not isinstance(error, OSError) or error.errno not in _USER_CAN_FIX:
        return None
    if error.filename is None:
        _discard_output()
        return f"cannot write the output: {error.strerror}; fix that and run the command again"
    return f"cannot use {error.filename}: {error.strerror}; fix that and run the command again"


def _discard_output() -> None:
    """Discard all text that is not printed yet, because the reader of standard output has closed it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _make_shared_option(help: str, *names: str) -> Parameter:  # noqa: A002 (as cyclopts calls it)
    return Parameter(name=names, group=SHARED, negative=(), show_default=False, help=help)


def build_app(printer: Printer | None = None) -> App:
    """Return the command line as an app of cyclopts. The app's `meta` takes the options of all commands."""
    printer = printer or Printer()
    app = App(
        name="guard-eval",
        help=(
            "Find out which texts are better, and how certain that is. A study is a folder. "
            "Every command can be stopped at any moment and run again. Start with: guard-eval demo"
        ),
        version=lambda: f"guard-eval {version('guard-eval')}",
        default_parameter=Parameter(
            negative=(),
            show_default=_describe_default,
            parse=re.compile(r"^(?!overrides$)"),
            converter=_convert_option_value,
        ),
        help_flags=["--help", "-h"],
        result_action="return_value",
        exit_on_error=False,
        print_error=False,
        suppress_keyboard_interrupt=False,
    )
    app.meta.suppress_keyboard_interrupt = False
    _add_commands(app)
    app.command(partial(_install_completion, app), name="--install-completion", group=SHARED)

    @app.meta.default
    def call_with_shared_options(
        *tokens: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
        set_: Annotated[
            tuple[str, ...],
            _make_shared_option(
                "Change a setting for this run, for example --set generation.runs=2.", "--set"
            ),
        ] = (),
        code: Annotated[
            tuple[Path, ...],
            _make_shared_option("A Python file with your own strategies. It is run.", "--code"),
        ] = (),
        json: Annotated[
            bool,
            _make_shared_option("Print the result as JSON, and everything else to standard error.", "--json"),
        ] = False,
        quiet: Annotated[
            bool,
            _make_shared_option("Print only results, warnings and errors.", "--quiet", "-q"),
        ] = False,
    ) -> object:
        printer.as_json = json
        printer.quiet = quiet
        if not all(token.strip() for token in tokens):  # such as an unset variable; Path("") is this folder
            raise StudyError("an argument is empty; write a value for it, or leave it out")
        from guard_eval.generation.strategies.own import load_strategies  # noqa: PLC0415 (`--help` is quick without it)

        proposals.code_files[:] = map(str, code)
        for path in code:
            load_strategies(path)
        register_study_argument(set_)
        command, bound, _ = app.parse_args(tokens)
        with redirect_stdout(sys.stderr) if json else nullcontext():  # standard output is only for the result
            return _call_command_with_overrides(command, bound, set_)

    return app


def _convert_option_value(kind: type, tokens: Sequence[Token]) -> object:
    """Convert an option's value. cyclopts itself rounds 43.75 and reads 0x1F where a whole number belongs."""
    if kind in (int, int | None) and not re.fullmatch(r"-?\d+", tokens[0].value, re.ASCII):
        raise ValueError(f"{tokens[0].value!r} is not a whole number")
    return convert(kind, tokens)


def _describe_default(default: object) -> str | None:
    """Return an option's default as the help shows it: a number or a word, or None if it is off or empty.

    >>> [_describe_default(default) for default in (0.05, "auto", 0, False, None, ())]
    ['0.05', 'auto', '0', None, None, None]
    """
    is_shown = isinstance(default, int | float | str | Path) and not isinstance(default, bool)
    return str(default) if is_shown else None


def _install_completion(app: App) -> Result:
    """Install the completion of commands and options for this shell. The next terminal has completion."""
    register_study_argument()
    try:
        path = app.install_completion()
    except ShellDetectionError:
        raise StudyError(
            "completion works only in bash, zsh, fish and PowerShell; start one of them"
        ) from None
    return Result(lines=(f"{path}: completion starts with the next terminal",))


def register_study_argument(overrides: tuple[str, ...] = ()) -> None:
    """Make an argument of type `Study` open the folder that it names, with the settings of `--set`."""
    from guard_eval.study import Study  # noqa: PLC0415 (`--help` is quick without it)

    def open_named_study(_type: object, tokens: Sequence[Token]) -> Study:
        return Study.open(tokens[0].value, overrides)

    Parameter(converter=open_named_study, accepts_keys=False, n_tokens=1)(Study)


def show_whole_docstring_in_help(app: App, arguments: Sequence[str]) -> None:
    """Show the named command's whole docstring in its help. Lists of commands show only the first line."""
    words = [word for word in arguments if not word.startswith("-")]  # --help is a command of cyclopts, too
    *_, command = app.parse_commands(words)[1]
    if command.default_command:
        command.help = None


def _call_command_with_overrides(
    command: Callable[..., object], bound_arguments: inspect.BoundArguments, overrides: tuple[str, ...]
) -> object:
    """Call a command. A function that takes files instead of a study receives `--set` as `overrides`."""
    gc.freeze()  # imported objects live as long as the process, so collections need not check them
    from guard_eval.study import Study  # noqa: PLC0415

    reads_overrides = "overrides" in inspect.signature(command).parameters
    studies = [value.folder for value in bound_arguments.arguments.values() if isinstance(value, Study)]
    if overrides and not studies and not reads_overrides:
        raise StudyError(f"--set {overrides[0]}: this command reads no settings; remove --set")
    more = {"overrides": overrides} if reads_overrides else {}
    try:
        return command(*bound_arguments.args, **bound_arguments.kwargs, **more)
    except StudyError as error:
        for folder in [*studies, *filter(_is_study_folder, bound_arguments.args)][:1]:
            error.args = (proposals.insert_study_into_commands(str(error), folder, overrides),)
        raise


def _is_study_folder(argument: object) -> bool:
    return isinstance(argument, Path) and (argument / "study.toml").is_file()


def _add_commands(app: App) -> None:
    """Add all commands in the table's order, without loading their functions."""
    groups = {name: Group(name, sort_key=number) for number, name in enumerate(GROUPS)}
    parents = {"": app}
    for name, (heading, words) in PARENTS.items():
        parents[name] = App(name=name, help=words, group=groups[heading], sort_key=len(COMMANDS))
        app.command(parents[name])
    for number, (name, entry) in enumerate(COMMANDS.items()):
        parent, _, word = name.rpartition(" ")
        group = None if parent else groups[entry.group]
        parents[parent].command(entry.function, name=word, help=entry.help, group=group, sort_key=number)
