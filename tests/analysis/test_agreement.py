"""Fleiss' κ against Fleiss 1971, irrCAC and statsmodels; what is undefined is said to be."""

import csv
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from statsmodels.stats.inter_rater import fleiss_kappa

from analysis.report.sections.agreement import agreement_table
from analysis.results.agreement import agreement_rows
from analysis.stats.agreement import fleiss
from analysis.verdicts.tidy import validate

GOLDEN = Path(__file__).parents[1] / "golden"


def test_fleiss_1971():
    table = np.loadtxt(GOLDEN / "fleiss_1971_diagnoses.csv", delimiter=",", skiprows=1, dtype=int)[:, 1:]
    assert table.shape == (30, 5)
    assert set(table.sum(axis=1)) == {6}
    result = fleiss(table)
    assert result.kappa == pytest.approx(0.430, abs=5e-4)
    assert result.raw == pytest.approx(0.5556, abs=5e-4)
    assert result.expected == pytest.approx(0.2199, abs=5e-4)


def test_missing_cells_as_in_irrcac():
    with (GOLDEN / "irrcac_raw_4raters.csv").open(encoding="utf-8") as file:
        units = [[cell for cell in row[1:] if cell] for row in list(csv.reader(file))[1:]]
    result = fleiss([[unit.count(str(k)) for k in range(1, 6)] for unit in units])
    assert result.kappa == pytest.approx(0.76117, abs=5e-6)
    assert result.standard_error == pytest.approx(0.15302, abs=5e-6)
    assert result.low == pytest.approx(0.42438, abs=5e-6)
    assert result.high == 1.0
    assert result.raw == pytest.approx(0.81818, abs=5e-6)
    assert result.expected == pytest.approx(0.23872, abs=5e-6)
    assert result.n == 11
    assert len(result.warnings) == 2


TABLES = st.integers(2, 6).flatmap(
    lambda raters: st.lists(
        st.lists(st.integers(0, 2), min_size=raters, max_size=raters), min_size=2, max_size=25
    )
)


@given(TABLES)
def test_random_tables_as_in_statsmodels(ratings):
    table = np.array([[item.count(k) for k in range(3)] for item in ratings])
    assume((table.sum(axis=0) > 0).sum() > 1)
    assert fleiss(table).kappa == pytest.approx(fleiss_kappa(table), abs=1e-9)


@settings(max_examples=8)
@given(TABLES, st.randoms(use_true_random=False))
def test_kappa_ignores_the_order_of_raters_and_items(ratings, random):
    def kappa(items):
        rows = [
            {
                "pair_id": str(i),
                "dataset": "d",
                "method_a": "x",
                "method_b": "y",
                "rater": str(r),
                "criterion": "c",
            }
            | {"verdict": ("x", "tie", "y")[verdict]}
            for i, item in items
            for r, verdict in enumerate(item)
        ]
        return agreement_rows(validate(pd.DataFrame(rows)))[0].agreement.kappa

    items = list(enumerate(ratings))
    shuffled = [(i, random.sample(item, len(item))) for i, item in random.sample(items, len(items))]
    assert kappa(items) == (None if kappa(shuffled) is None else pytest.approx(kappa(shuffled), abs=1e-12))


def test_all_the_same_is_undefined_and_not_one():
    result = fleiss([[4, 0, 0], [4, 0, 0]])
    assert result.kappa is None
    assert result.raw == 1.0
    assert "all verdicts are the same" in result.reason


def test_one_rater_is_undefined():
    result = fleiss([[1, 0, 0], [0, 1, 0]])
    assert result.kappa is None
    assert result.raw is None
    assert "rated twice" in result.reason
    assert fleiss(np.zeros((0, 3), dtype=int)).kappa is None


def test_perfect_agreement_has_no_interval():
    result = fleiss([[3, 0], [0, 3], [3, 0]])
    assert result.kappa == pytest.approx(1.0)
    assert result.low is None
    assert result.warnings


def test_the_kappa_paradox():
    # Two raters, 80 % raw agreement: balanced .60, skewed −.11.
    balanced = fleiss([[2, 0]] * 40 + [[0, 2]] * 40 + [[1, 1]] * 20)
    skewed = fleiss([[2, 0]] * 80 + [[1, 1]] * 20)
    assert balanced.raw == skewed.raw == pytest.approx(0.8)
    assert balanced.kappa == pytest.approx(0.60)
    assert skewed.kappa == pytest.approx(-0.11, abs=0.005)


def test_counts_that_are_none_are_refused():
    with pytest.raises(ValueError, match="non-negative integers"):
        fleiss([[-1, 2]])
    with pytest.raises(ValueError, match="non-negative integers"):
        fleiss([[0.5, 1.5]])


def test_the_paradox_of_kappa_is_pointed_out():
    # Eight pairs both for x, one x y, one y x: raw .8; κ = (.8 − .82)/(1 − .82) = −.11;
    # AC1: chance ½(.9·.1 + .1·.9) = .09 over three categories, (.8 − .09)/.91 = .78.
    said = ["xx"] * 8 + ["xy", "yx"]
    rows = [
        {"pair_id": f"p{i}", "dataset": "d", "method_a": "x", "method_b": "y", "rater": f"r{j}"}
        | {"criterion": "fluency", "verdict": verdict}
        for i, both in enumerate(said)
        for j, verdict in enumerate(both)
    ]
    (row,) = agreement_rows(validate(pd.DataFrame(rows)))
    assert row.agreement.kappa == pytest.approx(-0.02 / 0.18)
    assert row.ac1.value == pytest.approx(0.71 / 0.91)
    # α = 1 − D_o/D_e = 1 − (4/20)/(2·18·2/(20·19)): its chance is without replacement.
    assert row.alpha.value == pytest.approx(1 - (4 / 20) / (2 * 18 * 2 / (20 * 19)))
    assert row.paradox
    table = agreement_table((row,))
    assert "Fluency, people: raters mostly agree, and κ is low because one verdict dominates." in table.note
    assert table.columns[-2:] == ("Krippendorff's α, ordinal", "Gwet's AC1")
