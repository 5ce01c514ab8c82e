"""Verdicts with the methods' names: the only place where letters on a screen become methods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, case, exists, func, select

from guard_eval.errors import StudyError
from guard_eval.records import CHOICES, TIE, Choice, RaterKind, Role
from guard_eval.store.database import Store
from guard_eval.store.schema import (
    PAIR,
    PRESENTATION,
    RATER,
    SLOT,
    VERDICT,
    pair,
    presentation,
    rater,
    slot,
    verdict,
)

SURPLUS = and_(presentation.slot_id.is_not(None), slot.held_by.is_(None), rater.excluded_at.is_(None))
"""Another rater has the slot; an excluded rater has none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TidyRow:
    """One verdict with the names restored.

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
        role: Why the pair was shown: study, gold or repeat.
        revision: 0 for the first choice, then 1, 2, …; the highest is current.
        handed_out: When the pair was handed out, ISO 8601, UTC.
        prompt_round: The round of the prompt, if comparisons stop when they are decided, else 0.
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
    role: Role = "study"
    revision: int = 0
    handed_out: str = ""
    prompt_round: int = 0


NamedRows = tuple[list[str], list[tuple[Any, ...]]]
"""The names of the columns, and the rows."""

_HELD = PRESENTATION.join(RATER, rater.id == presentation.rater_id).outerjoin(
    SLOT, slot.held_by == presentation.id
)
_SHOWN = _HELD.join(PAIR, pair.id == presentation.pair_id).join(VERDICT)
_IN_ORDER = presentation.first == "a"
_SHOWN_FIRST = case((_IN_ORDER, pair.method_a), else_=pair.method_b)
_SHOWN_LAST = case((_IN_ORDER, pair.method_b), else_=pair.method_a)
_COLUMNS: dict[str, ColumnElement[Any]] = {
    **{name: pair[name] for name in ("dataset", "prompt_id", "method_a", "method_b")},
    **{name: verdict[name] for name in ("criterion", "revision", "at")},
    **{name: verdict[name] for name in ("seconds", "active_seconds", "ends_seen")},
    **{name: presentation[name] for name in ("pair_id", "role", "handed_out")},
    "prompt_round": pair.round,
    "presentation": presentation.id,
    "slot": presentation.number,
    "rater": rater.name,
    "rater_kind": rater.kind,
    "excluded": rater.excluded_at.is_not(None),
    "surplus": SURPLUS,
    "position": verdict.choice,
    "shown_first": _SHOWN_FIRST,
    "verdict": case((verdict.choice == "A", _SHOWN_FIRST), (verdict.choice == "B", _SHOWN_LAST), else_=TIE),
    "length_a": func.length(pair.text_a),
    "length_b": func.length(pair.text_b),
}


_LATER = VERDICT.alias().c
_NEWER = exists().where(
    _LATER.presentation_id == verdict.presentation_id,
    _LATER.criterion == verdict.criterion,
    _LATER.revision > verdict.revision,
)


def tidy(store: Store, *, include_surplus: bool = False, include_excluded: bool = False) -> list[TidyRow]:
    """Return the study's current verdicts, un-blinded, by position, rater, presentation and criterion.

    Gold pairs and repeats are no part of the study. What is surplus or an excluded rater's is left out by
    default.
    """
    wanted = [presentation.role == "study", ~_NEWER]
    if not include_surplus:
        wanted.append(~SURPLUS)
    if not include_excluded:
        wanted.append(rater.excluded_at.is_(None))
    return _read_rows(store, ("place", "pair_id", "rater", "presentation", "criterion"), *wanted)


def history(store: Store) -> list[TidyRow]:
    """Return every revision of every verdict, gold pairs and repeats too, by presentation and criterion."""
    return _read_rows(store, ("presentation", "criterion", "revision"))


def read_counted(db: Connection, criterion: str) -> Sequence[Row[Any]]:
    """Return the verdicts on a criterion that count, with what `tidy` calls their columns."""
    names = ("prompt_round", "dataset", "prompt_id", "method_a", "method_b", "rater", "rater_kind", "verdict")
    columns = [_COLUMNS[name].label(name) for name in names]
    counts = (presentation.role == "study", ~_NEWER, ~SURPLUS, rater.excluded_at.is_(None))
    return db.execute(
        select(*columns).select_from(_SHOWN).where(*counts, verdict.criterion == criterion)
    ).all()


def _read_rows(store: Store, order: Sequence[str], *wanted: ColumnElement[bool]) -> list[TidyRow]:
    """Return the verdicts for which `wanted` holds, in the order of these columns."""
    columns = [column.label(name) for name, column in _COLUMNS.items()]
    statement = select(*columns, pair.position.label("place")).select_from(_SHOWN)
    with store.read() as db:
        rows = db.execute(statement.where(*wanted)).all()
    # sorted here because databases disagree on how text sorts
    return [_restore(row) for row in sorted(rows, key=attrgetter(*order))]


def _restore(row: Any) -> TidyRow:  # noqa: ANN401 (a row of SQLAlchemy)
    if row.position not in CHOICES:
        raise StudyError(
            f"verdict.choice holds {row.position!a}, which is no choice; restore a copy of study.db"
        )
    moments = {name: getattr(row, name).isoformat(timespec="milliseconds") for name in ("at", "handed_out")}
    return TidyRow(**dict(zip(_COLUMNS, row, strict=False)) | moments)


def read_presentations(store: Store, kind: RaterKind) -> NamedRows:
    """Return the presentations that raters of a kind have rated, in the order shown.

    `side_of_a` is 1 if the comparison's first method was shown as A, else −1.
    """
    columns = [_COLUMNS[name].label(name) for name in ("presentation", "pair_id", "rater", "role")]
    columns += [_COLUMNS[name].label(name) for name in ("surplus", "excluded")]
    side = case((_IN_ORDER, 1), else_=-1).label("side_of_a")
    shown = select(*columns, side).select_from(_HELD).order_by(presentation.id)
    return _read_tuples(store, shown.where(rater.kind == kind, presentation.rated_at.is_not(None)))


def read_choices(store: Store) -> NamedRows:
    """Return each revision of each choice, in no order.

    `letter` is 1 for A, −1 for B and 0 for a tie. `seconds` is the active time of the rating, or all of it
    where that is not known.
    """
    letter = case((verdict.choice == "A", 1), (verdict.choice == "B", -1), else_=0).label("letter")
    seconds = func.coalesce(verdict.active_seconds, verdict.seconds).label("seconds")
    columns = (verdict.presentation_id.label("presentation"), verdict.criterion, verdict.revision)
    return _read_tuples(store, select(*columns, letter, seconds))


def read_pairs(store: Store, playing: ColumnElement[bool]) -> NamedRows:
    """Return the pairs of the study; `characters` are those of its texts, and people rate those `playing`."""
    characters = func.length(pair.prompt) + func.length(pair.text_a) + func.length(pair.text_b)
    names = (pair.prompt_id, pair.method_a, pair.method_b)
    known = (characters.label("characters"), (pair.for_people & playing).label("for_people"))
    statement = select(pair.id.label("pair_id"), *names, *known)
    return _read_tuples(store, statement.where(pair.expected.is_(None)))


def _read_tuples(store: Store, statement: Select[Any]) -> NamedRows:
    with store.read() as db:
        cursor = db.execute(statement).cursor  # the driver's tuples: SQLAlchemy's rows take as long again
        return statement.selected_columns.keys(), [] if cursor is None else list(cursor.fetchall())
