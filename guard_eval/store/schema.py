"""The tables of a study.

A *slot* is one planned showing of a pair, to one person and on a fixed side. A *presentation* is a pair as
one rater saw it; it holds its slot while `slot.held_by` is the presentation's id. Only
`guard_eval.store.unblind` turns letters on the screen into methods.

`verdict`, `note`, `closed_round` and `stopped` are append-only: triggers refuse UPDATE and DELETE, except
while a person is erased. A *request* to a judge is a row that is written before it is sent and completed
once.
"""

import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any, TypeVar

from sqlalchemy import (
    JSON,
    Boolean,
    Connection,
    CursorResult,
    DateTime,
    Dialect,
    Executable,
    LargeBinary,
    Row,
    Text,
    bindparam,
    text,
)
from sqlalchemy.types import TypeDecorator, TypeEngine

from guard_eval.errors import StudyError

SCHEMA = "1"
"""The version of these tables, stored in `setting`."""

LONGEST_NAME = 200
"""The longest allowed name, in characters. An entry in a PostgreSQL index has at most 2700 bytes."""

ERASING = "erasing"
"""The key in `setting` that allows changes of append-only tables while a person is erased."""

SqlRow = Row[Any]
"""A row of a query: its attributes are the columns."""

_ColumnType = TypeEngine[Any]

_CHUNK = 8_000
_Item = TypeVar("_Item")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def make_storable(text: str) -> str:
    r"""Replace NUL and lone surrogates, which databases refuse, with U+FFFD.

    >>> make_storable("a\x00b")
    'a�b'
    """
    return _UNSTORABLE.sub("\ufffd", text)


def split_into_sql_chunks(items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    """Yield groups of `items` that are small enough for one SQL statement."""
    return (items[start : start + _CHUNK] for start in range(0, len(items), _CHUNK))


def refuse_blank_or_long_name(what: str, name: str) -> None:
    """Raise a `StudyError` if a name is blank or longer than `LONGEST_NAME`. The message names `what`."""
    if not name.strip() or len(name) > LONGEST_NAME:
        raise StudyError(
            f"the {what} {name[:40]!r} is empty or too long; write 1 to {LONGEST_NAME} characters"
        )


TABLES = """
CREATE TABLE setting (
    key VARCHAR(200) NOT NULL PRIMARY KEY, -- such as schema or study_hash
    value TEXT NOT NULL
);
CREATE TABLE rater (
    id SERIAL PRIMARY KEY,
    name TEXT NOT NULL UNIQUE, -- a pseudonym, or a model's name
    kind VARCHAR(16) NOT NULL CHECK (kind IN ('person', 'model', 'simulated', 'simulated_model')),
    created_at TIMESTAMPTZ NOT NULL,
    revoked_at TIMESTAMPTZ, -- from then on the rater cannot sign in
    excluded_at TIMESTAMPTZ, -- set while the rater's verdicts are left out
    source TEXT, -- where a rater without invitation came from, such as prolific
    external_id TEXT, -- the source's own name for the rater, who is paid by it
    UNIQUE (source, external_id)
);
CREATE TABLE token (
    hash VARCHAR(64) NOT NULL PRIMARY KEY, -- SHA-256 of an invitation; the token is stored nowhere
    rater_id INTEGER NOT NULL REFERENCES rater (id),
    created_at TIMESTAMPTZ NOT NULL
);
CREATE INDEX ix_token_rater ON token (rater_id);
CREATE TABLE pair (
    id VARCHAR NOT NULL PRIMARY KEY, -- hash of methods and continuations
    dataset TEXT NOT NULL,
    prompt_id TEXT NOT NULL,
    prompt TEXT NOT NULL,
    method_a TEXT NOT NULL,
    continuation_a TEXT NOT NULL,
    text_a TEXT NOT NULL,
    method_b TEXT NOT NULL,
    continuation_b TEXT NOT NULL,
    text_b TEXT NOT NULL,
    position INTEGER NOT NULL, -- its parity decides the side that a judge sees first
    for_people BOOLEAN NOT NULL DEFAULT TRUE, -- people rate it too
    round INTEGER NOT NULL DEFAULT 0, -- in which it is shown; 0: the study has none
    expected JSON -- of a gold pair: the better text by criterion
);
CREATE TABLE slot (
    id SERIAL PRIMARY KEY,
    pool VARCHAR(16) NOT NULL, -- people or simulated: raters who share the slots
    pair_id VARCHAR NOT NULL REFERENCES pair (id),
    number INTEGER NOT NULL, -- 0, 1, …; 2k and 2k + 1 show opposite sides
    first VARCHAR(1) CHECK (first IN ('a', 'b')), -- the pair's text that is shown as A; NULL: not decided yet
    shuffle INTEGER NOT NULL, -- its position in the order of hand-out
    open BOOLEAN NOT NULL DEFAULT TRUE, -- it may be handed out when free
    for_rater INTEGER REFERENCES rater (id), -- for whom a roster keeps it
    held_by INTEGER UNIQUE, -- the presentation that has it; NULL: it is free
    leased_until TIMESTAMPTZ, -- then, if unrated, it is free for others
    UNIQUE (pair_id, pool, number)
);
CREATE INDEX ix_slot_free ON slot (pool, for_rater, shuffle, number) WHERE held_by IS NULL AND open;
CREATE INDEX ix_slot_lease ON slot (leased_until) WHERE leased_until IS NOT NULL;
CREATE TABLE presentation (
    id SERIAL PRIMARY KEY AUTOINCREMENT, -- a page shows a number that was removed: no new row may have it
    slot_id INTEGER REFERENCES slot (id), -- NULL: a judge's, gold, or a repeat
    pair_id VARCHAR NOT NULL REFERENCES pair (id),
    rater_id INTEGER NOT NULL REFERENCES rater (id),
    number INTEGER NOT NULL, -- the slot's; a judge's: 2 × sample, + 1: other order
    first VARCHAR(1) NOT NULL CHECK (first IN ('a', 'b')), -- the pair's text that is shown as A
    role VARCHAR(8) NOT NULL DEFAULT 'study' CHECK (role IN ('study', 'gold', 'repeat')),
    handed_out TIMESTAMPTZ NOT NULL,
    rated_at TIMESTAMPTZ, -- when the first verdict came
    UNIQUE (rater_id, pair_id, role, number)
);
CREATE INDEX ix_presentation_slot ON presentation (slot_id);
CREATE INDEX ix_presentation_pair ON presentation (pair_id);
CREATE INDEX ix_presentation_rater ON presentation (rater_id);
CREATE INDEX ix_presentation_open ON presentation (rater_id) WHERE rated_at IS NULL;
CREATE UNIQUE INDEX uq_presentation_once ON presentation (rater_id, pair_id) WHERE slot_id IS NOT NULL;
CREATE TABLE verdict (
    presentation_id INTEGER NOT NULL REFERENCES presentation (id),
    criterion TEXT NOT NULL,
    revision INTEGER NOT NULL, -- 0, 1, …; the highest is current
    choice VARCHAR(3) NOT NULL CHECK (choice IN ('A', 'tie', 'B')), -- by the letters on the screen
    at TIMESTAMPTZ NOT NULL,
    seconds DOUBLE PRECISION,
    active_seconds DOUBLE PRECISION,
    ends_seen INTEGER, -- of prompt, A and B: how many were on the screen to their end
    PRIMARY KEY (presentation_id, criterion, revision)
);
CREATE TABLE note (
    id SERIAL PRIMARY KEY,
    rater_id INTEGER NOT NULL REFERENCES rater (id),
    presentation_id INTEGER REFERENCES presentation (id),
    kind VARCHAR(16) NOT NULL, -- such as consent, comment or exclude
    detail TEXT NOT NULL, -- text, or JSON, as the kind has it
    at TIMESTAMPTZ NOT NULL
);
CREATE INDEX ix_note_rater ON note (rater_id);
CREATE INDEX ix_note_presentation ON note (presentation_id);
CREATE TABLE closed_round (
    part TEXT NOT NULL, -- whose verdicts decided: a pool's, or a judge's
    number INTEGER NOT NULL,
    grounds JSON NOT NULL, -- the plan, the p of every couple, and how many prompts were rated
    at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (part, number)
);
CREATE TABLE stopped (
    part TEXT NOT NULL,
    method_a TEXT NOT NULL,
    method_b TEXT NOT NULL,
    number INTEGER NOT NULL, -- the last round in which the two are shown
    PRIMARY KEY (part, method_a, method_b)
);
CREATE TABLE instruction (
    id VARCHAR(64) NOT NULL PRIMARY KEY, -- SHA-256 of the settings and the form
    settings VARCHAR(64) NOT NULL, -- SHA-256 of what study.toml decides about the judge's requests
    form TEXT NOT NULL, -- the name of the form: interface, output, and what was left out
    manner TEXT NOT NULL, -- the form in words
    prompt VARCHAR(12) NOT NULL, -- the prompt's version
    description TEXT NOT NULL, -- how the prompt differs from the paper's
    text TEXT NOT NULL -- a whole request, with placeholders for the texts of a pair
);
CREATE TABLE request (
    id SERIAL PRIMARY KEY,
    key VARCHAR(64) NOT NULL, -- SHA-256 of what the study decides about it
    rater_id INTEGER NOT NULL REFERENCES rater (id),
    purpose VARCHAR(12) NOT NULL, -- study or calibration
    pair_id VARCHAR NOT NULL REFERENCES pair (id),
    number INTEGER NOT NULL, -- twice the sample, plus 1 for the other order
    batch VARCHAR(16), -- our name for the batch it is sent in
    provider_id TEXT, -- the provider's name for the batch; NULL until it is known
    state VARCHAR(8) NOT NULL, -- open, answered, unbilled or lost
    instruction VARCHAR(64) NOT NULL REFERENCES instruction (id),
    max_output_tokens INTEGER NOT NULL,
    sent BYTEA NOT NULL, -- the request as it is sent, compressed
    response BYTEA, -- the answer as it came, compressed
    model TEXT, -- the snapshot that the server says it used
    fingerprint TEXT, -- the server's name for its configuration
    input_tokens INTEGER,
    cached_tokens INTEGER,
    output_tokens INTEGER,
    reasoning_tokens INTEGER,
    cost BIGINT, -- billionths of a US dollar: the most it can cost, then its cost
    failure VARCHAR(16), -- why it brought no verdict
    detail TEXT, -- the same in words
    sent_at TIMESTAMPTZ NOT NULL,
    run VARCHAR(16) NOT NULL, -- the run that sends it
    leased_until TIMESTAMPTZ NOT NULL
);
CREATE INDEX ix_request_key ON request (key);
CREATE INDEX ix_request_rater ON request (rater_id);
CREATE INDEX ix_request_pair ON request (pair_id);
CREATE INDEX ix_request_batch ON request (batch);
CREATE INDEX ix_request_instruction ON request (instruction);
CREATE INDEX ix_request_cost ON request (cost);
CREATE INDEX ix_request_open ON request (leased_until) WHERE state = 'open';
CREATE UNIQUE INDEX uq_request_live ON request (key) WHERE state IN ('open', 'answered');
CREATE TABLE calibration (
    settings VARCHAR(64) NOT NULL, -- as in `instruction`
    pair_id VARCHAR NOT NULL REFERENCES pair (id),
    number INTEGER NOT NULL,
    rater_id INTEGER NOT NULL REFERENCES rater (id),
    "check" VARCHAR(12) NOT NULL,
    target VARCHAR(1) NOT NULL, -- the side of the text that the check is about
    orders INTEGER NOT NULL, -- in how many orders the texts are shown
    choices JSON NOT NULL, -- by criterion; null before the answer
    answered_at TIMESTAMPTZ,
    PRIMARY KEY (settings, pair_id, number)
);
CREATE INDEX ix_calibration_rater ON calibration (rater_id);
"""
"""The SQL that creates the tables, with PostgreSQL's types. AUTOINCREMENT is only for SQLite.

SQLite uses a partial index only for queries that contain the index's condition word for word.
"""

TABLE_NAMES = re.findall(r"CREATE TABLE (\w+)", TABLES)

_SQLITE_TYPES = {
    r"SERIAL|BIGINT": "INTEGER",
    r"VARCHAR(\(\d+\))?": "TEXT",
    r"BYTEA": "BLOB",
    r"(\w+) DOUBLE PRECISION": r"\1 REAL CHECK (\1 BETWEEN 0 AND 1e9)",
    r"(\w+) BOOLEAN": r"\1 INTEGER CHECK (\1 IN (0, 1))",
    r"(\w+) TIMESTAMPTZ": r"\1 TEXT CHECK (datetime(\1) IS substr(\1, 1, 19) AND \1 > '0001')",
    r"(\w+) JSON": r"\1 TEXT CHECK (\1 IS NULL OR json_valid(\1) AND \1 GLOB '{*')",
    r"detail TEXT NOT NULL": r"\g<0> CHECK (kind IN ('comment', 'problem', 'skip') "
    "OR json_valid(detail) AND detail GLOB '{*')",
    r"value TEXT NOT NULL": r"\g<0> CHECK (key NOT GLOB 'declared *' OR json_valid(value))",
    r"form TEXT NOT NULL": r"\g<0> CHECK (form GLOB '*/*/*')",
    r"\n\)": "\n) STRICT",
}
"""SQLite's types, by patterns of PostgreSQL's. A strict table refuses values of other types."""

_APPEND_ONLY = dict.fromkeys(("verdict", "note", "closed_round", "stopped"), "TRUE")
_APPEND_ONLY |= {"request": "OLD.response IS NOT NULL"}
"""The rows of each table that cannot be changed or removed, except while a person is erased."""


def write_schema_statements(*, sqlite: bool) -> list[str]:
    """Return the statements that create the tables, and the triggers that forbid changes of rows."""
    tables = re.sub(r" --.*", "", TABLES)
    for pattern, sqlite_type in (_SQLITE_TYPES if sqlite else {" AUTOINCREMENT": ""}).items():
        tables = re.sub(pattern, sqlite_type, tables)
    statements = tables.strip().removesuffix(";").split(";\n")
    for table, condition in _APPEND_ONLY.items():
        is_protected = f"({condition}) AND NOT EXISTS (SELECT 1 FROM setting WHERE key = '{ERASING}')"  # noqa: S608 (constants)
        column = " OF response" if table == "request" else ""
        statements += _write_triggers(table, f"UPDATE{column}", is_protected, sqlite=sqlite)
    return statements


def _write_triggers(table: str, update: str, is_protected: str, *, sqlite: bool) -> list[str]:
    """Return the statements for the triggers that protect a table."""
    if sqlite:
        return [
            f"CREATE TRIGGER {table}_no_{change[:6].lower()} BEFORE {change} ON {table} WHEN {is_protected} "
            f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
            for change in (update, "DELETE")
        ]
    return [
        f"""CREATE FUNCTION {table}_keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF TG_LEVEL = 'STATEMENT' THEN RAISE EXCEPTION '{table} is append-only'; END IF;
        IF {is_protected} THEN RAISE EXCEPTION '{table} is append-only'; END IF;
        IF TG_OP = 'DELETE' THEN RETURN OLD; END IF; RETURN NEW; END $$""",
        f"""CREATE TRIGGER {table}_keep BEFORE {update} OR DELETE ON {table}
        FOR EACH ROW EXECUTE FUNCTION {table}_keep()""",
        f"""CREATE TRIGGER {table}_no_truncate BEFORE TRUNCATE ON {table}
        FOR EACH STATEMENT EXECUTE FUNCTION {table}_keep()""",
    ]


class ConvertedColumn(TypeDecorator[_Item]):
    """A column type that converts values when they are written and read."""

    impl: TypeEngine[_Item] | type[Text] = Text
    cache_ok = True

    def __init__(
        self,
        impl: TypeEngine[_Item],
        to_database: Callable[[_Item], _Item],
        from_database: Callable[[_Item], _Item],
    ) -> None:
        super().__init__()
        self.impl = impl
        self.write = to_database
        self.read = from_database

    def process_bind_param(self, value: _Item | None, dialect: Dialect) -> _Item | None:  # noqa: ARG002
        """Convert a value for the database."""
        return None if value is None else self.write(value)

    def process_result_value(self, value: _Item | None, dialect: Dialect) -> _Item | None:  # noqa: ARG002
        """Convert a value from the database for Python."""
        return None if value is None else self.read(value)


def _to_utc(moment: datetime) -> datetime:
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)


MOMENT = ConvertedColumn(DateTime(timezone=True), _to_utc, _to_utc)
"""A time in UTC: `timestamptz` on PostgreSQL, and on SQLite a text without a zone that sorts by time."""

_COLUMN_TYPES: dict[str, _ColumnType] = {
    "TEXT": ConvertedColumn(Text(), make_storable, str),
    "TIMESTAMPTZ": MOMENT,
    "BYTEA": ConvertedColumn(LargeBinary(), lambda plain: zlib.compress(plain, 1), zlib.decompress),
    "JSON": JSON(none_as_null=True),
}
"""The column types that convert values. Texts are made storable (`make_storable`); bytes are compressed."""

_TYPES = {
    name: _COLUMN_TYPES[kind]
    for name, kind in re.findall(r"^    (\w+) (TEXT|TIMESTAMPTZ|BYTEA|JSON)\b", TABLES, re.MULTILINE)
}
_TYPES |= dict.fromkeys(("now", "until", "since"), MOMENT)
_TYPES |= dict.fromkeys(("for_people", "excluded", "surplus", "is_out"), Boolean())


class Query:
    """An SQL statement. Its parameters and results have the types of columns with the same names.

    A parameter after IN is a list. Making a `Query` takes as long as running it, so `query` keeps each one.
    """

    def __init__(self, sql: str, **types: _ColumnType) -> None:
        """Make a statement. `types` gives the types of names that are not columns."""
        names = set(re.findall(r"\w+", sql))
        column_types = {name: kind for name, kind in {**_TYPES, **types}.items() if name in names}
        lists = re.findall(r"\bIN :(\w+)", sql)
        parameters = set(re.findall(r"(?<!:):(\w+)", sql))
        statement = text(sql).bindparams(
            *(bindparam(name, type_=column_types.get(name), expanding=name in lists) for name in parameters)
        )
        is_read = sql.lstrip().startswith(("SELECT", "WITH"))
        self.statement: Executable = statement.columns(**column_types) if is_read else statement

    def __call__(
        self, db: Connection, rows: Sequence[Mapping[str, object]] = (), /, **values: object
    ) -> CursorResult[*tuple[Any, ...]]:
        """Run the statement with these parameters, or once for each row of parameters."""
        return db.execute(self.statement, rows or values)


query = cache(Query)
"""Return the `Query` for an SQL text, which is made only at the first call."""


def add_rows(db: Connection, table: str, rows: Sequence[Mapping[str, object]]) -> None:
    """Insert rows, which must all have the same columns as the first row."""
    if rows:
        columns = ", ".join(rows[0])
        values = ", ".join(f":{column}" for column in rows[0])
        query(f"INSERT INTO {table} ({columns}) VALUES ({values})")(db, rows)  # noqa: S608 (our names)
