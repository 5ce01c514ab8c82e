"""Store the study's pairs, and gold pairs with a known answer. Pairs are written once and never change."""

import itertools
from collections.abc import Sequence
from dataclasses import asdict

from sqlalchemy import Connection

from guard_eval.errors import StudyError
from guard_eval.records import TIE, Gold, HandOutPlan, JsonObject, Pair
from guard_eval.store.database import LONGEST_ID, Store
from guard_eval.store.schema import Query, add_rows, make_storable, query
from guard_eval.store.settings import PAIRS_ADDED_LATE, store_value
from guard_eval.store.showings import slots

_PAIRS = """
    SELECT id, dataset, prompt_id, prompt, method_a, continuation_a, text_a, method_b, continuation_b, text_b,
        position, for_people, round, expected
    FROM pair WHERE {condition}
"""
_STUDY_PAIRS = query(_PAIRS.format(condition="expected IS NULL"))
_GOLD_PAIRS = query(_PAIRS.format(condition="expected IS NOT NULL"))
_ALL_PAIRS = query(_PAIRS.format(condition="TRUE"))

_POSITIONS = query("SELECT position FROM pair WHERE expected IS NULL")

_RATED_COUPLES = query("""
    SELECT DISTINCT method_a, method_b FROM pair JOIN presentation ON presentation.pair_id = pair.id
    WHERE rated_at IS NOT NULL
""")

_REMOVE = (
    query("DELETE FROM presentation WHERE pair_id IN (SELECT id FROM pair WHERE expected IS NULL)"),
    query("DELETE FROM slot WHERE pair_id IN (SELECT id FROM pair WHERE expected IS NULL)"),
    query("DELETE FROM pair WHERE expected IS NULL"),
)

_FIXED = query("""
    SELECT 1 FROM verdict UNION ALL SELECT 1 FROM request
    UNION ALL SELECT 1 FROM note WHERE presentation_id IS NOT NULL LIMIT 1
""")

_LAST_LEASE = query("SELECT max(leased_until) AS leased_until FROM slot WHERE leased_until > :now")


def add_pairs(
    store: Store, new_pairs: Sequence[Pair], plan: HandOutPlan | None = None, *, replace_all: bool = False
) -> int:
    """Add the pairs that are not stored yet; return their number.

    A stored pair keeps its position. If the position of a new pair is already taken, the pair gets the lowest
    free position, so that sides stay balanced when a study grows. With a `plan`, slots for people are made
    now, not when the first rater comes. `replace_all` removes the stored pairs, the roster and unrated
    presentations; raters, their invitations and gold pairs stay.

    Raises:
        StudyError: A pair is already stored with different content, a prompt's id or a dataset's name is too
            long, or the pairs cannot be replaced.
    """
    with store.begin_write() as (db, now):
        if replace_all:
            if reason := explain_why_pairs_cannot_change(store):
                raise StudyError(f"the pairs cannot be drawn again: {reason}")
            for statement in _REMOVE:
                statement(db)
        taken = set(_POSITIONS(db).scalars())
        rows = _select_new_pairs(db, [asdict(pair) | {"expected": None} for pair in new_pairs])
        filled = taken | {row["position"] for row in rows}
        free = itertools.filterfalse(filled.__contains__, itertools.count())
        for row in sorted(rows, key=lambda row: row["position"]):
            if row["position"] in taken:
                row["position"] = next(free)
        rated = {(row.method_a, row.method_b) for row in _RATED_COUPLES(db)}
        if any((row["method_a"], row["method_b"]) in rated for row in rows):
            store_value(db, PAIRS_ADDED_LATE, now.isoformat())
        add_rows(db, "pair", rows)
        slots.make_missing_slots(db)
        if plan is not None:
            slots.apply_hand_out_plan(store, plan)
        return len(rows)


def add_gold_pairs(store: Store, new_pairs: Sequence[Gold]) -> int:
    """Add the gold pairs that are not stored yet; return their number.

    Raises:
        StudyError: A pair is already stored with different content or another answer, or is a pair of the
            study.
    """
    with store.begin_write() as (db, _):
        rows = _select_new_pairs(
            db, [asdict(entry.pair) | {"expected": dict(entry.expected)} for entry in new_pairs]
        )
        add_rows(db, "pair", rows)
        return len(rows)


def explain_why_pairs_cannot_change(store: Store) -> str | None:
    """Return the reason why the study's pairs cannot be drawn again; None if they can be."""
    with store.begin_write() as (db, now):
        if _FIXED(db).first() is not None:
            return "they have verdicts, comments or requests to a judge; begin a new study"
        until = _LAST_LEASE(db, now=now).scalar()
    return until and f"a rater has a pair open, until {until:%H:%M} UTC at the latest; try again then"


def read_pairs(store: Store) -> list[Pair]:
    """Return the study's pairs, un-blinded and sorted by position: only for the report and the export."""
    return [entry.pair for entry in _run_pair_query(store, _STUDY_PAIRS)]


def read_gold_pairs(store: Store) -> list[Gold]:
    """Return the gold pairs with their answers, sorted by position."""
    return _run_pair_query(store, _GOLD_PAIRS)


def _run_pair_query(store: Store, statement: Query) -> list[Gold]:
    """Return pairs sorted by position. Only gold pairs have an expected answer."""
    with store.begin_read() as db:
        rows = [row._asdict() for row in statement(db)]
    entries = [Gold(expected=row.pop("expected") or {}, pair=Pair(**row)) for row in rows]
    # sorted here, because databases sort texts differently
    return sorted(entries, key=lambda entry: (entry.pair.position, entry.pair.id))


def _select_new_pairs(db: Connection, rows: Sequence[JsonObject]) -> list[JsonObject]:
    """Return the rows of pairs that are not stored yet."""
    rows_by_id = {row.id: row._asdict() for row in _ALL_PAIRS(db)}
    stored = len(rows_by_id)
    for values in rows:
        row = {
            name: make_storable(value) if isinstance(value, str) else value for name, value in values.items()
        }
        for name in ("dataset", "prompt_id"):
            if len(row[name]) > LONGEST_ID:
                raise StudyError(
                    f"the {name} {row[name][:40]!r}… has {len(row[name])} characters; shorten this name to "
                    f"at most {LONGEST_ID} characters"
                )
        a = row["method_a"]
        b = row["method_b"]
        if a == b or TIE in {a, b}:
            raise StudyError(f"pair {row['id']} compares {a!r} with {b!r}; name two methods, not {TIE!r}")
        before = rows_by_id.setdefault(row["id"], row)
        changed = [name for name in row if name != "position" and row[name] != before[name]]
        if changed:
            what = f"the pair {row['id']} is in the study with another {' and '.join(changed)}"
            raise StudyError(f"{what}; begin a new study for new texts")
    return list(rows_by_id.values())[stored:]
