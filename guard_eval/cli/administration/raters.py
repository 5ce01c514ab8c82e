"""`guard-eval raters`: who may rate, and whose verdicts count."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from enum import StrEnum
from getpass import getuser
from typing import Annotated

import typer

from guard_eval.cli.console import StudyFolder, record, say, say_next, say_table
from guard_eval.cli.overview.display import duration
from guard_eval.cli.overview.overview import view
from guard_eval.cli.overview.ratings import read
from guard_eval.errors import StudyError
from guard_eval.reporting.escaping import visible
from guard_eval.store import Store, notes, raters, roster, settings
from guard_eval.store.traces import find_traces, holds_word
from guard_eval.study.folder import Study


class Action(StrEnum):
    """What to do with raters."""

    add = "add"
    list = "list"
    link = "link"
    revoke = "revoke"
    exclude = "exclude"
    include = "include"
    assign = "assign"
    erase = "erase"


UNSERVED = "http://localhost:8501"
"""Where the app will be reached if it is served without --port."""

HELP = (
    "add invites; link gives a new link in place of the old; revoke lets in no more; exclude leaves the "
    "verdicts out, include takes them in again; assign plans beforehand who rates which pairs; erase takes a "
    "person's identity and comments out for good."
)


def command(
    folder: StudyFolder,
    action: Annotated[Action, typer.Argument(help=HELP)] = Action.list,
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME…", help="For all but list.")] = None,
    url: Annotated[
        str | None, typer.Option(help="Where raters reach the app; default: where it was served last.")
    ] = None,
    reason: Annotated[str | None, typer.Option(help="Why, for exclude and include; it is recorded.")] = None,
    verdicts: Annotated[bool, typer.Option("--verdicts", help="With erase: the verdicts too.")] = False,
    by: Annotated[str | None, typer.Option(help="Who decides; default: the user of this machine.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="With erase: do not ask.")] = False,
) -> None:
    """Invite raters, list them, or take them out.

    An invitation is a link, shown once and stored only as a hash. Verdicts of revoked or excluded raters
    stay; only erase deletes.
    """
    study = Study.open(folder)
    if action is not Action.list and not names:
        raise StudyError(
            f"{action.value} needs at least one name: guard-eval raters {folder} {action.value} NAME …"
        )
    decides = action in {Action.exclude, Action.include}
    if decides and not (reason or "").strip():
        raise StudyError(
            f"{action.value} needs a reason, which is recorded: guard-eval raters {folder} {action.value} "
            'NAME --reason "…"'
        )
    with Store.open(study.database, declared=study.declared) as store:
        if action in {Action.add, Action.link}:
            _invite(
                store,
                names or [],
                url=url or settings.app_address(store) or UNSERVED,
                again=action is Action.link,
            )
            say_next(f"guard-eval annotate {folder}")
        elif action is Action.assign:
            kept = roster.assign(store, names or [], study.plan)
            say(f"{kept} ratings are planned for {len(names or [])} raters, sides balanced for each")
            say_next(f"guard-eval annotate {folder}")
        elif action is Action.erase:
            if _may_erase(store, names or [], yes=yes):
                for name in names or []:
                    _erase(store, study, name, verdicts=verdicts, by=by or _user())
            _list(store, study)
        else:
            for name in names or []:
                _change(store, action, name, reason=reason or "", by=by or _user())
            _list(store, study)


def _invite(store: Store, names: Sequence[str], *, url: str, again: bool) -> None:
    say("Invite links are shown once and stored only as hashes. Send each to its rater:")
    links = []
    for name in names:
        token = raters.renew_link(store, name) if again else raters.invite(store, name)[1]
        links.append({"rater": name, "url": f"{url.rstrip('/')}/?invite={token}"})
        record("links", links)
        say(f"  {name}: {links[-1]['url']}")
    if again:
        say("Earlier links no longer work.")


def _change(store: Store, action: Action, name: str, *, reason: str, by: str) -> None:
    if action is Action.revoke:
        raters.revoke(store, name)
        say(f"{name} can no longer sign in; what was rated stays, and counts")
    elif action is Action.exclude:
        raters.exclude(store, name, reason, by)
        say(f"{name}'s verdicts no longer count, and the pairs are free for others; nothing is deleted")
    elif action is Action.include:
        raters.include(store, name, reason, by)
        say(f"{name}'s verdicts count again, except on pairs that another rater has rated meanwhile")


def _may_erase(store: Store, names: Sequence[str], *, yes: bool) -> bool:
    """Return whether the user agrees; before anybody is erased, each name must be a person's."""
    people = {who.name for who in raters.read(store) if who.kind == "person"}
    if unknown := [name for name in names if name not in people]:
        raise StudyError(
            f"no person is called {' or '.join(map(repr, unknown))}, so nobody was erased; "
            "list the raters with: guard-eval raters STUDY"
        )
    question = f"Erase {', '.join(names)} for good? This cannot be undone."
    if not yes and not sys.stdin.isatty():
        raise StudyError("there is no terminal to confirm this in, and nobody was erased; add --yes")
    return yes or typer.confirm(visible(question))


def _erase(store: Store, study: Study, name: str, *, verdicts: bool, by: str) -> None:
    new, external = raters.erase(store, name, by, verdicts=verdicts)
    what = "and the verdicts are removed" if verdicts else "whose verdicts stay"
    say(f"The identity and the comments are removed for good. The rater is now {new}, {what}.")
    words = [part for part in (name, external) if part]
    if any(holds_word(note.detail, words) for note in notes.read(store)):
        say("The name still stands in what others wrote: guard-eval export STUDY --notes")
    if paths := find_traces(study.folder, words):
        say("These files still hold the name or the id: write them again, or remove them.")
        for path in paths:
            say(f"  {path}")
    say("Not in reach: backups and copies elsewhere, compressed files such as Parquet, a server's own log.")


def _user() -> str:
    try:
        return getuser()
    except OSError:  # a container's user may have no name
        return "owner"


def _list(store: Store, study: Study) -> None:
    """Print every rater: how far, how long, and whether there is a reason to look."""
    snapshot = read(store)
    lines = {line.rater: line for line in view(snapshot, slots=study.plan.slots).raters}
    rows, records = [], []
    for who in snapshot.raters:
        line = lines.get(who.name)
        state = "excluded" if who.excluded else "revoked" if who.revoked else line.state if line else ""
        records.append(
            {
                "rater": who.name,
                "kind": who.kind,
                "handed_out": who.handed_out,
                "rated": who.rated,
                "seconds": line.total_seconds if line else None,
                "gold": line.gold if line else 0,
                "gold_failed": line.gold_failed if line else 0,
                "state": state,
                "flags": line.flags if line else (),
                "source": who.source,
                "external_id": who.external_id,
            }
        )
        rows.append(
            [
                who.name,
                who.kind,
                str(who.handed_out),
                str(who.rated),
                duration(line.total_seconds) if line and line.total_seconds else "",
                f"{line.gold_failed}/{line.gold}" if line and line.gold else "",
                ", ".join([*([state] if state else []), *(line.flags if line else ())]),
                " ".join(part for part in (who.source, who.external_id) if part),
            ]
        )
    record("raters", records)
    heads = ["rater", "kind", "handed out", "rated", "time", "gold failed", "state", "came from"]
    shown = [place for place, _ in enumerate(heads) if place < 4 or any(row[place] for row in rows)]
    say_table([heads[place] for place in shown], [[row[place] for place in shown] for row in rows])
