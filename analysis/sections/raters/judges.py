"""Compare a judge with people: does the judge agree with them, and can the judge replace one of them?"""

from collections.abc import Sequence
from functools import partial
from typing import Annotated

import numpy as np
import pandas as pd

from analysis.evidence import Evidence, declare_plan_keys
from analysis.scores.scores import (
    ResultKey,
    UnitScores,
    convert_scores_to_labels,
    find_majority_labels,
    pair_people_with_judges,
)
from analysis.sections.results.answering import select_rows_for_report_answer
from analysis.sections.section import (
    ComparisonRow,
    Section,
    format_coefficient,
    make_result_labels,
    make_table_section,
)
from analysis.stats.agreement import cohen_kappa, compute_agreement_by_item
from analysis.stats.alternative_annotator import run_alternative_annotator_test
from analysis.stats.proportion import estimate_proportion
from guard_eval.estimate import Estimate, join_notes
from guard_eval.records import record
from guard_eval.reporting.words import capitalise, format_percent

EPSILON = 0.15
"""The ε of the alternative-annotator test: a judge may be this much worse than a person, being cheaper."""
ALTERNATIVE_ANNOTATOR = (
    "A judge cannot agree with people more than they do with each other. Wins as an annotator: the share of "
    "people whom the judge may replace at ε = .15 (Calderon, Reichart and Dror 2025); from 50 % on it passes."
)


@record
class JudgeRow(ComparisonRow):
    """The agreement of one judge with people, on pairs that both judged.

    Attributes:
        people: The number of people.
        pairs: The number of pairs.
        same_as_most: The share of pairs on which the judge gives people's most frequent verdict. If two
            verdicts are equally frequent, people's verdict is a tie.
        cohen_kappa: Cohen's κ between the judge and people's most frequent verdict.
        with_a_person: The probability that the judge and one person agree.
        among_people: The probability that two people agree, over the same pairs.
        alternative_wins: The share of people against whom the judge wins the alternative-annotator test.
        note: A warning about the numbers.
    """

    people: int
    pairs: int
    same_as_most: Annotated[Estimate, "same_"]
    cohen_kappa: Annotated[Estimate, "kappa_"]
    with_a_person: float | None
    among_people: float | None
    alternative_wins: float | None
    note: str


@declare_plan_keys("alpha", "panel", "composite")
def compare_judges_with_people(evidence: Evidence) -> list[JudgeRow]:
    """Measure the agreement of each judge with people: a row per comparison, criterion and judge.

    There is no row if people and judges rated no pair in common.
    """
    both = pair_people_with_judges(evidence.detailed_verdicts.scores)
    rows = (_make_judge_agreement_row(key, people, judged, evidence) for key, people, judged in both)
    return [row for row in rows if row is not None]


def _make_judge_agreement_row(
    key: ResultKey, people: pd.DataFrame, judged: pd.DataFrame, evidence: Evidence
) -> JudgeRow | None:
    """Compare a judge with people on one result. Return None if no person rated its pairs."""
    alpha = evidence.plan.alpha
    level = 1 - alpha
    unit = UnitScores.from_items(judged).codes
    verdict = convert_scores_to_labels(judged)
    item = pd.Index(judged["pair_id"]).get_indexer(pd.Index(people["pair_id"]))
    people, item = people[item >= 0], item[item >= 0]
    label = convert_scores_to_labels(people)
    tally = np.zeros((len(judged), 3))
    np.add.at(tally, (item, label), 1)
    counts = tally.sum(axis=1)
    is_rated = counts > 0
    if not is_rated.any():
        return None
    rater = pd.factorize(people["rater"], sort=True)[0]
    wins, why = run_alternative_annotator_test(item, rater, label, verdict, unit, epsilon=EPSILON, q=alpha)
    if not evidence.are_raters_known:
        wins, why = None, "it is not known which person gave which verdict"
    majority = find_majority_labels(tally)[is_rated]
    kappa = cohen_kappa(majority, verdict[is_rated], unit=unit[is_rated], level=level)
    is_paired = counts >= 2
    as_judged = tally[np.arange(len(judged)), verdict][is_paired] / counts[is_paired]
    missed = int((~is_rated).sum())
    left_out = f"{missed} pair(s) that the judge judged and no person are left out" if missed else ""
    return JudgeRow(
        *key,
        people=int(people["rater"].nunique()),
        pairs=int(is_rated.sum()),
        same_as_most=estimate_proportion(majority == verdict[is_rated], unit[is_rated], level=level),
        cohen_kappa=kappa,
        with_a_person=float(as_judged.mean()) if is_paired.any() else None,
        among_people=float(compute_agreement_by_item(tally[is_paired]).mean()) if is_paired.any() else None,
        alternative_wins=wins,
        note=join_notes(left_out, kappa.note, why),
    )


def make_section(evidence: Evidence) -> Section | None:
    """Make the section "Does the judge agree with people?"."""
    return make_table_section(
        evidence.rows(compare_judges_with_people),
        make_result_labels,
        lambda row: {
            "Pairs": row.pairs,
            "Same as most people": format_percent(row.same_as_most.value, 0),
            "κ": format_coefficient(row.cohen_kappa),
            "Judge = a person": format_percent(row.with_a_person, 0),
            "Person = a person": format_percent(row.among_people, 0),
            "Wins as an annotator": format_percent(row.alternative_wins, 0),
        },
        csv_name="judges",
        caption="Judges beside people",
        question="Does the judge agree with people?",
        answer=partial(_answer_question, evidence),
        notes=(ALTERNATIVE_ANNOTATOR,),
    )


def _answer_question(evidence: Evidence, rows: Sequence[JudgeRow]) -> str:
    """Say whether judges have the same results as people, and how often judges agree with most people."""
    alpha = evidence.plan.alpha
    agreed = sum((row.same_as_most.value or 0.0) * row.pairs for row in rows)
    same = agreed / sum(row.pairs for row in rows)
    answer = f"the same verdict as most people on {format_percent(same, 0)} of pairs"
    results = evidence.rows(select_rows_for_report_answer)
    winners = {row.key: row.leader if row.is_significant(alpha) else "" for row in results}
    keys = [row.key for row in rows if row.key in winners]
    alike = [winners.get(key.of_people) == winners[key] for key in keys]
    if not alike:
        return capitalise(answer)
    lead = "The same result" if all(alike) else f"The same result on {sum(alike)} of {len(alike)}"
    return f"{lead}, and {answer}"
