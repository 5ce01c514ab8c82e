"""On which side the methods stood: per rater as near to even as hand-out got, per pair exactly."""

from __future__ import annotations

from collections import Counter

from sqlalchemy import Connection, false, func, select

from guard_eval.records import RaterKind
from guard_eval.store.pairs import all_pairs
from guard_eval.store.rows import Balance, PairBalance, RaterBalance
from guard_eval.store.schema import presentation, rater


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
