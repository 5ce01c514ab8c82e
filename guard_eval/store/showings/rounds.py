"""Store a study's rounds: find the pairs that raters see now, and record which comparisons stop.

The decision after a round is recorded only once, so that all raters get the same pairs. The report says
whether the current verdicts still support the decision.
"""

from collections import defaultdict
from dataclasses import asdict
from datetime import datetime
from statistics import fmean

from sqlalchemy import Connection

from guard_eval.records import Contest, Couple, RoundPlan, find_deciding_group
from guard_eval.store import unblind
from guard_eval.store.schema import add_rows, query

MOST_ROUNDS = 100

PLAYING = """
    pair.expected IS NULL
    AND pair.round <= :ahead + (SELECT count(*) FROM closed_round WHERE closed_round.part = :part)
    AND NOT EXISTS (
        SELECT 1 FROM stopped WHERE stopped.part = :part AND stopped.method_a = pair.method_a
            AND stopped.method_b = pair.method_b AND stopped.number < pair.round
    )
"""
"""The SQL condition for pairs of running comparisons in the finished rounds and the next `:ahead` rounds."""

_CLOSED = query("SELECT grounds FROM closed_round WHERE part = :part ORDER BY number")

_STOPPED = query("SELECT method_a, method_b, number FROM stopped WHERE part = :part")

_SIZES = query("""
    SELECT round, method_a, method_b, count(*) AS prompts FROM pair WHERE expected IS NULL
    GROUP BY round, method_a, method_b
""")

_COUNT_PLAYING = query(f"SELECT count(*) FROM pair WHERE {PLAYING} AND pair.round > :after")  # noqa: S608 (a constant)


def count_active_pairs(db: Connection, group: str, *, after_round: int = -1) -> int:
    """Count the pairs that a group of raters may see after the round `after_round`. Default: all rounds."""
    return int(_COUNT_PLAYING(db, part=group, ahead=MOST_ROUNDS, after=after_round).scalar_one())


def count_closed_rounds(db: Connection, group: str) -> int:
    """Return the number of finished rounds of a group of raters."""
    return len(_CLOSED(db, part=group).all())


def read_stopping_rounds(db: Connection, group: str) -> dict[Couple, int]:
    """Return the last round of each stopped comparison, by its couple of methods."""
    return {(a, b): number for a, b, number in _STOPPED(db, part=group)}


def read_round_scores(
    db: Connection, group: str, plan: RoundPlan | None = None, *, rounds_ahead: int = 0
) -> Contest:
    """Return the verdicts of the finished rounds and of the next `rounds_ahead` rounds.

    Args:
        db: The study's database.
        group: The raters: people, simulated raters, or one judge.
        plan: The rule by which comparisons stop. Default: the rule at the end of the last finished round.
        rounds_ahead: The number of further rounds to read.
    """
    closed = _CLOSED(db, part=group).scalars().all()
    plan = plan or RoundPlan(**closed[-1]["plan"])
    done = len(closed) + rounds_ahead
    drawn = _SIZES(db).all()
    sizes = {row.round: row.prompts for row in drawn}
    scores: dict[tuple[int, str, str], dict[Couple, list[int]]] = defaultdict(lambda: defaultdict(list))
    for row in unblind.read_counted_verdicts(db, plan.criterion):
        if group == find_deciding_group(row.rater, row.rater_kind) and row.prompt_round <= done:
            score = (row.verdict == row.method_a) - (row.verdict == row.method_b)
            scores[row.prompt_round, row.dataset, row.prompt_id][row.method_a, row.method_b].append(score)
    return Contest(
        plan=plan,
        sizes=tuple(sizes.get(number, 0) for number in range(1, 1 + max(sizes, default=0))),
        couples=tuple(sorted({(row.method_a, row.method_b) for row in drawn})),
        done=done,
        stopped=read_stopping_rounds(db, group),
        prompts=[
            (
                key[0],
                {
                    couple: fmean(showings)
                    for couple, showings in couples.items()
                    if len(showings) >= plan.showings
                },
            )
            for key, couples in scores.items()
        ],
    )


def close_round(db: Connection, now: datetime, group: str, plan: RoundPlan) -> bool:
    """End the current round and record which comparisons stop; return False if no round remains."""
    from guard_eval.rounds import compare_couples, find_stopping_couples  # noqa: PLC0415 (scipy, once a round)

    contest = read_round_scores(db, group, plan, rounds_ahead=1)
    if contest.done > len(contest.sizes) or not contest.list_active_couples(contest.done):
        return False
    compared = compare_couples(contest)
    p_values = [[*comparison.couple, comparison.p_adjusted] for comparison in compared]
    grounds = {"plan": asdict(plan), "p": p_values, "prompts": len(contest.prompts)}
    same = {"part": group, "number": contest.done}
    add_rows(db, "closed_round", [{**same, "grounds": grounds, "at": now}])
    stopping = find_stopping_couples(contest, compared)
    add_rows(db, "stopped", [{**same, "method_a": a, "method_b": b} for a, b in stopping])
    return True
