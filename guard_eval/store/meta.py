"""What the database says of the study as a whole, such as its settings' hash when the first verdict came."""

from __future__ import annotations

from sqlalchemy import Connection, exists, select
from sqlalchemy.dialects import postgresql, sqlite

from guard_eval.store.schema import meta, verdict

_HASH = "study_hash"


def study_hash(connection: Connection) -> str | None:
    """Return the settings' hash as the first verdict found it; None before that."""
    return connection.execute(select(meta.c.value).where(meta.c.key == _HASH)).scalar_one_or_none()


def set_with_first_verdict(connection: Connection, value: str) -> None:
    """Store the settings' hash if there is no verdict yet; later it would vouch for what it did not see."""
    if connection.execute(select(exists().select_from(verdict))).scalar_one():
        return
    insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    connection.execute(insert(meta).values(key=_HASH, value=value).on_conflict_do_nothing())


def put(connection: Connection, key: str, value: str) -> None:
    """Store a value under a key, in place of what was there."""
    insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    new = insert(meta).values(key=key, value=value)
    connection.execute(new.on_conflict_do_update(index_elements=[meta.c.key], set_={"value": value}))
