"""How raters did on gold pairs, and on pairs they were shown again with the sides swapped."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection, exists, select
from sqlalchemy.engine import RowMapping

from guard_eval.records import Pair
from guard_eval.store import gold, pairs
from guard_eval.store.rows import CheckRow
from guard_eval.store.schema import presentation
from guard_eval.store.unblind import current, moment, resolve

_Said = dict[tuple[int, str, str], str]
"""What a rater said of a pair on a criterion: a method or `tie`."""


def checks(connection: Connection) -> list[CheckRow]:
    """Return every check on every rater, excluded ones among them, in the order they were shown."""
    by_id = {pair.id: pair for pair in pairs.read(connection)}
    rows = [(by_id[row["pair_id"]], row) for row in current(connection, presentation.c.role != "study")]
    found = [*_gold(connection, rows), *_repeats(connection, rows)]
    return sorted(found, key=lambda row: (row.presentation, row.criterion))


def _gold(connection: Connection, rows: list[tuple[Pair, RowMapping]]) -> Iterator[CheckRow]:
    answers = gold.expected(connection)
    for pair, row in rows:
        better = answers.get(pair.id, {}).get(row["criterion"])
        if row["role"] == "gold" and better is not None:
            yield _row(pair, row, expected=pair.method_a if better == "a" else pair.method_b)


def _repeats(connection: Connection, rows: list[tuple[Pair, RowMapping]]) -> Iterator[CheckRow]:
    said: _Said = {}
    by_id = {pair.id: pair for pair, row in rows if row["role"] == "repeat"}
    again = presentation.alias()
    shown_twice = exists(
        select(again.c.id).where(
            again.c.role == "repeat",
            again.c.rater_id == presentation.c.rater_id,
            again.c.pair_id == presentation.c.pair_id,
        )
    )
    for row in current(connection, presentation.c.role == "study", shown_twice):
        if row["pair_id"] in by_id:
            choice = resolve(by_id[row["pair_id"]], row["first"], row["choice"])
            said[row["rater_id"], row["pair_id"], row["criterion"]] = choice
    for pair, row in rows:
        before = said.get((row["rater_id"], pair.id, row["criterion"]))
        if row["role"] == "repeat" and before is not None:
            yield _row(pair, row, expected=before)


def _row(pair: Pair, row: RowMapping, *, expected: str) -> CheckRow:
    given = resolve(pair, row["first"], row["choice"])
    return CheckRow(
        rater=row["rater"],
        rater_kind=row["kind"],
        check=row["role"],
        presentation=row["presentation_id"],
        pair_id=pair.id,
        criterion=row["criterion"],
        expected=expected,
        given=given,
        passed=given == expected,
        at=moment(row["at"]),
    )
