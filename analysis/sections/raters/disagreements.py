"""On which pairs do people disagree most, with each other and with a judge?"""

from collections.abc import Sequence
from itertools import chain

import pandas as pd

from analysis.evidence import Evidence, declare_plan_keys
from analysis.scores.scores import CELL, compute_mean_scores, count_verdicts_by_item, find_item_numbers
from analysis.sections.section import ComparisonRow, Section, group_by, make_result_labels, make_table_section
from analysis.stats.agreement import compute_agreement_by_item
from guard_eval.records import PEOPLE_OF, record
from guard_eval.reporting.words import find_criterion_title, format_percent, join_with_and

SHOWN = 10
"""The largest number of pairs that the page shows for people, and for each judge."""
MOST_ROWS = 10_000
"""The largest number of pairs that the table has for people, and for each judge."""
PAIR = ["dataset", "pair_id"]
FIGURES = ["people", "share", "disagreement"]


@record
class DisagreementRow(ComparisonRow):
    """A pair on which people disagree with each other or, in the row of a judge, with that judge.

    Attributes:
        dataset: The pair's dataset.
        pair_id: The pair.
        people: The number of people.
        share: People's share for `method_a`.
        disagreement: The probability that the verdicts of two people differ. In a judge's row: the distance
            between the judge's share and people's share.
    """

    dataset: str
    pair_id: str
    people: int
    share: float
    disagreement: float


@declare_plan_keys()
def list_disagreements(evidence: Evidence) -> list[DisagreementRow]:
    """Return the pairs on which people disagree with each other or with a judge, the largest first.

    Only the `MOST_ROWS` largest disagreements of people, and of each judge, are returned.
    """
    scores = evidence.detailed_verdicts.rater_scores
    is_judge = scores["rater_kind"].isin(PEOPLE_OF)
    people = _measure_disagreements(scores[~is_judge])
    judged = _compare_judges_with_people(scores[is_judge], people)
    pairs = pd.concat([people[people["people"] > 1], judged])
    pairs = pairs[pairs["disagreement"] > 0].sort_values("disagreement", ascending=False, kind="stable")
    pairs = pairs.groupby("judge", sort=False, observed=True).head(MOST_ROWS)
    lines = pairs[[*CELL, *PAIR, *FIGURES]].itertuples(index=False, name=None)
    rows = [
        DisagreementRow(*key, dataset=dataset, pair_id=pair, people=count, share=share, disagreement=value)
        for *key, dataset, pair, count, share, value in lines
    ]
    return sorted(rows, key=lambda row: (row.judge, -row.disagreement, row.key, row.dataset, row.pair_id))


def _measure_disagreements(scores: pd.DataFrame) -> pd.DataFrame:
    """Return a row per pair of a result: the number of people, people's share, and people's disagreement."""
    counts = count_verdicts_by_item(scores)
    first = find_item_numbers(scores)[1]
    people = counts.sum(axis=1)
    share = (counts[:, 0] + counts[:, 1] / 2) / people
    figures = {
        "people": people,
        "share": share,
        "disagreement": 1 - compute_agreement_by_item(counts.astype(float)),
    }
    return scores[[*CELL, *PAIR]].iloc[first].assign(**figures)


def _compare_judges_with_people(judged: pd.DataFrame, people: pd.DataFrame) -> pd.DataFrame:
    """Return the difference between the judge's share and people's share for each pair."""
    judged = judged.assign(
        people_kind=judged["rater_kind"].map(PEOPLE_OF),
        judge_share=0.5 + compute_mean_scores(judged) / 2,
    )
    keys = ["method_a", "method_b", "people_kind", "criterion", *PAIR]
    both = judged.merge(
        people.rename(columns={"rater_kind": "people_kind"})[[*keys, "people", "share"]], on=keys
    )
    return both.assign(disagreement=(both["share"] - both["judge_share"]).abs())


def _describe_largest_disagreement(rows: Sequence[DisagreementRow]) -> str:
    """Answer the section's question: name the largest disagreement of the first raters, and its criteria.

    A reader does not know the ids of a study's pairs, so only the table has ids.
    """
    first = [row for row in rows if row.judge == rows[0].judge]
    worst = max(row.disagreement for row in first)
    criteria = dict.fromkeys(
        find_criterion_title(row.criterion) for row in first if row.disagreement == worst
    )
    return f"Up to {format_percent(worst, 0)} disagreement, on {join_with_and(criteria)}"


def make_section(evidence: Evidence) -> Section | None:
    """Make the section "On which pairs do raters disagree most?"."""
    rows = evidence.rows(list_disagreements)
    worst = [pairs[:SHOWN] for pairs in group_by(rows, lambda row: row.judge).values()]
    return make_table_section(
        list(chain(*worst)),
        lambda row: {**make_result_labels(row), "Dataset": row.dataset, "Pair": row.pair_id},
        lambda row: {
            "People": row.people,
            "Their share": format_percent(row.share, 0),
            "Disagreement": format_percent(row.disagreement, 0),
        },
        csv_name="disagreements",
        caption="Where people disagree most, with each other and with a judge",
        note="By people: how often two of them differ. By a judge: the distance of its share from people's. "
        f"csv/disagreements.csv has a row for each pair and criterion, at most {MOST_ROWS}.",
        question="On which pairs do raters disagree most?",
        answer=_describe_largest_disagreement,
    )
