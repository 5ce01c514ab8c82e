"""What each judge has taken so far: requests, tokens and money, over all runs."""

from __future__ import annotations

from sqlalchemy import ColumnElement, Connection, and_, case, func, select

from guard_eval.store.judge_schema import answer, request
from guard_eval.store.judge_values import Spend
from guard_eval.store.schema import rater

_BILLION = 10**9


def spend(connection: Connection) -> list[Spend]:
    """Return one row per judge that was ever asked, by name."""
    sent = request.c.state != "released"
    done = request.c.state == "answered"
    unmetered = and_(done, answer.c.input_tokens.is_(None) | answer.c.output_tokens.is_(None))
    statement = (
        select(
            rater.c.name.label("judge"),
            _count(sent).label("requests"),
            _count(done).label("answers"),
            _count(request.c.state == "lost").label("lost"),
            _count(request.c.state == "open").label("open"),
            _count(unmetered).label("unmetered"),
            *(_sum(answer.c[name]).label(name) for name in _TOKENS),
            _sum(case((done, request.c.booked))).label("usd"),
            _sum(case((~done, request.c.booked))).label("held_usd"),
            _count(and_(sent, request.c.booked.is_(None))).label("unpriced"),
        )
        .join(rater, rater.c.id == request.c.rater_id)
        .outerjoin(answer, and_(answer.c.key == request.c.key, answer.c.attempt == request.c.attempt))
        .group_by(rater.c.name)
        .order_by(rater.c.name)
    )
    rows = []
    for row in connection.execute(statement).mappings():
        counts = {name: int(value) for name, value in row.items() if name not in {"judge", *_MONEY}}
        money = {name: int(row[name]) / _BILLION for name in _MONEY}
        rows.append(Spend(judge=row["judge"], **counts, **money))  # type: ignore[arg-type]
    return rows


_TOKENS = ("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens")
_MONEY = ("usd", "held_usd")


def _count(condition: ColumnElement[bool]) -> ColumnElement[int]:
    return func.coalesce(func.sum(case((condition, 1), else_=0)), 0)


def _sum(column: ColumnElement[int]) -> ColumnElement[int]:
    return func.coalesce(func.sum(column), 0)
