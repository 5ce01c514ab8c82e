"""Verdicts with the methods' names: the only place where letters on a screen become methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Row, and_, case, exists, func, select

from guard_eval.records import TIE, Choice, RaterKind, Role
from guard_eval.store.database import Store
from guard_eval.store.schema import pair, presentation, rater, slot, verdict

SURPLUS = and_(presentation.c.slot_id.is_not(None), slot.c.held_by.is_(None), rater.c.excluded_at.is_(None))
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


_IN_ORDER = presentation.c.first == "a"
_SHOWN_FIRST = case((_IN_ORDER, pair.c.method_a), else_=pair.c.method_b)
_SHOWN_LAST = case((_IN_ORDER, pair.c.method_b), else_=pair.c.method_a)
_COLUMNS: dict[str, ColumnElement[Any]] = {
    **{name: pair.c[name] for name in ("dataset", "prompt_id", "method_a", "method_b")},
    **{name: verdict.c[name] for name in ("criterion", "revision", "at")},
    **{name: verdict.c[name] for name in ("seconds", "active_seconds", "ends_seen")},
    **{name: presentation.c[name] for name in ("pair_id", "role", "handed_out")},
    "presentation": presentation.c.id,
    "slot": presentation.c.number,
    "rater": rater.c.name,
    "rater_kind": rater.c.kind,
    "excluded": rater.c.excluded_at.is_not(None),
    "surplus": SURPLUS,
    "position": verdict.c.choice,
    "shown_first": _SHOWN_FIRST,
    "verdict": case(
        (verdict.c.choice == "A", _SHOWN_FIRST), (verdict.c.choice == "B", _SHOWN_LAST), else_=TIE
    ),
    "length_a": func.length(pair.c.text_a),
    "length_b": func.length(pair.c.text_b),
}


def tidy(store: Store, *, include_surplus: bool = False, include_excluded: bool = False) -> list[TidyRow]:
    """Return the study's current verdicts, un-blinded, by position, rater, presentation and criterion.

    Gold pairs and repeats are no part of the study. What is surplus or an excluded rater's is left out by
    default.
    """
    later = verdict.alias()
    newer = exists().where(
        later.c.presentation_id == verdict.c.presentation_id,
        later.c.criterion == verdict.c.criterion,
        later.c.revision > verdict.c.revision,
    )
    wanted = [presentation.c.role == "study", ~newer]
    if not include_surplus:
        wanted.append(~SURPLUS)
    if not include_excluded:
        wanted.append(rater.c.excluded_at.is_(None))
    return _read_rows(store, *wanted)


def history(store: Store) -> list[TidyRow]:
    """Return every revision of every verdict, gold pairs and repeats too, by presentation and criterion."""
    rows = _read_rows(store)
    return sorted(rows, key=lambda row: (row.presentation, row.criterion, row.revision))


def _read_rows(store: Store, *wanted: ColumnElement[bool]) -> list[TidyRow]:
    """Return the verdicts for which `wanted` holds, by position, rater, presentation and criterion."""
    statement = (
        select(pair.c.position.label("place"), *(column.label(name) for name, column in _COLUMNS.items()))
        .select_from(verdict)
        .join(presentation, presentation.c.id == verdict.c.presentation_id)
        .join(pair, pair.c.id == presentation.c.pair_id)
        .join(rater, rater.c.id == presentation.c.rater_id)
        .outerjoin(slot, slot.c.held_by == presentation.c.id)
        .where(*wanted)
    )
    with store.read() as db:
        # sorted here because databases disagree on how text sorts
        rows = sorted(
            db.execute(statement),
            key=lambda row: (row[0], row.pair_id, row.rater, row.presentation, row.criterion),
        )
    return [_restore(row) for row in rows]


def _restore(row: Row[Any]) -> TidyRow:
    moments = {name: getattr(row, name).isoformat(timespec="milliseconds") for name in ("at", "handed_out")}
    return TidyRow(**dict(zip(_COLUMNS, row[1:], strict=True)) | moments)
