"""`guard-eval raters`: who may rate."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from guard_eval.cli.console import StudyFolder, say, say_next, say_table


class Action(StrEnum):
    """What to do with raters."""

    add = "add"
    list = "list"
    revoke = "revoke"


def command(
    folder: StudyFolder,
    action: Annotated[Action, typer.Argument(help="add makes invite links, revoke ends them.")] = Action.list,
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME…", help="For add and revoke.")] = None,
    url: Annotated[str, typer.Option(help="Where raters reach the app.")] = "http://localhost:8501",
) -> None:
    """Invite raters, list them, or revoke them.

    An invitation is a link, shown once and stored only as a hash.
    """
    from guard_eval.errors import StudyError
    from guard_eval.store import Store
    from guard_eval.study import Study

    study = Study.open(folder)
    if action is not Action.list and not names:
        raise StudyError(
            f"{action.value} needs at least one name: guard-eval raters {folder} {action.value} NAME …"
        )
    with Store.open(study.database, study_hash=study.hash) as store:
        if action is Action.add:
            say("Invite links are shown once and stored only as hashes. Send each to its rater:")
            for name in names or []:
                _, token = store.invite(name)
                say(f"  {name}: {url.rstrip('/')}/?invite={token}")
            say_next(f"guard-eval annotate {folder}")
            return
        for name in names or []:
            store.revoke(name)
            say(f"{name} can no longer sign in; what was rated stays")
        say_table(
            ["rater", "kind", "handed out", "rated", "state"],
            [
                [r.name, r.kind, str(r.handed_out), str(r.rated), "revoked" if r.revoked else ""]
                for r in store.raters()
            ],
        )
