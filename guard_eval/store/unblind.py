"""Verdicts with the methods' names: the only place where letters on a screen become methods."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Literal, TypeVar

from sqlalchemy import ColumnElement, Connection, Select, and_, exists, or_, select
from sqlalchemy.engine import RowMapping

from guard_eval.records import TIE, Choice, Pair, RaterKind, Role
from guard_eval.store.database import Store
from guard_eval.store.pairs import expected_answers, read_pairs
from guard_eval.store.schema import presentation, rater, slot, verdict


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
        ends_seen: How many of prompt, A and B were on the screen to their end before saving, where known.
        at: When it was saved, ISO 8601, UTC.
        length_a: Length of `method_a`'s text in characters.
        length_b: Length of `method_b`'s text in characters.
        surplus: Another rater had taken the slot before this verdict came.
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
    ends_seen: int | None = None
    at: str
    length_a: int
    length_b: int
    surplus: bool
    position: Choice
    excluded: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class HistoryRow(TidyRow):
    """One revision of one verdict with the names restored; gold pairs and repeats are among them.

    Attributes:
        role: Why the pair was shown: study, gold or repeat.
        revision: 0 for the first choice, then 1, 2, …; the highest is current.
        handed_out: When the pair was handed out, ISO 8601, UTC.
    """

    role: Role
    revision: int
    handed_out: str


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
        answer: What the rater chose, likewise.
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
    answer: str
    passed: bool
    at: str


_Kind = TypeVar("_Kind", TidyRow, HistoryRow, CheckRow)


def tidy(store: Store, *, include_surplus: bool = False, include_excluded: bool = False) -> list[TidyRow]:
    """Return the study's current verdicts, un-blinded, by position, rater, presentation and criterion.

    Gold pairs and repeats are no part of the study. What is surplus or an excluded rater's is left out by
    default.
    """
    wanted = [presentation.c.role == "study"]
    if not include_surplus:
        wanted.append(~SURPLUS)
    if not include_excluded:
        wanted.append(rater.c.excluded_at.is_(None))
    with store.read() as db:
        rows = _read_current(db, *wanted)
        pairs = _read_pairs(db)
    result = [_restore(TidyRow, pairs[row["pair_id"]], row) for row in rows]
    positions = {pair.id: pair.position for pair in pairs.values()}
    result.sort(
        key=lambda row: (positions[row.pair_id], row.pair_id, row.rater, row.presentation, row.criterion)
    )
    return result


def history(store: Store) -> list[HistoryRow]:
    """Return every revision of every verdict, un-blinded, by presentation, criterion and revision."""
    with store.read() as db:
        rows = db.execute(_joined()).mappings().all()
        pairs = _read_pairs(db)
    result = [_restore(HistoryRow, pairs[row["pair_id"]], row) for row in rows]
    return sorted(result, key=lambda row: (row.presentation, row.criterion, row.revision))


def checks(store: Store) -> list[CheckRow]:
    """Return how raters did on gold pairs and repeats, excluded ones among them, in the order shown."""
    with store.read() as db:
        rows = _read_current(db, presentation.c.role != "study")
        pairs = _read_pairs(db) if rows else {}
        answers = expected_answers(db)
        earlier = {
            (row["rater_id"], row["pair_id"], row["criterion"]): resolve(
                pairs[row["pair_id"]], row["first"], row["choice"]
            )
            for row in _read_earlier(db)
        }
    result = []
    for row in rows:
        pair = pairs[row["pair_id"]]
        if row["role"] == "gold":
            better = answers.get(pair.id, {}).get(row["criterion"])
            expected = None if better is None else resolve(pair, better, "A")
        else:
            expected = earlier.get((row["rater_id"], pair.id, row["criterion"]))
        if expected is not None:
            answer = resolve(pair, row["first"], row["choice"])
            more = {
                "check": row["role"],
                "expected": expected,
                "answer": answer,
                "passed": answer == expected,
            }
            result.append(_restore(CheckRow, pair, row, **more))
    return sorted(result, key=lambda row: (row.presentation, row.criterion))


def resolve(pair: Pair, first: Literal["a", "b"], choice: Choice) -> str:
    """Return the method a choice names, or `tie`, for a pair whose text `first` was shown as A."""
    if choice == "tie":
        return TIE
    return pair.method_a if (choice == "A") == (first == "a") else pair.method_b


_later = presentation.alias("later")
SURPLUS = and_(
    presentation.c.slot_id.is_not(None),
    slot.c.held_by.is_(None),
    or_(
        rater.c.excluded_at.is_(None),
        exists().where(
            _later.c.slot_id == presentation.c.slot_id,
            _later.c.id > presentation.c.id,
            _later.c.handed_out < rater.c.excluded_at,
        ),
    ),
)
"""Another rater has the slot, or had it when the rater was excluded."""


def _joined() -> Select[tuple[object, ...]]:
    return (
        select(
            verdict,
            presentation,
            rater.c.name.label("rater"),
            rater.c.kind,
            rater.c.excluded_at,
            SURPLUS.label("surplus"),
        )
        .join(presentation, presentation.c.id == verdict.c.presentation_id)
        .join(rater, rater.c.id == presentation.c.rater_id)
        .outerjoin(slot, slot.c.held_by == presentation.c.id)
    )


def _read_current(db: Connection, *wanted: ColumnElement[bool]) -> list[RowMapping]:
    """Return the verdicts of the highest revisions for which `wanted` holds."""
    later = verdict.alias()
    newer = exists().where(
        later.c.presentation_id == verdict.c.presentation_id,
        later.c.criterion == verdict.c.criterion,
        later.c.revision > verdict.c.revision,
    )
    return list(db.execute(_joined().where(~newer, *wanted)).mappings())


def _read_pairs(db: Connection) -> dict[str, Pair]:
    return {pair.id: pair for pair in read_pairs(db)}


def _read_earlier(db: Connection) -> list[RowMapping]:
    """Return the verdicts on pairs that their raters were shown again later."""
    repeat = presentation.alias()
    shown_twice = exists().where(
        repeat.c.role == "repeat",
        repeat.c.rater_id == presentation.c.rater_id,
        repeat.c.pair_id == presentation.c.pair_id,
    )
    return _read_current(db, presentation.c.role == "study", shown_twice)


def _restore(kind: type[_Kind], pair: Pair, row: RowMapping, **more: object) -> _Kind:
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
        "slot": row["number"],
        "criterion": row["criterion"],
        "revision": row["revision"],
        "position": row["choice"],
        "verdict": resolve(pair, row["first"], row["choice"]),
        "shown_first": resolve(pair, row["first"], "A"),
        "seconds": row["seconds"],
        "active_seconds": row["active_seconds"],
        "ends_seen": row["ends_seen"],
        "handed_out": moment(row["handed_out"]),
        "at": moment(row["at"]),
        "surplus": bool(row["surplus"]),
        "excluded": row["excluded_at"] is not None,
        **more,
    }
    return kind(**{name: values[name] for name in _FIELDS[kind]})


_FIELDS = {kind: [field.name for field in fields(kind)] for kind in (TidyRow, HistoryRow, CheckRow)}


def moment(when: datetime) -> str:
    """Return a moment as rows have it: ISO 8601 to the millisecond."""
    return when.isoformat(timespec="milliseconds")
