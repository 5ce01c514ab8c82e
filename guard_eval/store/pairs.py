"""The pairs of a study, and gold pairs, whose better text is known: written once, never changed."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from datetime import datetime
from typing import Literal

from sqlalchemy import ColumnElement, Connection, delete, exists, func, insert, select

from guard_eval.errors import StudyError
from guard_eval.records import TIE, Gold, Pair, as_shown
from guard_eval.store import schema
from guard_eval.store.handout import occupancy
from guard_eval.store.judging.schema import request
from guard_eval.store.schema import batches, check_name, escape

_FIELDS = [field.name for field in fields(Pair)]

_STUDY = (
    select(schema.pair.c.id).where(schema.pair.c.id.not_in(select(schema.gold.c.pair_id))).scalar_subquery()
)

_POSITIONS = select(schema.pair.c.position).where(schema.pair.c.id.not_in(select(schema.gold.c.pair_id)))


def add_pairs(connection: Connection, pairs: Sequence[Pair]) -> int:
    """Add the pairs that are not stored yet; return their number.

    A stored pair keeps its position. A new one whose position an earlier call filled gets the lowest
    free one, so that a study which grows keeps its sides balanced.

    Must run alone in the pool of people, and among those who add pairs.
    """
    gold = set(connection.execute(select(schema.gold.c.pair_id)).scalars())
    new: dict[str, Pair] = {}
    for pair in pairs:
        check(pair)
    for part in batches(pairs):
        ids = schema.pair.c.id.in_([pair.id for pair in part])
        stored = {pair.id: pair for pair in read(connection, ids)}
        for pair in part:
            if pair.id in gold:
                raise StudyError(f"the pair {pair.id!r} is a gold pair already; the study needs other texts")
            before = stored.get(pair.id) or new.get(pair.id)
            if before is None:
                new[pair.id] = pair
            elif replace(before, position=pair.position) != pair:
                raise StudyError(_differing(before, pair))
    if new:
        taken = set(connection.execute(_POSITIONS).scalars())
        placed = _place(new.values(), taken)
        for part in batches(placed):
            connection.execute(insert(schema.pair), [asdict(pair) for pair in part])
        occupancy.complete(connection, occupancy.PEOPLE)
    return len(new)


def wait_for_ratings(connection: Connection) -> None:
    """Let ratings under way end, and new ones wait for this transaction; on SQLite all writes do so."""
    if connection.dialect.name != "sqlite":
        connection.exec_driver_sql("LOCK TABLE presentation IN EXCLUSIVE MODE")


def why_fixed(connection: Connection, *, now: datetime) -> str | None:
    """Return why the pairs must stay: of verdicts, comments, a judge's requests, or a lease."""
    for table, what in (
        (schema.verdict, "there are verdicts on them"),
        (request, "a judge was asked about them"),
    ):
        if connection.execute(select(exists().select_from(table))).scalar_one():
            return what
    shown = schema.presentation.c.pair_id.in_(_STUDY)
    commented = select(exists().where(schema.note.c.presentation_id == schema.presentation.c.id, shown))
    if connection.execute(commented).scalar_one():
        return "raters commented on them"
    lease = select(func.max(schema.presentation.c.leased_until)).where(
        shown, schema.presentation.c.rated_at.is_(None), schema.HOLDS_SLOT
    )
    until = connection.execute(lease).scalar_one()
    if until is not None and until > now:
        return f"a rater has one open, until {until:%H:%M} UTC at the latest; do it then"
    return None


def remove_all(connection: Connection) -> None:
    """Remove the study's pairs with their hand-out; the database refuses it where there is a verdict."""
    for table in (schema.occupancy, schema.assignment, schema.presentation):
        connection.execute(delete(table).where(table.c.pair_id.in_(_STUDY)))
    connection.execute(delete(schema.pair).where(schema.pair.c.id.in_(_STUDY)))
    occupancy.forget(connection)
    schema.put(connection, schema.DRAWING, secrets.token_hex(8))


def _differing(before: Pair, pair: Pair) -> str:
    names = [name for name in _FIELDS if name != "position" and getattr(before, name) != getattr(pair, name)]
    return (
        f"pair {pair.id!r} is in the study with another {' and '.join(names)}; "
        "verdicts belong to the texts shown, so begin a new study for new texts"
    )


def all_pairs(connection: Connection) -> list[Pair]:
    """Return the study's pairs in position order; gold pairs are none of them."""
    return read(connection, schema.pair.c.id.not_in(select(schema.gold.c.pair_id)))


def read(connection: Connection, *wanted: ColumnElement[bool]) -> list[Pair]:
    """Return the stored pairs, gold ones among them, for which `wanted` holds, in position order."""
    statement = select(*(schema.pair.c[name] for name in _FIELDS)).where(*wanted)
    pairs = [Pair(**row) for row in connection.execute(statement).mappings()]
    # sorted here because databases disagree on how text sorts
    return sorted(pairs, key=lambda pair: (pair.position, pair.id))


def check(pair: Pair) -> None:
    """Check that a pair can be stored and that a verdict can distinguish its methods."""
    check_name("pair id", pair.id)
    if escape(pair.id) != pair.id:
        raise StudyError(f"the pair id {pair.id!r} has characters that no database stores; use Pair.make_id")
    if pair.method_a == pair.method_b:
        raise StudyError(f"pair {pair.id!r} compares {pair.method_a!r} with itself; give it two methods")
    if TIE in {pair.method_a, pair.method_b}:
        raise StudyError(
            f"pair {pair.id!r} has a method named {TIE!r}, which means no method in a verdict; rename it"
        )


def _place(pairs: Iterable[Pair], taken: set[int]) -> list[Pair]:
    kept = [pair for pair in pairs if pair.position not in taken]
    displaced = [pair for pair in pairs if pair.position in taken]
    filled = taken | {pair.position for pair in kept}
    free = (position for position in range(len(filled) + len(displaced)) if position not in filled)
    return kept + [
        replace(pair, position=next(free)) for pair in sorted(displaced, key=lambda pair: pair.position)
    ]


def add_gold(connection: Connection, new: Sequence[Gold]) -> int:
    """Add the gold pairs that are not stored yet; return their number (`Store.add_gold`)."""
    stored = {entry.pair.id: entry for entry in all_gold(connection)}
    ids = [entry.pair.id for entry in new]
    known = {pair.id for part in batches(ids) for pair in read(connection, schema.pair.c.id.in_(part))}
    study = known - stored.keys()
    added: dict[str, Gold] = {}
    for entry in new:
        _check_gold(entry)
        if entry.pair.id in study:
            raise StudyError(f"the pair {entry.pair.id!r} is one of the study's; use other texts for gold")
        before = stored.get(entry.pair.id) or added.get(entry.pair.id)
        if before is None:
            added[entry.pair.id] = entry
        elif replace(before.pair, position=entry.pair.position) != entry.pair or before.expected != dict(
            entry.expected
        ):
            raise StudyError(
                f"the gold pair {entry.pair.id!r} is there with other texts or another answer; "
                "give the new one an id of its own"
            )
    if added:
        connection.execute(insert(schema.pair), [asdict(entry.pair) for entry in added.values()])
        connection.execute(
            insert(schema.gold),
            [
                {"pair_id": number, "criterion": criterion, "expected": text}
                for number, entry in added.items()
                for criterion, text in entry.expected.items()
            ],
        )
    return len(added)


def all_gold(connection: Connection) -> list[Gold]:
    """Return the gold pairs in position order."""
    answers = expected(connection)
    found = read(connection, schema.pair.c.id.in_(select(schema.gold.c.pair_id)))
    return [Gold(pair=pair, expected=answers[pair.id]) for pair in found]


def expected(connection: Connection) -> dict[str, dict[str, Literal["a", "b"]]]:
    """Return the better text of every gold pair by criterion."""
    answers: dict[str, dict[str, Literal["a", "b"]]] = {}
    for row in connection.execute(select(schema.gold)):
        answers.setdefault(row.pair_id, {})[row.criterion] = row.expected
    return answers


def _check_gold(entry: Gold) -> None:
    check(entry.pair)
    if as_shown(entry.pair.text_a) == as_shown(entry.pair.text_b):
        raise StudyError(
            f"the gold pair {entry.pair.id!r} shows the same text twice; give it two texts, one of them worse"
        )
    answer: Mapping[str, str] = entry.expected
    if not answer:
        raise StudyError(f"the gold pair {entry.pair.id!r} has no expected answer; give one for a criterion")
    for criterion, text in answer.items():
        check_name("criterion", criterion)
        if text not in {"a", "b"}:
            raise StudyError(
                f"the gold pair {entry.pair.id!r} expects {text!r} on {criterion!r}; write 'a' or 'b'"
            )
