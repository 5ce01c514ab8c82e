"""Gold pairs: texts beside the study's whose better one is known, to see who reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Literal

from sqlalchemy import Connection, insert, select

from guard_eval.errors import StudyError
from guard_eval.records import Gold, as_shown
from guard_eval.store import pairs, schema
from guard_eval.store.showing import batches
from guard_eval.store.values import check_name


def add_gold(connection: Connection, new: Sequence[Gold]) -> int:
    """Add the gold pairs that are not stored yet; return their number.

    Raises:
        StudyError: A pair is stored with other content or another answer, is one of the study's, or its
            answer is empty or names neither text; or its two texts look the same.
    """
    stored = {entry.pair.id: entry for entry in all_gold(connection)}
    ids = [entry.pair.id for entry in new]
    known = {pair.id for part in batches(ids) for pair in pairs.read(connection, schema.pair.c.id.in_(part))}
    study = known - stored.keys()
    added: dict[str, Gold] = {}
    for entry in new:
        _check(entry)
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
    found = pairs.read(connection, schema.pair.c.id.in_(select(schema.gold.c.pair_id)))
    return [Gold(pair=pair, expected=answers[pair.id]) for pair in found]


def expected(connection: Connection) -> dict[str, dict[str, Literal["a", "b"]]]:
    """Return the better text of every gold pair by criterion."""
    answers: dict[str, dict[str, Literal["a", "b"]]] = {}
    for row in connection.execute(select(schema.gold)):
        answers.setdefault(row.pair_id, {})[row.criterion] = row.expected
    return answers


def _check(entry: Gold) -> None:
    pairs.check(entry.pair)
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
