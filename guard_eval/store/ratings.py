"""What raters pressed, as tuples of plain values: a study may have hundreds of thousands of ratings."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Select, case, func, select

from guard_eval.records import RaterKind
from guard_eval.store.database import Store
from guard_eval.store.schema import pair, presentation, rater, slot, verdict
from guard_eval.store.unblind import SURPLUS

SHOWN_COLUMNS = ("presentation", "pair_id", "rater", "role", "side_of_a", "surplus", "excluded")
LETTER_COLUMNS = ("presentation", "criterion", "letter", "seconds")
PAIR_COLUMNS = ("pair_id", "prompt_id", "method_a", "method_b", "characters", "for_people")


def read_shown(store: Store, kind: RaterKind) -> list[tuple[Any, ...]]:
    """Return a row for each presentation that a rater of a kind has rated, with `SHOWN_COLUMNS`.

    `side_of_a` is 1 if the comparison's first method was shown as A, else −1.
    """
    statement = (
        select(
            presentation.c.id,
            presentation.c.pair_id,
            rater.c.name,
            presentation.c.role,
            case((presentation.c.first == "a", 1), else_=-1),
            SURPLUS,
            rater.c.excluded_at.is_not(None),
        )
        .select_from(presentation)
        .join(rater, rater.c.id == presentation.c.rater_id)
        .outerjoin(slot, slot.c.held_by == presentation.c.id)
        .where(rater.c.kind == kind, presentation.c.rated_at.is_not(None))
        .order_by(presentation.c.id)
    )
    return _read(store, statement)


def read_letters(store: Store) -> list[tuple[Any, ...]]:
    """Return a row for each revision of each choice, with `LETTER_COLUMNS`.

    The order is that of presentations, criteria and revisions. `letter` is 1 for A, −1 for B and 0 for a tie.
    `seconds` is the active time of the rating, or all of it where that is not known.
    """
    statement = select(
        verdict.c.presentation_id,
        verdict.c.criterion,
        case((verdict.c.choice == "A", 1), (verdict.c.choice == "B", -1), else_=0),
        func.coalesce(verdict.c.active_seconds, verdict.c.seconds),
    ).order_by(verdict.c.presentation_id, verdict.c.criterion, verdict.c.revision)
    return _read(store, statement)


def read_pairs(store: Store) -> list[tuple[Any, ...]]:
    """Return a row for each pair of the study, with `PAIR_COLUMNS`; `characters` are those of its texts."""
    characters = func.length(pair.c.prompt) + func.length(pair.c.text_a) + func.length(pair.c.text_b)
    statement = select(
        pair.c.id, pair.c.prompt_id, pair.c.method_a, pair.c.method_b, characters, pair.c.for_people
    )
    return _read(store, statement.where(pair.c.expected.is_(None)))


def _read(store: Store, statement: Select[Any]) -> list[tuple[Any, ...]]:
    with store.read() as db:
        cursor = db.execute(statement).cursor  # the driver's tuples: SQLAlchemy's rows take as long again
        return [] if cursor is None else list(cursor.fetchall())
