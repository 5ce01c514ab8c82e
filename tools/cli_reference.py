"""The command line's reference as a page: what `guard-eval COMMAND --help` prints, command by command."""

from __future__ import annotations

from typing import Any

import typer

from guard_eval.cli import app
from guard_eval.cli.commands import COMMANDS, load

WIDTH = 80
"""Columns of the help."""

_HEAD = """# Command line

What `guard-eval COMMAND --help` prints. Every command says what it will do, can be stopped at any moment and
run again, and ends by naming the next one. Exit codes: 0 done, 2 something to fix (the message says what),
130 stopped by Ctrl-C.
"""


def helps() -> dict[str, str]:
    """Return the help of each command, by its name, in the order of `guard-eval --help`."""
    group: Any = typer.main.get_command(app)
    commands = {name: load(name) for name in COMMANDS}
    # Not the terminal's width: the page is the same wherever it is made.
    settings = {"terminal_width": WIDTH, "max_content_width": WIDTH, "resilient_parsing": True}
    above = group.make_context(app.info.name, [], **settings)
    return {
        name: command.get_help(type(above)(command, info_name=name, parent=above, **settings))
        for name, command in commands.items()
    }


def cli_reference() -> str:
    """Return the page, in Markdown."""
    parts = [_HEAD]
    parts += [f"## {name}\n\n```text\n{text.strip()}\n```\n" for name, text in helps().items()]
    return "\n".join(parts)
