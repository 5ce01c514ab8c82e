"""Rounds in the database: which pairs are shown now, and what was decided after each round.

A decision is recorded once, so that everybody is handed the same pairs. Whether today's verdicts would still
decide so is for the report to say.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from typing import TYPE_CHECKING

from sqlalchemy import ColumnElement, Connection, and_, func, or_, select

from guard_eval.errors import StudyError
from guard_eval.records import Couple, RoundPlan
from guard_eval.store import unblind
from guard_eval.store.schema import ROUND, closed_round, pair

if TYPE_CHECKING:
    from guard_eval.rounds import Contest

MOST_ROUNDS = 100


def read_stopped(db: Connection, part: str) -> tuple[int, dict[Couple, int]]:
    """Return the number of rounds that are over, and the last round of each couple that has stopped."""
    rows = db.execute(select(ROUND).where(closed_round.part == part).order_by(closed_round.number)).all()
    return len(rows), {(a, b): row.number for row in rows for a, b in row.detail["stopped"]}


def is_playing(db: Connection, part: str, *, ahead: int = 1) -> ColumnElement[bool]:
    """Return the condition of pairs that are shown in the rounds until now, and in the next ones `ahead`."""
    done, stopped = read_stopped(db, part)
    last = [
        or_(pair.method_a != a, pair.method_b != b, pair.round <= number)
        for (a, b), number in stopped.items()
    ]
    return and_(pair.round <= done + ahead, *last)


def has_later(db: Connection, part: str) -> bool:
    """Return whether a later round has pairs that may come to be shown."""
    later = (is_playing(db, part, ahead=MOST_ROUNDS), ~is_playing(db, part))
    return db.execute(select(pair.id).where(*later).limit(1)).first() is not None


def read_contest(db: Connection, plan: RoundPlan, part: str, showings: int, *, now: int = 0) -> Contest:
    """Return the verdicts on the rounds that are over, and on the next `now` ones.

    Args:
        db: The study's database.
        plan: How it is decided which couples go on.
        part: Whose verdicts: `people`, `simulated`, or a judge's part of the settings.
        showings: The number of verdicts that a pair needs.
        now: The number of further rounds.

    Raises:
        StudyError: The study's pairs are not in rounds.
    """
    from guard_eval.rounds import Contest  # noqa: PLC0415 (it takes a second)

    done, stopped = read_stopped(db, part)
    drawn = select(pair.round, pair.method_a, pair.method_b, func.count().label("prompts"))
    drawn = drawn.where(pair.expected.is_(None)).group_by(pair.round, pair.method_a, pair.method_b)
    sizes = {row.round: row.prompts for row in db.execute(drawn)}
    if 0 in sizes:
        raise StudyError("the study's pairs are not in rounds, as pairs.design wants; run: guard-eval pair")
    prompts: dict[int, dict[tuple[str, str], dict[Couple, float]]] = defaultdict(lambda: defaultdict(dict))
    for row in unblind.read_scores(db, part, plan.criterion):
        if row.showings >= showings:
            scores = prompts[row.round][row.dataset, row.prompt_id]
            scores[row.method_a, row.method_b] = row.net / row.showings
    last = max(sizes, default=0)
    return Contest(
        plan=plan,
        sizes=tuple(sizes.get(number, 0) for number in range(1, last + 1)),
        couples=tuple(sorted({(row.method_a, row.method_b) for row in db.execute(drawn)})),
        stopped=stopped,
        prompts=[list(prompts[number].values()) for number in range(1, min(done + now, last) + 1)],
    )


def close_round(db: Connection, plan: RoundPlan, part: str, showings: int, now: datetime) -> bool:
    """Record what follows from the round that is over; False if there is no round any more."""
    from guard_eval.rounds import compare, find_stopping  # noqa: PLC0415 (it takes a second)

    if read_contest(db, plan, part, showings).is_over:
        return False
    contest = read_contest(db, plan, part, showings, now=1)
    compared = compare(contest)
    detail = {
        "stopped": find_stopping(contest, compared),
        "p": [[*each.couple, each.p_adjusted] for each in compared],
        "prompts": sum(map(len, contest.prompts)),
    }
    number = len(contest.prompts)
    db.execute(ROUND.insert().values(part=part, number=number, detail=detail, at=now))
    return True
