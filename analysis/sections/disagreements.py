"""On which pairs do people disagree most, with each other and with a judge?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pandas as pd

from analysis.evidence import PLAN_KEYS, Evidence, honours
from analysis.scores.scores import ResultKey, by_cell, judged_by_both
from analysis.sections.section import ComparisonRow, Csv, Section, group_by, name_result, row_table
from guard_eval.records import PEOPLE_OF
from guard_eval.reporting.words import percent

SHOWN = 10
"""Pairs of each kind on the page."""
PAIR = ["dataset", "pair_id"]


@dataclass(frozen=True, kw_only=True, slots=True)
class DisagreementRow(ComparisonRow):
    """A pair on which people disagree with each other or, in the row of a judge, with that judge.

    Attributes:
        dataset: The pair's dataset.
        pair_id: The pair.
        people: The number of people.
        share: People's share for `method_a`.
        disagreement: How often two people do not say the same; in a judge's row the distance of its share
            from people's.
    """

    dataset: str
    pair_id: str
    people: int
    share: float
    disagreement: float


@honours(unaffected=PLAN_KEYS)
def disagreements(evidence: Evidence) -> list[DisagreementRow]:
    """Return the pairs on which people disagree with each other or with a judge, the worst first."""
    rows = [
        DisagreementRow(
            *key, dataset=str(name), pair_id=str(pair), people=people, share=share, disagreement=d
        )
        for key, table in _tables(evidence)
        for (name, pair), people, share, d in table[table["disagreement"] > 0].itertuples(name=None)
    ]
    return sorted(rows, key=lambda row: (row.judge, -row.disagreement, row.key, row.dataset, row.pair_id))


def _tables(evidence: Evidence) -> Iterator[tuple[ResultKey, pd.DataFrame]]:
    """Yield each result of people, and of each judge with people, with a row for each pair."""
    scores = evidence.in_full_only.scored.raters
    for key, rated in by_cell(scores):
        if key.rater_kind not in PEOPLE_OF:
            yield key, _describe_pairs(rated)
    for key, rated, judged in judged_by_both(scores):
        people = _describe_pairs(rated)
        judge_share = judged.set_index(PAIR).eval("0.5 + net / showings / 2")
        yield key, people.assign(disagreement=(people["share"] - judge_share).abs())


def _describe_pairs(rated: pd.DataFrame) -> pd.DataFrame:
    """Return for each pair the number of people, their share, and how often two people disagree."""
    side = np.sign(rated["net"])
    verdicts = rated[PAIR].assign(wins=side > 0, ties=side == 0, losses=side < 0)
    counts = verdicts.groupby(PAIR, observed=True).sum()
    people = counts.sum(axis=1)
    alike = (counts * (counts - 1)).sum(axis=1) / (people * (people - 1))
    share = (counts["wins"] + counts["ties"] / 2) / people
    return pd.DataFrame({"people": people, "share": share, "disagreement": 1 - alike})


def section(evidence: Evidence) -> Section | None:
    """Ask on which pairs raters disagree most."""
    rows = evidence.rows(disagreements)
    if not rows:
        return None
    worst = [pairs[:SHOWN] for pairs in group_by(rows, lambda row: row.judge).values()]
    table = row_table(
        list(chain(*worst)),
        lambda row: {**name_result(row), "Dataset": row.dataset, "Pair": row.pair_id},
        lambda row: {
            "People": row.people,
            "Their share": percent(row.share, 0),
            "Disagreement": percent(row.disagreement, 0),
        },
        csv="disagreements",
        caption="Where people disagree most, with each other and with a judge",
        note="By people: how often two of them differ. By a judge: the distance of its share from people's.",
    )
    return Section(
        anchor="disagreements",
        question="On which pairs do raters disagree most?",
        answer=f"all {len(rows)} are in csv/disagreements.csv",
        tables=table,
    )


CSV: Csv = {"disagreements": disagreements}
