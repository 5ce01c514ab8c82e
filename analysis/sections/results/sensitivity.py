"""Does the conclusion depend on the analysis? Analyse each result in other common ways, too."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import pandas as pd

from analysis.evidence import SHARE_KEYS, Evidence, declare_plan_keys
from analysis.scores.scores import ResultKey, count_wins_ties_losses, group_by_result, score_items
from analysis.scores.win_share import (
    estimate_share_of_all_raters,
    estimate_share_of_these_raters,
    weigh_items_by_precision,
)
from analysis.sections.results.answering import select_rows_for_report_answer
from analysis.sections.results.shares import (
    SignFlipRow,
    correct_p_values,
    count_pairs_and_ratings,
    describe_sequential_plan,
    make_plan_sort_key,
    make_share_cells,
)
from analysis.sections.section import (
    Section,
    group_by,
    make_result_labels,
    make_table_section,
    name_raters,
    select_rows_for_answer,
)
from analysis.stats.proportion import run_pooled_binomial_test
from guard_eval.estimate import Estimate, join_notes
from guard_eval.records import PEOPLE_OF, record
from guard_eval.reporting.words import (
    count_in_words,
    find_criterion_title,
    format_p_in_sentence,
    format_share_limits,
    join_first_parts,
    join_with_and,
)

FIXED = "exact sign-flip test"
RANDOM = "other raters of the same kind, t test"
PRECISION = "pairs weighed by their precision, sign-flip test"
POOLED = "ratings pooled, binomial on non-ties (the paper's test)"
UNTIED = "ties dropped, sign-flip test"
LEFT_OUT = "one rater left out, the least certain case"
SHARES = {"equal": FIXED, "precision": PRECISION}
"""For each setting of `weights`, the name of the analysis about the raters who took part."""
MAX_LEFT_OUT = 30
"""With more raters, none is left out in turn, because a single rater then hardly matters."""
PAPERS_TEST = (
    "The pooled binomial test is the paper's. It takes ratings of one pair for independent. They are not, so "
    "it finds differences too often."
)


AS_A_SAMPLE = (
    "Here raters are a sample: how they differ is part of the error. More raters help more than more "
    "pairs do."
)
MAX_NAMED = 3
"""The largest number of results for which the section's answer gives limits."""


@record
class SensitivityRow(SignFlipRow):
    """One result, analysed in one way. Each analysis has the same correction as the report.

    Attributes:
        analysis: The name of the analysis.
        default: Whether the report uses this analysis.
    """

    analysis: str
    default: bool


@declare_plan_keys(*SHARE_KEYS, "sequential", "assisted_by")
def run_alternative_analyses(evidence: Evidence) -> list[SensitivityRow]:
    """Analyse every result in every way, the default first. Judges never count as a random sample."""
    if not evidence.detailed_comparisons or evidence.has_early_stopping:
        return []
    answers = {row.key: row for row in evidence.rows(select_rows_for_report_answer)}
    rows = []
    for key, scores in group_by_result(evidence.detailed_verdicts.scores):
        is_random = evidence.plan.raters == "random" and key.rater_kind not in PEOPLE_OF
        default = RANDOM if is_random else SHARES[evidence.plan.weights]
        for analysis, share in _estimate_share_in_all_ways(evidence, key, scores):
            rows.append(
                SensitivityRow(
                    *key,
                    analysis=analysis,
                    default=analysis == default and share.method == answers[key].method,
                    win_share=share,
                    p=share.p,
                    method=share.method,
                    smallest_p=share.smallest_p,
                    note=share.note,
                )
            )
    corrected = [
        row.withhold_unreachable_p(evidence.plan.alpha)
        for same_way in group_by(rows, lambda row: row.analysis).values()
        for row in correct_p_values(same_way, evidence, further_tests=len(evidence.context.by))
    ]
    corrected = [
        replace(row, p_adjusted=answers[row.key].p_adjusted) if row.default else row for row in corrected
    ]
    in_plan = make_plan_sort_key(evidence)
    return sorted(corrected, key=lambda row: (in_plan(row), not row.default))


def _estimate_share_in_all_ways(
    evidence: Evidence, key: ResultKey, scores: pd.DataFrame
) -> Iterator[tuple[str, Estimate]]:
    """Yield the name and the share of each analysis of one result, the usual one first."""
    plan = evidence.plan
    level = plan.level
    items = score_items(scores)
    raters = scores["rater"].nunique()
    ways = {FIXED: items}
    if plan.weights == "precision" or items["raters"].min() < items["raters"].max():
        ways[PRECISION] = weigh_items_by_precision(items, scores)
    fixed = {name: estimate_share_of_these_raters(weighed, level=level) for name, weighed in ways.items()}
    yield from fixed.items()
    are_sample = raters > 1 and key.rater_kind not in PEOPLE_OF and evidence.are_raters_known
    if are_sample:
        name = SHARES[plan.weights]
        yield RANDOM, estimate_share_of_all_raters(scores, ways[name], fixed[name])
    wins, ties, losses = count_wins_ties_losses(scores)
    share = (wins + ties / 2) / len(scores)
    yield POOLED, replace(run_pooled_binomial_test(wins, losses), value=share)
    untied = scores[scores["net"] != 0]
    if 0 < len(untied) < len(scores):
        items_left = score_items(untied)
        lost = len(items) - len(items_left)
        note = f"{count_in_words(lost, 'pair')} had ties only" if lost else ""
        yield UNTIED, estimate_share_of_these_raters(items_left, level=level).with_note(note)
    if are_sample and raters <= MAX_LEFT_OUT:
        yield LEFT_OUT, _estimate_share_without_critical_rater(scores, level)


def _estimate_share_without_critical_rater(scores: pd.DataFrame, level: float) -> Estimate:
    """Return the share without the rater whose removal gives the largest p. The note describes the change."""
    cases = []
    for name in sorted(map(str, scores["rater"].unique())):
        others = score_items(scores[scores["rater"] != name])
        cases.append((name, estimate_share_of_these_raters(others, level=level)))
    values = [share.value or 0.0 for _, share in cases]

    def make_sort_key(case: tuple[str, Estimate]) -> tuple[bool, float, float]:
        p = case[1].p
        value = case[1].value or 0.0
        return p is None, p or 0.0, -abs(value - 0.5)

    rater, share = max(cases, key=make_sort_key)
    span = f"without {rater}; over all raters the share lies between {min(values):.3f} and {max(values):.3f}"
    return replace(share, note=join_notes(span, share.note))


def make_section(evidence: Evidence) -> Section | None:
    """Make the section "Would other analyses say the same?"."""
    rows = evidence.rows(run_alternative_analyses)
    if evidence.plan.raters == "fixed":  # the answer is about these raters only
        rows = [row for row in rows if row.analysis != RANDOM]
    return make_table_section(
        rows,
        lambda row: {**make_result_labels(row), "Analysis": row.analysis},
        partial(make_share_cells, alpha=evidence.plan.alpha),
        csv_name="sensitivity",
        caption="The same verdicts, analysed in other ways",
        is_emphasised=lambda row: row.default,
        question="Would other analyses say the same?",
        answer=partial(_answer_question, evidence),
        notes=(PAPERS_TEST, *describe_sequential_plan(evidence)),
    )


def _answer_question(evidence: Evidence, rows: Sequence[SensitivityRow]) -> str:
    """Answer the section's question: say how many other analyses agree with the report's answer.

    If the answer is a difference, an analysis without a test does not agree.
    """
    alpha = evidence.plan.alpha
    answers = {row.key: row.is_significant(alpha) for row in evidence.rows(select_rows_for_report_answer)}
    alternatives = [row for row in select_rows_for_answer(rows) if not row.default]
    others = [row for row in alternatives if answers[row.key] or row.deciding_p is not None]
    apart = [row for row in others if row.is_significant(alpha) != answers[row.key]]
    if not others:
        return "There is no other test"
    if not apart:
        return f"Yes: no other analysis is on the other side of {alpha:g}"
    differences = [
        f"{'a' if row.is_significant(alpha) else 'no'} difference on {_name_result(row, rows)} "
        f"({format_p_in_sentence(row.deciding_p)}) with {'the ' if row.analysis == FIXED else ''}"
        f"{row.analysis.split(',')[0]}"
        for row in apart
    ]
    verb = "The other finds" if len(apart) == 1 else "The others find"
    return f"{len(others) - len(apart)} of {len(others)} would. {verb} {join_first_parts(differences, 2)}"


def _name_result(row: SensitivityRow, rows: Sequence[SensitivityRow]) -> str:
    """Name the criterion of a result, and the methods and raters if the rows have several."""
    comparisons = {result.methods for result in rows}
    judges = {result.judge for result in rows}
    against = f" of {row.method_a} against {row.method_b}" if len(comparisons) > 1 else ""
    judged = f", judged by {name_raters(row)}," if row.judge and len(judges) > 1 else ""
    return f"{find_criterion_title(row.criterion)}{against}{judged}"


def make_section_on_other_raters(evidence: Evidence) -> Section | None:
    """Make the section "Would other raters say the same?"."""
    return make_table_section(
        [row for row in evidence.rows(run_alternative_analyses) if row.analysis == RANDOM],
        make_result_labels,
        partial(make_share_cells, alpha=evidence.plan.alpha),
        csv_name="sensitivity",
        caption="For all raters of the same kind",
        anchor="other-raters",
        question="Would other raters say the same?",
        answer=partial(_answer_about_other_raters, evidence),
        notes=(AS_A_SAMPLE,),
    )


def _answer_about_other_raters(evidence: Evidence, rows: Sequence[SensitivityRow]) -> str:
    """List the results that are also significant for other raters, with their limits."""
    estimated = [row for row in rows if row.win_share.low is not None]
    if not estimated:
        return f"Unknown: {rows[0].note}"
    first = estimated[0].method_a
    is_single = len({row.methods for row in estimated}) == 1

    sure = [_name_result(row, estimated) for row in estimated if row.is_significant(evidence.plan.alpha)]
    raters = max(row.raters or 0 for row in evidence.rows(count_pairs_and_ratings) if not row.judge)
    shares = [
        f"{_name_result(row, estimated)} {format_share_limits(row.win_share, 0)}\u00a0%"
        for row in estimated[:MAX_NAMED]
    ]
    lead = (
        f"Yes on {join_with_and(sure[:MAX_NAMED])}"
        if sure
        else f"Unknown with {count_in_words(raters, 'rater')}"
    )
    return f"{lead}: {join_with_and(shares)}{f' for {first}' if is_single else ''}"
