"""`guard-eval prolific`: a draft study on Prolific, who left it, and who is to be paid."""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from itertools import count
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from guard_eval.cli.administration.prolific_api import TOKEN, NoAnswerError, Prolific, ProlificSubmission
from guard_eval.cli.console import StudyFolder, count_of, record, say, say_next, say_table
from guard_eval.errors import StudyError
from guard_eval.store import Store
from guard_eval.store.raters import RaterProgress
from guard_eval.study.folder import Study


class ProlificAction(StrEnum):
    """What to do on Prolific."""

    create = "create"
    sync = "sync"
    approve = "approve"


EVERY = 30.0
"""Seconds between two rounds of `sync --watch`."""

LEFT = {"RETURNED", "TIMED OUT", "REJECTED", "SCREENED OUT"}
"""Statuses of participants who rate no more; their place on Prolific is open again."""

SETTLED = timedelta(minutes=2)
"""For so long after an arrival Prolific's list may not have the participant yet."""

BONUS_FILES = "prolific_bonus-{}.csv"
BY = "guard-eval prolific"
UNKNOWN = "Prolific lists no submission of this id"

HELP = (
    "create makes a draft study with the app's address, codes and places, and publishes nothing; sync frees "
    "the pairs of participants who returned or timed out, and excludes ids that Prolific does not know; "
    "approve approves who finished here."
)


def command(
    folder: StudyFolder,
    action: Annotated[ProlificAction, typer.Argument(help=HELP)],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print every call; send none that changes anything.")
    ] = False,
    url: Annotated[
        str | None, typer.Option(help="create: where participants reach the app; default: as served last.")
    ] = None,
    title: Annotated[str, typer.Option(help="create: what participants read.")] = "Which text is better?",
    description: Annotated[
        str, typer.Option(help="create: what participants read.")
    ] = "You read pairs of short texts and choose the better one of each.",
    minutes: Annotated[
        int | None, typer.Option(min=1, help="create: how long one participant takes.")
    ] = None,
    reward: Annotated[
        str | None, typer.Option(help="create: what one participant gets, such as 3.50, in your currency.")
    ] = None,
    places: Annotated[
        int | None, typer.Option(min=1, help="create: how many participants; default: all open places.")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="sync: every 30 seconds, until Ctrl-C.")] = False,
    bonus: Annotated[
        str | None, typer.Option(help="approve: also write a file of bonuses, with this amount for each.")
    ] = None,
) -> None:
    """Recruit on Prolific: make a draft, free what was left, approve.

    The token comes from the environment variable PROLIFIC_TOKEN and is stored nowhere. Nothing is published
    or paid but by `approve`; a bonus is a file for Prolific's page.
    """
    study = Study.open(folder)
    if not study.settings.annotation.recruitment.prolific:
        raise StudyError(
            f"{folder}/study.toml takes no one from Prolific; add prolific = true to [annotation.recruitment]"
        )
    with Store.open(study.database, study_hash=study.hash) as store:
        if action is ProlificAction.create:
            body = draft(study, store, url, title, description, minutes, _cents("--reward", reward), places)
            _create(study, body, dry_run=dry_run)
            return
        number = study.settings.annotation.recruitment.prolific_study
        if number is None:
            raise StudyError(
                f'{folder}/study.toml does not name the study on Prolific; add prolific_study = "ID" to '
                f"[annotation.recruitment], or make one: guard-eval prolific {folder} create"
            )
        client = connect()
        if action is ProlificAction.sync:
            _sync(store, client, number, dry_run=dry_run, watch=watch)
        else:
            amount = None if bonus is None else _cents("--bonus", bonus)
            _approve(study, store, client, number, dry_run=dry_run, bonus=amount)


def connect() -> Prolific:
    """Return a connection with the token of the environment."""
    token = os.environ.get(TOKEN, "")
    if not token:
        raise StudyError(
            f"{TOKEN} is not set; make a token on Prolific (Settings, API tokens): export {TOKEN}=…"
        )
    return Prolific(token)


def draft(
    study: Study,
    store: Store,
    url: str | None,
    title: str,
    description: str,
    minutes: int | None,
    cents: int | None,
    places: int | None,
) -> dict[str, Any]:
    """Return the body of a draft study: our address, codes and open places.

    Raises:
        StudyError: Something is missing or cannot work, such as an address that only this machine reaches.
    """
    recruitment = study.settings.annotation.recruitment
    if recruitment.prolific_study is not None:
        raise StudyError(
            f"study.toml names a study on Prolific already ({recruitment.prolific_study}); remove "
            "prolific_study to make another"
        )
    if minutes is None or cents is None:
        raise StudyError("a draft needs --minutes and --reward: Prolific shows both to participants")
    if recruitment.codes.completed is None:
        raise StudyError(
            "no code says that a participant is done; add completed to [annotation.recruitment.codes]"
        )
    address = (url or store.app_address() or "").rstrip("/")
    host = urlsplit(address).hostname or ""
    if urlsplit(address).scheme != "https" or host in {"localhost", "127.0.0.1", "::1"}:
        raise StudyError(
            f"participants cannot reach the app at {address or 'no address'!r}; serve it with TLS and give "
            "--url https://…"
        )
    open_places = store.open_places(study.plan)
    if not (places or open_places):
        raise StudyError(
            "no place is open: every pair has its ratings; raise raters_per_pair, or give --places"
        )
    parameters = "&".join(f"{name}={{{{%{name}%}}}}" for name in ("PROLIFIC_PID", "STUDY_ID", "SESSION_ID"))
    return {
        "name": title,
        "internal_name": f"guard-eval {study.hash[:16]}",
        "description": description,
        "external_study_url": f"{address}/?{parameters}",
        "prolific_id_option": "url_parameters",
        "completion_codes": [
            {
                "code": code,
                "code_type": "COMPLETED" if ending == "completed" else "OTHER",
                "actions": [{"action": "MANUALLY_REVIEW"}],
            }
            for ending, code in recruitment.codes.model_dump().items()
            if code is not None
        ],
        "total_available_places": places or open_places,
        "estimated_completion_time": minutes,
        "reward": cents,
        "device_compatibility": ["desktop", "tablet", "mobile"],
        "peripheral_requirements": [],
    }


def _create(study: Study, body: dict[str, Any], *, dry_run: bool) -> None:
    if dry_run:
        say("GET /api/v1/studies/ (is it made already?)")
        say(f"POST /api/v1/studies/\n{json.dumps(body, indent=2, ensure_ascii=False)}")
        return
    client = connect()
    name = str(body["internal_name"])
    number = client.find_study(name)
    found = number is not None
    if number is None:
        try:
            number = client.create_study(body)
        except NoAnswerError:
            number = client.find_study(name)  # it may be made all the same
            if number is None:
                raise
    record("study", number)
    state = "already made" if found else "draft made"
    say(f"{state}: {number} ({name}). Nothing is published: look at it on Prolific.")
    say(f'Add to [annotation.recruitment] in {study.folder}/study.toml: prolific_study = "{number}"')
    say_next(f"guard-eval annotate {study.folder}", f"guard-eval prolific {study.folder} sync --watch")


def _sync(store: Store, client: Prolific, number: str, *, dry_run: bool, watch: bool) -> None:
    worked = False
    while True:
        try:
            synchronise(store, client, number, dry_run=dry_run)
            worked = True
        except StudyError as error:
            # what worked before is right: a list that grew while it was read, another sync, a busy database
            if not watch or not (worked or isinstance(error, NoAnswerError)):
                raise
            say(f"warning: {error}")
        if not watch:
            return
        try:
            time.sleep(EVERY)
        except KeyboardInterrupt:
            return


def synchronise(store: Store, client: Prolific, number: str, *, dry_run: bool = False) -> None:
    """Close the study for participants who left on Prolific, and exclude ids that Prolific does not list.

    Verdicts of participants who left stay and count. Those of an excluded id are left out until
    it is included again: a person has decided then, and it is not excluded a second time.
    """
    # ours first: a participant who comes meanwhile has a submission already
    ours = _participants(store)
    elsewhere = _from_other_studies(store, number)
    begun = datetime.now(UTC) - SETTLED
    just_came = {note.rater for note in store.notes(kind="arrival") if note.at > begun}
    decided = {note.rater for note in store.notes(kind="include")}
    statuses = _statuses(client.submissions(number))
    if ours and not statuses:
        raise StudyError(
            f"Prolific lists no submission of the study {number}, but {count_of(len(ours), 'participant')} "
            "came here; check prolific_study in study.toml"
        )
    done = []
    for external, who in ours.items():
        status = statuses.get(external)
        if status is None and who.name not in elsewhere | just_came | decided and not who.excluded:
            done.append((who.name, "unknown to Prolific", "excluded"))
            if not dry_run:
                store.exclude(who.name, UNKNOWN, BY)
        elif status in LEFT and not who.revoked:
            done.append((who.name, status.lower(), f"let in no more; {count_of(who.rated, 'verdict')} stay"))
            if not dry_run:
                store.revoke(who.name)
    record("changed", [{"rater": name, "why": why} for name, why, _ in done])
    say(f"{count_of(len(statuses), 'participant')} on Prolific, {len(ours)} here; {len(done)} to change")
    others = [
        who.name for external, who in ours.items() if external not in statuses and who.name in elsewhere
    ]
    if others:
        say(f"came from another study on Prolific, or say so, and are left as they are: {', '.join(others)}")
    if done:
        say_table(("rater", "on Prolific", "would be" if dry_run else "here"), done)


def _approve(
    study: Study, store: Store, client: Prolific, number: str, *, dry_run: bool, bonus: int | None
) -> None:
    ours = _participants(store)
    finished = {note.rater for note in store.notes(kind="finished")}
    approved: list[str] = []
    rows: list[tuple[str, str]] = []
    # what is paid already first: of several visits of one participant one is paid
    for each in sorted(client.submissions(number), key=lambda each: (each.status != "APPROVED", each.id)):
        who = ours.get(each.participant)
        reason = _why_not(who, finished)
        if each.participant in approved:
            reason = "approved in another submission"
        if each.status == "AWAITING REVIEW" and not reason:
            reason = _approve_one(client, each, dry_run=dry_run)
        if each.status in {"AWAITING REVIEW", "APPROVED"} and not reason:
            approved.append(each.participant)
        elif each.status == "AWAITING REVIEW":
            rows.append((who.name if who else "not here", reason))
        elif each.status == "TIMED OUT" and who is not None and not reason:
            rows.append((who.name, "finished here, but too late for Prolific; decide there"))
    record("approved", len(approved))
    verb = "would be approved" if dry_run else "approved"
    say(f"{count_of(len(approved), 'submission')} {verb}, {len(rows)} left to you")
    if rows:
        say_table(("rater", "not approved, since"), rows)
    if bonus is not None and not dry_run:
        _write_bonus(study.folder, approved, bonus)


def _approve_one(client: Prolific, submission: ProlificSubmission, *, dry_run: bool) -> str:
    """Approve a submission; return why that failed, which keeps no other from its payment."""
    if dry_run:
        say(f'POST /api/v1/submissions/{submission.id}/transition/ {{"action": "APPROVE"}}')
        return ""
    try:
        client.approve(submission.id)
    except StudyError as error:
        return str(error)
    return ""


def _why_not(who: RaterProgress | None, finished: set[str]) -> str:
    """Return why a participant is not to be approved; nothing where it is."""
    if who is None:
        return "no rater came here under this id"
    if who.excluded:
        return "excluded"
    return f"did not finish: {count_of(who.rated, 'pair')} rated" if who.name not in finished else ""


def _write_bonus(folder: Path, participants: list[str], cents: int) -> None:
    """Write what Prolific's page for bonuses takes: an id and an amount a line, without a heading.

    Each time a new file, of those who are in none yet: pasted once each, no rater is paid twice.
    """
    before = sorted(folder.glob(BONUS_FILES.format("*")))
    paid = {line.partition(",")[0] for path in before for line in path.read_text("utf-8-sig").splitlines()}
    people = sorted(set(participants) - paid)
    if not people:
        say("bonus: every rater is in an earlier file")
        return
    path = next(path for n in count(1) if not (path := folder / BONUS_FILES.format(n)).exists())
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.writelines(f"{person},{cents // 100}.{cents % 100:02}\n" for person in people)
    say(f"{path}: {count_of(len(people), 'bonus', 'bonuses')}; paste it into Prolific's page for bonuses")


def _participants(store: Store) -> dict[str, RaterProgress]:
    """Return who came from Prolific, by Prolific's id."""
    return {who.external_id: who for who in store.raters() if who.source == "prolific" and who.external_id}


def _from_other_studies(store: Store, number: str) -> set[str]:
    """Return the names of raters whose addresses named other studies on Prolific alone."""
    studies: defaultdict[str, set[str]] = defaultdict(set)
    for note in store.notes(kind="arrival"):
        studies[note.rater].add(json.loads(note.detail).get("study", number))
    return {name for name, named in studies.items() if number not in named}


def _statuses(submissions: list[ProlificSubmission]) -> dict[str, str]:
    """Return each participant's status; of several, one with which the participant still takes part."""
    found: dict[str, list[str]] = defaultdict(list)
    for each in submissions:
        found[each.participant].append(each.status)
    return {person: min(all_of, key=lambda one: one in LEFT) for person, all_of in found.items()}


def _cents(option: str, amount: str | None) -> int | None:
    """Return an amount of money in hundredths."""
    if amount is None:
        return None
    try:
        value = Decimal(amount) * 100
    except InvalidOperation:
        value = Decimal(-1)
    if not (value.is_finite() and 0 < value <= 100_000 and value == value.to_integral_value()):
        raise StudyError(f"{option} {amount!r} is no amount of money; write it like 3.50")
    return int(value)
