"""`guard-eval raters`: who may rate, and whose verdicts count."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from contextlib import suppress
from enum import StrEnum
from getpass import getuser
from pathlib import Path
from typing import Annotated

import typer

from guard_eval.cli.console import StudyFolder, record, say, say_next, say_table
from guard_eval.cli.overview.display import duration
from guard_eval.cli.overview.overview import view
from guard_eval.cli.overview.ratings import read
from guard_eval.errors import StudyError
from guard_eval.store import Store
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
    with Store.open(study.database, study_hash=study.hash) as store:
        if action in {Action.add, Action.link}:
            _invite(
                store, names or [], url=url or store.app_address() or UNSERVED, again=action is Action.link
            )
            say_next(f"guard-eval annotate {folder}")
        elif action is Action.assign:
            kept = store.assign(names or [], study.plan)
            say(f"{kept} ratings are planned for {len(names or [])} raters, sides balanced for each")
            say_next(f"guard-eval annotate {folder}")
        else:
            for name in names or []:
                if action is Action.erase:
                    _erase(store, study, name, verdicts=verdicts, by=by or _user())
                else:
                    _change(store, action, name, reason=reason or "", by=by or _user())
            _list(store, study)


def _invite(store: Store, names: Sequence[str], *, url: str, again: bool) -> None:
    say("Invite links are shown once and stored only as hashes. Send each to its rater:")
    links = []
    for name in names:
        token = store.link(name) if again else store.invite(name)[1]
        links.append({"rater": name, "url": f"{url.rstrip('/')}/?invite={token}"})
        record("links", links)
        say(f"  {name}: {links[-1]['url']}")
    if again:
        say("Earlier links no longer work.")


def _change(store: Store, action: Action, name: str, *, reason: str, by: str) -> None:
    if action is Action.revoke:
        store.revoke(name)
        say(f"{name} can no longer sign in; what was rated stays, and counts")
    elif action is Action.exclude:
        store.exclude(name, reason, by)
        say(f"{name}'s verdicts no longer count, and the pairs are free for others; nothing is deleted")
    elif action is Action.include:
        store.include(name, reason, by)
        say(f"{name}'s verdicts count again, except on pairs that another rater has rated meanwhile")


def _erase(store: Store, study: Study, name: str, *, verdicts: bool, by: str) -> None:
    new, external = store.erase(name, by, verdicts=verdicts)
    what = "and the verdicts are removed" if verdicts else "whose verdicts stay"
    say(f"The identity and the comments are removed for good. The rater is now {new}, {what}.")
    found = {path for part in (name, external) if part for path in _files_with(study.folder, part)}
    database = {path for path in found if path.name.removesuffix("-wal") == Path(study.database).name}
    if database:
        say("The name still stands in a text, or in what others wrote: guard-eval export STUDY --notes")
    if found - database:
        say("These files still hold the name or the id: write them again, or remove them.")
        for path in sorted(found - database):
            say(f"  {path}")
    say("Not in reach: backups and copies elsewhere, compressed files such as Parquet, a server's own log.")


def _files_with(folder: Path, part: str) -> Iterator[Path]:
    """Yield the files of a study that contain a text."""
    wanted = part.encode("utf-8", "surrogatepass")
    for path in folder.rglob("*"):
        with suppress(OSError):  # removed this moment, or not to be read
            if path.is_file() and path.stat().st_size:
                with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                    if data.find(wanted) >= 0:
                        yield path


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
