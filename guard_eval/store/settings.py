"""Store the study's settings as they were at the first verdicts."""

import json
from collections.abc import Iterable, Mapping

from sqlalchemy import Connection

from guard_eval.records import (
    PEOPLE_OF,
    DeclaredPart,
    Rater,
    find_declared_part_of_rater,
    make_content_id,
)
from guard_eval.rubric import Criterion
from guard_eval.store.database import Store
from guard_eval.store.schema import query
from guard_eval.study.declared import compare_declared_parts

APP_ADDRESS = "app address"
"""The key of the address at which the app was last served."""

RESULTS_SEEN = "results seen"
"""The key that is stored when a report first shows the results.

Later exclusions were made with knowledge of the results."""

PAIRS_ADDED_LATE = "pairs added late"
"""The key of the time at which pairs were last added to a comparison that had verdicts."""

_CRITERION = "criterion "
_READ = query("SELECT value FROM setting WHERE key = :key")
_STORE = query("""
    INSERT INTO setting (key, value) VALUES (:key, :value)
    ON CONFLICT (key) DO UPDATE SET value = excluded.value
""")

_HAS_RATED = query("SELECT id FROM presentation WHERE rater_id = :rater AND rated_at IS NOT NULL LIMIT 1")
_HAVE_PEOPLE_RATED = query("""
    SELECT presentation.id FROM presentation JOIN rater ON rater.id = presentation.rater_id
    WHERE presentation.rated_at IS NOT NULL AND rater.kind NOT IN :models LIMIT 1
""")

_CRITERIA = query("SELECT key, value FROM setting WHERE key LIKE 'criterion %'")
_HAS_VERDICTS = query("SELECT 1 FROM verdict WHERE criterion = :criterion LIMIT 1")


def read_value(db: Connection, key: str) -> str | None:
    """Return the value that is stored under a key; None if there is none."""
    return _READ(db, key=key).scalar_one_or_none()


def store_value(db: Connection, key: str, value: str) -> None:
    """Store a value under a key in the table `setting`. An earlier value is replaced."""
    _STORE(db, key=key, value=value)


def read_setting(store: Store, key: str) -> str | None:
    """Return the value of a key, such as `RESULTS_SEEN`; None if it is not stored yet."""
    with store.begin_read() as db:
        return read_value(db, key)


def store_setting(store: Store, key: str, value: str) -> None:
    """Store a value under a key. An earlier value is replaced."""
    with store.begin_write() as (db, _):
        store_value(db, key, value)


def read_settings_at_first_verdict(store: Store, part_name: str) -> str | None:
    """Return one part of the settings (`Study.declared`) as stored at the part's first verdict, or None."""
    return read_setting(store, f"declared {make_content_id(part_name)}")


def compare_with_first_verdicts(store: Store, *part_names: str) -> tuple[DeclaredPart, ...]:
    """Compare the present settings of these parts with those at the first verdicts of the parts' raters.

    A judge that study.toml no longer has is a change. Raters without declared settings are left out.
    """
    first = {name: read_settings_at_first_verdict(store, name) for name in part_names}
    removed = {
        name: json.dumps(json.loads(text) | {"judge": None})
        for name, text in first.items()
        if text is not None
    }
    now = removed | dict(store.declared_now)
    return compare_declared_parts({name: now[name] for name in part_names if name in now}, first)


def store_declared_settings(db: Connection, rater: Rater, declared: Mapping[str, str]) -> None:
    """Store the settings that apply to a rater's verdicts, unless settings or verdicts are already stored."""
    part_name = find_declared_part_of_rater(rater.name, rater.kind)
    key = f"declared {make_content_id(part_name)}"
    if part_name not in declared or read_value(db, key) is not None:
        return
    if rater.kind in PEOPLE_OF:
        rated = _HAS_RATED(db, rater=rater.id)
    else:
        rated = _HAVE_PEOPLE_RATED(db, models=list(PEOPLE_OF))
    if rated.first() is None:
        store_value(db, key, declared[part_name])


def store_criteria_wording(store: Store, words: Mapping[str, str]) -> None:
    """Store the current wording of criteria that have no verdicts yet, by name."""
    with store.begin_write() as (db, _):
        for name, text in words.items():
            if not _has_verdicts(db, name):
                store_value(db, _CRITERION + name, text)


def read_criteria_wording(store: Store) -> dict[str, str]:
    """Return the wording of each criterion at the criterion's first verdict, by name."""
    with store.begin_read() as db:
        rows = _CRITERIA(db)
        words = {row.key.removeprefix(_CRITERION): row.value for row in rows}
        return {name: text for name, text in words.items() if _has_verdicts(db, name)}


def describe_reworded_criteria(store: Store, criteria: Iterable[Criterion]) -> list[str]:
    """Describe each criterion that has verdicts and is now worded differently."""
    before = read_criteria_wording(store)
    return [
        f"{criterion.name!r} was asked as {before[criterion.name]!r}, and is now {str(criterion)!r}"
        for criterion in criteria
        if before.get(criterion.name, str(criterion)) != str(criterion)
    ]


def _has_verdicts(db: Connection, criterion: str) -> bool:
    """Return whether there are verdicts on a criterion."""
    return _HAS_VERDICTS(db, criterion=criterion).first() is not None
