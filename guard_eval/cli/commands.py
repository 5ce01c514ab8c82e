"""The commands: by name for the command line, and as functions for Python. Each is loaded when it is used.

    from guard_eval.cli.commands import generate, pair

A function takes a `Study` and returns what it found or made; it prints only while a command runs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

from typer import Abort, BadParameter, Option
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command_from_info
from typer.models import CommandInfo

from guard_eval.cli.console import (
    be_quiet,
    give_details,
    json_on_stdout,
    name_study,
    print_json,
    quote_in_commands,
)
from guard_eval.reporting.escaping import visible
from guard_eval.strategies.own import use_file

__all__ = [
    "COMMANDS",
    "CommandGroup",
    "ReplicationOptions",
    "load",
    "power",
    "replicate",
    "replicate_verdicts",
    "show_list",
    "show_power",
]

COMMANDS = {
    "power": "Find out how many items and raters a study needs.",
    "replicate": "Make a table or a figure of the paper again, and print it beside the paper's figures.",
}
"""The first line of each command's help: `guard-eval --help` loads none of them."""

MODULES = {
    "replicate": "replication.replicate",
}
"""Commands whose file is in a folder of `guard_eval.cli`; that of any other is beside this one."""

FUNCTIONS = {
    "ReplicationOptions": "guard_eval.cli.replication.studies",
    "power": "guard_eval.cli.power_plan",
    "replicate": "guard_eval.cli.replication.run",
    "replicate_verdicts": "guard_eval.cli.replication.run",
    "show_list": "guard_eval.cli.replication.output",
    "show_power": "guard_eval.cli.power_plan",
}
"""Where the functions are that can be imported from here."""

if TYPE_CHECKING:
    from guard_eval.cli.power_plan import power, show_power
    from guard_eval.cli.replication.output import show_list
    from guard_eval.cli.replication.run import replicate, replicate_verdicts
    from guard_eval.cli.replication.studies import ReplicationOptions
else:

    def __getattr__(name: str) -> Callable[..., object]:
        """Return a command's function, from the module that is loaded now."""
        if name not in FUNCTIONS:
            raise AttributeError(f"{__name__} has no function {name!r}")
        return getattr(import_module(FUNCTIONS[name]), name)


def load(name: str) -> Any:  # noqa: ANN401 (a command of the click that typer holds)
    """Return a command with its options, and with those that are the same for all."""
    module = import_module(f"guard_eval.cli.{MODULES.get(name, name)}")
    info = CommandInfo(name=name, cls=StudyCommand, callback=_naming_the_study(module.command))
    command = _made(info)
    shared = {each.name: each for each in _made(CommandInfo(callback=_shared)).params}
    if name in _WITHOUT_STRATEGIES:
        del shared["strategies"]
    if name not in WITH_JSON:
        del shared["as_json"]
    command.params += shared.values()
    actions = get_type_hints(module.command).get("action")
    command.actions = frozenset(each.value for each in actions or ())
    return command


def _made(info: CommandInfo) -> Any:  # noqa: ANN401 (a command of the click that typer holds)
    return get_command_from_info(info, pretty_exceptions_short=True, rich_markup_mode=None)


_WITHOUT_STRATEGIES = {"power", "replicate"}
"""Commands that read no study of the user's."""

WITH_JSON: set[str] = set()
"""Commands whose tables are also printed as JSON; `progress`, `power` and `replicate` have their own."""


Quiet = Annotated[
    bool,
    Option(
        "--quiet",
        "-q",
        is_eager=True,
        expose_value=False,
        callback=lambda on: be_quiet() if on else None,
        help="Show neither progress nor the next command; results, warnings and errors stay.",
    ),
]
Verbose = Annotated[
    bool,
    Option(
        "--verbose",
        "-v",
        is_eager=True,
        expose_value=False,
        callback=lambda on: give_details() if on else None,
        help="Also say how long it took and, after an error, where in the program it arose.",
    ),
]
"""Options of every command, before its name or after it."""


def _shared(
    strategies: Annotated[
        list[str] | None,
        Option(
            "--code",
            metavar="FILE.py",
            is_eager=True,
            expose_value=False,
            callback=lambda files: [use_file(Path(file)) for file in files or ()],
            help="A file of strategies of your own, which the study names; it is run.",
        ),
    ] = None,
    as_json: Annotated[
        bool,
        Option(
            "--json",
            is_eager=True,
            expose_value=False,
            callback=lambda on: print_json() if on else None,
            help="Print the tables as JSON, and everything else to standard error.",
        ),
    ] = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Carry the options that commands share; each acts before the command reads a study."""


class StudyCommand(TyperCommand):
    """A command that also understands `raters add STUDY`, where it takes `raters STUDY add`.

    Attributes:
        actions: What can stand second; nothing for a command that has no actions.
    """

    actions: frozenset[str] = frozenset()

    def make_parser(self, ctx: Any) -> Any:  # noqa: ANN401 (of the click that typer holds)
        """Return a parser that puts the study before the action."""
        parser = super().make_parser(ctx)
        parse = parser.parse_args

        def parse_args(args: list[str]) -> Any:  # noqa: ANN401
            given, rest, order = parse(args)
            folder, action = given.get("folder"), given.get("action")
            # A study may be called add: where both words are actions, the study is the one that exists.
            if folder in self.actions and isinstance(action, str):
                study_first = action in self.actions and (_is_study(folder) or not _is_study(action))
                if not study_first:
                    given["folder"], given["action"] = action, folder
            return given, rest, order

        parser.parse_args = parse_args  # type: ignore[method-assign]
        return parser


def _is_study(name: str) -> bool:
    return (Path(name) / "study.toml").is_file()


def _naming_the_study(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command whose messages name its study, where what does not know its folder writes STUDY."""

    @wraps(command)
    def run(**given: object) -> None:
        for value in given.values():
            quote_in_commands(value if isinstance(value, list) else [value])
        targets = given.get("folder") or given.get("source") or given.get("targets")
        folder = targets[0] if isinstance(targets, list) and len(targets) == 1 else targets
        if isinstance(folder, Path):
            name_study(folder)
        with json_on_stdout():
            command(**given)

    return run


class CommandGroup(TyperGroup):
    """All commands, loaded when they are called."""

    def __init__(self, **attributes: Any) -> None:  # noqa: ANN401 (typer's)
        super().__init__(**attributes)
        self.commands = {name: TyperCommand(name, help=line) for name, line in COMMANDS.items()}

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:  # noqa: ANN401
        """Load the command that the arguments name."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command and load(str(command.name)), rest

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401
        """Run the command."""
        try:
            return super().invoke(ctx)
        except BadParameter as error:  # "Value error" is pydantic's, for programmers
            error.message = visible(error.message.removeprefix("Value error, "))
            raise
        except Abort:  # a question was answered with Ctrl-C or Ctrl-D
            raise KeyboardInterrupt from None
