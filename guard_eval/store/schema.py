"""The tables, which the first of the `migrations/` makes as they are here.

`pair`, `gold`, `assignment`, `verdict`, `note` and `answer` are append-only: triggers refuse UPDATE and
DELETE. Pairs and a roster may be removed, though, as long as there is no verdict. Everything in `occupancy`
can be counted from the other tables. The judge's own tables, `request`, `answer`, `failure` and `batch`, are
in `guard_eval.store.judging.schema`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TypeVar

from sqlalchemy import (
    DDL,
    Boolean,
    CheckConstraint,
    Column,
    Connection,
    DateTime,
    Dialect,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    and_,
    event,
    exists,
    false,
    select,
    true,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.types import TypeDecorator

from guard_eval.errors import StudyError

ESCAPE = "\x1a"
"""ASCII's SUBSTITUTE, which hardly any text holds: what is stored reads as written in any SQL client."""

_UNSTORABLE = re.compile(f"[\x00{ESCAPE}\ud800-\udfff]")
_ESCAPED = re.compile(f"{ESCAPE}([0-9a-f]{{4}})")


def escape(text: str) -> str:
    r"""Return `text` with NUL, lone surrogates and SUBSTITUTE written as SUBSTITUTE and four digits.

    >>> escape("a\x00b")
    'a\x1a0000b'
    """
    return _UNSTORABLE.sub(lambda match: f"{ESCAPE}{ord(match[0]):04x}", text)


def unescape(text: str) -> str:
    r"""Return what `escape` was given.

    >>> unescape(escape("a\x00b\x1a0000\ud800")) == "a\x00b\x1a0000\ud800"
    True
    """
    return text if ESCAPE not in text else _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)


_BATCH = 500
"""How many ids one statement lists; both databases limit its parameters."""

_Item = TypeVar("_Item")


def batches(items: Sequence[_Item]) -> Iterable[Sequence[_Item]]:
    """Return `items` in parts that one statement can list."""
    return (items[start : start + _BATCH] for start in range(0, len(items), _BATCH))


LONGEST_NAME = 200
"""In characters; PostgreSQL's indexes hold no more than 2700 bytes."""


def check_name(what: str, name: str) -> None:
    """Raise a `StudyError` if `name`, that of a `what`, is blank or longer than `LONGEST_NAME`."""
    if not name.strip():
        raise StudyError(f"the {what} {name!r} is empty; write something")
    if len(name) > LONGEST_NAME:
        raise StudyError(
            f"the {what} {name[:40]!r}… has {len(name)} characters; write at most {LONGEST_NAME}"
        )


class ExactText(TypeDecorator[str]):
    """Text of any characters: NUL and lone surrogates, which databases refuse, are escaped."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        """Return what the database is given."""
        return None if value is None else escape(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        """Return what was stored."""
        return None if value is None else unescape(value)


class Moment(TypeDecorator[datetime]):
    """A moment in UTC: `timestamptz` on PostgreSQL, text that sorts by time on SQLite; aware in Python."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """Return the moment in UTC.

        Raises:
            ValueError: It has no time zone, so that its meaning would hang on the machine.
        """
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value!r} has no time zone; use datetime.now(UTC)")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """Return the stored moment; SQLite has dropped the zone, which is UTC."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


VERSION_TABLE = "guard_eval_version"
"""Where the schema's version is stored; by its name a study's database is recognised."""

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)


def refuse_changes(table: Table, *, unless_unrated: bool = False) -> None:
    """Let rows be added to `table` and nothing else: the database itself refuses to change or remove them.

    Args:
        table: Which.
        unless_unrated: Rows may be removed while the study has no verdict.
    """
    name = table.name
    when = "WHEN EXISTS (SELECT 1 FROM verdict) " if unless_unrated else ""
    free = (
        "IF TG_OP = 'DELETE' AND NOT EXISTS (SELECT 1 FROM verdict) THEN RETURN NULL; END IF; "
        if unless_unrated
        else ""
    )
    sqlite_trigger = (
        "CREATE TRIGGER {0}_no_{1} BEFORE {1} ON {0} {2}BEGIN SELECT RAISE(ABORT, '{0} is append-only'); END"
    )
    function = (
        "CREATE FUNCTION {0}_append_only() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN {1}RAISE EXCEPTION '{0} is append-only'; END $$"
    )
    postgresql_trigger = (
        "CREATE TRIGGER {0}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {0} "
        "FOR EACH STATEMENT EXECUTE FUNCTION {0}_append_only()"
    )
    for dialect, statement in (
        ("sqlite", sqlite_trigger.format(name, "update", "")),
        ("sqlite", sqlite_trigger.format(name, "delete", when)),
        ("postgresql", function.format(name, free)),
        ("postgresql", postgresql_trigger.format(name)),
    ):
        made = DDL(statement).execute_if(dialect=dialect)  # type: ignore[no-untyped-call]
        event.listen(table, "after_create", made)


meta = Table(
    "meta",
    metadata,
    Column("key", String(64), primary_key=True, doc="such as study_hash"),
    Column("value", ExactText, nullable=False),
)

rater = Table(
    "rater",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", ExactText, nullable=False, unique=True, doc="a pseudonym, or a model's name"),
    Column("kind", String(16), nullable=False),
    Column(
        "token_hash",
        String(64),
        unique=True,
        doc="SHA-256 of the invitation; the token is stored nowhere",
    ),
    Column("created_at", Moment, nullable=False),
    Column("revoked_at", Moment, doc="from then on the rater is let in no more"),
    Column("excluded_at", Moment, doc="set while the rater's verdicts are left out"),
    Column("source", ExactText, doc="where a rater without invitation came from, such as prolific"),
    Column("external_id", ExactText, doc="the source's own name for the rater, who is paid by it"),
    Column("place_until", Moment, doc="until then a place is kept for an enrolled rater who has no pair yet"),
    CheckConstraint("kind IN ('person', 'model', 'simulated', 'simulated_model')", name="kind"),
)

Index("uq_rater_source", rater.c.source, rater.c.external_id, unique=True)

visit = Table(
    "visit",
    metadata,
    Column("token_hash", String(64), primary_key=True, doc="SHA-256 of a token given to an enrolled rater"),
    Column("rater_id", Integer, ForeignKey("rater.id"), nullable=False, index=True),
    Column("created_at", Moment, nullable=False),
)

pair = Table(
    "pair",
    metadata,
    Column("id", Text, primary_key=True, doc="hash of methods and continuations"),
    Column("dataset", ExactText, nullable=False),
    Column("prompt_id", ExactText, nullable=False),
    Column("prompt", ExactText, nullable=False),
    Column("method_a", ExactText, nullable=False),
    Column("method_b", ExactText, nullable=False),
    Column("continuation_a", ExactText, nullable=False),
    Column("continuation_b", ExactText, nullable=False),
    Column("text_a", ExactText, nullable=False),
    Column("text_b", ExactText, nullable=False),
    Column("position", Integer, nullable=False, doc="its parity and the slot's decide the sides"),
    Column("for_people", Boolean, nullable=False, server_default=true(), doc="people rate it too"),
)

gold = Table(
    "gold",
    metadata,
    Column("pair_id", Text, ForeignKey("pair.id"), primary_key=True, doc="a pair outside the study"),
    Column("criterion", ExactText, primary_key=True),
    Column("expected", String(1), nullable=False, doc="which text is clearly better"),
    CheckConstraint("expected IN ('a', 'b')", name="expected"),
)

run = Table(
    "run",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("rater_id", Integer, ForeignKey("rater.id"), nullable=False, index=True),
    Column("host", String(64), nullable=False, doc="a hash of the machine since it started"),
    Column("process", String(64), nullable=False, doc="the process's number there, and when it began"),
    Column("started_at", Moment, nullable=False),
    Column("leased_until", Moment, nullable=False, doc="then, unless renewed, its claims are free"),
    Column("ended_at", Moment),
)

presentation = Table(
    "presentation",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("pair_id", Text, ForeignKey("pair.id"), nullable=False),
    Column("rater_id", Integer, ForeignKey("rater.id"), nullable=False),
    Column(
        "pool",
        ExactText,
        nullable=False,
        doc="people, simulated, model: and the model's name, or checks: and the rater's id",
    ),
    Column("slot", Integer, nullable=False, doc="which of the pair's planned showings in its pool: 0, 1, …"),
    Column("attempt", Integer, nullable=False, doc="how often the slot had been handed out before"),
    Column("first", String(1), nullable=False, doc="which of the pair's texts is shown as A"),
    Column("handed_out", Moment, nullable=False),
    Column("leased_until", Moment, nullable=False, doc="then, if unrated, the slot may go to another"),
    Column("rated_at", Moment, doc="when the first verdict came"),
    Column("superseded", Boolean, nullable=False, doc="the slot went to another while this was unrated"),
    Column(
        "withdrawn",
        Boolean,
        nullable=False,
        server_default=false(),
        doc="the rater is excluded, and the slot free",
    ),
    Column(
        "skipped",
        Boolean,
        nullable=False,
        server_default=false(),
        doc="the rater could not judge it and left the slot; a note says why",
    ),
    Column("role", String(8), nullable=False, server_default="study", doc="study, gold or repeat"),
    Column("run_id", Integer, ForeignKey("run.id"), doc="of a model's: which run has claimed it"),
    UniqueConstraint("pair_id", "pool", "slot", "attempt"),
    CheckConstraint("first IN ('a', 'b')", name="first"),
    CheckConstraint("slot >= 0 AND attempt >= 0", name="counted"),
    CheckConstraint("role IN ('study', 'gold', 'repeat')", name="role"),
    sqlite_autoincrement=True,  # a page shows a number that was removed: no new row may have it
)

occupancy = Table(
    "occupancy",
    metadata,
    Column("pool", ExactText, primary_key=True, doc="people or simulated"),
    Column("pair_id", Text, ForeignKey("pair.id"), primary_key=True),
    Column("ring", Integer, nullable=False, doc="where hand-out comes past it: a hash of the pair's id"),
    Column("held", Integer, nullable=False, doc="slots with a holder, or kept for a rater"),
    Column("vacant", Boolean, nullable=False, doc="fewer are held than there are to be"),
    Column("position", Integer, nullable=False, doc="this and the rest are the pair's own"),
    Column("dataset", ExactText, nullable=False),
    Column("method_a", ExactText, nullable=False),
    Column("method_b", ExactText, nullable=False),
    CheckConstraint("held >= 0", name="held"),
    sqlite_with_rowid=False,
)

Index("ix_occupancy_vacant", occupancy.c.pool, occupancy.c.vacant, occupancy.c.ring)

assignment = Table(
    "assignment",
    metadata,
    Column("pair_id", Text, ForeignKey("pair.id"), primary_key=True),
    Column("slot", Integer, primary_key=True, autoincrement=False),
    Column("rater_id", Integer, ForeignKey("rater.id"), nullable=False, doc="for whom the slot is kept"),
    Column("first", String(1), nullable=False, doc="which of the pair's texts is shown as A"),
    UniqueConstraint("rater_id", "pair_id"),
    CheckConstraint("first IN ('a', 'b')", name="first"),
)

HOLDS_SLOT = and_(presentation.c.superseded == false(), presentation.c.withdrawn == false())
"""True of a slot's holder, whether or not its lease is over."""

_once = presentation.c.pool.in_(("people", "simulated"))

Index(
    "uq_presentation_holder",
    presentation.c.pool,
    presentation.c.pair_id,
    presentation.c.slot,
    unique=True,
    sqlite_where=HOLDS_SLOT,
    postgresql_where=HOLDS_SLOT,
)
Index(
    "uq_presentation_once",
    presentation.c.rater_id,
    presentation.c.pair_id,
    unique=True,
    sqlite_where=_once,
    postgresql_where=_once,
)
Index(
    "ix_presentation_skipped",
    presentation.c.pool,
    presentation.c.pair_id,
    sqlite_where=presentation.c.skipped == true(),
    postgresql_where=presentation.c.skipped == true(),
)
Index("ix_presentation_rater", presentation.c.rater_id, presentation.c.rated_at)

_waiting = and_(HOLDS_SLOT, presentation.c.rated_at.is_(None))

Index(
    "ix_presentation_lease",
    presentation.c.pool,
    presentation.c.leased_until,
    sqlite_where=_waiting,
    postgresql_where=_waiting,
)

verdict = Table(
    "verdict",
    metadata,
    Column("presentation_id", Integer, ForeignKey("presentation.id"), primary_key=True),
    Column("criterion", ExactText, primary_key=True),
    Column("revision", Integer, primary_key=True, autoincrement=False, doc="0, 1, …; the highest is current"),
    Column("choice", String(3), nullable=False, doc="by the letters on the screen, not by method"),
    Column("at", Moment, nullable=False),
    Column("seconds", Float(53)),
    Column("active_seconds", Float(53)),
    CheckConstraint("choice IN ('A', 'tie', 'B')", name="choice"),
    CheckConstraint("revision >= 0", name="revision"),
)

note = Table(
    "note",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("rater_id", Integer, ForeignKey("rater.id"), nullable=False, index=True),
    Column("presentation_id", Integer, ForeignKey("presentation.id"), index=True),
    Column("kind", String(16), nullable=False, doc="such as consent, comment or exclude"),
    Column("detail", ExactText, nullable=False, doc="text, or JSON, as the kind has it"),
    Column("at", Moment, nullable=False),
)

for _table in (gold, verdict, note):
    refuse_changes(_table)
for _table in (pair, assignment):
    refuse_changes(_table, unless_unrated=True)

_HASH = "study_hash"
APP_ADDRESS = "app address"
DRAWING = "drawing"
"""What names a drawing of the pairs in the place of earlier ones."""
_CRITERION = "criterion "


def study_hash(connection: Connection) -> str | None:
    """Return the settings' hash as the first verdict found it; None before that."""
    return value_of(connection, _HASH)


def value_of(connection: Connection, key: str) -> str | None:
    """Return what is stored under a key; None where nothing is."""
    return connection.execute(select(meta.c.value).where(meta.c.key == key)).scalar_one_or_none()


def set_with_first_verdict(connection: Connection, value: str) -> None:
    """Store the settings' hash if there is no verdict yet; later it would vouch for what it did not see."""
    if connection.execute(select(exists().select_from(verdict))).scalar_one():
        return
    insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    connection.execute(insert(meta).values(key=_HASH, value=value).on_conflict_do_nothing())


def put(connection: Connection, key: str, value: str) -> None:
    """Store a value under a key, in place of an earlier one."""
    insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    new = insert(meta).values(key=key, value=value)
    connection.execute(new.on_conflict_do_update(index_elements=[meta.c.key], set_={"value": value}))


def set_criteria(connection: Connection, words: Mapping[str, str]) -> None:
    """Store in which words criteria are asked, but for those on which there are verdicts already."""
    for name, text in words.items():
        if not _judged(connection, name):
            put(connection, _CRITERION + name, text)


def criteria(connection: Connection) -> dict[str, str]:
    """Return in which words the criteria with verdicts were asked when the first one came, by name."""
    rows = connection.execute(select(meta.c.key, meta.c.value).where(meta.c.key.startswith(_CRITERION)))
    words = {row.key.removeprefix(_CRITERION): row.value for row in rows}
    return {name: text for name, text in words.items() if _judged(connection, name)}


def _judged(connection: Connection, criterion: str) -> bool:
    return bool(connection.execute(select(exists().where(verdict.c.criterion == criterion))).scalar_one())
