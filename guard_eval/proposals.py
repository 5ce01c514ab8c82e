"""Commands that messages propose. They are complete: what is pasted into a shell works."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

code_files: list[str] = []
"""The files of `--code`, as the user typed them: a proposed command names them, too."""

_INCOMPLETE = re.compile(r"(?<![\w/.-])(guard-eval [a-z]+(?: [a-z]+)?) STUDY\b")


def write_command(
    name: str, folder: Path | str, *arguments: str | Path, overrides: Sequence[str] = ()
) -> str:
    """Return a command on a study as a shell reads it, with the options of this run.

    >>> write_command("raters add", "my study", "Ann", overrides=["seed=3"])
    "guard-eval raters add 'my study' Ann --set seed=3"
    """
    words = [*name.split(), _as_argument(folder), *map(str, arguments), *_options(overrides)]
    return f"guard-eval {shlex.join(words)}"


def complete_commands(message: str, folder: Path | str, overrides: Sequence[str] = ()) -> str:
    """Put the study in place of STUDY in the commands of a message, such as one of the store.

    >>> complete_commands("list them with: guard-eval raters list STUDY", "a b")
    "list them with: guard-eval raters list 'a b'"
    """
    study = shlex.join([_as_argument(folder), *_options(overrides)])
    return _INCOMPLETE.sub(lambda command: f"{command[1]} {study}", message)


def _as_argument(folder: Path | str) -> str:
    """Return a folder's name as an argument, which no command takes for an option."""
    return f"./{folder}" if str(folder).startswith("-") else str(folder)


def _options(overrides: Sequence[str]) -> list[str]:
    options = [word for assignment in overrides for word in ("--set", assignment)]
    return options + [word for file in code_files for word in ("--code", file)]
