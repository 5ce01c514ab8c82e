"""Agreement against published figures, other programs and sums written out."""

import csv
from pathlib import Path

import krippendorff
import numpy as np
import pytest
from statsmodels.stats import inter_rater
from verdicts_by_hand import as_table, evidence, joined, table

from analysis.sections import ANALYSES
from analysis.stats.agreement import (
    cohen_kappa,
    fleiss_kappa,
    gwet_ac1,
    intraclass_correlation,
    krippendorff_alpha,
    raw_agreement,
)

agreement = as_table(ANALYSES["agreement"])
GOLDEN = Path(__file__).parents[1] / "golden"
# irrCAC's distrib.6raters (Gwet 2014): 15 patients, 6 psychiatrists, 5 diagnoses.
SIX_RATERS = [
    [0, 0, 0, 6, 0], [0, 3, 0, 0, 3], [0, 1, 4, 0, 1], [0, 0, 0, 0, 6], [0, 3, 0, 3, 0],
    [2, 0, 4, 0, 0], [0, 0, 4, 0, 2], [2, 0, 3, 1, 0], [2, 0, 0, 4, 0], [0, 0, 0, 0, 6],
    [1, 0, 0, 5, 0], [1, 1, 0, 4, 0], [0, 3, 3, 0, 0], [1, 0, 0, 5, 0], [0, 2, 0, 3, 1],
]  # fmt: skip
# irrCAC's cont3x3abstractors (Gwet 2014): 100 records, 2 abstractors.
ABSTRACTORS = np.array([[13, 0, 0], [0, 20, 7], [0, 4, 56]])


def golden(name):
    with (GOLDEN / name).open(encoding="utf-8") as file:
        return [[int(cell) for cell in row[1:] if cell] for row in list(csv.reader(file))[1:]]


def two_raters(counts):
    return np.divmod(np.repeat(np.arange(counts.size), counts.ravel()), len(counts))


def drawn(seed, items=30, raters=4, categories=3):
    rng = np.random.default_rng(seed)
    lean = rng.dirichlet(np.ones(categories), size=items)
    return np.array([rng.multinomial(raters, row) for row in lean])


def test_incomplete_data_give_published_coefficients():
    assert fleiss_kappa(golden("fleiss_1971_diagnoses.csv")).value == pytest.approx(0.430, abs=5e-4)
    # Krippendorff's example with missing data, which is also irrCAC's cac.raw4raters.
    rows = golden("irrcac_raw_4raters.csv")
    ratings = [np.bincount(row, minlength=6)[1:] for row in rows]
    assert fleiss_kappa(ratings).value == pytest.approx(0.76117, abs=5e-6)
    assert gwet_ac1(ratings).value == pytest.approx(0.77544, abs=5e-6)
    assert raw_agreement(ratings) == pytest.approx(0.81818, abs=5e-6)
    assert krippendorff_alpha(ratings).value == pytest.approx(0.815388, abs=5e-7)


def test_complete_data_give_published_coefficients():
    ratings = SIX_RATERS
    assert gwet_ac1(ratings).value == pytest.approx(0.4448007, abs=5e-8)
    # irrCAC's linearised errors are near the jackknife's.
    assert fleiss_kappa(ratings).error == pytest.approx(0.08119291, rel=0.05)
    assert gwet_ac1(ratings).error == pytest.approx(0.08418757, rel=0.05)
    first, second = two_raters(ABSTRACTORS)
    kappa = cohen_kappa(first, second, unit=np.arange(100))
    assert kappa.value == pytest.approx(0.7964094, abs=5e-8)
    assert kappa.error == pytest.approx(0.05891072, rel=0.05)


@pytest.mark.parametrize("seed", range(3))
def test_coefficients_agree_with_statsmodels_and_krippendorff(seed):
    counts = drawn(seed)
    ratings, kappa = counts, inter_rater.fleiss_kappa(counts)
    alpha = krippendorff.alpha(value_counts=counts, level_of_measurement="ordinal")
    assert fleiss_kappa(ratings).value == pytest.approx(kappa, abs=1e-9)
    assert krippendorff_alpha(ratings).value == pytest.approx(alpha, abs=1e-9)
    counted = np.random.default_rng(seed).integers(1, 9, (3, 3))
    first, second = two_raters(counted)
    kappa = inter_rater.cohens_kappa(counted).kappa
    assert cohen_kappa(first, second, unit=np.arange(len(first))).value == pytest.approx(kappa, abs=1e-9)


def test_intraclass_correlation_follows_hand_arithmetic():
    # Items (0, 2), (4, 6): means 1 and 5; MSB = 2·((1 − 3)² + (5 − 3)²)/1 = 16, MSW = (1+1+1+1)/2 = 2.
    # ICC(1) = (16 − 2)/(16 + 2) = 7/9.
    assert intraclass_correlation([0, 0, 1, 1], [0, 2, 4, 6], [0, 1]).value == pytest.approx(7 / 9)


@pytest.mark.parametrize("coefficient", [fleiss_kappa, krippendorff_alpha])
@pytest.mark.parametrize(
    ("counts", "note"),
    [([[4, 0, 0], [3, 0, 0]], "all verdicts are the same"), ([[1, 0], [0, 1]], "no item was rated twice")],
)
def test_undefined_coefficient_gives_its_reason(coefficient, counts, note):
    result = coefficient(counts)
    assert result.value is None
    assert note in result.note


def test_nearly_unanimous_verdicts_give_no_interval():
    counts = [[0, 3]] * 30 + [[1, 2]] * 4
    result = fleiss_kappa(counts)
    assert (result.value is None, result.low) == (False, None)
    assert "fewer than 5 items" in result.note
    assert fleiss_kappa([[0, 3]] * 30 + [[1, 2]] * 5).low is not None


def test_agreement_interval_uses_prompts_as_units():
    counts = drawn(1)
    doubled, unit = np.repeat(counts, 2, axis=0), np.repeat(np.arange(30), 2)
    single, other = fleiss_kappa(counts), fleiss_kappa(doubled, unit)
    assert (single.value, single.low, single.high) == pytest.approx((other.value, other.low, other.high))
    assert fleiss_kappa(doubled).high < other.high


def test_agreement_needs_two_raters_of_one_kind():
    people = table({f"{pair}": "xy-"[pair % 3] * 2 for pair in range(9)})
    judge = table({f"{pair}": "x" for pair in range(9)}, kind="model", raters=["m"])
    whole = agreement(evidence(joined(people, judge)))
    assert list(whole["rater_kind"]) == ["person"]
    assert whole["fleiss_kappa"].iloc[0] == pytest.approx(1)


def forced(**changes):
    """Return agreement of two raters without ties who agree on 126 of 200 pairs; half prefer each method."""
    letters = ["xx"] * 63 + ["yy"] * 63 + ["xy"] * 37 + ["yx"] * 37
    frame = table({f"p{number:03}": pair for number, pair in enumerate(letters)})
    return agreement(evidence(frame, **changes)).iloc[0]


def test_ac1_uses_number_of_available_choices():
    # Raw .63. Two choices: (.63 − .5)/.5 = .26, as irrCAC's; three: (.63 − .25)/.75 = .5067.
    assert forced()["gwet_ac1"] == pytest.approx(0.26)
    assert forced()["fleiss_kappa"] == pytest.approx(0.26)
    assert forced()["categories"] == 2
    assert forced(ties=True)["gwet_ac1"] == pytest.approx(0.38 / 0.75)


def test_ac1_of_identical_verdicts_is_one():
    assert gwet_ac1([[4, 0, 0], [3, 0, 0]]).value == 1


@pytest.mark.parametrize("once", [0, 32, 500])
def test_agreement_below_minus_one_is_undefined(once):
    """Of 13 pairs rated twice one agrees: p_a = 13/169, and p_x = 7/13, so p_e = 85/169 and κ = −72/84.

    Scores are 1 and −1: MSW = 24/13 and MSB = (2 − 4/26) / 12 = 2/13, so ICC(1) = −22/26. Pairs with one
    rating would make both coefficients smaller than −1.
    """
    letters = {str(n): "xy" for n in range(12)} | {"12": "xx"} | {f"once {n}": "x" for n in range(once)}
    row = agreement(evidence(table(letters))).iloc[0]
    coefficients = ["fleiss_kappa", "icc1"]
    if once:
        assert row[[*coefficients, "kappa_low", "icc1_low", "design_effect"]].isna().all()
        assert "too few items were rated twice" in row["note"]
    else:
        assert row[coefficients].tolist() == pytest.approx([-72 / 84, -22 / 26])
        assert row["design_effect"] == pytest.approx(1 - 22 / 26)


def test_possible_coefficients_use_pairs_with_one_rating():
    """Of six pairs four agree (p_a = 2/3), and six more have one x: p_x = 9/12, p_y = 3/12, p_e = .625."""
    letters = {"0": "xx", "1": "xx", "2": "yy", "3": "yy", "4": "xy", "5": "xy"}
    letters |= {f"once {n}": "x" for n in range(6)}
    row = agreement(evidence(table(letters))).iloc[0]
    assert row["fleiss_kappa"] == pytest.approx((2 / 3 - 0.625) / (1 - 0.625))
