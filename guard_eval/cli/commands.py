"""The table of commands. A command is a public function, whose module is loaded only when it is called.

from guard_eval.cli.commands import load_command

result = load_command("new")(Path("my-study"))
"""

import tomllib
from collections.abc import Callable
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, NamedTuple


class Command(NamedTuple):
    """A command of `guard-eval`.

    Attributes:
        group: The heading of the command in `--help`.
        function: The command's function, as `package.module:function`.
        help: The first line of the function's docstring, so that `--help` does not load the function.
    """

    group: str
    function: str
    help: str


GROUPS = ("Study", "People", "Judges", "Results")
"""The headings of `guard-eval --help`, in this order."""

PARENTS = {"raters": ("People", "Invite raters, list them, or exclude them.")}
"""The first words of two-word commands, with group and help. A first word alone is not a command."""

_TABLE = tomllib.loads(Path(__file__).with_name("commands.toml").read_text("utf-8"))
COMMANDS = {name: Command(**entry) for name, entry in _TABLE.items()}
"""All commands, in the order of the table."""


def load_command(name: str) -> Callable[..., Any]:
    """Return the function of a command."""
    return resolve_name(COMMANDS[name].function)  # type: ignore[no-any-return]
