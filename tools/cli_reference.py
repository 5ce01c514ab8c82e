"""Make the reference page of the command line: the output of `guard-eval COMMAND --help` for each command."""

from __future__ import annotations

import io
from functools import cache

from rich.console import Console

from guard_eval.cli.commands import COMMANDS
from guard_eval.cli.frame import build_app, register_study_argument, show_whole_docstring_in_help

WIDTH = 80
"""The width of the help in columns."""

_HEAD = """# Command line

What `guard-eval COMMAND --help` prints. Every command says what it will do, can be stopped at any moment and
run again, and ends by naming the next one. Exit codes: 0 done, 2 something to fix (the message says what),
130 stopped by Ctrl-C.
"""


@cache
def helps() -> dict[str, str]:
    """Return the help of each command, by the command's name, in the order of `guard-eval --help`."""
    return {name: _help(name) for name in COMMANDS}


def _help(name: str) -> str:
    register_study_argument()
    page = io.StringIO()
    line = build_app()
    arguments = [*name.split(), "--help"]
    show_whole_docstring_in_help(line, arguments)
    line.meta(arguments, console=Console(file=page, width=WIDTH))
    return page.getvalue()


@cache
def options() -> dict[str, set[str]]:
    """Return the options of each command, by the command's name."""
    return {name: _options(name) for name in COMMANDS}


def _options(name: str) -> set[str]:
    register_study_argument()
    line = build_app()
    apps = [line.meta, line[name.split(maxsplit=1)[0]]]
    apps += [apps[-1][word] for word in name.split()[1:]]
    arguments = [
        argument
        for app_ in (apps[0], apps[-1])
        for argument in app_.assemble_argument_collection(default_parameter=line.default_parameter)
    ]
    names = (name for argument in arguments if argument.parse for name in argument.names)
    return {name for name in names if name.startswith("-")}


def cli_reference() -> str:
    """Return the page, in Markdown."""
    parts = [_HEAD]
    parts += [f"## {name}\n\n```text\n{text.strip()}\n```\n" for name, text in helps().items()]
    return "\n".join(parts)
