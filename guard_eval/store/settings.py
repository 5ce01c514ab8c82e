"""What the database knows of the study's settings: as they were when the first verdicts came."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, bindparam, delete, insert, literal, select

from guard_eval.records import PEOPLE_OF, Rater, content_id, settings_part
from guard_eval.store.database import Store
from guard_eval.store.schema import PRESENTATION, RATER, SETTING, presentation, rater, setting, verdict

APP_ADDRESS = "app address"
"""Where the app was served last."""

RESULTS_SEEN = "results seen"
"""When a report first showed the results, ISO 8601, UTC. Who is excluded later was excluded knowing them."""

_CRITERION = "criterion "
_VALUE = select(setting.value).where(setting.key == bindparam("asked"))


def read_value(db: Connection, key: str) -> str | None:
    """Return the value of a key, or None if there is none."""
    return db.execute(_VALUE, {"asked": key}).scalar_one_or_none()


def put_value(db: Connection, key: str, value: str) -> None:
    """Store a value under a key, in place of an earlier one."""
    db.execute(delete(SETTING).where(setting.key == key))
    db.execute(insert(SETTING).values(key=key, value=value))


def read(store: Store, key: str) -> str | None:
    """Return what is stored under `APP_ADDRESS` or `RESULTS_SEEN`; None before that."""
    with store.read() as db:
        return read_value(db, key)


def put(store: Store, key: str, value: str | None = None, *, keep: bool = False) -> None:
    """Store a value, by default the present time, in place of an earlier one unless it is to be kept."""
    with store.write() as (db, now):
        if not keep or read_value(db, key) is None:
            put_value(db, key, value or now.isoformat())


def declared(store: Store, part: str) -> str | None:
    """Return a part of `Study.declared` as the first verdict of its raters found it; None before that."""
    return read(store, f"declared {content_id(part)}")


def keep_declared(db: Connection, who: Rater, declared: Mapping[str, str]) -> None:
    """Store the settings that hold for a rater, unless the part has verdicts, for which they cannot vouch."""
    part = settings_part(who.name, who.kind)
    key = f"declared {content_id(part)}"
    if part not in declared or read_value(db, key) is not None:
        return
    rated = (
        select(presentation.id)
        .join_from(PRESENTATION, RATER)
        .where(presentation.rated_at.is_not(None))
        .limit(1)
    )
    if who.kind in PEOPLE_OF:
        rated = rated.where(rater.id == who.id)
    else:
        rated = rated.where(rater.kind.not_in(PEOPLE_OF))
    if db.execute(rated).first() is None:
        put_value(db, key, declared[part])


def set_criteria(store: Store, words: Mapping[str, str]) -> None:
    """Store in which words the criteria without verdicts are asked from now on, by name."""
    with store.write() as (db, _):
        for name, text in words.items():
            if not _has_verdicts(db, name):
                put_value(db, _CRITERION + name, text)


def criteria(store: Store) -> dict[str, str]:
    """Return in which words the criteria with verdicts were asked when the first one came, by name."""
    with store.read() as db:
        rows = db.execute(select(SETTING).where(setting.key.startswith(_CRITERION)))
        words = {row.key.removeprefix(_CRITERION): row.value for row in rows}
        return {name: text for name, text in words.items() if _has_verdicts(db, name)}


def _has_verdicts(db: Connection, criterion: str) -> bool:
    return db.execute(select(literal(1)).where(verdict.criterion == criterion).limit(1)).first() is not None
