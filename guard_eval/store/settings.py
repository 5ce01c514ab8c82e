"""What the database knows of the study's settings: as they were when the first verdicts came."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, exists, select
from sqlalchemy.dialects import postgresql, sqlite

from guard_eval.records import PEOPLE_OF, Rater, content_id, settings_part
from guard_eval.store.database import Store
from guard_eval.store.schema import presentation, rater, setting, verdict

APP_ADDRESS = "app address"
"""Where the app was served last."""

RESULTS_SEEN = "results seen"
"""When a report first showed the results, ISO 8601, UTC. Who is excluded later was excluded knowing them."""

_CRITERION = "criterion "


def read_value(db: Connection, key: str) -> str | None:
    """Return the value of a key, or None if there is none."""
    return db.execute(select(setting.c.value).where(setting.c.key == key)).scalar_one_or_none()


def put_value(db: Connection, key: str, value: str) -> None:
    """Store a value under a key, in place of an earlier one."""
    insert = sqlite.insert if db.dialect.name == "sqlite" else postgresql.insert
    row = insert(setting).values(key=key, value=value)
    db.execute(row.on_conflict_do_update(index_elements=[setting.c.key], set_={"value": value}))


def read(store: Store, key: str) -> str | None:
    """Return what is stored under `APP_ADDRESS` or `RESULTS_SEEN`; None before that."""
    with store.read() as db:
        return read_value(db, key)


def set_app_address(store: Store, url: str) -> None:
    """Store where the app is served."""
    with store.write() as (db, _):
        put_value(db, APP_ADDRESS, url)


def set_results_seen(store: Store) -> None:
    """Store the present time as the one at which the results were first seen, unless there is one."""
    with store.write() as (db, now):
        if read_value(db, RESULTS_SEEN) is None:
            put_value(db, RESULTS_SEEN, now.isoformat())


def check_writable(store: Store) -> None:
    """Change a row, so that a database in which nothing can be saved is noticed: a `StudyError`."""
    with store.write() as (db, now):
        put_value(db, "last check", now.isoformat())


def declared(store: Store, part: str) -> str | None:
    """Return a part of `Study.declared` as the first verdict of its raters found it; None before that."""
    return read(store, _declared_key(part))


def keep_declared(db: Connection, who: Rater, declared: Mapping[str, str]) -> bool:
    """Store the settings that hold for a rater, unless the part has verdicts, for which they cannot vouch.

    Returns whether they were stored before: then nobody need ask again.
    """
    part = settings_part(who.name, who.kind)
    if part not in declared or read_value(db, _declared_key(part)) is not None:
        return True
    of_part = rater.c.id == who.id if who.kind in PEOPLE_OF else rater.c.kind.not_in(PEOPLE_OF)
    rated = (presentation.c.rated_at.is_not(None), presentation.c.rater_id == rater.c.id, of_part)
    if db.execute(select(presentation.c.id).where(*rated).limit(1)).first() is None:
        put_value(db, _declared_key(part), declared[part])
    return False


def _declared_key(part: str) -> str:
    return f"declared {content_id(part)}"


def set_criteria(store: Store, words: Mapping[str, str]) -> None:
    """Store in which words criteria are asked from now on, by name.

    A criterion on which there are verdicts keeps the words that it had.
    """
    with store.write() as (db, _):
        for name, words_of_name in words.items():
            if not _has_verdicts(db, name):
                put_value(db, _CRITERION + name, words_of_name)


def criteria(store: Store) -> dict[str, str]:
    """Return in which words the criteria with verdicts were asked when the first one came, by name."""
    with store.read() as db:
        rows = db.execute(select(setting.c.key, setting.c.value).where(setting.c.key.startswith(_CRITERION)))
        words = {row.key.removeprefix(_CRITERION): row.value for row in rows}
        return {name: text for name, text in words.items() if _has_verdicts(db, name)}


def _has_verdicts(db: Connection, criterion: str) -> bool:
    return bool(db.execute(select(exists().where(verdict.c.criterion == criterion))).scalar_one())
