"""The pairs of a study, and gold pairs, whose better text is known: written once, never changed."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, delete, func, insert, select

from guard_eval.errors import StudyError
from guard_eval.records import TIE, Gold, Pair, Plan, as_shown
from guard_eval.store.database import Store
from guard_eval.store.handout import make_missing_slots
from guard_eval.store.requests import request
from guard_eval.store.schema import check_name, note, pair, presentation, slot, storable, verdict

_FIELDS = [field.name for field in fields(Pair)]
_TEXTS = [field.name for field in fields(Pair) if field.type == "str" and field.name != "id"]
_IS_STUDY = pair.c.expected.is_(None)
_COMPARED = [name for name in _FIELDS if name != "position"]

_Expected = dict[str, Literal["a", "b"]]


def add(store: Store, new: Sequence[Pair], plan: Plan | None = None, *, replace_all: bool = False) -> int:
    """Add the pairs that are not stored yet; return their number.

    A stored pair keeps its position. A new one whose position an earlier call filled gets the lowest free
    one, so that a study which grows keeps its sides balanced.

    Args:
        store: The study's.
        new: The pairs.
        plan: How people will rate them: their slots are made now, and not when the first rater comes.
        replace_all: Remove the pairs that are stored, with the roster and what was handed out unrated.
            Raters, their invitations and gold pairs stay.

    Raises:
        StudyError: A pair is stored with other content, or the pairs cannot be replaced.
    """
    with store.write() as (db, now):
        if replace_all:
            if reason := _why_fixed(db, now):
                raise StudyError(f"the pairs cannot be drawn again: {reason}")
            for table in (presentation, slot):
                db.execute(delete(table).where(table.c.pair_id.in_(select(pair.c.id).where(_IS_STUDY))))
            db.execute(delete(pair).where(_IS_STUDY))
        taken = set(db.execute(select(pair.c.position).where(_IS_STUDY)).scalars())
        added = _position(
            [entry.pair for entry in _select_new(db, [Gold(pair=each, expected={}) for each in new])], taken
        )
        if added:
            db.execute(insert(pair), [asdict(each) for each in added])
        make_missing_slots(store, db, plan)
        return len(added)


def why_fixed(store: Store) -> str | None:
    """Return why the study's pairs cannot be drawn again, ever or just now; None where they can."""
    with store.read() as db:
        return _why_fixed(db, store.time(db))


def read(store: Store) -> list[Pair]:
    """Return all pairs of the study, un-blinded, in position order: for the report and the export only."""
    with store.read() as db:
        return read_pairs(db, _IS_STUDY)


def add_gold(store: Store, new: Sequence[Gold]) -> int:
    """Add the gold pairs that are not stored yet; return their number.

    Raises:
        StudyError: A pair is stored with other content or another answer, is one of the study's, or its
            answer is empty or names neither text.
    """
    for entry in new:
        _check_gold(entry)
    with store.write() as (db, _):
        added = _select_new(db, new)
        if added:
            db.execute(
                insert(pair), [asdict(each.pair) | {"expected": dict(each.expected)} for each in added]
            )
        return len(added)


def read_gold(store: Store) -> list[Gold]:
    """Return the gold pairs with their answers, in position order."""
    with store.read() as db:
        return _read_gold(db)


def read_pairs(db: Connection, *wanted: ColumnElement[bool]) -> list[Pair]:
    """Return the stored pairs, gold ones among them, for which `wanted` holds, in position order."""
    rows = db.execute(select(*(pair.c[name] for name in _FIELDS)).where(*wanted)).mappings()
    # sorted here because databases disagree on how text sorts
    return sorted((Pair(**row) for row in rows), key=lambda each: (each.position, each.id))


def expected_answers(db: Connection) -> dict[str, _Expected]:
    """Return the better text of every gold pair by criterion."""
    rows = db.execute(select(pair.c.id, pair.c.expected).where(~_IS_STUDY))
    return {row.id: row.expected for row in rows}


def _read_gold(db: Connection) -> list[Gold]:
    answers = expected_answers(db)
    return [Gold(pair=each, expected=answers[each.id]) for each in read_pairs(db, ~_IS_STUDY)]


def _select_new(db: Connection, entries: Sequence[Gold]) -> list[Gold]:
    """Return the pairs that are not stored; those of the study expect nothing."""
    answers = expected_answers(db)
    known = {each.id: Gold(pair=each, expected=answers.get(each.id, {})) for each in read_pairs(db)}
    stored = len(known)
    for raw in entries:
        entry = replace(raw, pair=_storable(raw.pair))
        _check(entry.pair)
        before = known.setdefault(entry.pair.id, entry)
        if bool(before.expected) != bool(entry.expected):
            raise StudyError(
                f"the pair {entry.pair.id!r} is in the study and gold; give gold pairs other texts"
            )
        changed = [name for name in _COMPARED if getattr(before.pair, name) != getattr(entry.pair, name)]
        changed += ["answer"] if before.expected != entry.expected else []
        if changed:
            raise StudyError(
                f"the pair {entry.pair.id!r} is in the study with another {' and '.join(changed)}; "
                "verdicts belong to the texts shown, so begin a new study for new texts"
            )
    return list(known.values())[stored:]


def _why_fixed(db: Connection, now: object) -> str | None:
    """Return why the pairs must stay: verdicts, comments, a judge's requests, or a lease."""
    reasons = {
        "there are verdicts on them": verdict.c.presentation_id,
        "a judge was asked about them": request.c.id,
        "raters commented on them": note.c.presentation_id,
    }
    for reason, column in reasons.items():
        if db.execute(select(column).where(column.is_not(None)).limit(1)).first() is not None:
            return reason
    until = db.execute(select(func.max(slot.c.leased_until)).where(slot.c.leased_until > now)).scalar_one()
    return until and f"a rater has one open, until {until:%H:%M} UTC at the latest; do it then"


def _storable(each: Pair) -> Pair:
    texts: dict[str, Any] = {name: storable(getattr(each, name)) for name in _TEXTS}
    return replace(each, **texts)


def _check(each: Pair) -> None:
    """Check that a pair can be stored and that a verdict can distinguish its methods."""
    check_name("pair id", each.id)
    if storable(each.id) != each.id:
        raise StudyError(f"the pair id {each.id!r} has characters that no database stores; use Pair.make_id")
    if each.method_a == each.method_b:
        raise StudyError(f"pair {each.id!r} compares {each.method_a!r} with itself; give it two methods")
    if TIE in {each.method_a, each.method_b}:
        raise StudyError(
            f"pair {each.id!r} has a method named {TIE!r}, which means no method in a verdict; rename it"
        )


def _position(pairs: Sequence[Pair], taken: set[int]) -> list[Pair]:
    """Move pairs whose positions are taken to the lowest free ones."""
    kept = [each for each in pairs if each.position not in taken]
    displaced = sorted((each for each in pairs if each.position in taken), key=lambda each: each.position)
    filled = taken | {each.position for each in kept}
    free = (position for position in itertools.count() if position not in filled)
    return kept + [replace(each, position=position) for each, position in zip(displaced, free, strict=False)]


def _check_gold(entry: Gold) -> None:
    if as_shown(entry.pair.text_a) == as_shown(entry.pair.text_b):
        raise StudyError(
            f"the gold pair {entry.pair.id!r} shows the same text twice; give it two texts, one of them worse"
        )
    if not entry.expected:
        raise StudyError(f"the gold pair {entry.pair.id!r} has no expected answer; give one for a criterion")
    for criterion, better in entry.expected.items():
        check_name("criterion", criterion)
        if better not in {"a", "b"}:
            raise StudyError(
                f"the gold pair {entry.pair.id!r} expects {better!r} on {criterion!r}; write 'a' or 'b'"
            )
