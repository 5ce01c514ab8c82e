"""Pairs on which raters disagree, and a judge that contradicts itself: against sums done by hand."""

import pandas as pd
import pytest
from verdicts_by_hand import evidence, joined, table

from analysis.sections.raters import disagreements
from analysis.sections.raters.disagreements import list_disagreements, make_section
from analysis.sections.raters.order_and_length import measure_position_effect
from analysis.verdicts.checks import check_verdicts

PEOPLE = table({"p1": "xxyy", "p2": "xxx-", "p3": "xxxx", "p4": "y"})
JUDGE = table({"p1": "x", "p2": "-", "p3": "y", "p5": "x"}, kind="model", raters=["gpt"])


def test_pairs_with_most_disagreement_are_listed_first():
    collected = evidence(joined(PEOPLE, JUDGE))
    rows = list_disagreements(collected)
    people = {row.pair_id: row.disagreement for row in rows if not row.judge}
    # Of the six couples of raters of a pair four differ on p1, and three on p2.
    assert list(people.items()) == [("p1", pytest.approx(4 / 6)), ("p2", pytest.approx(3 / 6))]
    judged = [(row.pair_id, row.share, row.disagreement) for row in rows if row.judge]
    # People's shares are 1/2, 7/8 and 1; the judge's 1, 1/2 and 0.
    assert judged == [("p3", 1.0, 1.0), ("p1", 0.5, 0.5), ("p2", 0.875, 0.375)]
    page = make_section(collected)
    assert page.answer == "Up to 67\u00a0% disagreement, on coherence"
    assert "csv/disagreements.csv has a row for each pair and criterion" in page.tables[0].note
    assert "p1" in page.tables[0].rows[0]


def test_only_the_largest_disagreements_are_listed(monkeypatch):
    monkeypatch.setattr(disagreements, "MOST_ROWS", 1)
    rows = list_disagreements(evidence(joined(PEOPLE, JUDGE)))
    assert [(row.judge, row.pair_id) for row in rows] == [("", "p1"), ("gpt", "p3")]


def test_full_agreement_gives_no_section_on_disagreements():
    assert make_section(evidence(table({"p1": "xx", "p2": "--", "p3": "y"}))) is None


def test_contradictions_compare_verdicts_of_one_order():
    """Of three samples in each order one differs, on p1; that the orders differ is no contradiction."""
    said = {("p1", "x"): "xxy", ("p1", "y"): "yyy", ("p2", "x"): "---", ("p2", "y"): "xxx"}
    rows = [
        {"pair_id": pair, "dataset": "d", "method_a": "x", "method_b": "y", "rater": "gpt", "criterion": "c"}
        | {"rater_kind": "model", "verdict": {"-": "tie"}.get(letter, letter), "shown_first": first}
        | {"presentation": f"{pair}{first}{number}"}
        for (pair, first), letters in said.items()
        for number, letter in enumerate(letters)
    ]
    [row] = measure_position_effect(evidence(check_verdicts(pd.DataFrame(rows))))
    assert (row.repeated, row.contradictions.value) == (4, 0.25)
    [once] = measure_position_effect(evidence(check_verdicts(pd.DataFrame(rows[::3]))))
    assert (once.repeated, once.contradictions.value) == (0, None)
