"""Comparisons that stopped after a round of prompts: which were decided, and who has left."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import chain

from analysis.evidence import ANSWER_KEYS, Evidence, honours
from analysis.sections.section import (
    CriterionRow,
    Csv,
    Section,
    distinct_notes,
    group_by,
    group_name,
    limits,
    name_criterion,
    name_result,
    row_table,
)
from analysis.sections.shares import TestedRow
from guard_eval.estimate import Estimate
from guard_eval.reporting.words import and_list, number, number_limits, p_value, percent, plural
from guard_eval.rounds import METHOD, compare, find_stopping

UNSUPPORTED = "stopped on the record, and today's verdicts would not stop it: they were changed or excluded"
HOW_TO_READ = (
    "Lead: the first system's expected share less the second's, in points, with limits for all comparisons "
    "at all rounds together. p holds at whichever round a comparison stops, with Holm's correction over all "
    "comparisons. A lead that stopped a comparison early is on average too large."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class RoundsRow(TestedRow):
    """What the rounds say about two systems.

    Attributes:
        lead: The expected share of `method_a` less that of `method_b`.
        ahead, behind: Which system was ahead where the evidence was strongest, and which was not.
        prompts: The number of prompts that count.
        stopped_after: The round after which the comparison stopped, on the record.
        method: The test.
    """

    lead: Estimate = field(metadata=limits("lead_"))
    ahead: str
    behind: str
    prompts: int
    stopped_after: int | None
    method: str = METHOD


@dataclass(frozen=True, kw_only=True, slots=True)
class PlaceRow(CriterionRow):
    """The ranks that a system of a tournament may have, and when it left.

    Attributes:
        system: The system.
        possible_best, possible_worst: The ranks; those of all systems are right together, at all rounds.
        left_after: The round after which the system left; missing if it has not.
    """

    system: str
    possible_best: int
    possible_worst: int
    left_after: int | None

    @property
    def possible_ranks(self) -> str:
        """Return the ranks in words."""
        low, high = self.possible_best, self.possible_worst
        return f"{low}" if low == high else f"{low} to {high}"


honours_rounds = honours("alpha", unaffected=("panel", "composite", *ANSWER_KEYS))


@honours_rounds
def rounds(evidence: Evidence) -> list[RoundsRow]:
    """Return a row for each comparison that stops when it is decided, of people and of each judge."""
    rows = []
    for who, recorded in evidence.context.contests.items():
        contest = replace(recorded, plan=replace(recorded.plan, alpha=evidence.plan.alpha))
        compared = compare(contest)
        due = find_stopping(replace(contest, stopped={}), compared)
        for each in compared:
            stopped = contest.stopped.get(each.couple)
            rows.append(
                RoundsRow(
                    *each.couple,
                    *who,
                    contest.plan.criterion,
                    lead=each.lead,
                    ahead=each.ahead,
                    behind=each.behind,
                    prompts=each.lead.n,
                    stopped_after=stopped,
                    p=each.lead.p,
                    p_adjusted=each.p_adjusted,
                    family=len(compared),
                    note=UNSUPPORTED if stopped and each.couple not in due else "",
                )
            )
    return rows


@honours_rounds
def places(evidence: Evidence) -> list[PlaceRow]:
    """Return the ranks that the systems of a tournament may have, the best first."""
    places = []
    for who, rows in group_by(evidence.rows(rounds), lambda row: row.who).items():
        systems = {*chain(*(row.methods for row in rows))}
        won = [row for row in rows if row.is_significant(evidence.plan.alpha)]
        for system in systems if evidence.context.contests[who].plan.design == "rounds" else ():
            beaten_by = sum(row.behind == system for row in won)
            own = [row for row in rows if system in row.methods]
            ends = [row.stopped_after for row in own if row.stopped_after is not None]
            place = PlaceRow(
                *who,
                rows[0].criterion,
                system=system,
                possible_best=1 + beaten_by,
                possible_worst=len(systems) - sum(row.ahead == system for row in won),
                left_after=max(ends) if beaten_by and len(ends) == len(own) else None,
            )
            places.append(place)
    return sorted(places, key=lambda row: (row.who, row.possible_best, row.possible_worst, row.system))


def describe_rounds(evidence: Evidence) -> list[str]:
    """Return for people and for each judge how far the rounds are, in a sentence."""
    return [_describe(evidence, who) for who in evidence.context.contests]


def _describe(evidence: Evidence, who: tuple[str, str]) -> str:
    contest = evidence.context.contests[who]
    rows = [row for row in evidence.rows(rounds) if row.who == who]
    left = [row.system for row in evidence.rows(places) if row.who == who and row.left_after]
    decided = sum(row.is_significant(evidence.plan.alpha) for row in rows)
    done = contest.done
    rated = sum(size * len(contest.playing(number)) for number, size in enumerate(contest.sizes[:done], 1))
    part = percent(rated / len(rows) / sum(contest.sizes), 0)
    has_left = f"; {and_list(left)} left" if left else ""
    return (
        f"After {done} of {len(contest.sizes)} rounds, judged by {group_name(rows[0])}, {decided} of "
        f"{plural(len(rows), 'comparison')} {'is' if decided == 1 else 'are'} decided{has_left}. "
        f"They took {part} of the ratings of all pairs."
    )


def section(evidence: Evidence) -> Section | None:
    """Ask which comparisons are decided."""
    rows = evidence.rows(rounds)
    if not rows:
        return None
    systems = row_table(
        evidence.rows(places),
        lambda row: {"System": row.system, **name_criterion(row)},
        lambda row: {"Ranks possible": row.possible_ranks, "Left after round": row.left_after},
        csv="places",
        caption="Ranks that hold at all rounds together",
    )
    comparisons = row_table(
        rows,
        name_result,
        lambda row: {
            "Lead": number(row.lead.value, 1, scale=100, sign="+"),
            "Limits": number_limits(row.lead, 1, scale=100),
            "p": p_value(row.p_adjusted),
            "Prompts": row.prompts,
            "Stopped after round": row.stopped_after,
        },
        csv="rounds",
        caption="Comparisons that stop when they are decided",
        strong=lambda row: row.is_significant(evidence.plan.alpha),
    )
    warned = [f"{row.method_a} against {row.method_b}: {row.note}" for row in rows if row.note]
    return Section(
        anchor="rounds",
        question="Which comparisons are decided?",
        answer=describe_rounds(evidence)[0],
        notes=(HOW_TO_READ, *distinct_notes(warned)),
        tables=(*systems, *comparisons),
        is_open=True,
    )


CSV: Csv = {"rounds": rounds, "places": places}
