"""Raters one by one, by hand."""

import pandas as pd
import pytest

from analysis.reports.sections.raters import section
from analysis.results.raters import rater_rows
from analysis.stats.intervals import wilson
from analysis.verdicts.tidy import orient, validate


def table(by_pair, **columns):
    """Verdicts as {pair: {rater: verdict}} on methods x and y."""
    rows = [
        {"pair_id": pair, "dataset": "d", "method_a": "x", "method_b": "y", "rater": rater}
        | {"criterion": "c", "verdict": verdict}
        | {name: value(pair, rater) for name, value in columns.items()}
        for pair, by in by_pair.items()
        for rater, verdict in by.items()
    ]
    return orient(validate(pd.DataFrame(rows)))


SAID = {
    "p1": {"ada": "x", "bob": "x", "cy": "y"},
    "p2": {"ada": "x", "bob": "tie", "cy": "x"},
    "p3": {"ada": "tie"},
}


def test_agreement_with_the_rest_by_hand():
    ada, bob, cy = rater_rows(table(SAID))
    # p1: ada and bob agree, cy with neither; p2: ada and cy agree, bob with neither; p3: ada alone.
    assert [(row.agreement, row.compared) for row in (ada, bob, cy)] == [(0.5, 4), (0.25, 4), (0.25, 4)]
    assert (ada.pairs, ada.verdicts, ada.ties) == (3, 3, pytest.approx(1 / 3))
    assert (bob.ties, cy.ties) == (0.5, 0.0)
    assert ada.first is None
    assert ada.seconds is None


def test_places_and_pace():
    frame = table(
        SAID,
        shown_first=lambda pair, _: "x" if pair == "p1" else "y",
        seconds=lambda pair, _: {"p1": 4.0, "p2": 10.0, "p3": 5.0}[pair],
    )
    ada, _, cy = rater_rows(frame)
    assert ada.first == wilson(1, 2)  # x first in p1 and chose x; y first in p2 and chose x
    assert cy.first == wilson(0, 2)
    assert ada.seconds == 5.0


def test_verdicts_on_several_criteria_of_a_pair_are_no_more_pairs():
    by_pair = {f"p{number:02}": {"ada": "x" if number % 2 else "y"} for number in range(20)}
    once = table(by_pair, shown_first=lambda *_: "x")
    (alone,) = rater_rows(once)
    several = pd.concat([once.assign(criterion=name) for name in "abcd"], ignore_index=True)
    (row,) = rater_rows(several)
    assert alone.first == wilson(10, 20)
    assert (row.verdicts, row.first.n) == (80, 20)
    assert row.first.low <= alone.first.low < alone.first.high <= row.first.high


def test_a_rater_alone_agrees_with_nobody():
    (row,) = rater_rows(table({"p1": {"ada": "x"}, "p2": {"ada": "tie"}}))
    assert (row.agreement, row.compared) == (None, 0)


def test_many_raters_are_cut_in_the_report_and_counted():
    by_pair = {"p1": {f"r{number:02}": "x" for number in range(45)}}
    (shown,) = section(rater_rows(table(by_pair))).parts
    assert len(shown.rows) == 40
    assert "5 more stand in raters.csv" in shown.note
