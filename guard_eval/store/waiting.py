"""What a judge would still be shown: for a look ahead that leaves no trace in the database."""

from __future__ import annotations

from sqlalchemy import Connection, false, select

from guard_eval.records import BlindPair, Rater
from guard_eval.store.orders import Orders
from guard_eval.store.raters import pool_of
from guard_eval.store.schema import pair, presentation
from guard_eval.store.values import Plan

NOT_HANDED_OUT = 0
"""The presentation's number where there is no presentation; no verdict can come back under it."""


def waiting(connection: Connection, orders: Orders, model: str, plan: Plan) -> list[BlindPair]:
    """Return every showing of `plan` that the model of that name has not rated, in the order to come."""
    orders.refresh(connection)
    pool = pool_of(Rater(id=0, name=model, kind="model"))
    rated = select(presentation.c.pair_id, presentation.c.slot).where(
        presentation.c.pool == pool,
        presentation.c.superseded == false(),
        presentation.c.rated_at.is_not(None),
    )
    done = {(row.pair_id, row.slot) for row in connection.execute(rated)}
    texts = {row.id: row for row in connection.execute(select(pair))}
    shown = []
    for pair_id in orders.of(plan.seed, model):
        row = texts[pair_id]
        for slot in range(plan.slots):
            if (pair_id, slot) not in done:
                sides = (row.text_a, row.text_b)
                a, b = sides if orders.first(pair_id, slot) == "a" else sides[::-1]
                shown.append(BlindPair(presentation=NOT_HANDED_OUT, prompt=row.prompt, text_a=a, text_b=b))
    return shown
