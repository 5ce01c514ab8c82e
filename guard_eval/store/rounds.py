"""Rounds in the database: which pairs are shown now, and what was decided after each round.

A decision is recorded once, so that everybody is handed the same pairs. Whether today's verdicts would still
decide so is for the report to say.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict
from datetime import datetime
from statistics import fmean

from sqlalchemy import ColumnElement, Connection, and_, func, or_, select

from guard_eval.records import Contest, Couple, RoundPlan, part_of
from guard_eval.store import unblind
from guard_eval.store.schema import ROUND, closed_round, pair

MOST_ROUNDS = 100


def read_stopped(db: Connection, part: str) -> tuple[int, dict[Couple, int]]:
    """Return the number of rounds that are over, and the last round of each couple that has stopped."""
    rows = db.execute(select(ROUND).where(closed_round.part == part).order_by(closed_round.number)).all()
    return len(rows), {(a, b): row.number for row in rows for a, b in row.detail["stopped"]}


def is_playing(db: Connection, part: str, *, ahead: int = MOST_ROUNDS) -> ColumnElement[bool]:
    """Return the condition of pairs that are shown in the rounds until now, and in the next ones `ahead`."""
    done, stopped = read_stopped(db, part)
    last = [
        or_(pair.method_a != a, pair.method_b != b, pair.round <= number)
        for (a, b), number in stopped.items()
    ]
    return and_(pair.expected.is_(None), pair.round <= done + ahead, *last)


def read_playing(db: Connection, part: str, *, after: int = 0) -> list[tuple[Couple, int]]:
    """Return the couples that go on after a round, each with the number of its pairs from then on."""
    statement = select(pair.method_a, pair.method_b, func.count()).where(
        is_playing(db, part), pair.round > after
    )
    rows = db.execute(statement.group_by(pair.method_a, pair.method_b)).all()
    return [((row[0], row[1]), row[2]) for row in rows]


def read_contest(db: Connection, part: str, plan: RoundPlan | None = None, *, now: int = 0) -> Contest:
    """Return the verdicts on the rounds that are over, and on the next `now` ones.

    Args:
        db: The study's database.
        part: Whose verdicts: a pool's, or a judge's part of the settings.
        plan: How comparisons stop; by default as it was when the last round was over.
        now: The number of further rounds.
    """
    done, stopped = read_stopped(db, part)
    if plan is None:
        last = select(closed_round.detail).where(closed_round.part == part, closed_round.number == done)
        plan = RoundPlan(**db.execute(last).scalar_one()["plan"])
    drawn = select(pair.round, pair.method_a, pair.method_b, func.count()).where(pair.expected.is_(None))
    counts = db.execute(drawn.group_by(pair.round, pair.method_a, pair.method_b)).all()
    sizes = {row[0]: row[3] for row in counts}
    scores: dict[tuple[int, str, str], dict[Couple, list[int]]] = defaultdict(lambda: defaultdict(list))
    for row in unblind.read_counted(db, plan.criterion):
        if part == part_of(row.rater, row.rater_kind) and row.prompt_round <= done + now:
            score = (row.verdict == row.method_a) - (row.verdict == row.method_b)
            scores[row.prompt_round, row.dataset, row.prompt_id][row.method_a, row.method_b].append(score)
    return Contest(
        plan=plan,
        sizes=tuple(sizes.get(number, 0) for number in range(1, 1 + max(sizes, default=0))),
        couples=tuple(sorted({(row[1], row[2]) for row in counts})),
        done=done + now,
        stopped=stopped,
        prompts=[
            (key[0], {couple: fmean(each) for couple, each in couples.items() if len(each) >= plan.showings})
            for key, couples in scores.items()
        ],
    )


def close_round(db: Connection, now: datetime, part: str, plan: RoundPlan) -> bool:
    """Record what follows from the round that is over; False if there is no round any more."""
    from guard_eval.rounds import compare, find_stopping  # noqa: PLC0415 (it takes a second)

    contest = read_contest(db, part, plan, now=1)
    if contest.done > len(contest.sizes) or not contest.playing(contest.done):
        return False
    compared = compare(contest)
    detail = {
        "plan": asdict(plan),
        "stopped": find_stopping(contest, compared),
        "p": [[*each.couple, each.p_adjusted] for each in compared],
        "prompts": len(contest.prompts),
    }
    db.execute(ROUND.insert().values(part=part, number=contest.done, detail=detail, at=now))
    return True
