"""The pairs of a study: written once, never changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields, replace

from sqlalchemy import ColumnElement, Connection, insert, select

from guard_eval.errors import StudyError
from guard_eval.records import TIE, Pair
from guard_eval.store import schema
from guard_eval.store.handout import occupancy
from guard_eval.store.schema import escape
from guard_eval.store.values import check_name

_FIELDS = [field.name for field in fields(Pair)]

_PART = 500
"""How many pairs go into a statement."""

_POSITIONS = select(schema.occupancy.c.position).where(schema.occupancy.c.pool == occupancy.PEOPLE)


def add_pairs(connection: Connection, pairs: Sequence[Pair]) -> int:
    """Add the pairs that are not stored yet; return their number.

    A stored pair keeps its position. A new one whose position an earlier call filled gets the lowest
    free one, so that a study which grows keeps its sides balanced.

    Must run alone in the pool of people, and among those who add pairs.

    Raises:
        StudyError: A pair is stored with other content, or its methods cannot be told apart in a verdict.
    """
    gold = set(connection.execute(select(schema.gold.c.pair_id)).scalars())
    new: dict[str, Pair] = {}
    for start in range(0, len(pairs), _PART):
        part = pairs[start : start + _PART]
        for pair in part:
            check(pair)
        stored = {
            pair.id: pair for pair in read(connection, schema.pair.c.id.in_([pair.id for pair in part]))
        }
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
        for start in range(0, len(placed), _PART):
            part = placed[start : start + _PART]
            connection.execute(insert(schema.pair), [asdict(pair) for pair in part])
            occupancy.add(connection, part)
    return len(new)


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
    """See that a pair can be stored and its methods be told apart in a verdict.

    Raises:
        StudyError: One of these is not so.
    """
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
