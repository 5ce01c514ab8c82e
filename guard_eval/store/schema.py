"""The tables of a study.

A *slot* is one planned showing of a pair: to one of several people, on a side that is fixed. A *presentation*
is a pair as one rater was shown it; it holds its slot while `slot.held_by` is its id. Letters on the screen
become methods in `guard_eval.store.unblind` alone.

`verdict` and `note` are append-only: triggers refuse UPDATE and DELETE, except while a person is erased. The
judge's tables are in `guard_eval.store.requests`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from sqlalchemy import (
    DDL,
    JSON,
    Boolean,
    CheckConstraint,
    Column,
    ColumnElement,
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
    true,
)
from sqlalchemy.types import TypeDecorator

from guard_eval.errors import StudyError

SCHEMA = "1"
"""The number of these tables, in `setting`."""

LONGEST_NAME = 200
"""In characters; PostgreSQL's indexes hold no more than 2700 bytes."""

ERASING = "erasing"
"""The key in `setting` that lets rows of append-only tables go, while a person is erased."""

_CHUNK = 10_000
_Item = TypeVar("_Item")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def storable(text: str) -> str:
    r"""Return `text` with U+FFFD in place of NUL and lone surrogates, which databases refuse.

    >>> storable("a\x00b")
    'a�b'
    """
    return _UNSTORABLE.sub("\ufffd", text)


def chunks(items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    """Yield `items` in parts that one statement can list."""
    return (items[start : start + _CHUNK] for start in range(0, len(items), _CHUNK))


def check_name(what: str, name: str) -> None:
    """Raise a `StudyError` if `name`, that of a `what`, is blank or longer than `LONGEST_NAME`."""
    if not name.strip():
        raise StudyError(f"the {what} {name!r} is empty; write something")
    if len(name) > LONGEST_NAME:
        raise StudyError(
            f"the {what} {name[:40]!r}… has {len(name)} characters; write at most {LONGEST_NAME}"
        )


class AnyText(TypeDecorator[str]):
    """Text of any characters; see `storable`."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        """Return what the database is given."""
        return None if value is None else storable(value)


class Moment(TypeDecorator[datetime]):
    """A moment in UTC: `timestamptz` on PostgreSQL, text that sorts by time on SQLite; aware in Python."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """Return the moment in UTC."""
        return value and value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """Return the stored moment; SQLite has dropped the zone, which is UTC."""
        return value and (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC)


metadata = MetaData()

SETTING = Table(
    "setting",
    metadata,
    Column("key", String(200), primary_key=True, doc="such as schema or study_hash"),
    Column("value", AnyText, nullable=False),
)
setting = SETTING.c

RATER = Table(
    "rater",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", AnyText, nullable=False, unique=True, doc="a pseudonym, or a model's name"),
    Column("kind", String(16), nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("revoked_at", Moment, doc="from then on the rater is let in no more"),
    Column("excluded_at", Moment, doc="set while the rater's verdicts are left out"),
    Column("source", AnyText, doc="where a rater without invitation came from, such as prolific"),
    Column("external_id", AnyText, doc="the source's own name for the rater, who is paid by it"),
    CheckConstraint("kind IN ('person', 'model', 'simulated', 'simulated_model')", name="kind"),
    UniqueConstraint("source", "external_id"),
)
rater = RATER.c

TOKEN = Table(
    "token",
    metadata,
    Column("hash", String(64), primary_key=True, doc="SHA-256 of an invitation; the token is stored nowhere"),
    Column("rater_id", Integer, ForeignKey("rater.id"), nullable=False, index=True),
    Column("created_at", Moment, nullable=False),
)
token = TOKEN.c

PAIR = Table(
    "pair",
    metadata,
    Column("id", Text, primary_key=True, doc="hash of methods and continuations"),
    *(Column(name, AnyText, nullable=False) for name in ("dataset", "prompt_id", "prompt")),
    *(Column(name, AnyText, nullable=False) for name in ("method_a", "continuation_a", "text_a")),
    *(Column(name, AnyText, nullable=False) for name in ("method_b", "continuation_b", "text_b")),
    Column("position", Integer, nullable=False, doc="its parity decides the side that a judge sees first"),
    Column("for_people", Boolean, nullable=False, server_default=true(), doc="people rate it too"),
    Column("expected", JSON(none_as_null=True), doc="of a gold pair: the better text by criterion"),
)
pair = PAIR.c

SLOT = Table(
    "slot",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("pool", String(16), nullable=False, doc="people or simulated: raters who share the slots"),
    Column("pair_id", Text, ForeignKey("pair.id"), nullable=False),
    Column("number", Integer, nullable=False, doc="0, 1, …; 2k and 2k + 1 show opposite sides"),
    Column("first", String(1), doc="which of the pair's texts is shown as A; NULL: not decided yet"),
    Column("shuffle", Integer, nullable=False, doc="its position in the order of hand-out"),
    Column("open", Boolean, nullable=False, server_default=true(), doc="it may be handed out when free"),
    Column("for_rater", Integer, ForeignKey("rater.id"), doc="for whom a roster keeps it"),
    Column("held_by", Integer, unique=True, doc="the presentation that has it; NULL: it is free"),
    Column("leased_until", Moment, doc="then, if unrated, it is free for others"),
    UniqueConstraint("pair_id", "pool", "number"),
    CheckConstraint("first IN ('a', 'b')", name="first"),
)
slot = SLOT.c

PRESENTATION = Table(
    "presentation",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("slot_id", Integer, ForeignKey("slot.id"), index=True, doc="NULL: a judge's, gold, or a repeat"),
    Column("pair_id", Text, ForeignKey("pair.id"), nullable=False, index=True),
    Column("rater_id", Integer, ForeignKey("rater.id"), nullable=False),
    Column("number", Integer, nullable=False, doc="the slot's; a judge's: 2 × sample, + 1: other order"),
    Column("first", String(1), nullable=False, doc="which of the pair's texts is shown as A"),
    Column("role", String(8), nullable=False, server_default="study", doc="study, gold or repeat"),
    Column("handed_out", Moment, nullable=False),
    Column("rated_at", Moment, doc="when the first verdict came"),
    UniqueConstraint("rater_id", "pair_id", "role", "number"),
    CheckConstraint("first IN ('a', 'b')", name="first"),
    CheckConstraint("role IN ('study', 'gold', 'repeat')", name="role"),
    sqlite_autoincrement=True,  # a page shows a number that was removed: no new row may have it
)
presentation = PRESENTATION.c

FREE = slot.held_by.is_(None)
OPEN = and_(FREE, slot.open)
UNRATED = presentation.rated_at.is_(None)
IS_OUT = rater.revoked_at.is_not(None) | rater.excluded_at.is_not(None)


def add_index(name: str, *columns: Column[Any], where: ColumnElement[bool], unique: bool = False) -> None:
    """Add an index of the rows for which `where` holds."""
    Index(name, *columns, unique=unique, sqlite_where=where, postgresql_where=where)


add_index("ix_slot_free", slot.pool, slot.for_rater, slot.shuffle, slot.number, where=OPEN)
add_index("ix_slot_lease", slot.leased_until, where=slot.leased_until.is_not(None))
add_index("ix_presentation_open", presentation.rater_id, where=UNRATED)
_OF_SLOT = presentation.slot_id.is_not(None)
add_index("uq_presentation_once", presentation.rater_id, presentation.pair_id, where=_OF_SLOT, unique=True)

VERDICT = Table(
    "verdict",
    metadata,
    Column("presentation_id", Integer, ForeignKey("presentation.id"), primary_key=True),
    Column("criterion", AnyText, primary_key=True),
    Column("revision", Integer, primary_key=True, autoincrement=False, doc="0, 1, …; the highest is current"),
    Column("choice", String(3), nullable=False, doc="by the letters on the screen, not by method"),
    Column("at", Moment, nullable=False),
    Column("seconds", Float(53)),
    Column("active_seconds", Float(53)),
    Column("ends_seen", Integer, doc="of prompt, A and B: how many were on the screen to their end"),
    CheckConstraint("choice IN ('A', 'tie', 'B')", name="choice"),
    CheckConstraint("revision >= 0", name="revision"),
)
verdict = VERDICT.c

NOTE = Table(
    "note",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("rater_id", Integer, ForeignKey("rater.id"), nullable=False, index=True),
    Column("presentation_id", Integer, ForeignKey("presentation.id"), index=True),
    Column("kind", String(16), nullable=False, doc="such as consent, comment or exclude"),
    Column("detail", AnyText, nullable=False, doc="text, or JSON, as the kind has it"),
    Column("at", Moment, nullable=False),
)
note = NOTE.c


def refuse_changes(table: Table, *, condition: str = "TRUE", columns: Sequence[str] = ()) -> None:
    """Let the database itself refuse to change or remove rows of `table`, except while a person is erased.

    Args:
        table: Whose rows are only added.
        condition: In SQL, on the row `OLD`: which rows.
        columns: What must not change; all columns by default.
    """
    name = table.name
    update = f"UPDATE OF {', '.join(columns)}" if columns else "UPDATE"
    kept = f"({condition}) AND NOT EXISTS (SELECT 1 FROM setting WHERE key = '{ERASING}')"  # noqa: S608  (constants)
    statements = {
        f"CREATE TRIGGER {name}_{action} BEFORE {change} ON {name} WHEN {kept} "
        f"BEGIN SELECT RAISE(ABORT, '{name} is append-only'); END": "sqlite"
        for action, change in (("no_update", update), ("no_delete", "DELETE"))
    }
    statements |= {
        f"""CREATE FUNCTION {name}_keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF TG_LEVEL = 'STATEMENT' THEN RAISE EXCEPTION '{name} is append-only'; END IF;
        IF {kept} THEN RAISE EXCEPTION '{name} is append-only'; END IF;
        IF TG_OP = 'DELETE' THEN RETURN OLD; END IF; RETURN NEW; END $$""": "postgresql",
        f"""CREATE TRIGGER {name}_keep BEFORE {update} OR DELETE ON {name}
        FOR EACH ROW EXECUTE FUNCTION {name}_keep()""": "postgresql",
        f"""CREATE TRIGGER {name}_no_truncate BEFORE TRUNCATE ON {name}
        FOR EACH STATEMENT EXECUTE FUNCTION {name}_keep()""": "postgresql",
    }
    for statement, dialect in statements.items():
        trigger = DDL(statement.replace("%", "%%")).execute_if(dialect=dialect)  # type: ignore[no-untyped-call]
        event.listen(table, "after_create", trigger)


for _table in (VERDICT, NOTE):
    refuse_changes(_table)
