"""Length against statsmodels, hand arithmetic, and a planted effect whose truth is known."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from verdicts_by_hand import listed

from analysis.reports.sections import length
from analysis.results.bias import length_rows
from analysis.stats.bias import length_adjusted
from analysis.stats.intervals import wilson
from analysis.verdicts.tidy import orient, validate


def frame(rows, **columns):
    """Verdicts as (pair, verdict, length_a, length_b) on methods x and y."""
    return listed("pair_id verdict length_a length_b", rows, **columns)


@pytest.mark.parametrize("datasets", [1, 3])
def test_as_in_statsmodels(datasets):
    rng = np.random.default_rng(datasets)
    n = 45
    strata = [str(i % datasets) for i in range(n)]
    x = rng.normal(0.3, 0.6, n)
    shift = 0.08 * (np.arange(n) % datasets)
    y = np.clip(np.round(2 * (0.4 + 0.2 * x + shift + rng.normal(0, 0.3, n))) / 2, 0, 1)
    fit = length_adjusted(y, x, strata)
    dummies = [np.array([s == str(d) for s in strata]) - strata.count(str(d)) / n for d in range(1, datasets)]
    model = sm.OLS(y, np.column_stack([np.ones(n), x, *dummies])).fit(cov_type="HC3", use_t=True)
    limits = model.conf_int()
    for place, interval in enumerate((fit.adjusted, fit.slope)):
        assert interval.estimate == pytest.approx(model.params[place])
        assert (interval.low, interval.high) == pytest.approx(tuple(limits[place]))
    assert fit.slope_test.p_value == pytest.approx(model.pvalues[1])
    null = model.t_test(([1, *[0] * (datasets)], 0.5))
    assert fit.share_test.p_value == pytest.approx(float(null.pvalue))


def test_turning_the_methods_round_mirrors_the_fit():
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=30), rng.choice([0, 0.5, 1], 30)
    there, back = length_adjusted(y, x, ["d"] * 30), length_adjusted(1 - y, -x, ["d"] * 30)
    assert back.adjusted.estimate == pytest.approx(1 - there.adjusted.estimate)
    assert (back.adjusted.low, back.adjusted.high) == pytest.approx(
        (1 - there.adjusted.high, 1 - there.adjusted.low)
    )
    assert back.slope.estimate == pytest.approx(there.slope.estimate)
    assert back.slope_test.p_value == pytest.approx(there.slope_test.p_value)


def planted(seed, *, items=150, raters=3, effect=0.25, merit=0.0):
    """Method x writes longer, and people prefer the longer text; beyond that x is `merit` better."""
    rng = np.random.default_rng(seed)
    ratio = rng.normal(0.6, 0.5, items)
    taste = rng.normal(0, 0.1, items)  # ratings of an item depend on each other
    chance = np.clip(0.5 + merit + effect * ratio + taste, 0, 1)
    rows = [
        {"pair_id": str(i), "verdict": "x" if rng.random() < chance[i] else "y", "rater": str(rater)}
        | {"length_a": 1000 * 2 ** ratio[i], "length_b": 1000.0}
        for i in range(items)
        for rater in range(raters)
    ]
    table = pd.DataFrame(rows).assign(dataset="d", method_a="x", method_b="y", criterion="c")
    return validate(table)


def test_a_planted_length_effect_is_found_and_taken_away():
    (row,) = length_rows(planted(1))
    assert row.share > 0.6  # looks better
    assert row.longer_share.low > 0.5
    assert row.fit.adjusted.low < 0.5 < row.fit.adjusted.high  # and is not, at equal length
    assert row.fit.adjusted.high < row.share
    assert row.fit.slope.low < 0.25 < row.fit.slope.high
    assert row.fit.slope_test.p_value < 1e-6
    assert row.fit.correlation > 0.2
    assert row.ratio == pytest.approx(2**0.6, rel=0.1)


def test_merit_survives_the_adjustment_and_no_effect_is_not_invented():
    (row,) = length_rows(planted(2, effect=0.0, merit=0.2))
    assert row.fit.adjusted.low > 0.5
    assert row.fit.adjusted.low < 0.7 < row.fit.adjusted.high
    assert row.fit.slope.low < 0 < row.fit.slope.high


def test_the_intervals_cover():
    rng = np.random.default_rng(5)
    covered = np.zeros(2)
    for _ in range(400):
        x = rng.normal(0.4, 0.5, 40)
        y = rng.binomial(3, np.clip(0.45 + 0.15 * x, 0, 1)) / 3
        fit = length_adjusted(y, x, ["d"] * 40)
        covered += (fit.adjusted.low <= 0.45 <= fit.adjusted.high, fit.slope.low <= 0.15 <= fit.slope.high)
    # 400 draws at .95 leave this range one time in ten thousand.
    assert (covered / 400 > 0.91).all()
    assert (covered / 400 < 0.985).all()


def test_counts_by_hand():
    rows = [("1", "x", 20, 10), ("2", "y", 30, 10), ("3", "tie", 10, 40), ("4", "y", 10, 20)]
    rows += [("5", "x", 10, 10), ("6", "x", None, 10), ("7", "x", 0, 10)]
    (row,) = length_rows(frame(rows))
    # Longer: 1 and 4; shorter: 2; tie: 3; 5 is level; 6 and 7 have no ratio.
    assert (row.items, row.longer, row.shorter, row.ties) == (5, 2, 1, 1)
    assert row.longer_share == wilson(2, 3)
    again = pd.concat([frame(rows).assign(rater=name) for name in "abcd"])
    (four,) = length_rows(again)  # four raters who say the same are no more pairs
    assert (four.longer, four.longer_share.n) == (8, 3)
    assert four.longer_share.low <= row.longer_share.low
    assert row.share == pytest.approx((1 + 0 + 0.5 + 0 + 1) / 5)
    # log₂: 1, log₂ 3, −2, −1, 0
    assert row.ratio == pytest.approx((2 * 3 * 0.25 * 0.5) ** (1 / 5))
    assert row.warnings == ("2\u00a0pairs without both lengths left out",)


def test_orient_takes_the_lengths_along():
    turned = frame([("2", "x", 40, 10)], method_a="y", method_b="x")
    table = orient(validate(pd.concat([frame([("1", "x", 20, 10)]), turned], ignore_index=True)))
    (row,) = length_rows(table)
    assert (row.longer, row.shorter) == (1, 1)  # pair 2: y's 40 against x's 10, and x was preferred


def test_a_pair_with_several_lengths():
    rows = frame([("1", "x", 20, 10), ("2", "y", 10, 10)])
    more = frame([("1", "x", 60, 10)], rater="s")
    (row,) = length_rows(validate(pd.concat([rows, more], ignore_index=True)))
    assert row.warnings == ("1\u00a0pair with several lengths; the middle one is taken",)
    assert row.ratio == pytest.approx(2)  # √(40/10 · 1)


def test_no_lengths_no_rows():
    assert length_rows(frame([("1", "x", None, 3)])) == ()
    assert length_rows(frame([("1", "x", 1, 3)]).drop(columns="length_a")) == ()
    assert length.section(()) is None


@pytest.mark.parametrize(
    ("shares", "ratios", "strata", "why"),
    [
        ([], [], "", "too few"),
        ([1.0, 0.0], [0.1, 0.2], "dd", "too few"),
        ([1.0, 0.0, 0.5], [0.5, 0.5, 0.5], "ddd", "the same in every pair"),
        ([1.0, 0.0, 0.5, 1.0], [0.0, 0.0, 1.0, 1.0], "ccdd", "within datasets"),
    ],
)
def test_what_cannot_be_told(shares, ratios, strata, why):
    fit = length_adjusted(shares, ratios, list(strata))
    assert fit.adjusted.estimate is None
    assert fit.slope_test.p_value is None
    assert why in fit.adjusted.warnings[0]


def test_all_shares_alike_have_no_interval():
    fit = length_adjusted([1.0] * 6, [0.1, -0.2, 0.3, 0.0, 0.5, -1.0], ["d"] * 6)
    assert fit.adjusted.estimate == pytest.approx(1.0)
    assert (fit.adjusted.low, fit.slope_test.p_value, fit.correlation) == (None, None, None)


def test_extrapolation_is_told_of_and_cut():
    fit = length_adjusted([0.5, 0.4, 0.9, 1.0, 1.0], [1.0, 1.1, 1.6, 1.9, 2.2], ["d"] * 5)
    assert any("extrapolated" in text for text in fit.adjusted.warnings)
    assert any("was cut" in text for text in fit.adjusted.warnings)
    assert fit.adjusted.low == 0.0


def test_a_lone_item_of_a_dataset():
    fit = length_adjusted([0.5, 0.4, 0.9, 1.0, 1.0], [-1.0, 1.1, 0.6, 1.9, 2.2], list("cdddd"))
    assert "only one item" in fit.adjusted.warnings[0]
    assert fit.adjusted.low is not None


def test_wrong_input_is_refused():
    with pytest.raises(ValueError, match="per item"):
        length_adjusted([1.0], [1.0, 2.0], ["d"])
    with pytest.raises(ValueError, match="finite"):
        length_adjusted([1.0, 0.0], [1.0, np.nan], ["d", "d"])
