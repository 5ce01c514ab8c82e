"""Excluded raters: their number, the reasons and dates, and the results with their verdicts."""

from collections import Counter
from collections.abc import Sequence

from analysis.evidence import Evidence, Exclusion, declare_plan_keys
from analysis.sections.results.shares import (
    WinShareRow,
    declare_share_keys,
    make_share_and_count_cells,
    measure_total_shares,
)
from analysis.sections.section import (
    Section,
    group_by,
    make_result_labels,
    make_table_of_first_rows,
    name_first_method,
    remove_word_simulated,
)
from guard_eval.reporting.words import count_in_words, find_criterion_title, format_percent, join_with_and

MAX_NAMED = 4
"""The largest number of results that the section's answer names."""
INCLUDED = (
    "Verdicts of excluded raters count in no other table. Verdicts of raters who were included again count, "
    "except on pairs that others had taken meanwhile."
)
"""The section's note if raters were included again."""


@declare_plan_keys()
def list_excluded_raters(evidence: Evidence) -> Sequence[Exclusion]:
    """Return the excluded raters with date and reason, and whether results had been shown before."""
    return evidence.context.exclusions


@declare_share_keys
def measure_shares_without_exclusions(evidence: Evidence) -> list[WinShareRow]:
    """Return the win shares computed as if no rater had been excluded."""
    if evidence.context.with_excluded is None:
        return []
    return measure_total_shares(Evidence.from_verdicts(evidence.context.with_excluded, evidence.context))


def make_section(evidence: Evidence) -> Section | None:
    """Make the section "Who was excluded, and what would the result be with them?"."""
    raters = evidence.rows(list_excluded_raters)
    if not raters:
        return None
    table = make_table_of_first_rows(
        raters,
        lambda row: {
            "Rater": remove_word_simulated(row.rater),
            "Excluded": row.at[:10],
            "First look at results": row.decisions,
            "Reason": row.reason,
        },
        lambda row: {"Verdicts left out": row.verdicts},
        csv_name="excluded_raters",
        caption="Excluded raters",
    )
    results = evidence.rows(measure_shares_without_exclusions)
    first = name_first_method(results)
    results_table = make_table_of_first_rows(
        results,
        make_result_labels,
        lambda row: make_share_and_count_cells(row, evidence.plan.alpha, first),
        csv_name="with_excluded_raters",
        caption="The result with the excluded raters",
    )
    return Section(
        anchor="excluded",
        question="Who was excluded, and what would the result be with them?",
        answer=_answer_question(evidence),
        notes=(
            INCLUDED if any(row.included for row in raters) else "Their verdicts count in no other table.",
        ),
        tables=(*table, *results_table),
    )


def _answer_question(evidence: Evidence) -> str:
    """Answer the section's question: count the excluded raters, and give the results with their verdicts."""
    raters = evidence.rows(list_excluded_raters)
    late = sum(rater.results == "after" for rater in raters)
    answer = f"{len(raters)} excluded, {late} of them after the results were first seen"
    if inclusions := [rater.included for rater in raters if rater.included]:
        late = inclusions.count("after")
        answer += f"; {len(inclusions)} included again, {late} of them after the results were first seen"
    shares = describe_shares_with_excluded_raters(evidence)[:MAX_NAMED]
    return f"{answer}; with them: {join_with_and(shares)}" if shares else answer


def describe_shares_with_excluded_raters(evidence: Evidence) -> tuple[str, ...]:
    """Describe the results as if no rater had been excluded, with a phrase for each result."""
    kinds = {rater.rater_kind for rater in evidence.rows(list_excluded_raters)}
    return evidence.context.shares_with_excluded or tuple(
        f"{find_criterion_title(row.criterion)} {format_percent(row.win_share.value, 0)} for {row.method_a}"
        for row in evidence.rows(measure_shares_without_exclusions)
        if row.rater_kind in kinds
    )


def describe_exclusions(exclusions: Sequence[Exclusion], kind: str) -> str:
    r"""Say how many raters of a kind were excluded, when and why. Return an empty text if there are none.

    >>> known = {"rater": "bo", "rater_kind": "person", "at": "", "verdicts": 9}
    >>> late = Exclusion(reason="too fast", results="after", **known)
    >>> describe_exclusions([late], "person").replace("\u00a0", " ")
    '1 rater excluded after the results were first seen (too fast)'
    """
    parts = []
    of_kind = [rater for rater in exclusions if rater.rater_kind == kind]
    of_kind.sort(key=lambda rater: (rater.results == "after", rater.included))
    for decisions, raters in group_by(of_kind, lambda rater: rater.decisions).items():
        reasons = Counter(rater.reason for rater in raters)
        why = join_with_and(reason if n == 1 else f"{reason}, {n} raters" for reason, n in reasons.items())
        count = count_in_words(len(raters), "rater")
        parts.append(f"{count} {decisions} the results were first seen ({why})")
    return " and ".join(parts)
