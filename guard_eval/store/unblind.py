"""Verdicts with the methods' names: the only place where letters on a screen become methods."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Literal, TypeVar

from sqlalchemy import ColumnElement, Connection, Select, and_, exists, false, func, select
from sqlalchemy.engine import RowMapping

from guard_eval.records import TIE, Choice, Pair, RaterKind, Role
from guard_eval.store import pairs
from guard_eval.store.pairs import all_pairs, read
from guard_eval.store.schema import presentation, rater, verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class TidyRow:
    """One current verdict with the names restored.

    Attributes:
        pair_id: `Pair.id`.
        dataset: The pair's dataset.
        prompt_id: Its prompt, which pairs of several comparisons share.
        method_a: The first method of the comparison, whichever side it was shown on.
        method_b: The second method.
        rater: The rater's name.
        criterion: A criterion of the rubric.
        verdict: The better method's name, or `tie`.
        rater_kind: person, model, simulated or simulated_model; no statistic pools kinds.
        presentation: The number under which the pair was shown.
        slot: Which of the pair's planned showings it was.
        shown_first: The method whose text was shown as A.
        seconds: From the pair's appearance to the submit, where known.
        active_seconds: Those of them in focus and not idle, where known.
        at: When it was saved, ISO 8601, UTC.
        length_a: Length of `method_a`'s text in characters.
        length_b: Length of `method_b`'s text in characters.
        surplus: The slot was handed out again before this verdict came.
        position: The letter that was pressed, or `tie`.
        excluded: The rater is excluded; such rows come only where they are wanted.
    """

    pair_id: str
    dataset: str
    prompt_id: str
    method_a: str
    method_b: str
    rater: str
    criterion: str
    verdict: str
    rater_kind: RaterKind
    presentation: int
    slot: int
    shown_first: str
    seconds: float | None
    active_seconds: float | None
    at: str
    length_a: int
    length_b: int
    surplus: bool
    position: Choice
    excluded: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class HistoryRow:
    """One revision of one verdict with the names restored; gold pairs and repeats are among them.

    What is not named here is as in `TidyRow`.

    Attributes:
        role: Why the pair was shown: study, gold or repeat.
        revision: 0 for the first choice, then 1, 2, …; the highest is current.
        handed_out: When the pair was handed out, ISO 8601, UTC.
        at: When this revision was saved, ISO 8601, UTC.
    """

    presentation: int
    pair_id: str
    dataset: str
    method_a: str
    method_b: str
    rater: str
    rater_kind: RaterKind
    role: Role
    slot: int
    shown_first: str
    criterion: str
    revision: int
    position: Choice
    verdict: str
    seconds: float | None
    active_seconds: float | None
    handed_out: str
    at: str
    surplus: bool
    excluded: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckRow:
    """How a rater did on one criterion of a gold pair or of a pair shown twice.

    Attributes:
        rater: The rater's name.
        rater_kind: person, model, simulated or simulated_model.
        check: What it was.
        presentation: That of the gold pair, or of the second showing.
        pair_id: `Pair.id`.
        criterion: A criterion of the rubric.
        expected: The better method of a gold pair; for a repeat the rater's first choice, a method or `tie`.
        given: What the rater chose, likewise.
        passed: Both are the same.
        at: When it was saved, ISO 8601, UTC.
    """

    rater: str
    rater_kind: RaterKind
    check: Literal["gold", "repeat"]
    presentation: int
    pair_id: str
    criterion: str
    expected: str
    given: str
    passed: bool
    at: str


_Kind = TypeVar("_Kind", TidyRow, HistoryRow, CheckRow)


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
    return [_row(TidyRow, pair, row) for pair, row in rows]


def history(connection: Connection) -> list[HistoryRow]:
    """Return every revision of every verdict, by presentation, criterion and revision."""
    pairs = {pair.id: pair for pair in read(connection)}
    rows = connection.execute(_joined()).mappings()
    ordered = sorted(rows, key=lambda row: (*_place(row), row["revision"]))
    return [_row(HistoryRow, pairs[row["pair_id"]], row) for row in ordered]


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


def _row(kind: type[_Kind], pair: Pair, row: RowMapping, **more: object) -> _Kind:
    """Return a verdict of `pair` as a row of `kind`, with the values that `kind` has fields for."""
    values = {
        "pair_id": pair.id,
        "dataset": pair.dataset,
        "prompt_id": pair.prompt_id,
        "method_a": pair.method_a,
        "method_b": pair.method_b,
        "length_a": len(pair.text_a),
        "length_b": len(pair.text_b),
        "presentation": row["presentation_id"],
        "rater": row["rater"],
        "rater_kind": row["kind"],
        "role": row["role"],
        "slot": row["slot"],
        "criterion": row["criterion"],
        "revision": row["revision"],
        "position": row["choice"],
        "verdict": resolve(pair, row["first"], row["choice"]),
        "shown_first": resolve(pair, row["first"], "A"),
        "seconds": row["seconds"],
        "active_seconds": row["active_seconds"],
        "handed_out": moment(row["handed_out"]),
        "at": moment(row["at"]),
        "surplus": row["superseded"],
        "excluded": row["excluded_at"] is not None,
        **more,
    }
    return kind(**{field.name: values[field.name] for field in fields(kind)})


_Earlier = dict[tuple[int, str, str], str]
"""What a rater chose of a pair on a criterion: a method or `tie`."""


def checks(connection: Connection) -> list[CheckRow]:
    """Return every check on every rater, excluded ones among them, in the order they were shown."""
    by_id = {pair.id: pair for pair in pairs.read(connection)}
    rows = [(by_id[row["pair_id"]], row) for row in current(connection, presentation.c.role != "study")]
    found = [*_gold(connection, rows), *_repeats(connection, rows)]
    return sorted(found, key=lambda row: (row.presentation, row.criterion))


def _gold(connection: Connection, rows: list[tuple[Pair, RowMapping]]) -> Iterator[CheckRow]:
    answers = pairs.expected(connection)
    for pair, row in rows:
        better = answers.get(pair.id, {}).get(row["criterion"])
        if row["role"] == "gold" and better is not None:
            yield _check(pair, row, expected=pair.method_a if better == "a" else pair.method_b)


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
            yield _check(pair, row, expected=before)


def _check(pair: Pair, row: RowMapping, *, expected: str) -> CheckRow:
    given = resolve(pair, row["first"], row["choice"])
    return _row(
        CheckRow, pair, row, check=row["role"], expected=expected, given=given, passed=given == expected
    )
