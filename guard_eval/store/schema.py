"""The tables of a study.

A *slot* is one planned showing of a pair: to one of several people, on a side that is fixed. A *presentation*
is a pair as one rater was shown it; it holds its slot while `slot.held_by` is its id. Letters on the screen
become methods in `guard_eval.store.unblind` alone.

`verdict`, `note`, `closed_round` and `stopped` are append-only: triggers refuse UPDATE and DELETE, except
while a person is erased. A *request* to a judge is a row that is written before it is sent and completed
once.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache, partial
from typing import Any, TypeVar

from sqlalchemy import (
    DDL,
    JSON,
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Dialect,
    Executable,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    bindparam,
    event,
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

_CHUNK = 8_000
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

TOKEN = Table(
    "token",
    metadata,
    Column("hash", String(64), primary_key=True),  # SHA-256 of an invitation; the token is stored nowhere
    required("rater_id", Integer, ForeignKey("rater.id"), index=True),
    required("created_at", MOMENT),
)

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


def add_index(table: Table, name: str, *columns: str, where: str, unique: bool = False) -> None:
    """Add an index of the rows for which `where` holds. SQLite uses it for queries with the same words."""
    condition = text(where)
    indexed = (table.c[column] for column in columns)
    Index(name, *indexed, unique=unique, sqlite_where=condition, postgresql_where=condition)


add_index(SLOT, "ix_slot_free", "pool", "for_rater", "shuffle", "number", where="held_by IS NULL AND open")
add_index(SLOT, "ix_slot_lease", "leased_until", where="leased_until IS NOT NULL")
add_index(PRESENTATION, "ix_presentation_open", "rater_id", where="rated_at IS NULL")
add_index(
    PRESENTATION, "uq_presentation_once", "rater_id", "pair_id", where="slot_id IS NOT NULL", unique=True
)

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

CLOSED_ROUND = Table(
    "closed_round",
    metadata,
    Column("part", ANY_TEXT, primary_key=True),  # whose verdicts decided: a pool's, or a judge's
    Column("number", Integer, primary_key=True, autoincrement=False),
    required("grounds", JSON),  # the plan, the p of every couple, and how many prompts were rated
    required("at", MOMENT),
)

STOPPED = Table(
    "stopped",
    metadata,
    *(Column(name, ANY_TEXT, primary_key=True) for name in ("part", "method_a", "method_b")),
    required("number", Integer),  # the last round in which the two are shown
)

_COMPRESSED = Converted(LargeBinary(), lambda plain: zlib.compress(plain, 1), zlib.decompress)

INSTRUCTION = Table(
    "instruction",
    metadata,
    Column("id", String(64), primary_key=True),  # SHA-256 of the settings and the form
    required("settings", String(64)),  # SHA-256 of what study.toml decides about the judge's requests
    required("form", Text),  # the name of the form: interface, output, and what was left out
    required("manner", Text),  # the form in words
    required("prompt", String(12)),  # the prompt's version
    required("description", Text),  # how the prompt differs from the paper's
    required("text", Text),  # a whole request, with placeholders for the texts of a pair
)

REQUEST = Table(
    "request",
    metadata,
    Column("id", Integer, primary_key=True),
    required("key", String(64), index=True),  # SHA-256 of what the study decides about it
    required("rater_id", Integer, ForeignKey("rater.id"), index=True),
    required("purpose", String(12)),  # study or calibration
    required("pair_id", Text, ForeignKey("pair.id"), index=True),
    required("number", Integer),  # twice the sample, plus 1 for the other order
    Column("batch", String(16), index=True),  # our name for the batch it is sent in
    Column("provider_id", Text),  # the provider's name for the batch; NULL until it is known
    required("state", String(8)),  # open, answered, unbilled or lost
    required("instruction", String(64), ForeignKey("instruction.id"), index=True),
    required("max_output_tokens", Integer),
    required("sent", _COMPRESSED),  # the request as it is sent
    Column("response", _COMPRESSED),  # the answer as it came
    Column("model", Text),  # the snapshot that the server says it used
    Column("fingerprint", Text),  # the server's name for its configuration
    Column("input_tokens", Integer),
    Column("cached_tokens", Integer),
    Column("output_tokens", Integer),
    Column("reasoning_tokens", Integer),
    Column("cost", BigInteger),  # billionths of a US dollar: the most it can cost, then its cost
    Column("failure", String(16)),  # why it brought no verdict
    Column("detail", Text),  # the same in words
    required("sent_at", MOMENT),
    required("run", String(16)),  # the run that sends it
    required("leased_until", MOMENT),
)
add_index(REQUEST, "uq_request_live", "key", where="state IN ('open', 'answered')", unique=True)
Index("ix_request_cost", REQUEST.c.cost)
add_index(REQUEST, "ix_request_open", "leased_until", where="state = 'open'")

CALIBRATION = Table(
    "calibration",
    metadata,
    Column("settings", String(64), primary_key=True),  # as in `instruction`
    Column("pair_id", Text, ForeignKey("pair.id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    required("rater_id", Integer, ForeignKey("rater.id"), index=True),
    required("check", String(12)),
    required("target", String(1)),  # the side of the text that the check is about
    required("orders", Integer),  # in how many orders the texts are shown
    required("choices", JSON),  # by criterion; null before the answer
    Column("answered_at", MOMENT),
)


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


for _table in (VERDICT, NOTE, CLOSED_ROUND, STOPPED):
    refuse_changes(_table)
refuse_changes(REQUEST, condition="OLD.response IS NOT NULL", columns=("response",))

_TYPES: dict[str, TypeEngine[Any]] = {
    column.name: column.type
    for table in metadata.sorted_tables
    for column in table.columns
    if isinstance(column.type, Converted | JSON)
}
_TYPES |= dict.fromkeys(("now", "until", "since"), MOMENT)
_TYPES |= dict.fromkeys(("for_people", "excluded", "surplus", "is_out"), Boolean())


@cache
def query(sql: str, **types: TypeEngine[Any]) -> Executable:
    """Return a statement whose parameters and results have the types of the schema's columns, by their names.

    `types` has those of other names. A parameter after IN is a list. Statements are made once: to make one
    takes as long as to run it.
    """
    names = set(re.findall(r"\w+", sql))
    known = {name: kind for name, kind in {**_TYPES, **types}.items() if name in names}
    lists = re.findall(r"\bIN :(\w+)", sql)
    parameters = set(re.findall(r"(?<!:):(\w+)", sql))
    statement = text(sql).bindparams(
        *(bindparam(name, type_=known.get(name), expanding=name in lists) for name in parameters)
    )
    return statement.columns(**known) if sql.lstrip().startswith(("SELECT", "WITH")) else statement
