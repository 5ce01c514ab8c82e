"""People's win share, assisted by a judge who judged more pairs: prediction-powered inference.

People rate a random part of the pairs that a judge judges. The estimate is people's share. A judge that
agrees with people makes the interval narrower; a judge that does not agree leaves the result unchanged.
"""

from collections.abc import Sequence
from typing import Annotated

import numpy as np
import pandas as pd
from scipy import stats

from analysis.evidence import Evidence, declare_plan_keys
from analysis.scores.scores import (
    ResultKey,
    UnitScores,
    compute_mean_scores,
    group_by_result,
    pair_people_with_judges,
)
from analysis.scores.win_share import estimate_share_of_these_raters
from analysis.sections.results.shares import TestedRow, correct_p_values
from analysis.sections.section import (
    Section,
    format_share,
    make_result_labels,
    make_table_section,
    select_first_notes,
)
from analysis.stats.assisted import METHOD, AssistedShare, estimate_assisted_share
from guard_eval.estimate import Estimate, join_notes
from guard_eval.records import record
from guard_eval.reporting.escaping import NOTHING
from guard_eval.reporting.words import count_in_words, format_number, format_p, join_with_and

FEWEST_RATED = 10
"""The smallest number of prompts rated by people for an estimate."""
CALIBRATED = 40
"""The smallest number of units for which coverage was measured (docs/assisted.md)."""
RARE = 0.001
"""With a p below this, from a test of random selection, the pairs that people rated are not called random."""
PREDICTION_POWERED = (
    "Prediction-powered inference (PPI++): the share is people's. The judge, who judged more pairs, narrows "
    "its interval as far as it agrees with them."
)


@record
class AssistedRow(TestedRow):
    """People's share, assisted by one judge.

    Attributes:
        people: The number of people.
        pairs_rated: The number of pairs that people rated.
        pairs_judged: The number of pairs that the judge judged.
        units_rated: The number of units that people rated.
        people_alone: People's share without the judge.
        judge_alone: The judge's share.
        people_assisted: People's share with the judge; missing if this judge cannot assist.
        level: The confidence level.
        weight: The weight of the judge.
        correlation: The correlation between the judge's scores and people's scores.
        ratings_gained: The number of further ratings by people that would narrow the interval as much.
        method: The name of the interval and the test.
    """

    people: int
    pairs_rated: int
    pairs_judged: int
    units_rated: int
    people_alone: Annotated[Estimate, "people_"]
    judge_alone: Annotated[Estimate, "judge_"]
    people_assisted: Annotated[Estimate, ""]
    level: float
    weight: float | None
    correlation: float | None
    ratings_gained: float | None
    method: str


@declare_plan_keys("alpha", "correction", "panel", "composite", "assisted_by")
def measure_assisted_shares(evidence: Evidence) -> list[AssistedRow]:
    """Return people's share assisted by each judge that judged more pairs than people rated.

    The declared judge always has rows. If it cannot assist, the rows have the reason. The p-values are
    corrected for the results of the family, separately for each judge.
    """
    items = dict(group_by_result(evidence.scored.items))
    rows = []
    for key, scores, judged in pair_people_with_judges(evidence.scored.scores):
        people = items[key.of_people]
        is_useful = len(judged) > len(people) and UnitScores.from_items(people).n >= FEWEST_RATED
        if is_useful or key.judge == evidence.plan.assisted_by:
            share = 0.5 + compute_mean_scores(judged) / 2
            raters = int(scores["rater"].nunique())
            rows.append(
                _make_assisted_row(key, raters, people, judged.assign(share=share, raters=1), evidence)
            )
    return correct_p_values(rows, evidence, further_tests=len(evidence.context.by))


def _make_assisted_row(
    key: ResultKey, raters: int, people: pd.DataFrame, judged: pd.DataFrame, evidence: Evidence
) -> AssistedRow:
    """Make the row of one result and one judge from the items that people and the judge rated."""
    rated = len(people)
    level = evidence.plan.level
    ratings = int(people["raters"].sum())
    why = _explain_unusable_pairs(people, judged)
    if not why and not evidence.context.random_part:
        why = _explain_nonrandom_selection(people, judged)
    obstacle = f"{key.judge} on {key.criterion}: {why}" if why else ""
    result = AssistedShare(share=Estimate(note=obstacle))
    few = ""
    if not obstacle:
        result = estimate_assisted_share(
            people.set_index("pair_id")["share"].reindex(judged["pair_id"]).to_numpy(dtype=float),
            judged["share"].to_numpy(),
            pd.factorize(judged["dataset"], sort=True)[0],
            UnitScores.from_items(judged).codes,
            level=level,
        )
        if result.share.n < CALIBRATED:
            few = f"people rated {result.share.n} units, and coverage was measured from {CALIBRATED} on"
    return AssistedRow(
        *key,
        people=raters,
        pairs_rated=rated,
        pairs_judged=len(judged),
        units_rated=UnitScores.from_items(people).n,
        people_alone=estimate_share_of_these_raters(people, level=level),
        judge_alone=estimate_share_of_these_raters(judged, level=level),
        people_assisted=result.share,
        level=level,
        p=result.share.p,
        weight=result.weight,
        correlation=result.correlation,
        ratings_gained=None if result.effective is None else (result.effective - rated) * ratings / rated,
        method=METHOD,
        note=join_notes(result.share.note, few),
    )


def _explain_unusable_pairs(people: pd.DataFrame, judged: pd.DataFrame) -> str:
    """Return the reason why a judge with these pairs cannot assist people's share; empty if it can."""
    units = UnitScores.from_items(people)
    is_part = set(people["pair_id"]) < set(judged["pair_id"])
    if is_part and units.n >= FEWEST_RATED and set(people["dataset"]) == set(judged["dataset"]):
        return ""
    return (
        f"it judged {len(judged)} pairs, and people rated {len(people)} pairs of "
        f"{count_in_words(units.n, units.name)}; let it judge all pairs that people rated, and more, and let "
        f"people rate at least {FEWEST_RATED} {units.name}s and some pairs of each dataset"
    )


def _explain_nonrandom_selection(people: pd.DataFrame, judged: pd.DataFrame) -> str:
    """Return the reason why the pairs that people rated are no random part of the judged pairs, if so.

    Two tests compare them with the other pairs: the datasets (χ² test), and the judge's scores within
    datasets (Welch's t, over prompts).
    """
    rated = judged["pair_id"].isin(people["pair_id"])
    counts = pd.crosstab(judged["dataset"], rated)
    apart = judged["share"] - judged.groupby("dataset")["share"].transform("mean")
    inside, others = (apart[side].groupby(judged.loc[side, "unit"]).mean() for side in (rated, ~rated))
    p_values = {}
    if len(counts) > 1:
        p_values["datasets"] = stats.chi2_contingency(counts).pvalue
    if np.ptp(apart) > 0 and len(others) > 1:
        p_values["judge's shares"] = stats.ttest_ind(inside, others, equal_var=False).pvalue
    differs = [what for what, p in p_values.items() if p < RARE]
    if not differs:
        return ""
    return (
        f"the pairs that people rated are no random part: they differ from the others in their "
        f"{join_with_and(differs)}; if people's pairs are a random part within each dataset, declare it: "
        "--set random_part=true"
    )


def explain_missing_assistance(evidence: Evidence) -> str:
    """Return a sentence on why the declared judge does not assist people's shares; empty if it does."""
    judge = evidence.plan.assisted_by
    rows = [row for row in evidence.rows(measure_assisted_shares) if row.judge == judge]
    reasons = [row.note for row in rows if row.people_assisted.value is None]
    if judge is None or (rows and not reasons):
        return ""
    why = join_with_and(reasons or [f"{judge} has judged no pair that people rated"])
    return f"Shares without assistance by {judge} are people's alone: {why}."


def make_section(evidence: Evidence) -> Section | None:
    """Make the section "Does the judge make people's answer more certain?"."""
    rows = evidence.rows(measure_assisted_shares)
    return make_table_section(
        rows,
        make_result_labels,
        lambda row: {
            "People": format_share(row.people_alone),
            "Assisted": format_share(row.people_assisted),
            "Judge alone": format_share(row.judge_alone),
            "p": NOTHING if row.p is None else format_p(row.p),
            "r": format_number(row.correlation),
            "Ratings gained": format_number(row.ratings_gained, 0),
        },
        csv_name="assisted",
        caption="People's win share, assisted by a judge",
        question="Does the judge make people's answer more certain?",
        answer=_answer_question,
        notes=(PREDICTION_POWERED, *select_first_notes(row.note for row in rows)),
    )


def _answer_question(rows: Sequence[AssistedRow]) -> str:
    """Answer the section's question: how many further ratings by people would narrow the interval as much?"""
    gained = [round(row.ratings_gained) for row in rows if row.ratings_gained is not None]
    if not gained:
        return "Not possible: see the reasons"
    useful = [ratings for ratings in gained if ratings > 0]
    if not useful:
        return "No"
    where = "" if len(useful) == len(gained) else f", on {len(useful)} of {len(gained)} results"
    limit = "at most " if len(set(useful)) > 1 else ""
    return f"Yes{where}: as much as {limit}{count_in_words(max(useful), 'more rating')} would"
