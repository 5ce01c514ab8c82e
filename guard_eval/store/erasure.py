"""A person taken out of a study: identity and comments, and the verdicts too where that is asked.

Everything else in a study is only added. Here rows are removed, and the triggers that refuse it are out of
force within the one transaction. The bytes are overwritten too (`scrub`): a database leaves what was removed
in its file, and in the log beside it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime

from sqlalchemy import Connection, Table, delete, select, text, update

from guard_eval.errors import StudyError
from guard_eval.records import NoteKind, Rater
from guard_eval.store import notes, raters
from guard_eval.store.connection import Database
from guard_eval.store.handout import occupancy
from guard_eval.store.schema import batches, note, presentation, rater, verdict, visit

_OWN_WORDS: tuple[NoteKind, ...] = ("arrival", "background", "comment")
"""Notes that hold what a person wrote, or where it came from; the others hold choices and times."""

_DECISIONS: tuple[NoteKind, ...] = ("exclude", "include", "erase")


def erase(connection: Connection, name: str, *, verdicts: bool, by: str, now: datetime) -> tuple[str, str]:
    """Take a person out (`Store.erase`); must run alone in the pool of people, and among raters.

    Returns the pseudonym it has now, and the id under which it came.
    """
    who = raters.find(connection, name)
    if who.kind != "person":
        raise StudyError(f"the rater {name!r} is a {who.kind}; only people are erased")
    row = connection.execute(select(rater).where(rater.c.id == who.id)).one()
    pseudonym = f"erased-{who.id}"
    while raters.alike(connection, pseudonym) not in {None, name}:
        pseudonym += "-"
    raters.revoke(connection, who, now)
    with _changes_allowed(connection, (note, verdict)):
        if verdicts:
            _remove_ratings(connection, who)
        mine = note.c.rater_id == who.id
        removed = note.c.kind.not_in(_DECISIONS) if verdicts else note.c.kind.in_(_OWN_WORDS)
        connection.execute(delete(note).where(mine, removed))
        identity = [part for part in (name, row.external_id) if part]
        decisions = select(note.c.id, note.c.detail).where(mine, note.c.kind.in_(_DECISIONS))
        for each in connection.execute(decisions).all():
            detail = _without(each.detail, identity, pseudonym)
            connection.execute(update(note).where(note.c.id == each.id).values(detail=detail))
    connection.execute(delete(visit).where(visit.c.rater_id == who.id))
    anonymous = {
        "name": pseudonym,
        "token_hash": None,
        "source": None,
        "external_id": None,
        "place_until": None,
    }
    connection.execute(update(rater).where(rater.c.id == who.id).values(anonymous))
    detail = json.dumps({"by": by, "verdicts": "removed" if verdicts else "kept"})
    notes.add(connection, who, "erase", detail, now=now)
    return pseudonym, row.external_id or ""


def _remove_ratings(connection: Connection, who: Rater) -> None:
    """Remove what a rater was shown, with its verdicts; the slots are free for others."""
    shown = select(presentation.c.id).where(presentation.c.rater_id == who.id)
    pairs = set(
        connection.execute(select(presentation.c.pair_id).where(presentation.c.rater_id == who.id)).scalars()
    )
    connection.execute(delete(note).where(note.c.presentation_id.in_(shown)))
    connection.execute(delete(verdict).where(verdict.c.presentation_id.in_(shown)))
    connection.execute(delete(presentation).where(presentation.c.rater_id == who.id))
    for part in batches(sorted(pairs)):
        occupancy.recount(connection, occupancy.PEOPLE, part)


def _without(detail: str, identity: Sequence[str], pseudonym: str) -> str:
    """Return a decision's note without the name or the id that its reason may give."""
    values = json.loads(detail)
    for part in identity:
        # a name of a letter or two is part of many other words
        pattern = re.escape(part) if len(part) > 2 else rf"\b{re.escape(part)}\b"
        values = {key: re.sub(pattern, pseudonym, str(value)) for key, value in values.items()}
    return json.dumps(values, ensure_ascii=False)


@contextmanager
def _changes_allowed(connection: Connection, tables: Sequence[Table]) -> Iterator[None]:
    """Put the triggers out of force that let rows be added only, until the block ends or is taken back."""
    if connection.dialect.name != "sqlite":
        for table in tables:
            connection.execute(text(f"ALTER TABLE {table.name} DISABLE TRIGGER USER"))
        yield
        for table in tables:
            connection.execute(text(f"ALTER TABLE {table.name} ENABLE TRIGGER USER"))
        return
    made = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = :table"
    triggers = [row for table in tables for row in connection.execute(text(made), {"table": table.name})]
    for trigger in triggers:
        connection.exec_driver_sql(f"DROP TRIGGER {trigger.name}")
    yield
    for trigger in triggers:
        connection.exec_driver_sql(trigger.sql)


def scrub(database: Database) -> None:
    """Overwrite what was removed, in the database's file and in the log beside it.

    Raises:
        StudyError: Another program has the database open in a way that forbids it.
    """
    if database.is_sqlite:
        with database.explained(), closing(database.engine.raw_connection()) as connection:
            cursor = connection.cursor()
            cursor.execute("VACUUM")
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            busy, *_ = cursor.fetchone() or (0,)
        if busy:
            raise StudyError(
                "the person is taken out, but another program is reading the database, and the old bytes are "
                "still in its files; stop it, then erase the rater once more by its new name"
            )
        return
    with database.explained(), database.engine.connect() as connected:
        autocommit = connected.execution_options(isolation_level="AUTOCOMMIT")
        for table in (rater, visit, note, verdict, presentation):
            autocommit.execute(text(f"VACUUM (FULL) {table.name}"))
