"""Agreement of each two raters and on each verdict: against statsmodels, identities and hand arithmetic."""

from pathlib import Path

import numpy as np
import pytest
from statsmodels.stats.inter_rater import cohens_kappa, fleiss_kappa
from verdicts_by_hand import table

from analysis.reports.sections.agreement import matrix, section
from analysis.results import agreement
from analysis.results.agreement import agreement_rows, by_category
from analysis.stats.agreement import fleiss

GOLDEN = Path(__file__).parents[1] / "golden"

# Seven pairs, three raters.
SAID = {"p1": "xxx", "p2": "xy-", "p3": "yyx", "p4": "x--", "p5": "y-y", "p6": "xxx", "p7": "--x"}
PLACE = {"x": 0, "-": 1, "y": 2}


def test_each_category_of_fleiss_1971_as_statsmodels_has_it_against_the_rest():
    counts = np.loadtxt(GOLDEN / "fleiss_1971_diagnoses.csv", delimiter=",", skiprows=1, dtype=int)[:, 1:]
    found = by_category(counts)
    for one, column in zip(found, counts.T, strict=True):
        assert one.value == pytest.approx(fleiss_kappa(np.stack([column, 6 - column], axis=1)))
    # κ is the mean of the categories' κ with weights p(1 − p) (Fleiss 1971).
    shares = counts.sum(axis=0) / counts.sum()
    weights = shares * (1 - shares)
    assert weights @ [one.value for one in found] / weights.sum() == pytest.approx(fleiss(counts).value)


def test_a_category_by_hand():
    # Ties of two raters in 4 pairs: both, one, none, none. p = 3/8, raw = (1 + 0 + 1 + 1)/4;
    # chance = (3/8)² + (5/8)² = 34/64; κ = (3/4 − 17/32)/(15/32) = 7/15.
    (row,) = agreement_rows(table({"p1": "--", "p2": "-x", "p3": "xy", "p4": "xx"}))
    assert row.categories[1].value == pytest.approx(7 / 15)
    assert row.categories[1].low is None  # 2 pairs have a tie


def test_a_verdict_that_nobody_gave_has_no_kappa():
    (row,) = agreement_rows(table({"p1": "xx", "p2": "xy", "p3": "yy"}))
    assert row.categories[1].value is None
    assert row.categories[0].value == pytest.approx(row.categories[2].value)


def test_ac2_by_hand():
    # Weights of a tie beside a method 2/3, of the methods 0. Raw (2/3 + 1 + 1)/3 = 8/9; shares 3/6, 1/6, 2/6;
    # chance (3 + 4·2/3)/6 · (1/4 + 5/36 + 2/9) = 187/324; AC2 = (288 − 187)/(324 − 187).
    (row,) = agreement_rows(table({"p1": "x-", "p2": "xx", "p3": "yy"}))
    assert row.ac2.value == pytest.approx(101 / 137)


def test_each_two_raters_as_in_statsmodels():
    (row,) = agreement_rows(table(SAID))
    assert [(pair.first, pair.second) for pair in row.pairs] == [("r0", "r1"), ("r0", "r2"), ("r1", "r2")]
    for pair in row.pairs:
        one, other = int(pair.first[1]), int(pair.second[1])
        counts = np.zeros((3, 3))
        for letters in SAID.values():
            counts[PLACE[letters[one]], PLACE[letters[other]]] += 1
        theirs = cohens_kappa(counts)
        assert pair.kappa.value == pytest.approx(theirs.kappa)
        assert pair.kappa.standard_error == pytest.approx(theirs.std_kappa)
        assert pair.kappa.n == 7


def test_two_raters_meet_where_both_have_rated():
    (row,) = agreement_rows(table({"p1": "xx ", "p2": "xy ", "p3": "y x", "p4": "x x", "p5": " xx"}))
    found = {(pair.first, pair.second): pair.kappa.n for pair in row.pairs}
    assert found == {("r0", "r1"): 2, ("r0", "r2"): 2, ("r1", "r2"): 1}


def test_two_who_always_say_the_same_thing_are_undefined_and_not_counted():
    (row,) = agreement_rows(table({"p1": "xxy", "p2": "xxx", "p3": "xx-"}))
    first, *others = row.pairs
    assert first.kappa.value is None
    assert "all verdicts are the same" in first.kappa.reason
    assert len(row.kappas) == len(others) == 2


@pytest.mark.parametrize(
    ("cells", "why"),
    [
        ({"p1": "x", "p2": "y"}, "there is one rater"),
        ({"p1": "x ", "p2": " y"}, "no two raters have rated the same pair"),
    ],
)
def test_where_there_are_no_two(cells, why):
    (row,) = agreement_rows(table(cells))
    assert (row.pairs, row.kappas, row.no_pairs) == ((), (), why)


def test_a_crowd_is_not_taken_two_by_two(monkeypatch):
    monkeypatch.setattr(agreement, "MOST_RATERS", 2)
    (row,) = agreement_rows(table(SAID))
    assert row.no_pairs == "there are 3 raters, more than 2"
    assert row.categories[0].value is not None


def test_the_matrix_has_kappa_below_and_pairs_above():
    (row,) = agreement_rows(table({**SAID, "p8": "xx "}))
    shown = matrix(row, name_methods=False)
    assert shown.columns == ("Rater", "r0", "r1", "r2")
    assert shown.rows[0] == ("r0", "", 8, 7)
    kappa = {(pair.first, pair.second): pair.kappa.value for pair in row.pairs}
    assert shown.rows[2] == (
        "r2",
        f"{kappa['r0', 'r2']:.2f}".replace("-", "−"),
        f"{kappa['r1', 'r2']:.2f}".replace("-", "−"),
        "",
    )


def test_the_section_shows_and_exports_the_details():
    frame = table(SAID, kind="simulated")
    found = section(agreement_rows(frame), name_methods=False)
    captions = [part.caption for part in found.parts if hasattr(part, "caption")]
    assert captions == [
        "Agreement between raters of one kind",
        "Agreement on each verdict",
        "Agreement of scores, and what the ratings are worth",
        "Agreement of each two raters",
        "Two by two: coherence, SIMULATED raters",
    ]
    (figure,) = found.drawings
    assert "Fleiss' κ" in figure.description
    assert "SIMULATED" in figure.svg
    export = found.exports["agreement"]
    (row,) = agreement_rows(frame)
    assert export.rows[0][export.columns.index("fleiss_kappa")] == row.agreement.value
    assert export.rows[0][export.columns.index("gwet_ac2_ordinal")] == agreement_rows(frame)[0].ac2.value
    assert len(found.exports["agreement_of_two"].rows) == 3
    assert {row[0] for row in found.exports["agreement_of_two"].rows} == {True}


def test_one_rater_has_a_section_without_details():
    frame = table({"p1": "x", "p2": "y"})
    found = section(agreement_rows(frame), name_methods=False)
    assert len(found.parts) == 1
    assert "agreement_of_two" not in found.exports
    assert section((), name_methods=False) is None
