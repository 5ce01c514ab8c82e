"""Manage raters: invite, enrol and sign in; and let the owner revoke, exclude, include or erase them.

The functions raise a `StudyError` if a rater is unknown.
"""

import hashlib
import json
import math
import re
import secrets
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Literal, NamedTuple, cast, get_args

from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError

from guard_eval.errors import StudyError
from guard_eval.lookalike import are_lookalikes, is_invisible, is_model_name, replace_whole_names
from guard_eval.records import PEOPLE, Decision, HandOutPlan, NoteKind, Rater, RaterKind, hash_text, record
from guard_eval.reporting.escaping import escape_invisible_characters
from guard_eval.store import database
from guard_eval.store.database import Store
from guard_eval.store.notes import (
    Refusal,
    check_rater_not_revoked,
    read_declined_or_failed_raters,
    read_rater_status,
    write_note,
)
from guard_eval.store.schema import ERASING, Query, SqlRow, add_rows, query, refuse_blank_or_long_name
from guard_eval.store.settings import RESULTS_SEEN, read_setting, read_value, store_value
from guard_eval.store.showings import slots

if TYPE_CHECKING:
    import psycopg

RaterState = Literal["excluded", "revoked", Refusal, "finished", ""]

_SALT = "erasure salt"
"""The key of the salt for hashes of erased ids, which is made when the first id is erased."""

_LOCKED = "55P03"
"""PostgreSQL's code of an error: another program held a table's lock for the whole time-out."""

_PLACEHOLDER = re.compile(
    r"(?i)(undefined|null|none|nan|n/?a|test\w*|unknown|anonymous|example|id|\w+_p?id)"
    r"|.*([{}<>$%\[\]]|not_?available).*|(.)\3*"
)
"""The pattern of texts that are not ids: unfilled placeholders in a link, and words such as `test`."""

_FORMS = {"prolific": re.compile(r"(?!(.)\1*$)[0-9a-f]{24}")}
"""The pattern of the ids that each source gives its raters, in lower case."""

_VOUCHED = {"oidc"}
"""Sources of raters that prove a person's identity themselves, such as an OIDC provider."""

_OWN_WORDS: tuple[NoteKind, ...] = ("arrival", "background", "comment")
"""Kinds of notes with a person's own words or origin. The other kinds contain choices and times."""

# "+ 0" makes SQLite sort the presentations, which is faster than its index.
_PROGRESS = query("""
    SELECT rater.id, rater.name, rater.kind, rater.revoked_at, rater.excluded_at, rater.source,
        rater.external_id, coalesce(counts.handed_out, 0) AS pairs, coalesce(counts.rated, 0) AS rated,
        coalesce(counts.with_checks, 0) AS with_checks,
        (
            SELECT note.detail FROM note WHERE note.rater_id = rater.id AND note.kind = 'finished'
            ORDER BY note.id DESC LIMIT 1
        ) AS finished
    FROM rater LEFT JOIN (
        SELECT rater_id + 0 AS rater_id, count(rated_at) AS with_checks,
            count(*) FILTER (WHERE role = 'study') AS handed_out,
            count(rated_at) FILTER (WHERE role = 'study') AS rated
        FROM presentation GROUP BY rater_id + 0
    ) AS counts ON counts.rater_id = rater.id
    ORDER BY rater.id
""")

_AT_WORK = query("""
    SELECT rater.id, count(presentation.id) FILTER (WHERE presentation.role = 'study') AS seen_pairs
    FROM rater
    LEFT JOIN presentation ON presentation.rater_id = rater.id
    LEFT JOIN slot ON slot.held_by = presentation.id
    WHERE rater.source IS NOT NULL AND rater.revoked_at IS NULL AND rater.excluded_at IS NULL
    GROUP BY rater.id, rater.created_at
    HAVING max(slot.leased_until) > :now OR rater.created_at > :since
""")

_COUNT_PAIRS = query("SELECT count(*) FROM slot WHERE pool = 'people' AND number = 0 AND open")

_RATER = "SELECT id, name, kind, revoked_at, excluded_at, source, external_id FROM rater"
_BY_NAME = query(f"{_RATER} WHERE name = :name")
_BY_SOURCE = query(f"{_RATER} WHERE source = :source AND external_id = :external_id")
_BY_TOKEN = query(
    "SELECT id, name, kind FROM rater WHERE revoked_at IS NULL AND id IN (SELECT rater_id FROM token "
    "WHERE hash = :hash)"
)

_ADD = query("""
    INSERT INTO rater (name, kind, created_at, source, external_id)
    VALUES (:name, :kind, :now, :source, :external_id)
    RETURNING id
""")
_NAMES = query("SELECT name FROM rater")
_COUNT_ENROLLED = query("SELECT count(*) FROM rater WHERE external_id IS NOT NULL")
_TOKENS = query("SELECT hash FROM token WHERE rater_id = :rater")
_DELETE_TOKENS = query("DELETE FROM token WHERE rater_id = :rater")
_REVOKE = query("UPDATE rater SET revoked_at = coalesce(revoked_at, :now) WHERE id = :rater")
_DECISIONS: dict[str, tuple[Query, slots.Kept]] = {
    "revoke": (_REVOKE, "rated"),
    "exclude": (
        query("UPDATE rater SET excluded_at = coalesce(excluded_at, :now) WHERE id = :rater"),
        "nothing",
    ),
    "include": (query("UPDATE rater SET excluded_at = NULL, revoked_at = NULL WHERE id = :rater"), "all"),
}
"""The change of a rater's row by each decision, and the slots that the rater keeps."""

_RENAME = query("UPDATE rater SET name = :name, source = NULL, external_id = NULL WHERE id = :rater")

_END_ERASING = query(f"DELETE FROM setting WHERE key = '{ERASING}'")  # noqa: S608 (a constant)
_IS_ERASED = query("SELECT id FROM note WHERE rater_id = :rater AND kind = 'erase'")
_DELETE_NOTES = query("DELETE FROM note WHERE rater_id = :rater AND kind IN :kinds")
_DELETE_VERDICTS = query("""
    DELETE FROM verdict WHERE presentation_id IN (SELECT id FROM presentation WHERE rater_id = :rater)
""")
_DELETE_PRESENTATIONS = query("DELETE FROM presentation WHERE rater_id = :rater")
_WORDS = query("SELECT id, rater_id, kind, detail FROM note WHERE kind IN :kinds")
_REPLACE = query("UPDATE note SET detail = :detail WHERE id = :id")


@record
class RaterProgress:
    """The progress of a rater.

    Attributes:
        handed_out: The number of the study's pairs that the rater has seen.
        rated: The number of these pairs that the rater has rated.
        state: excluded, revoked, declined (no consent), failed the check, finished (no pair remained), or
            empty.
        source: The source of a rater without an invitation, such as prolific.
        external_id: The rater's id at this source, needed for payment. Only the study's owner sees this id.
    """

    name: str
    kind: RaterKind
    handed_out: int = 0
    rated: int = 0
    state: RaterState = ""
    source: str | None = None
    external_id: str | None = None


class Enrolment(NamedTuple):
    """The result of enrolling a person without an invitation: a rater with a token, or a refusal.

    The refusal `full` means that no work is open; `elsewhere` means that another browser used the id first.
    """

    rater: Rater | None = None
    token: str = ""
    refusal: Literal["full", "elsewhere"] | None = None


def invite_rater(store: Store, name: str, *, renew: bool = False) -> tuple[Rater, str]:
    """Add a person; return the rater and a token for signing in. The token itself is not stored.

    With `renew`, the person must already exist, and the person's earlier tokens stop working.

    Raises:
        StudyError: The name is taken, empty or too long, or looks like the name of another rater or a model.
            With `renew`: the person does not exist, or is revoked.
    """
    token = secrets.token_urlsafe()
    judges = [part_name.removeprefix("judge ") for part_name in store.declared_now if part_name != PEOPLE]
    if not renew and (is_model_name(name) or any(are_lookalikes(name, judge) for judge in judges)):
        raise StudyError(f"{name!r} is a model's name, which a person cannot use; choose another name")
    with store.begin_write() as (db, now):
        rater = _make_rater(find_rater(db, name, "person")) if renew else _add_rater(db, name, "person", now)
        check_rater_not_revoked(db, rater)
        _DELETE_TOKENS(db, rater=rater.id)
        _add_tokens(db, rater.id, [token], now)
    return rater, token


def find_rater_by_token(store: Store, token: str) -> Rater | None:
    """Return the rater with this token; None if the token is unknown or revoked."""
    with store.begin_read() as db:
        row = _BY_TOKEN(db, hash=hash_text(token)).one_or_none()
    return None if row is None else _make_rater(row)


def is_plausible_external_id(source: str, external_id: str) -> bool:
    """Return whether this may be an id from the source. A placeholder in a link is not an id.

    >>> is_plausible_external_id("prolific", "61a2b3c4d5e6f708192a3b4c")
    True
    >>> is_plausible_external_id("prolific", "undefined")
    False
    """
    plain = _normalize_id(source, external_id)
    if source in _FORMS:
        return _FORMS[source].fullmatch(plain) is not None
    return source in _VOUCHED or _PLACEHOLDER.fullmatch(plain) is None


def _normalize_id(source: str, external_id: str) -> str:
    """Return an external id as it is stored: without outer blanks, and in lower case if it is Prolific's."""
    return external_id.strip().lower() if source in _FORMS else external_id.strip()


def enrol_rater(
    store: Store,
    external_id: str,
    source: str,
    plan: HandOutPlan,
    *,
    browser_secrets: Sequence[str] | None = None,
) -> Enrolment:
    """Enrol the person with this id from a source such as `prolific`, if there is work.

    The first call adds a rater, named P-1, P-2, …; later calls return the same rater. A revoked rater gets a
    token that does not work, and an erased person cannot enrol again. `browser_secrets` are the values of
    the browser's cookies: later calls with the same id need one of these. The argument is None if the source
    itself proves the person's identity.

    Raises:
        StudyError: The id or the source is empty or too long, or the id is a placeholder.
    """
    refuse_blank_or_long_name("external id", external_id)
    refuse_blank_or_long_name("source", source)
    external_id = _normalize_id(source, external_id)
    if not is_plausible_external_id(source, external_id):
        raise StudyError(
            f"{external_id!r} is not an id of {source}; correct the study's link on that platform"
        )
    salt = read_setting(store, _SALT)
    if salt is not None and read_setting(store, _hash_erased_id(salt, source, external_id)) is not None:
        return Enrolment()
    tokens = [hash_text(f"{browser}\0{source}\0{external_id}") for browser in browser_secrets or ()]
    tokens = tokens or [secrets.token_urlsafe()]
    with store.begin_write() as (db, now):
        identity = {"source": source, "external_id": external_id}
        row = _BY_SOURCE(db, **identity).one_or_none()
        if row is None:
            if count_free_rater_places(store, plan) < 1:
                return Enrolment(refusal="full")
            rater = _add_rater(db, _make_pseudonym(db), "person", now, **identity)
            _add_tokens(db, rater.id, tokens, now)
            return Enrolment(rater, tokens[0])
        hashes = set(_TOKENS(db, rater=row.id).scalars())
        admitted = [secret for secret in tokens if hash_text(secret) in hashes]
        if browser_secrets is not None and not admitted:
            return Enrolment(refusal="elsewhere")
        if row.revoked_at is None:
            # two tabs that were opened at the same time have different cookies; from now on, both work
            _add_tokens(db, row.id, [secret for secret in tokens if secret not in admitted], now)
        return Enrolment(_make_rater(row), (admitted or tokens)[0])


def count_free_rater_places(store: Store, plan: HandOutPlan) -> int:
    """Return the number of further people without an invitation who can enrol now.

    A rater who enrolled within the last lease, or who has a pair open, is expected to rate a full share,
    unless the rater declined or failed the check.
    """
    with store.begin_write() as (db, now):
        slots.prepare_slots(db, plan, now)
        slots.end_expired_leases(db, plan, now)
        pairs: int = _COUNT_PAIRS(db).scalar_one()
        share = max(1, min(pairs, plan.quota or pairs))
        rows = _AT_WORK(db, now=now, since=now - plan.lease).all()
        refusals = read_declined_or_failed_raters(db, [row.id for row in rows])
        expected: int = sum(max(0, share - row.seen_pairs) for row in rows if row.id not in refusals)
        free: int = slots.COUNT_FREE_SLOTS(db).scalar_one()
        return max(0, math.ceil((free - expected) / share))


def get_or_add_rater(store: Store, name: str, kind: RaterKind) -> Rater:
    """Return the model or simulated rater with this name; add it if it is new.

    Raises:
        StudyError: The name belongs to a rater of another kind.
    """
    with store.begin_write() as (db, now):
        if _BY_NAME(db, name=name).first() is None:
            return _add_rater(db, name, kind, now)
        return _make_rater(find_rater(db, name, kind))


def read_rater_progress(store: Store) -> list[RaterProgress]:
    """Return the progress of every rater, in the order in which raters were added."""
    with store.begin_read() as db:
        rows = _PROGRESS(db).all()
        refusals = read_declined_or_failed_raters(db, [row.id for row in rows])
    return [
        RaterProgress(
            name=row.name,
            kind=row.kind,
            handed_out=row.pairs,
            rated=row.rated,
            state=_find_rater_state(row, refusals.get(row.id)),
            source=row.source,
            external_id=row.external_id,
        )
        for row in rows
    ]


def _find_rater_state(row: SqlRow, refusal: Refusal | None) -> RaterState:
    """Return a rater's state as `RaterProgress.state`."""
    if row.excluded_at is not None:
        return "excluded"
    if row.revoked_at is not None:
        return "revoked"
    if refusal is not None:
        return refusal
    return "finished" if json.loads(row.finished or "{}").get("rated") == row.with_checks else ""


def is_revoked_or_excluded(store: Store, rater: Rater) -> bool:
    """Return whether a rater is revoked or excluded."""
    with store.begin_read() as db:
        return bool(read_rater_status(db, rater).is_out)


def decide_about_rater(
    store: Store, name: str, decision: Literal["revoke", "exclude", "include"], *, by: str, reason: str = ""
) -> None:
    """Revoke, exclude or include a rater, and record the decision as a note.

    A revoked rater cannot sign in, and the verdicts count. The verdicts of an excluded rater do not count,
    and the slots are free for others. An included rater may sign in and rate again; earlier verdicts count if
    their slot is still free.

    Args:
        store: The study's database.
        name: The rater's name.
        decision: The decision.
        by: The person who decides.
        reason: The reason, which the report shows. Only a revocation needs none.

    Raises:
        StudyError: The rater is unknown or was erased, the decision would change nothing, or the
            name of the person who decides, or the reason, is missing.
    """
    refuse_blank_or_long_name("name of the person who decides", by)
    if decision != "revoke" and not reason.strip():
        raise StudyError(
            f"the reason to {decision} {name!r} is empty; write a reason, which the report will show"
        )
    change, kept_slots = _DECISIONS[decision]
    with store.begin_write() as (db, now):
        row = find_rater(db, name)
        if decision == "include":
            _check_rater_can_be_included(db, row)
        decided_at = {"revoke": row.revoked_at, "exclude": row.excluded_at}.get(decision)
        if decided_at is not None:
            raise StudyError(
                f"the rater {name!r} is already {decision}d; the notes say who decided it: guard-eval export "
                "STUDY --table notes"
            )
        change(db, rater=row.id, now=now)
        slots.keep_or_free_slots_of_rater(db, row.id, keep=kept_slots)
        # not by comparing times, because the clock may have been set back since the results were seen
        seen = read_value(db, RESULTS_SEEN) is not None
        detail = json.dumps({"by": by, "reason": reason, "results_seen": seen}, ensure_ascii=False)
        write_note(store, _make_rater(row), decision, detail)


def _check_rater_can_be_included(db: Connection, row: SqlRow) -> None:
    """Check that a rater can be included again: the rater is excluded or revoked, or failed the check."""
    if _IS_ERASED(db, rater=row.id).first() is not None:
        raise StudyError(
            f"{row.name!r} was erased, which cannot be undone; invite the person under a new name"
        )
    has_failed = read_declined_or_failed_raters(db, [row.id]).get(row.id) == "failed the check"
    if row.excluded_at is None and row.revoked_at is None and not has_failed:
        raise StudyError(
            f"the rater {row.name!r} may already rate; name a rater who is excluded or revoked, or who "
            "failed the check"
        )


def erase_rater(store: Store, name: str, by: str, *, verdicts: bool = False) -> tuple[str, str]:
    """Delete a person's identity and words from the database, and revoke the person's access.

    The verdicts stay under a new name that identifies nobody. With `verdicts`, they are removed, too, and
    other raters can rate the pairs. The new name replaces the old one in notes of other people and in reasons
    of decisions. A note records the erasure. Only a salted hash of an external id stays, so that nobody can
    enrol with this id again. The old bytes are overwritten in the database's own files, but not in copies of
    these files. Return the new name, and the external id if there is one.

    Raises:
        StudyError: The rater is unknown or not a person, or another program prevents the overwriting.
    """
    with store.begin_write() as (db, now):
        row = find_rater(db, name, "person")
        pseudonym = f"erased-{row.id}"
        while _find_lookalike_name(db, pseudonym) not in {None, name}:
            pseudonym += "-"
        store_value(db, ERASING, "a person")  # allows changes and removals of rows
        removed = set(get_args(NoteKind)) - set(get_args(Decision)) if verdicts else _OWN_WORDS
        _DELETE_NOTES(db, rater=row.id, kinds=list(removed))
        _replace_name_with_pseudonym(db, row, pseudonym)
        if row.external_id is not None:
            salt = read_value(db, _SALT) or secrets.token_hex(16)
            store_value(db, _SALT, salt)
            store_value(db, _hash_erased_id(salt, row.source, row.external_id), "")
        slots.keep_or_free_slots_of_rater(db, row.id, keep="nothing" if verdicts else "rated")
        if verdicts:
            _DELETE_VERDICTS(db, rater=row.id)
            _DELETE_PRESENTATIONS(db, rater=row.id)
        _END_ERASING(db)
        _DELETE_TOKENS(db, rater=row.id)
        _REVOKE(db, rater=row.id, now=now)
        _RENAME(db, rater=row.id, name=pseudonym)
        detail = json.dumps({"by": by, "verdicts": "removed" if verdicts else "kept"})
        write_note(store, Rater(id=row.id, name=pseudonym, kind="person"), "erase", detail)
    _overwrite_deleted_data(store)
    return pseudonym, row.external_id or ""


def find_rater(db: Connection, name: str, kind: RaterKind | None = None) -> SqlRow:
    """Return the row of the rater with this name. Raise a `StudyError` for another name or kind."""
    row = _BY_NAME(db, name=name).one_or_none()
    if row is None:
        raise StudyError(f"there is no rater named {name!r}; list them with: guard-eval raters list STUDY")
    if kind not in {None, row.kind}:
        raise StudyError(f"the rater {name!r} is a {row.kind}, not a {kind}; choose another name")
    return row


def _make_rater(row: SqlRow) -> Rater:
    return Rater(id=row.id, name=row.name, kind=row.kind)


def _add_rater(
    db: Connection,
    name: str,
    kind: RaterKind,
    now: datetime,
    *,
    source: str | None = None,
    external_id: str | None = None,
) -> Rater:
    """Add a rater, whose name must not look like another rater's name."""
    refuse_blank_or_long_name("rater's name", name)
    if any(map(is_invisible, name)) or escape_invisible_characters(name) != name or name != name.strip():
        raise StudyError(f"the rater's name {name!a} has invisible characters or outer blanks; remove them")
    other = _find_lookalike_name(db, name)
    if other is not None:
        raise StudyError(
            f"a rater named {other!a} already exists; choose a name that looks different, or make a new link "
            f"for {other!a} with --renew"
        )
    added = _ADD(db, name=name, kind=kind, now=now, source=source, external_id=external_id)
    return Rater(id=added.scalar_one(), name=name, kind=kind)


def _find_lookalike_name(db: Connection, name: str) -> str | None:
    """Return a rater's name that looks like this name; None if there is none."""
    names = _NAMES(db).scalars()
    return next((other for other in names if are_lookalikes(other, name)), None)


def _make_pseudonym(db: Connection) -> str:
    """Return the first unused name among P-1, P-2 and so on."""
    number = _COUNT_ENROLLED(db).scalar_one() + 1
    while _find_lookalike_name(db, f"P-{number}") is not None:
        number += 1
    return f"P-{number}"


def _add_tokens(db: Connection, rater_id: int, tokens: Sequence[str], now: datetime) -> None:
    """Store the hashes of a rater's tokens."""
    rows = [{"hash": hash_text(secret), "rater_id": rater_id, "created_at": now} for secret in tokens]
    add_rows(db, "token", rows)


def _replace_name_with_pseudonym(db: Connection, row: SqlRow, pseudonym: str) -> None:
    """Replace a rater's name and id with the pseudonym wherever people wrote them as whole words.

    A name that is a single letter or a small number is too common: it is replaced only in decisions about
    this rater.
    """
    identity = [word for word in (row.name, row.external_id) if word]
    telling = [word for word in identity if len(word) > 1 and not re.fullmatch(r"\d{1,4}", word)]
    decisions = get_args(Decision)
    for written in _WORDS(db, kinds=[*_OWN_WORDS, *decisions]).all():
        is_about = written.rater_id == row.id and written.kind in decisions
        words = identity if is_about else telling
        detail = _replace_words_in_note(written.kind, written.detail, words, pseudonym)
        if detail != written.detail:
            _REPLACE(db, id=written.id, detail=detail)


def _replace_words_in_note(kind: NoteKind, detail: str, words: Sequence[str], pseudonym: str) -> str:
    """Replace these words in a note's detail with the pseudonym. Keep other texts unchanged."""
    if kind == "comment":  # plain text; the details of the other kinds are JSON
        return replace_whole_names(detail, words, pseudonym)
    changed = {
        key: replace_whole_names(value, words, pseudonym) if isinstance(value, str) else value
        for key, value in json.loads(detail).items()
    }
    return json.dumps(changed, ensure_ascii=False)


def _hash_erased_id(salt: str, source: str, external_id: str) -> str:
    """Return the hash of an erased id. The hash is slow to compute, so that nobody can try all ids."""
    secret = f"{source}\0{external_id}".encode()
    return f"erased {hashlib.scrypt(secret, salt=salt.encode(), n=2**14, r=8, p=1, dklen=32).hex()}"


def _overwrite_deleted_data(store: Store) -> None:
    """Overwrite deleted data in the database's file and log.

    Raises:
        StudyError: Another program has the database open and prevents the overwriting.
    """
    with store.explain_database_errors(), store.engine.connect() as connection:
        db = connection.execution_options(isolation_level="AUTOCOMMIT")
        if store.is_sqlite:
            db.exec_driver_sql("VACUUM")
            remains = bool(db.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").one()[0])
        else:
            notices = _vacuum_postgres(db)
            # a table was skipped, or "3 dead row versions cannot be removed yet"
            remains = any(re.match(r"WARNING|INFO \D*[1-9]", notice) for notice in notices)
    if remains:
        raise StudyError(
            "the person is erased, but the database's files still contain deleted data, because another "
            "program reads the database, or another role owns the tables. Stop that program, or connect as "
            "the owner. Then erase the rater again by the new name"
        )


def _vacuum_postgres(db: Connection) -> list[str]:
    """Rewrite PostgreSQL's tables without deleted rows; return the severity and details of each notice."""
    notices: list[str] = []

    def record_vacuum_notice(notice: "psycopg.errors.Diagnostic") -> None:
        notices.append(f"{notice.severity_nonlocalized} {notice.message_detail}")

    driver = cast("psycopg.Connection", db.connection.driver_connection)
    driver.add_notice_handler(record_vacuum_notice)
    try:
        # VACUUM would wait without end while another program reads one of the tables.
        db.exec_driver_sql(f"SET lock_timeout = '{database.BUSY_SECONDS}s'")
        db.exec_driver_sql("VACUUM (FULL, VERBOSE) rater, token, note, verdict, presentation")
    except OperationalError as error:
        if getattr(error.orig, "sqlstate", None) != _LOCKED:
            raise
        notices.append(f"WARNING {error.orig}")
    finally:
        db.exec_driver_sql("RESET lock_timeout")
        driver.remove_notice_handler(record_vacuum_notice)
    return notices
