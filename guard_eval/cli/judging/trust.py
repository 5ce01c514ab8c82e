"""Whether a key may leave for a server that a study names: the user's own list, and else a question.

The list is in the user's own configuration and never in a study, whose files may be a stranger's.
"""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

import typer

from guard_eval.cli.console import say
from guard_eval.errors import StudyError
from guard_eval.reporting.escaping import visible
from judge.providers.endpoint import OWN_KEYS, Provider, origin


def path() -> Path:
    """Return the list's path, such as ~/.config/guard-eval/trusted.toml; never in the current folder."""
    given = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    if not given.is_absolute():  # a relative one would lie in the current folder, which may be a stranger's
        given = Path.home() / ".config"
        if sys.platform in ("win32", "darwin"):
            given = Path(typer.get_app_dir("guard-eval")).parent
    return given / "guard-eval" / "trusted.toml"


def trusted() -> set[tuple[str, str]]:
    """Return the servers, as origins, each with a variable whose key may go there without a question.

    Raises:
        StudyError: The list cannot be read.
    """
    try:
        tables = tomllib.loads(path().read_text(encoding="utf-8")).get("trusted", [])
        return {(origin(each["server"]), str(each["key"])) for each in tables}
    except FileNotFoundError:
        return set()
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise StudyError(
            f"cannot read {path()}: {type(error).__name__}; write a server there as [[trusted]] with "
            'server = "https://…" and key = "VARIABLE"; fix or remove the file'
        ) from None


def may_leave(providers: Iterable[Provider]) -> bool:
    """Return whether each key may go to its server; ask about those that the user's list does not name.

    Raises:
        StudyError: There is no terminal to ask in.
    """
    wanted = {
        (origin(each.url), each.variable): None
        for each in providers
        if each.variable is not None and each.variable not in OWN_KEYS
    }
    known = trusted() if wanted else set()
    for server, variable in wanted:
        assert variable is not None
        if (server, variable) in known:
            continue
        if not sys.stdin.isatty():
            raise StudyError(
                f"study.toml wants the key in {variable} sent to {server}, and there is no terminal to "
                "confirm that in; --yes does not answer this. If you trust that server with that key, add to "
                f'{path()} a table [[trusted]] with server = "{server}" and key = "{variable}"'
            )
        if not typer.confirm(
            visible(f"study.toml wants the key in {variable} sent to {server}. Send it there?")
        ):
            say("nothing was sent")
            return False
        if typer.confirm(f"Remember this in {path()}, and do not ask again?"):
            _remember(server, variable)
    return True


def _remember(server: str, variable: str) -> None:
    path().parent.mkdir(parents=True, exist_ok=True)
    with path().open("a", encoding="utf-8") as file:
        file.write(f'\n[[trusted]]\nserver = "{server}"\nkey = "{variable}"\n')
