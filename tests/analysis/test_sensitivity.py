"""Other ways of analysing the same verdicts."""

from fractions import Fraction

import pytest
from statsmodels.stats.proportion import proportion_confint
from verdicts_by_hand import table

from analysis.reports.sections.sensitivity import survival_table
from analysis.results import sensitivity
from analysis.results.sensitivity import BOOTSTRAP, MODELS, THESE, UNTIED, sensitivity_rows
from analysis.results.shares import share_rows

# Four pairs, three raters: x x y | x x tie | y y y | x tie tie.
SAID = {"p1": "xxy", "p2": "xx-", "p3": "yyy", "p4": "x--"}


def by_way(frame):
    return {row.analysis: row for row in sensitivity_rows(frame)}


def test_shares_by_hand():
    rows = by_way(table(SAID))
    # Item means 2/3, 5/6, 0, 2/3.
    assert rows[f"{THESE} (the default)"].share == pytest.approx(
        float(Fraction(2, 3) + Fraction(5, 6) + Fraction(2, 3)) / 4
    )
    pooled = rows["ratings pooled, binomial on non-ties"]
    assert pooled.share == pytest.approx((5 + 3 / 2) / 12)
    assert pooled.test.statistic == 5
    majority = rows["majority of raters, sign test"]
    assert (majority.share, majority.test.n) == (0.75, 4)
    # Without ties: 2/3, 1, 0, 1.
    assert rows["ties dropped, sign-flip test"].share == pytest.approx((2 / 3 + 2) / 4)


def test_the_worst_rater_to_lose_by_hand():
    row = by_way(table(SAID))["one of 3 raters left out, the worst case"]
    # Without r0: 1/2, 3/4, 0, 1/2; without r1: 1/2, 3/4, 0, 3/4; without r2: 1, 1, 0, 3/4.
    assert row.note.endswith("the share lies between 0.438 and 0.688")
    assert row.note.startswith("without r1")  # whose absence leaves the methods level
    # Three items are off balance, so that no p could be below 2/2³.
    assert (row.share, row.test.p_value, row.test.smallest) == (pytest.approx(0.5), None, 0.25)


def test_the_default_is_that_of_the_shares():
    frame = table(SAID)
    (share,) = share_rows(frame)
    row = by_way(frame)[f"{THESE} (the default)"]
    assert (row.share, row.interval, row.test) == (share.share.estimate, share.share, share.test)


def test_all_ties_have_no_test_in_any_way():
    rows = by_way(table({"p1": "--", "p2": "--"}))
    assert all(row.test.p_value is None for row in rows.values())
    assert "ties dropped, sign-flip test" not in rows


def test_one_rater_cannot_be_left_out():
    assert not any("left out" in way for way in by_way(table({"p1": "x", "p2": "y"})))


def test_the_rate_among_non_ties_has_both_intervals():
    row = by_way(table(SAID))[UNTIED]
    assert (row.share, row.test.n) == (5 / 9, 9)
    wilson, exact = (proportion_confint(5, 9, method=method) for method in ("wilson", "beta"))
    assert (row.interval.low, row.interval.high) == pytest.approx(wilson)
    assert (row.exact.low, row.exact.high) == pytest.approx(exact)
    assert row.note == f"Wilson's interval; Clopper–Pearson's {100 * exact[0]:.1f} to {100 * exact[1]:.1f}"


def test_models_of_a_large_table_are_left_out_and_it_says_so(monkeypatch):
    monkeypatch.setattr(sensitivity, "MOST_RATINGS", 11)
    rows = by_way(table(SAID))
    assert rows[MODELS].note == "not fitted: the table has 12 verdicts, more than 11"
    assert rows[MODELS].test.p_value is None
    assert not any("GEE" in way for way in rows if way != MODELS)


def test_the_place_is_adjusted_for_only_where_it_is_known():
    by_pair = {f"p{i}": letters for i, letters in enumerate(["xy", "xx", "-x", "yx", "xx", "x-", "yy", "xx"])}
    first = dict.fromkeys(by_pair, "xy")  # r0 always sees x first, r1 y: place and rater cannot be told apart
    row = by_way(table(by_pair, first=first))["linear GEE, adjusted for place"]
    # Half-way between the places, which are the raters: (5 + 1/2) / 8 either way.
    assert row.share == pytest.approx(11 / 16)
    assert "no terms for raters: they cannot be separated from the place" in row.note
    assert not any("place" in way for way in by_way(table(by_pair)))


def test_what_survives_is_counted():
    # 24 of 30 pairs for x by both raters: every analysis finds it.
    by_pair = {
        f"p{i:02}": letters for i, letters in enumerate(["xx"] * 20 + ["xy", "x-"] * 3 + ["yy"] * 3 + ["--"])
    }
    rows = sensitivity_rows(table(by_pair))
    found = survival_table(rows, name_methods=False)
    (cells,) = found.rows
    tested = [row for row in rows if not row.default and row.test.p_value is not None]
    assert cells[found.columns.index("Below")] == f"{len(tested)} of {len(tested)}"
    assert cells[found.columns.index("Other side")] == 0
    assert cells[2] == max(tested, key=lambda row: row.test.p_value).analysis
    # At α = 0 nothing is below.
    (none,) = survival_table(rows, alpha=1e-30, name_methods=False).rows
    assert none[found.columns.index("Below")] == f"0 of {len(tested)}"


def test_the_bootstrap_gives_an_interval_and_no_test():
    row = by_way(table(SAID))[BOOTSTRAP]
    # Items' means 2/3, 5/6, 0, 2/3: a resample has the mean 0 in 1 of 256, and at least 5/6 in as many.
    assert row.share == pytest.approx((2 / 3 + 5 / 6 + 2 / 3) / 4)
    assert 0 < row.interval.low < row.share < row.interval.high < 5 / 6
    assert row.test.p_value is None
    assert row.note.startswith("Monte-Carlo error of a limit")
