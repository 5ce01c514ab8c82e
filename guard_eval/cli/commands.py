"""The commands: by name for the command line, and as functions for Python. Each is loaded when it is used.

    from guard_eval.cli.commands import generate, measure, pair, report, verdicts

A function takes a `Study` and returns what it found or made; it prints only while a command runs.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import BadParameter, Option
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command_from_info
from typer.models import CommandInfo

from guard_eval.cli.console import speaking
from guard_eval.errors import StudyError
from guard_eval.strategies.own import use_file

__all__ = [
    "COMMANDS",
    "CommandGroup",
    "MeasureOptions",
    "ReplicationOptions",
    "generate",
    "import_files",
    "load",
    "measure",
    "measure_files",
    "merge",
    "pair",
    "paper_tables",
    "power",
    "progress",
    "replicate",
    "replicate_verdicts",
    "report",
    "show_list",
    "show_power",
    "verdicts",
]

COMMANDS = {
    "new": "Make a study: study.toml to edit, and prompts.",
    "generate": "Write continuations with every strategy.",
    "merge": "Check and join the parts of a study's continuations.",
    "measure": "Score continuations, and say how sure the scores are.",
    "pair": "Draw prompts and make blinded pairs.",
    "gold": "Add gold pairs.",
    "raters": "Invite raters, list them, or take them out.",
    "annotate": "Serve the pairs to people, in a browser.",
    "progress": "See how far the raters are.",
    "judge": "Have language models compare the pairs.",
    "report": "Write the significance report.",
    "import": "Read verdicts that were made with other tools.",
    "power": "Find out how many items and raters a study needs.",
    "export": "Write the verdicts as a table.",
    "db": "Back the study's database up, move it to a server or back, or bring it up to date.",
    "replicate": "Make a table or a figure of the paper again, and print it beside the paper's figures.",
    "demo": "Run a complete small study.",
}
"""The first line of each command's help: `guard-eval --help` loads none of them."""

MODULES = {
    "import": "exchange.importing",
    "progress": "overview.progress",
    **{name: f"administration.{name}" for name in ("gold", "raters", "export", "db")},
}
"""Where a command's file lies in a folder of `guard_eval.cli`; that of any other lies beside this one."""

FUNCTIONS = {
    "MeasureOptions": "guard_eval.cli.measuring.job",
    "ReplicationOptions": "guard_eval.cli.replication.studies",
    "generate": "guard_eval.cli.generate",
    "import_files": "guard_eval.cli.exchange.importing",
    "measure": "guard_eval.cli.measuring.job",
    "measure_files": "guard_eval.cli.measuring.job",
    "merge": "guard_eval.cli.merge",
    "pair": "guard_eval.cli.pair",
    "paper_tables": "guard_eval.cli.reporting.significance",
    "power": "guard_eval.cli.power_plan",
    "progress": "guard_eval.cli.overview.progress",
    "replicate": "guard_eval.cli.replication.run",
    "replicate_verdicts": "guard_eval.cli.replication.run",
    "show_list": "guard_eval.cli.replication.output",
    "report": "guard_eval.cli.reporting.significance",
    "show_power": "guard_eval.cli.power_plan",
    "verdicts": "guard_eval.cli.reporting.verdict_tables",
}
"""Where the functions are that can be imported from here."""

if TYPE_CHECKING:
    from guard_eval.cli.exchange.importing import import_files
    from guard_eval.cli.generate import generate
    from guard_eval.cli.measuring.job import MeasureOptions, measure, measure_files
    from guard_eval.cli.merge import merge
    from guard_eval.cli.overview.progress import progress
    from guard_eval.cli.pair import pair
    from guard_eval.cli.power_plan import power, show_power
    from guard_eval.cli.replication.output import show_list
    from guard_eval.cli.replication.run import replicate, replicate_verdicts
    from guard_eval.cli.replication.studies import ReplicationOptions
    from guard_eval.cli.reporting.significance import paper_tables, report
    from guard_eval.cli.reporting.verdict_tables import verdicts
else:

    def __getattr__(name: str) -> Callable[..., object]:
        """Return a command's function, from the module that is loaded now."""
        if name not in FUNCTIONS:
            raise AttributeError(f"{__name__} has no function {name!r}")
        return getattr(import_module(FUNCTIONS[name]), name)


def load(name: str) -> Any:  # noqa: ANN401 (a command of the click that typer holds)
    """Return a command with its options."""
    module = import_module(f"guard_eval.cli.{MODULES.get(name, name)}")
    info = CommandInfo(name=name, callback=_naming_the_study(module.command))
    command = get_command_from_info(info, pretty_exceptions_short=True, rich_markup_mode=None)
    if name not in _WITHOUT_STRATEGIES:
        command.params.append(_own_strategies())
    return command


_WITHOUT_STRATEGIES = {"new", "import", "power", "replicate", "demo"}
"""Commands that read no study of the user's."""


def _own_strategies() -> Any:  # noqa: ANN401 (an option of the click that typer holds)
    """Return the option by which a command is given files of strategies, before it reads a study."""

    def carrier(
        strategies: Annotated[
            list[str] | None,
            Option(
                metavar="FILE.py",
                is_eager=True,
                expose_value=False,
                callback=lambda files: [use_file(Path(file)) for file in files or ()],
                help="A file of strategies of your own, which the study names; it is run.",
            ),
        ] = None,
    ) -> None:
        """Carry the option."""

    [option] = get_command_from_info(
        CommandInfo(callback=carrier), pretty_exceptions_short=True, rich_markup_mode=None
    ).params
    return option


def _naming_the_study(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command whose errors name its study, where what does not know its folder writes STUDY."""

    @wraps(command)
    def run(**given: object) -> None:
        try:
            command(**given)
        except StudyError as error:
            targets = given.get("folder") or given.get("target") or given.get("targets")
            folder = targets[0] if isinstance(targets, list) and len(targets) == 1 else targets
            if not isinstance(folder, Path):
                raise
            name = shlex.quote(str(folder)).replace("\\", r"\\")
            raise StudyError(re.sub(r"(\bguard-eval \w+) STUDY\b", rf"\1 {name}", str(error))) from error

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
        """Run the command; what it says is printed."""
        with speaking():
            try:
                return super().invoke(ctx)
            except BadParameter as error:
                error.message = error.message.removeprefix("Value error, ")  # pydantic's, for programmers
                raise
