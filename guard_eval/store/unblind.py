"""Verdicts with the methods' names: the only place where letters on a screen become methods."""

from __future__ import annotations

from typing import Literal

from sqlalchemy import Connection, and_, false, func, select
from sqlalchemy.engine import RowMapping

from guard_eval.records import TIE, Choice, Pair
from guard_eval.store.pairs import all_pairs
from guard_eval.store.schema import presentation, rater, verdict
from guard_eval.store.values import TidyRow


def tidy(connection: Connection, *, include_surplus: bool) -> list[TidyRow]:
    """Return every current verdict by pair's position, rater's name, presentation and criterion."""
    pairs = {pair.id: pair for pair in all_pairs(connection)}
    rows = [(pairs[row["pair_id"]], row) for row in _current(connection, include_surplus=include_surplus)]
    rows.sort(key=lambda found: (found[0].position, found[0].id, found[1]["rater"], *_place(found[1])))
    return [_tidy(pair, row) for pair, row in rows]


def resolve(pair: Pair, first: Literal["a", "b"], choice: Choice) -> str:
    """Return the method a choice names, or `tie`, for a pair whose text `first` was shown as A."""
    if choice == "tie":
        return TIE
    return pair.method_a if (choice == "A") == (first == "a") else pair.method_b


def _current(connection: Connection, *, include_surplus: bool) -> list[RowMapping]:
    highest = (
        select(verdict.c.presentation_id, verdict.c.criterion, func.max(verdict.c.revision).label("revision"))
        .group_by(verdict.c.presentation_id, verdict.c.criterion)
        .subquery()
    )
    statement = (
        select(verdict, presentation, rater.c.name.label("rater"), rater.c.kind)
        .join(highest, and_(*(verdict.c[column.name] == column for column in highest.c)))
        .join(presentation, presentation.c.id == verdict.c.presentation_id)
        .join(rater, rater.c.id == presentation.c.rater_id)
    )
    if not include_surplus:
        statement = statement.where(presentation.c.superseded == false())
    return list(connection.execute(statement).mappings())


def _place(row: RowMapping) -> tuple[int, str]:
    return row["presentation_id"], row["criterion"]


def _tidy(pair: Pair, row: RowMapping) -> TidyRow:
    return TidyRow(
        pair_id=pair.id,
        dataset=pair.dataset,
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
        at=row["at"].isoformat(timespec="milliseconds"),
        length_a=len(pair.text_a),
        length_b=len(pair.text_b),
        surplus=row["superseded"],
    )
