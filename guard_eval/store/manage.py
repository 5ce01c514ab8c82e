"""Who may rate, and whose verdicts count: the commands `guard-eval raters list`, `add`, `exclude`, …."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from getpass import getuser
from pathlib import Path

from guard_eval import progress
from guard_eval.errors import StudyError
from guard_eval.records import RaterKind
from guard_eval.reporting.tables import Table
from guard_eval.results import Result
from guard_eval.store import notes, raters, roster, settings, unblind
from guard_eval.store.database import Store
from guard_eval.store.traces import find_traces, holds_word
from guard_eval.study import Study

UNKNOWN_ADDRESS = "ADDRESS"
"""What begins a link before the app was served."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RaterLine:
    """A rater as its owner sees it.

    Attributes:
        rater: The name.
        kind: person, model, simulated or simulated_model.
        handed_out: How many of the study's pairs it was shown.
        rated: How many of them it has rated.
        gold: Answers to gold pairs.
        gold_failed: Those that were wrong.
        state: excluded, revoked, declined (no consent), finished (nothing was left), or nothing of these.
        source: Where a rater without an invitation came from, such as prolific.
        external_id: The source's own name for the rater, who is paid by it.
    """

    rater: str
    kind: RaterKind
    handed_out: int
    rated: int
    gold: int
    gold_failed: int
    state: str
    source: str | None
    external_id: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """An invitation: whoever opens the address rates under the rater's name."""

    rater: str
    url: str


@dataclass(frozen=True, kw_only=True)
class Invited(Result):
    """The links of invited people. They are stored nowhere."""

    links: tuple[Link, ...]


@dataclass(frozen=True, kw_only=True)
class Raters(Result):
    """All raters of a study, in the order they were added."""

    raters: tuple[RaterLine, ...]


def list_raters(study: Study, /) -> Raters:
    """List the raters: who came from where, how far they are, and who is out.

    `guard-eval status` says how long they take and how they rate.

    Args:
        study: The study's folder.

    Raises:
        StudyError: There is no database.
    """
    with _open(study) as store:
        return _list(store, ())


def add(study: Study, /, *names: str, url: str | None = None) -> Invited:
    """Invite people: make a link for each.

    A link is shown once, and stored only as a hash. Send each to its rater.

    Args:
        study: The study's folder.
        names: Under which names they rate.
        url: Where raters reach the app. By default it is where the app was served last.

    Raises:
        StudyError: A name is taken or cannot be used; the people before it are invited.
    """
    return _invite(study, names, url, lambda store, name: raters.invite(store, name)[1], "add")


def link(study: Study, /, *names: str, url: str | None = None) -> Invited:
    """Make a new link for people who lost theirs; the old one no longer works.

    Args:
        study: The study's folder.
        names: Whose links they are.
        url: Where raters reach the app. By default it is where the app was served last.

    Raises:
        StudyError: There is no such person, or it is revoked.
    """
    return _invite(study, names, url, raters.renew_link, "link")


def assign(study: Study, /, *names: str) -> Result:
    """Plan before the first rating who rates which pairs, so that each sees both sides equally often.

    Args:
        study: The study's folder.
        names: All who will rate.

    Raises:
        StudyError: There is no such rater, or somebody has rated already.
    """
    with _open(study, names, "assign") as store:
        planned = roster.assign(store, names, study.plan)
    people = f"{len(names)} rater{'s' if len(names) > 1 else ''}"
    return Result(
        lines=(f"{planned} ratings are planned for {people}, sides balanced for each",),
        next=(study.command("annotate"),),
    )


def revoke(study: Study, /, *names: str) -> Raters:
    """Let raters in no more. What they rated stays, and counts.

    Args:
        study: The study's folder.
        names: Who is let in no more.

    Raises:
        StudyError: There is no such rater.
    """
    with _open(study, names, "revoke") as store:
        _check_known(store, names)
        for name in names:
            raters.revoke(store, name)
        lines = [f"{name} can no longer sign in; what was rated stays, and counts" for name in names]
        return _list(store, lines)


def exclude(study: Study, /, *names: str, reason: str) -> Raters:
    """Leave raters' verdicts out. Nothing is deleted, and the decision is recorded.

    Their pairs are free for others. The report names who decided, when and why.

    Args:
        study: The study's folder.
        names: Whose verdicts are left out.
        reason: Why; the report shows it.

    Raises:
        StudyError: There is no such rater, it is excluded already, or the reason is empty.
    """
    with _open(study, names, "exclude") as store:
        _check_known(store, names)
        for name in names:
            raters.exclude(store, name, reason, _user())
        what = "no longer count, and the pairs are free for others; nothing is deleted"
        return _list(store, [f"{name}'s verdicts {what}" for name in names])


def include(study: Study, /, *names: str, reason: str) -> Raters:
    """Take excluded raters in again. This decision is recorded, too.

    Args:
        study: The study's folder.
        names: Whose verdicts count again, except on pairs that another rater has rated meanwhile.
        reason: Why; the report shows it.

    Raises:
        StudyError: There is no such rater, it is not excluded, or the reason is empty.
    """
    with _open(study, names, "include") as store:
        _check_known(store, names)
        for name in names:
            raters.include(store, name, reason, _user())
        what = "count again, except on pairs that another rater has rated meanwhile"
        return _list(store, [f"{name}'s verdicts {what}" for name in names])


def erase(study: Study, /, *names: str, verdicts: bool = False, yes: bool = False) -> Raters:
    """Take people's identity and comments out for good.

    Their verdicts stay under a name that says nothing. Files of the study that still name a person are
    listed.

    Args:
        study: The study's folder.
        names: Who is erased.
        verdicts: Remove the verdicts, too.
        yes: Do not ask.

    Raises:
        StudyError: There is no such person; then nobody is erased. Or nobody is there to be asked.
    """
    with _open(study, names, "erase") as store:
        people = {who.name for who in raters.read(store) if who.kind == "person"}
        if unknown := [name for name in names if name not in people]:
            raise StudyError(
                f"no person is called {' or '.join(map(repr, unknown))}, so nobody was erased; list the "
                f"raters with: {study.command('raters list')}"
            )
        if not yes and not sys.stdin.isatty():
            raise StudyError("there is no terminal to confirm this in, and nobody was erased; add --yes")
        lines = []
        if yes or progress.confirm(f"Erase {', '.join(names)} for good? This cannot be undone."):
            for name in names:
                lines += _erase(store, study, name, verdicts=verdicts)
            lines.append(
                "Not in reach: backups, copies elsewhere, compressed files such as Parquet, a server's log."
            )
        return _list(store, lines)


def _open(study: Study, names: Sequence[str] | None = None, action: str = "") -> Store:
    """Open the database of a study, for an action that needs names."""
    if names is not None and not names:
        raise StudyError(f"{action} needs at least one name: {study.command(f'raters {action}', 'NAME')}")
    return Store.open(study.database, declared=study.declared)


def _invite(
    study: Study, names: Sequence[str], url: str | None, make_token: Callable[[Store, str], str], action: str
) -> Invited:
    links: list[Link] = []
    refused = ""
    with _open(study, names, action) as store:
        address = (url or settings.app_address(store) or UNKNOWN_ADDRESS).rstrip("/")
        for name in names:
            try:
                token = make_token(store, name)
            except StudyError as error:
                if not links:
                    raise
                refused = str(error)  # the links before it would be lost with an exception
                break
            links.append(Link(rater=name, url=f"{address}/?invite={token}"))
    lines = ["Invite links are shown once and stored only as hashes. Send each to its rater:"]
    lines += [f"  {each.rater}: {each.url}" for each in links]
    if address == UNKNOWN_ADDRESS:
        lines.append(
            f"The app was not served yet. Put its address in place of {UNKNOWN_ADDRESS}, such as "
            "https://rate.example.org or, on this machine, http://localhost:8501; --url writes it."
        )
    return Invited(
        lines=tuple(lines),
        warnings=(f"{refused}; the names after it were not invited",) if refused else (),
        next=(study.command("annotate"),),
        exit_code=2 if refused else 0,
        links=tuple(links),
    )


def _check_known(store: Store, names: Sequence[str]) -> None:
    """Raise a `StudyError` if a name is no rater's, before anything is changed."""
    with store.read() as db:
        for name in names:
            raters.find(db, name)


def _list(store: Store, lines: Sequence[str]) -> Raters:
    everybody = raters.read(store)
    states = read_states(store, everybody)
    checks = [row for row in unblind.checks(store) if row.check == "gold"]
    gold = Counter(row.rater for row in checks)
    failed = Counter(row.rater for row in checks if not row.passed)
    listed = tuple(
        RaterLine(
            rater=who.name,
            kind=who.kind,
            handed_out=who.handed_out,
            rated=who.rated,
            gold=gold[who.name],
            gold_failed=failed[who.name],
            state=states[who.name],
            source=who.source,
            external_id=who.external_id,
        )
        for who in everybody
    )
    rows = [
        (
            *(line.rater, line.kind, str(line.handed_out), str(line.rated)),
            f"{line.gold_failed}/{line.gold}" if line.gold else "",
            line.state,
            " ".join(part for part in (line.source, line.external_id) if part),
        )
        for line in listed
    ]
    heads = ("rater", "kind", "handed out", "rated", "gold failed", "state", "came from")
    shown = [column for column in range(len(heads)) if column < 4 or any(row[column] for row in rows)]
    table = Table(
        caption="",
        columns=tuple(heads[column] for column in shown),
        rows=tuple(tuple(row[column] for column in shown) for row in rows),
        text_columns=2,
        words=frozenset(index for index, column in enumerate(shown) if column > 4),
    )
    return Raters(lines=tuple(lines), tables=(table,) if rows else (), raters=listed)


def read_states(store: Store, everybody: Sequence[raters.RaterProgress]) -> dict[str, str]:
    """Return the state of each rater, as `RaterLine` has it."""
    consents: dict[str, bool] = {}
    finished: dict[str, int] = {}
    for note in notes.read(store, kind="consent"):
        consents[note.rater] = json.loads(note.detail).get("agreed", True)
    for note in notes.read(store, kind="finished"):
        finished[note.rater] = json.loads(note.detail).get("rated")
    states = {}
    for who in everybody:
        if who.excluded or who.revoked:
            states[who.name] = "excluded" if who.excluded else "revoked"
        elif not consents.get(who.name, True):
            states[who.name] = "declined"
        else:
            states[who.name] = "finished" if finished.get(who.name) == who.rated else ""
    return states


def _erase(store: Store, study: Study, name: str, *, verdicts: bool) -> list[str]:
    """Erase a person and return what the owner should know."""
    pseudonym, external_id = raters.erase(store, name, _user(), verdicts=verdicts)
    what = "and the verdicts are removed" if verdicts else "whose verdicts stay"
    lines = [f"The identity and the comments are removed for good. The rater is now {pseudonym}, {what}."]
    words = [word for word in (name, external_id) if word]
    if any(holds_word(note.detail, words) for note in notes.read(store)):
        lines.append(
            f"The name still stands in what others wrote: {study.command('export', '--table', 'notes')}"
        )
    paths: list[Path] = find_traces(study.folder, words)
    if paths:
        lines.append("These files still hold the name or the id: write them again, or remove them.")
    return [*lines, *(f"  {path}" for path in paths)]


def _user() -> str:
    try:
        return getuser()
    except OSError:  # a container's user may have no name
        return "owner"
