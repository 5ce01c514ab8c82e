"""The tables of a study.

A *slot* is one planned showing of a pair: to one of several people, on a side that is fixed. A *presentation*
is a pair as one rater was shown it; it holds its slot while `slot.held_by` is its id. Letters on the screen
become methods in `guard_eval.store.unblind` alone.

`verdict`, `note` and `round` are append-only: triggers refuse UPDATE and DELETE, except while a person is
erased. The judge's tables are in `guard_eval.store.requests`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import (
    DDL,
    JSON,
    Boolean,
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
    TextClause,
    UniqueConstraint,
    event,
    exists,
    text,
    true,
)
from sqlalchemy.types import TypeDecorator, TypeEngine

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
    if not name.strip() or len(name) > LONGEST_NAME:
        raise StudyError(
            f"the {what} {name[:40]!r} is empty or too long; write 1 to {LONGEST_NAME} characters"
        )


class Converted(TypeDecorator[Any]):
    """A column's type of which values are converted on their way into the database, and back."""

    impl: TypeEngine[Any] | type[TypeEngine[Any]] = Text
    cache_ok = True

    def __init__(
        self, impl: TypeEngine[Any], write: Callable[[Any], Any], read: Callable[[Any], Any]
    ) -> None:
        super().__init__()
        self.impl = impl
        self.write = write
        self.read = read

    def process_bind_param(self, value: object, dialect: Dialect) -> object:  # noqa: ARG002
        """Return what the database is given."""
        return None if value is None else self.write(value)

    def process_result_value(self, value: object, dialect: Dialect) -> object:  # noqa: ARG002
        """Return what Python is given."""
        return None if value is None else self.read(value)


def _to_utc(moment: datetime) -> datetime:
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)


def _check_text(text: object) -> str:
    if not isinstance(text, str):
        raise TypeError(f"{text!a:.60} is no text")
    return text


ANY_TEXT = Converted(Text(), storable, _check_text)
"""Text of any characters; see `storable`."""

MOMENT = Converted(DateTime(timezone=True), _to_utc, _to_utc)
"""A moment in UTC: `timestamptz` on PostgreSQL, text that sorts by time on SQLite, which drops the zone."""

metadata = MetaData()
required = partial(Column[Any], nullable=False)

SETTING = Table(
    "setting",
    metadata,
    Column("key", String(200), primary_key=True),  # such as schema or study_hash
    required("value", ANY_TEXT),
)
setting = SETTING.c

RATER = Table(
    "rater",
    metadata,
    Column("id", Integer, primary_key=True),
    required("name", ANY_TEXT, unique=True),  # a pseudonym, or a model's name
    required("kind", String(16)),  # person, model, simulated or simulated_model
    required("created_at", MOMENT),
    Column("revoked_at", MOMENT),  # from then on the rater is let in no more
    Column("excluded_at", MOMENT),  # set while the rater's verdicts are left out
    Column("source", ANY_TEXT),  # where a rater without invitation came from, such as prolific
    Column("external_id", ANY_TEXT),  # the source's own name for the rater, who is paid by it
    UniqueConstraint("source", "external_id"),
)
rater = RATER.c

TOKEN = Table(
    "token",
    metadata,
    Column("hash", String(64), primary_key=True),  # SHA-256 of an invitation; the token is stored nowhere
    required("rater_id", Integer, ForeignKey("rater.id"), index=True),
    required("created_at", MOMENT),
)
token = TOKEN.c

PAIR = Table(
    "pair",
    metadata,
    Column("id", Text, primary_key=True),  # hash of methods and continuations
    *(required(name, ANY_TEXT) for name in ("dataset", "prompt_id", "prompt")),
    *(required(name, ANY_TEXT) for name in ("method_a", "continuation_a", "text_a")),
    *(required(name, ANY_TEXT) for name in ("method_b", "continuation_b", "text_b")),
    required("position", Integer),  # its parity decides the side that a judge sees first
    required("for_people", Boolean, server_default=true()),  # people rate it too
    required("round", Integer, server_default=text("0")),  # in which it is shown; 0: the study has none
    Column("expected", JSON(none_as_null=True)),  # of a gold pair: the better text by criterion
)
pair = PAIR.c

SLOT = Table(
    "slot",
    metadata,
    Column("id", Integer, primary_key=True),
    required("pool", String(16)),  # people or simulated: raters who share the slots
    required("pair_id", Text, ForeignKey("pair.id")),
    required("number", Integer),  # 0, 1, …; 2k and 2k + 1 show opposite sides
    Column("first", String(1)),  # which of the pair's texts is shown as A; NULL: not decided yet
    required("shuffle", Integer),  # its position in the order of hand-out
    required("open", Boolean, server_default=true()),  # it may be handed out when free
    Column("for_rater", Integer, ForeignKey("rater.id")),  # for whom a roster keeps it
    Column("held_by", Integer, unique=True),  # the presentation that has it; NULL: it is free
    Column("leased_until", MOMENT),  # then, if unrated, it is free for others
    UniqueConstraint("pair_id", "pool", "number"),
)
slot = SLOT.c

PRESENTATION = Table(
    "presentation",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("slot_id", Integer, ForeignKey("slot.id"), index=True),  # NULL: a judge's, gold, or a repeat
    required("pair_id", Text, ForeignKey("pair.id"), index=True),
    required("rater_id", Integer, ForeignKey("rater.id"), index=True),
    required("number", Integer),  # the slot's; a judge's: 2 × sample, + 1: other order
    required("first", String(1)),  # which of the pair's texts is shown as A
    required("role", String(8), server_default="study"),  # study, gold or repeat
    required("handed_out", MOMENT),
    Column("rated_at", MOMENT),  # when the first verdict came
    UniqueConstraint("rater_id", "pair_id", "role", "number"),
    sqlite_autoincrement=True,  # a page shows a number that was removed: no new row may have it
)
presentation = PRESENTATION.c

FREE = slot.held_by.is_(None)
UNRATED = presentation.rated_at.is_(None)
IS_OUT = rater.revoked_at.is_not(None) | rater.excluded_at.is_not(None)


def add_index(
    name: str, *columns: Column[Any], where: ColumnElement[bool] | TextClause, unique: bool = False
) -> None:
    """Add an index of the rows for which `where` holds."""
    Index(name, *columns, unique=unique, sqlite_where=where, postgresql_where=where)


# The condition has the words of the query for open slots, as SQLite compares words.
add_index(
    "ix_slot_free",
    slot.pool,
    slot.for_rater,
    slot.shuffle,
    slot.number,
    where=text("held_by IS NULL AND open"),
)
add_index("ix_slot_lease", slot.leased_until, where=slot.leased_until.is_not(None))
add_index("ix_presentation_open", presentation.rater_id, where=UNRATED)
_OF_SLOT = presentation.slot_id.is_not(None)
add_index("uq_presentation_once", presentation.rater_id, presentation.pair_id, where=_OF_SLOT, unique=True)

VERDICT = Table(
    "verdict",
    metadata,
    Column("presentation_id", Integer, ForeignKey("presentation.id"), primary_key=True),
    Column("criterion", ANY_TEXT, primary_key=True),
    Column("revision", Integer, primary_key=True, autoincrement=False),  # 0, 1, …; the highest is current
    required("choice", String(3)),  # A, tie or B:  # by the letters on the screen, not by method
    required("at", MOMENT),
    Column("seconds", Float(53)),
    Column("active_seconds", Float(53)),
    Column("ends_seen", Integer),  # of prompt, A and B: how many were on the screen to their end
)
verdict = VERDICT.c

NOTE = Table(
    "note",
    metadata,
    Column("id", Integer, primary_key=True),
    required("rater_id", Integer, ForeignKey("rater.id"), index=True),
    Column("presentation_id", Integer, ForeignKey("presentation.id"), index=True),
    required("kind", String(16)),  # such as consent, comment or exclude
    required("detail", ANY_TEXT),  # text, or JSON, as the kind has it
    required("at", MOMENT),
)
note = NOTE.c

ROUND = Table(
    "round",
    metadata,
    Column("part", ANY_TEXT, primary_key=True),  # whose verdicts decide: a pool's, or a judge's
    Column("number", Integer, primary_key=True, autoincrement=False),
    required("detail", JSON),  # the couples that stop after it, every p, and the prompts that count
    required("at", MOMENT),
)
closed_round = ROUND.c

SKIPPED = exists().where(note.presentation_id == presentation.id, note.kind == "skip")


def refuse_changes(table: Table, *, condition: str = "TRUE", columns: Sequence[str] = ()) -> None:
    """Let the database itself refuse to change or remove rows of `table`, except while a person is erased.

    It refuses for rows `OLD` on which the SQL `condition` holds, and for `columns`: all of them by default.
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


for _table in (VERDICT, NOTE, ROUND):
    refuse_changes(_table)
