"""Verdicts with the methods' names: the only place where letters on a screen become methods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Literal

from sqlalchemy import ColumnElement, Connection, Select, and_, exists, false, func, select
from sqlalchemy.engine import RowMapping

from guard_eval.records import TIE, Choice, Pair, RaterKind
from guard_eval.store import gold, pairs
from guard_eval.store.pairs import all_pairs, read
from guard_eval.store.rows import Balance, CheckRow, HistoryRow, PairBalance, RaterBalance, TidyRow
from guard_eval.store.schema import presentation, rater, verdict


def tidy(connection: Connection, *, include_surplus: bool, include_excluded: bool) -> list[TidyRow]:
    """Return the study's current verdicts by pair's position, rater's name, presentation and criterion."""
    wanted = [presentation.c.role == "study"]
    if not include_surplus:
        wanted.append(presentation.c.superseded == false())
    if not include_excluded:
        wanted.append(rater.c.excluded_at.is_(None))
    pairs = {pair.id: pair for pair in all_pairs(connection)}
    rows = [(pairs[row["pair_id"]], row) for row in current(connection, *wanted)]
    rows.sort(key=lambda found: (found[0].position, found[0].id, found[1]["rater"], *_place(found[1])))
    return [_tidy(pair, row) for pair, row in rows]


def history(connection: Connection) -> list[HistoryRow]:
    """Return every revision of every verdict, by presentation, criterion and revision."""
    pairs = {pair.id: pair for pair in read(connection)}
    rows = connection.execute(_joined()).mappings()
    ordered = sorted(rows, key=lambda row: (*_place(row), row["revision"]))
    return [_history(pairs[row["pair_id"]], row) for row in ordered]


def resolve(pair: Pair, first: Literal["a", "b"], choice: Choice) -> str:
    """Return the method a choice names, or `tie`, for a pair whose text `first` was shown as A."""
    if choice == "tie":
        return TIE
    return pair.method_a if (choice == "A") == (first == "a") else pair.method_b


def current(connection: Connection, *wanted: ColumnElement[bool]) -> list[RowMapping]:
    """Return the verdicts of the highest revisions for which `wanted` holds, with presentation and rater."""
    highest = (
        select(verdict.c.presentation_id, verdict.c.criterion, func.max(verdict.c.revision).label("revision"))
        .group_by(verdict.c.presentation_id, verdict.c.criterion)
        .subquery()
    )
    latest = and_(*(verdict.c[column.name] == column for column in highest.c))
    return list(connection.execute(_joined().join(highest, latest).where(*wanted)).mappings())


def moment(when: datetime) -> str:
    """Return a moment as rows have it: ISO 8601 to the millisecond."""
    return when.isoformat(timespec="milliseconds")


def _joined() -> Select[tuple[object, ...]]:
    return (
        select(verdict, presentation, rater.c.name.label("rater"), rater.c.kind, rater.c.excluded_at)
        .join(presentation, presentation.c.id == verdict.c.presentation_id)
        .join(rater, rater.c.id == presentation.c.rater_id)
    )


def _place(row: RowMapping) -> tuple[int, str]:
    return row["presentation_id"], row["criterion"]


def _tidy(pair: Pair, row: RowMapping) -> TidyRow:
    return TidyRow(
        pair_id=pair.id,
        dataset=pair.dataset,
        prompt_id=pair.prompt_id,
        method_a=pair.method_a,
        method_b=pair.method_b,
        rater=row["rater"],
        criterion=row["criterion"],
        verdict=resolve(pair, row["first"], row["choice"]),
        rater_kind=row["kind"],
        presentation=row["presentation_id"],
        slot=row["slot"],
        shown_first=resolve(pair, row["first"], "A"),
        seconds=row["seconds"],
        active_seconds=row["active_seconds"],
        at=moment(row["at"]),
        length_a=len(pair.text_a),
        length_b=len(pair.text_b),
        surplus=row["superseded"],
        position=row["choice"],
        excluded=row["excluded_at"] is not None,
    )


def _history(pair: Pair, row: RowMapping) -> HistoryRow:
    return HistoryRow(
        presentation=row["presentation_id"],
        pair_id=pair.id,
        dataset=pair.dataset,
        method_a=pair.method_a,
        method_b=pair.method_b,
        rater=row["rater"],
        rater_kind=row["kind"],
        role=row["role"],
        slot=row["slot"],
        shown_first=resolve(pair, row["first"], "A"),
        criterion=row["criterion"],
        revision=row["revision"],
        position=row["choice"],
        verdict=resolve(pair, row["first"], row["choice"]),
        seconds=row["seconds"],
        active_seconds=row["active_seconds"],
        handed_out=moment(row["handed_out"]),
        at=moment(row["at"]),
        surplus=row["superseded"],
        excluded=row["excluded_at"] is not None,
    )


def balance(connection: Connection) -> Balance:
    """Count the sides in the showings whose verdicts count: rated, not surplus, the rater not excluded."""
    counted = (
        presentation.c.role == "study",
        presentation.c.rated_at.is_not(None),
        presentation.c.superseded == false(),
        rater.c.excluded_at.is_(None),
    )
    shown = (presentation.c.pair_id, presentation.c.first, rater.c.name, rater.c.kind)
    statement = (
        select(*shown, func.count().label("times"))
        .join(rater, rater.c.id == presentation.c.rater_id)
        .where(*counted)
        .group_by(*shown)
    )
    pairs = {pair.id: pair for pair in all_pairs(connection)}
    sides: Counter[tuple[str, RaterKind, str, bool]] = Counter()
    firsts: Counter[tuple[str, RaterKind, str]] = Counter()
    for row in connection.execute(statement):
        pair = pairs[row.pair_id]
        sides[row.name, row.kind, pair.method_a, row.first == "a"] += row.times
        sides[row.name, row.kind, pair.method_b, row.first == "b"] += row.times
        firsts[row.pair_id, row.kind, row.first] += row.times
    seen = sorted({(name, method, kind) for name, kind, method, _ in sides})
    rated = {(number, kind) for number, kind, _ in firsts}
    return Balance(
        raters=tuple(
            RaterBalance(
                rater=name,
                rater_kind=kind,
                method=method,
                first=sides[name, kind, method, True],
                second=sides[name, kind, method, False],
            )
            for name, method, kind in seen
        ),
        pairs=tuple(
            PairBalance(
                pair_id=number,
                rater_kind=kind,
                method_a=pairs[number].method_a,
                method_b=pairs[number].method_b,
                a_first=firsts[number, kind, "a"],
                b_first=firsts[number, kind, "b"],
            )
            for number, kind in sorted(rated, key=lambda key: (pairs[key[0]].position, *key))
        ),
    )


_Earlier = dict[tuple[int, str, str], str]
"""What a rater chose of a pair on a criterion: a method or `tie`."""


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
    earlier: _Earlier = {}
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
            earlier[row["rater_id"], row["pair_id"], row["criterion"]] = choice
    for pair, row in rows:
        before = earlier.get((row["rater_id"], pair.id, row["criterion"]))
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
