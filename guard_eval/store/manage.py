"""The commands that manage raters: `guard-eval raters list`, `invite_raters`, `exclude_raters`, ….

If an action is impossible for one of the names, the command raises a `StudyError` and changes nothing.
"""

import re
import secrets
import shlex
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from getpass import getuser
from pathlib import Path
from typing import Literal

from guard_eval import progress
from guard_eval.errors import StudyError
from guard_eval.lookalike import is_written_without_spaces
from guard_eval.records import record
from guard_eval.reporting.escaping import make_csv
from guard_eval.reporting.tables import Table
from guard_eval.reporting.writing import check_replaceable, write_atomically
from guard_eval.results import Result
from guard_eval.store import raters, settings
from guard_eval.store.database import Store
from guard_eval.store.raters import RaterProgress
from guard_eval.store.showings import roster, slots
from guard_eval.study import Study

LOCAL_ADDRESS = "http://127.0.0.1:8501"
"""The default address of `guard-eval annotate`. Links begin with it until the app has been served."""


_LINK_COLUMNS = ("name", "link")
_LOCAL = ("http://127.", "http://localhost:", "http://[::1]")
_ADDRESS = re.compile(r"https?://[^\s/?#@]+(/[^\s?#]*)?")


@record
class InvitationLinks(Result):
    """The links of invited people, by name. Anybody who opens a link rates under that person's name."""

    links: Mapping[str, str]


@record
class Raters(Result):
    """All raters of a study, in the order added. After a change, the table shows only the changed raters."""

    raters: tuple[RaterProgress, ...]


def invite_raters(
    study: Study, /, *names: str, url: str | None = None, renew: bool = False
) -> InvitationLinks:
    """Invite people: make a link for each.

    Send each person the link. A link is shown only once, because the study stores only its hash.

    Args:
        study: The study's folder.
        names: The names of the people.
        url: The address at which raters reach the app, such as https://rate.example.org. Default: the
            address at which the app was served last, or at which `guard-eval annotate` will serve it on this
            machine.
        renew: Make new links for people who lost theirs. The old links stop working.
    """
    with _require_names_and_open_store(study, names, "add") as store:
        links, notes = _make_invitation_links(store, study, names, url, renew=renew)
    lines = ["Invite links are shown once and stored only as hashes. Send each to its rater:"]
    lines += [f"  {name}: {link}" for name, link in links.items()]
    return InvitationLinks(lines=(*lines, *notes), next=(study.format_command("annotate"),), links=links)


def renew_links(study: Study, /, *names: str, output: Path, url: str | None = None) -> Result:
    """Make new links for invited people, and write the links to a file.

    The study stores only hashes of links, so it cannot show the old ones. The old links of these people stop
    working.

    Args:
        study: The study's folder.
        names: The people who get new links. Default: all who were invited by name and have rated nothing
            yet.
        output: The CSV file to write, with a row for each rater. Only the file's owner can read the file.
        url: The address at which raters reach the app; see `raters add`.
    """
    if output.suffix.lower() != ".csv":
        raise StudyError(f"--output {output}: links are written as CSV; give the file the ending .csv")
    if output.exists() and not output.is_file():
        raise StudyError(f"--output {output} is not a regular file; name another file")
    check_replaceable(output, ",".join(_LINK_COLUMNS))
    draft = output.with_name(f".{output.name}.{secrets.token_hex(4)}")
    # If the new links cannot be written or stored, the old links stay in the database and in the file.
    try:
        with Store.open_study(study) as store, store.begin_write():
            invited = names or [
                rater.name
                for rater in raters.read_rater_progress(store)
                if rater.kind == "person" and rater.source is None and not rater.rated and not rater.state
            ]
            if not invited:
                raise StudyError(
                    "all invited people have rated already; name people who need new links, or invite more: "
                    f"{study.format_command('raters add', 'NAME')}"
                )
            written, notes = _make_invitation_links(store, study, invited, url, renew=True)
            write_atomically(draft, make_csv([_LINK_COLUMNS, *written.items()]).encode(), private=True)
        draft.replace(output)
    finally:
        draft.unlink(missing_ok=True)
    line = f"{output}: new links for {', '.join(written)}; their earlier links no longer work"
    return Result(lines=(line, *notes), next=(study.format_command("annotate"),))


def _make_invitation_links(
    store: Store, study: Study, names: Sequence[str], url: str | None, *, renew: bool
) -> tuple[dict[str, str], list[str]]:
    """Make a link for each name; return the links by name, and messages about the address."""
    if url is not None and not _ADDRESS.fullmatch(url):
        raise StudyError(f"--url {url} is not a web address; write one such as https://rate.example.org")
    address = (url or settings.read_setting(store, settings.APP_ADDRESS) or LOCAL_ADDRESS).rstrip("/")
    with store.begin_write():  # all of them or nobody
        slots.apply_hand_out_plan(store, study.hand_out_plan)
        tokens = {name: raters.invite_rater(store, name, renew=renew)[1] for name in names}
    notes = []
    if address.startswith(_LOCAL):
        notes.append(
            "The links work only on this machine, while the app is served. For raters elsewhere, give the "
            "address where they open the app: --url https://rate.example.org"
        )
    return {name: f"{address}/?invite={token}" for name, token in tokens.items()}, notes


def assign_pairs(study: Study, /, *names: str) -> Result:
    """Plan who rates which pairs, so that each rater sees both sides equally often.

    Use this command before the first rating.

    Args:
        study: The study's folder.
        names: The names of all people who will rate.
    """
    with _require_names_and_open_store(study, names, "assign") as store:
        planned = roster.reserve_slots(store, names, study.hand_out_plan)
    line = f"{planned} ratings are planned, and sides are balanced, for each of: {', '.join(names)}"
    return Result(lines=(line,), next=(study.format_command("annotate"),))


def revoke_raters(study: Study, /, *names: str) -> Raters:
    """Stop raters from rating. Their verdicts stay, and count.

    Args:
        study: The study's folder.
        names: The raters to stop.
    """
    says = "{} can no longer sign in; what was rated stays, and counts"
    return _decide_about_raters(study, names, "revoke", says)


def exclude_raters(study: Study, /, *names: str, reason: str) -> Raters:
    """Exclude raters: their verdicts no longer count. Nothing is deleted.

    Other raters can rate the same pairs. The report says who decided this, when and why.

    Args:
        study: The study's folder.
        names: The raters to exclude.
        reason: The reason, which the report shows.
    """
    says = "{}'s verdicts no longer count, and the pairs are free for others; nothing is deleted"
    return _decide_about_raters(study, names, "exclude", says, reason)


def include_raters(study: Study, /, *names: str, reason: str) -> Raters:
    """Let raters rate again after an exclusion, a revocation, or a failed check.

    Their earlier verdicts count, except on pairs that another rater has rated meanwhile. Raters who failed
    the check can try again. The decision is recorded.

    Args:
        study: The study's folder.
        names: The raters to include.
        reason: The reason for the decision.
    """
    says = "{} may rate again; earlier verdicts count, except on pairs that another rater has rated meanwhile"
    return _decide_about_raters(study, names, "include", says, reason)


def erase_raters(study: Study, /, *names: str, verdicts: bool = False, yes: bool = False) -> Raters:
    """Delete people's identity and comments for good.

    Their verdicts stay under a name that identifies nobody. The output has a command that finds files with
    the person's name.

    Args:
        study: The study's folder.
        names: The people to erase.
        verdicts: Delete their verdicts, too.
        yes: Do not ask for confirmation.
    """
    with _require_names_and_open_store(study, names, "erase") as store:
        with store.begin_read() as db:
            for name in names:
                raters.find_rater(db, name, "person")
        if not yes and not sys.stdin.isatty():
            raise StudyError("nobody was erased, because no terminal can ask for confirmation; add --yes")
        if not (yes or progress.confirm(f"Erase {', '.join(names)} for good? This cannot be undone.")):
            return tabulate_raters(store)
        lines = []
        new_names = []
        for name in names:
            new_name, external_id = raters.erase_rater(store, name, _find_user_name(), verdicts=verdicts)
            new_names.append(new_name)
            what = "and the verdicts are removed" if verdicts else "and the verdicts stay"
            names_and_parts = dict.fromkeys([name, external_id, *re.findall(r"[^\W_]{3,}", name)])
            search = "grep -rliF" if is_written_without_spaces(name) else "grep -rlwiF"
            words = " ".join(f"-e {shlex.quote(word)}" for word in names_and_parts if word)
            lines += [
                f"Identity and comments are removed. The name is {new_name} now, also in notes, {what}.",
                f"Files that may still hold the name: {search} {words} -- {shlex.quote(str(study.folder))}",
            ]
        lines += [
            "Others' notes may still hold a part of the name: "
            + study.format_command("export", "--table", "notes"),
            "The command cannot reach backups, other copies, compressed files and a server's log.",
        ]
        return tabulate_raters(store, *lines, only=new_names)


def _require_names_and_open_store(study: Study, names: Sequence[str], action: str) -> Store:
    """Open the study's database. Raise a `StudyError` if the action has no names of raters."""
    if not names:
        raise StudyError(
            f"raters {action} needs at least one name: {study.format_command(f'raters {action}', 'NAME')}"
        )
    return Store.open_study(study)


def _decide_about_raters(
    study: Study,
    names: Sequence[str],
    decision: Literal["revoke", "exclude", "include"],
    says: str,
    reason: str = "",
) -> Raters:
    """Decide about all raters with these names, or about none; return a message for each of them."""
    with _require_names_and_open_store(study, names, decision) as store:
        with store.begin_write():  # all of them or nobody
            for name in names:
                raters.decide_about_rater(store, name, decision, by=_find_user_name(), reason=reason)
        return tabulate_raters(store, *(says.format(name) for name in names), only=names)


def tabulate_raters(store: Store, *lines: str, only: Collection[str] = ()) -> Raters:
    """Return all raters, with a table of all raters or of those whose names are in `only`."""
    everybody = tuple(raters.read_rater_progress(store))
    listed = [rater for rater in everybody if not only or rater.name in only]
    names = [
        field.name for field in fields(RaterProgress) if any(getattr(rater, field.name) for rater in listed)
    ]
    table = Table(
        caption="",
        columns=tuple(name.replace("_", " ") for name in names),
        rows=tuple(tuple(getattr(rater, name) for name in names) for rater in listed),
        text_columns=2,
        words=frozenset(index for index, name in enumerate(names) if name not in {"handed_out", "rated"}),
    )
    return Raters(lines=lines, tables=(table,) if listed else (), raters=everybody)


def _find_user_name() -> str:
    try:
        return getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return "owner"
