"""Complete the commands and page names in messages, so that users can paste them into a shell."""

import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

code_files: list[str] = []
"""The files of `--code`, as the user typed them. Proposed commands name the same files."""

_PAGE = re.compile(r"(?<![\w/.-])docs/[a-z_]+\.md\b")
_DOCUMENTATION = (Path(), Path(__file__).parents[1], Path(sys.prefix) / "share" / "doc" / "guard-eval")
"""The folders in which docs may be: the current folder, the running checkout, and the place of a wheel."""
_INCOMPLETE = re.compile(r"(?<![\w/.-])(guard-eval [a-z]+(?: [a-z]+)?) STUDY\b")


def format_study_command(
    name: str, folder: Path | str, *arguments: str | Path, overrides: Sequence[str] = ()
) -> str:
    """Return a command for a study, quoted for a shell, with the options of this run.

    >>> format_study_command("raters add", "my study", "Ann", overrides=["seed=3"])
    "guard-eval raters add 'my study' Ann --set seed=3"
    """
    words = [
        *name.split(),
        _protect_leading_hyphen(folder),
        *map(str, arguments),
        *_list_command_options(overrides),
    ]
    return f"guard-eval {shlex.join(words)}"


def insert_study_into_commands(message: str, folder: Path | str, overrides: Sequence[str]) -> str:
    """Replace STUDY by the study in the commands of a message, such as one of the store.

    >>> insert_study_into_commands("list them with: guard-eval raters list STUDY", "a b", [])
    "list them with: guard-eval raters list 'a b'"
    """
    study = shlex.join([_protect_leading_hyphen(folder), *_list_command_options(overrides)])
    return _INCOMPLETE.sub(lambda command: f"{command[1]} {study}", message)


def replace_pages_by_paths(message: str) -> str:
    """Replace the name of a page, such as docs/formats.md, by its path if the page exists."""

    def find_page_path(page: re.Match[str]) -> str:
        paths = (folder / page[0] for folder in _DOCUMENTATION)
        return str(next(filter(Path.is_file, paths), page[0]))

    return _PAGE.sub(find_page_path, message)


def _protect_leading_hyphen(folder: Path | str) -> str:
    """Return a folder's name that no command reads as an option: `./-x` for `-x`."""
    return f"./{folder}" if str(folder).startswith("-") else str(folder)


def _list_command_options(overrides: Sequence[str]) -> list[str]:
    options = [word for assignment in overrides for word in ("--set", assignment)]
    return options + [word for file in code_files for word in ("--code", file)]
