"""Win shares with each order weighing the same: scipy, statsmodels and a planted preference for a place."""

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats
from verdicts_by_hand import listed

from analysis.reports.sections import position
from analysis.results.bias import order_rows, position_rows
from analysis.stats.bias import order_adjusted
from analysis.stats.intervals import wilson

NAN = float("nan")


def test_both_orders_of_every_item_as_in_scipy():
    rng = np.random.default_rng(1)
    first, second = rng.choice([0, 0.5, 1], 30), rng.choice([0, 0.5, 1], 30, p=[0.5, 0.3, 0.2])
    result = order_adjusted(first, second)
    test = stats.ttest_1samp((first + second) / 2, 0.5)
    assert result.adjusted.estimate == pytest.approx(np.mean(first + second) / 2)
    assert (result.adjusted.low, result.adjusted.high) == pytest.approx(tuple(test.confidence_interval()))
    assert result.test.p_value == pytest.approx(test.pvalue)
    paired = stats.ttest_rel(first, second).confidence_interval()
    assert (result.effect.low, result.effect.high) == pytest.approx(tuple(paired))
    assert result.both == 30


def test_one_order_an_item_is_the_regression_on_place():
    rng = np.random.default_rng(2)
    here = rng.random(50) < 0.7
    scores = rng.choice([0, 0.5, 1], 50)
    result = order_adjusted(np.where(here, scores, np.nan), np.where(here, np.nan, scores))
    model = sm.OLS(scores, np.column_stack([np.ones(50), here - 0.5])).fit(cov_type="HC2")
    assert result.adjusted.estimate == pytest.approx(model.params[0])
    assert result.effect.estimate == pytest.approx(model.params[1])
    # HC2 is Σ s²/n within the two orders; the limits take the rarer order's degrees of freedom.
    half = stats.t.ppf(0.975, min(here.sum(), (~here).sum()) - 1) * model.bse[0]
    assert result.adjusted.high - result.adjusted.estimate == pytest.approx(half)
    assert result.both == 0


def test_what_cannot_be_told():
    never = order_adjusted([1.0, 0.0], [NAN, NAN])
    assert (never.adjusted.estimate, never.first, never.second, never.test.p_value) == (None, 0.5, None, None)
    assert "never had one of the two places" in never.adjusted.warnings[0]
    lone = order_adjusted([1.0, 0.0], [1.0, NAN])
    assert (lone.adjusted.estimate, lone.adjusted.low) == (0.75, None)
    alike = order_adjusted([1.0, 1.0], [1.0, 1.0])
    assert (alike.adjusted.estimate, alike.adjusted.low, alike.test.p_value) == (1.0, None, None)
    assert order_adjusted([], []).adjusted.estimate is None
    with pytest.raises(ValueError, match="per item and order"):
        order_adjusted([1.0], [])


def frame(rows, **columns):
    return listed("pair_id rater verdict shown_first presentation", rows, **columns)


def test_by_hand():
    rows = [
        ("1", "r", "x", "x", "0"),
        ("1", "r", "y", "y", "1"),
        ("2", "r", "x", "x", "0"),
        ("2", "s", "y", "x", "1"),
    ]
    rows += [("3", "r", "tie", "y", "0"), ("4", "r", "x", None, "0")]
    (row,) = order_rows(frame(rows))
    assert row.result.first == pytest.approx((1 + 0.5) / 2)  # pair 2: the two raters' mean
    assert row.result.second == pytest.approx((0 + 0.5) / 2)
    assert row.result.adjusted.estimate == pytest.approx(0.5)
    assert row.result.both == 1
    assert order_rows(frame(rows).drop(columns="shown_first")) == ()


def test_a_planted_preference_for_the_first_is_taken_away():
    rng = np.random.default_rng(7)
    rows = []
    for i in range(400):
        first = "x" if rng.random() < 0.8 else "y"  # x has the first place far too often
        chance = 0.5 + (0.2 if first == "x" else -0.2)
        rows.append((str(i), "r", "x" if rng.random() < chance else "y", first, "0"))
    (row,) = order_rows(frame(rows))
    raw = sum(verdict == "x" for _, _, verdict, _, _ in rows) / 400
    assert raw > 0.57  # 0.8 · 0.7 + 0.2 · 0.3 = 0.62
    assert row.result.adjusted.low < 0.5 < row.result.adjusted.high
    assert row.result.effect.low < 0.4 < row.result.effect.high
    assert row.result.effect.low > 0.2


def test_flips_and_changes():
    rows = [("1", "gpt", "x", "x", "0"), ("1", "gpt", "y", "y", "1")]  # a flip
    rows += [("2", "gpt", "x", "x", "0"), ("2", "gpt", "x", "y", "1")]  # steadfast
    rows += [("3", "gpt", "tie", "x", "0"), ("3", "gpt", "y", "y", "1")]  # a change
    rows += [("4", "gpt", "x", "x", "0"), ("4", "gpt", "y", "x", "1")]  # the same order twice does not count
    (row,) = position_rows(frame(rows))
    assert (row.both_orders, row.flipped, row.changed) == (3, 1, 2)
    assert row.flips == wilson(1, 3)


def test_the_section_shows_flips_and_adjusted_shares():
    table = frame([("1", "gpt", "x", "x", "0"), ("1", "gpt", "y", "y", "1"), ("2", "gpt", "x", "x", "0")])
    section = position.section(position_rows(table), order_rows(table), name_methods=False)
    assert section.parts[0].rows[0][-1].startswith("1 of 1: 100.0")
    assert set(section.exports) == {"position", "position_adjusted"}
    assert section.parts[1].rows[0][-1] == "no test"
    assert position.section(()).paragraphs


def test_preference_for_a_place_by_hand():
    rows = [
        ("1", "r", "x", "x", "0"),
        ("2", "r", "x", "x", "1"),
        ("3", "r", "y", "y", "2"),
        ("4", "r", "x", "y", "3"),
    ]
    (row,) = position_rows(frame([*rows, ("5", "r", "tie", "x", "4"), ("6", "r", "x", None, "5")]))
    # First won pairs 1, 2, 3; second won 4; one tie; one whose place is unknown is left out.
    assert (row.first, row.second, row.ties) == (3, 1, 1)
    assert row.share == wilson(3, 4)
    assert row.a_first == pytest.approx(3 / 5)
    assert not row.warnings


def test_unbalanced_sides_are_warned_of():
    (row,) = position_rows(frame([(str(i), "r", "x", "x", str(i)) for i in range(8)]))
    assert "100%" in row.warnings[0]


def test_only_ties_leave_the_share_undefined():
    (row,) = position_rows(frame([("1", "r", "tie", "x", "0")]))
    assert row.share.estimate is None


def test_unknown_places_give_no_row():
    table = frame([("1", "r", "x", "x", "0")])
    assert position_rows(table.drop(columns="shown_first")) == ()
