"""Comparisons that stop after a round of prompts: the decided comparisons and the eliminated systems."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Annotated

from scipy import optimize, special

from analysis.evidence import Evidence, declare_plan_keys
from analysis.sections.results.shares import TestedRow
from analysis.sections.section import (
    Section,
    group_by,
    make_result_labels,
    make_table_section,
    name_raters,
    select_first_notes,
)
from guard_eval.estimate import NO_DATA, NO_WIDTH, Estimate
from guard_eval.records import Contest, record
from guard_eval.reporting.words import (
    count_in_words,
    format_limits,
    format_number,
    format_p,
    format_percent,
    join_with_and,
)
from guard_eval.rounds import (
    METHOD,
    SHAPE,
    Comparison,
    compare_couples,
    compute_first_passage_p,
    find_stopping_couples,
)

UNSUPPORTED = "recorded as stopped, but the present verdicts do not support it: some were changed or excluded"
HOW_TO_READ = (
    "Lead: the first system's expected share less the second's, in points, with limits for all comparisons "
    "at all rounds together. p holds at whichever round a comparison stops, with Holm's correction over all "
    "comparisons. A lead that stopped a comparison early is on average too large."
)


@record
class RoundsRow(TestedRow):
    """The result of the rounds for two systems.

    Attributes:
        lead: The expected share of `method_a` minus that of `method_b`.
        ahead, behind: The system that led when the evidence was strongest, and the other system.
        prompts: The number of prompts that count.
        stopped_after: The recorded round after which the comparison stopped.
        method: The test.
    """

    lead: Annotated[Estimate, "lead_"]
    ahead: str
    behind: str
    prompts: int
    stopped_after: int | None
    method: str = METHOD


@declare_plan_keys("alpha")
def summarise_rounds(evidence: Evidence) -> Iterator[RoundsRow]:
    """Return a row for each comparison that may stop after a round, for people and for each judge."""
    for who, recorded in evidence.context.contests.items():
        contest = replace(recorded, plan=replace(recorded.plan, alpha=evidence.plan.alpha))
        duels = compare_couples(contest)
        due = find_stopping_couples(replace(contest, stopped={}), duels)
        for duel in duels:
            stopped = contest.stopped.get(duel.couple)
            yield RoundsRow(
                *duel.couple,
                *who,
                contest.plan.criterion,
                lead=estimate_mean_lead(duel, contest),
                ahead=duel.leader,
                behind=duel.trailing_system,
                prompts=len(duel.leads),
                stopped_after=stopped,
                p=duel.p,
                p_adjusted=duel.p_adjusted,
                family=len(duels),
                note=UNSUPPORTED if stopped and duel.couple not in due else "",
            )


def estimate_mean_lead(comparison: Comparison, contest: Contest) -> Estimate:
    """Estimate the mean lead, with limits that are valid for all pairs of systems and all rounds at once."""
    level = 1 - contest.plan.alpha
    n = len(comparison.leads)
    if n < 2:
        return Estimate(level=level, note=NO_DATA)
    mean, spread = float(comparison.leads.mean()), float(comparison.leads.std(ddof=1))
    if not spread:
        return Estimate(value=mean, level=level, n=n, note=NO_WIDTH.format(unit="prompt"))
    peak = find_critical_value_of_rounds(contest.plan.alpha / len(contest.couples), contest.sizes)
    # The mean of few prompts has wider tails than a normal distribution.
    tail = special.ndtr(-peak * comparison.time**-SHAPE)
    quantile = -float(special.stdtrit(n - 1, tail))
    half = quantile * spread / math.sqrt(n)
    return Estimate(value=mean, low=max(-1.0, mean - half), high=min(1.0, mean + half), level=level, n=n)


@lru_cache
def find_critical_value_of_rounds(alpha: float, round_sizes: tuple[int, ...]) -> float:
    """Return the value that the statistic must exceed for p < `alpha`, over all rounds together."""
    return float(optimize.brentq(lambda peak: compute_first_passage_p(peak, round_sizes) - alpha, 0.01, 20.0))


def find_eliminated_systems(rows: Sequence[RoundsRow], alpha: float) -> dict[str, int]:
    """Return the last round of each beaten system whose comparisons have all stopped, by system."""
    eliminated = {}
    for system in {row.behind for row in rows if row.is_significant(alpha)}:
        duels = [row for row in rows if system in row.methods]
        last_rounds = [row.stopped_after for row in duels if row.stopped_after is not None]
        if len(last_rounds) == len(duels):
            eliminated[system] = max(last_rounds)
    return eliminated


def describe_rounds(evidence: Evidence) -> Iterator[str]:
    """Describe the progress of the rounds in one or two sentences, for people and for each judge."""
    alpha = evidence.plan.alpha
    for who, rows in group_by(evidence.rows(summarise_rounds), lambda row: row.rater_group).items():
        contest = evidence.context.contests[who]
        decided = sum(row.is_significant(alpha) for row in rows)
        eliminated = sorted(find_eliminated_systems(rows, alpha))
        suffix = f"; {join_with_and(eliminated)} left" if eliminated else ""
        done = contest.sizes[: contest.done]
        rated = sum(
            size * len(contest.list_active_couples(number)) for number, size in enumerate(done, start=1)
        )
        yield (
            f"After {len(done)} of {len(contest.sizes)} rounds, judged by {name_raters(rows[0])}, "
            f"{decided} of {count_in_words(len(rows), 'comparison')} {'is' if decided == 1 else 'are'} "
            f"decided{suffix}. They took "
            f"{format_percent(rated / len(rows) / sum(contest.sizes), 0)} of the ratings of all pairs."
        )


def make_section(evidence: Evidence) -> Section | None:
    """Make the section "Which comparisons are decided?"."""
    rows = evidence.rows(summarise_rounds)
    warned = [f"{row.method_a} against {row.method_b}: {row.note}" for row in rows if row.note]
    return make_table_section(
        rows,
        make_result_labels,
        lambda row: {
            "Lead": format_number(row.lead.value, 1, scale=100, sign="+"),
            "Limits": format_limits(row.lead, 1, scale=100),
            "p": format_p(row.p_adjusted),
            "Prompts": row.prompts,
            "Stopped after round": row.stopped_after,
        },
        csv_name="rounds",
        caption="Comparisons that stop when they are decided",
        is_emphasised=lambda row: row.is_significant(evidence.plan.alpha),
        question="Which comparisons are decided?",
        answer=lambda _: next(describe_rounds(evidence)),
        notes=(HOW_TO_READ, *select_first_notes(warned)),
        is_open=True,
    )
