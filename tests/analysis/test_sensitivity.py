"""Other ways of analysing the same verdicts."""

from fractions import Fraction

import pandas as pd
import pytest

from analysis.sensitivity import DEFAULT, sensitivity_rows
from analysis.shares import share_rows
from analysis.tidy import orient, validate

# Four pairs, three raters: x x y | x x tie | y y y | x tie tie.
SAID = {"p1": "xxy", "p2": "xx-", "p3": "yyy", "p4": "x--"}


def table(said=SAID, kind="person"):
    rows = [
        {
            "pair_id": pair,
            "dataset": "d",
            "method_a": "x",
            "method_b": "y",
            "rater": f"r{number}",
            "rater_kind": kind,
            "criterion": "coherence",
            "verdict": {"-": "tie"}.get(verdict, verdict),
        }
        for pair, verdicts in said.items()
        for number, verdict in enumerate(verdicts)
    ]
    return orient(validate(pd.DataFrame(rows)))


def by_way(frame):
    return {row.analysis: row for row in sensitivity_rows(frame)}


def test_shares_by_hand():
    rows = by_way(table())
    # Item means 2/3, 5/6, 0, 2/3.
    assert rows[DEFAULT].share == pytest.approx(float(Fraction(2, 3) + Fraction(5, 6) + Fraction(2, 3)) / 4)
    pooled = rows["ratings pooled as in the paper, binomial on non-ties"]
    assert pooled.share == pytest.approx((5 + 3 / 2) / 12)
    assert pooled.test.statistic == 5
    majority = rows["majority of raters, sign test"]
    assert (majority.share, majority.test.n) == (0.75, 4)
    # Without ties: 2/3, 1, 0, 1.
    assert rows["ties dropped, sign-flip test"].share == pytest.approx((2 / 3 + 2) / 4)


def test_the_worst_rater_to_lose_by_hand():
    row = by_way(table())["one of 3 raters left out, the worst case"]
    # Without r0: 1/2, 3/4, 0, 1/2; without r1: 1/2, 3/4, 0, 3/4; without r2: 1, 1, 0, 3/4.
    assert row.note.endswith("the share lies between 0.438 and 0.688")
    assert row.note.startswith("without r1")  # whose absence leaves the methods level
    assert (row.share, row.test.p_value) == (pytest.approx(0.5), 1.0)


def test_the_default_is_that_of_the_shares():
    frame = table()
    (share,) = share_rows(frame)
    row = by_way(frame)[DEFAULT]
    assert (row.share, row.test) == (share.share.estimate, share.test)


def test_all_ties_have_no_test_in_any_way():
    rows = by_way(table({"p1": "--", "p2": "--"}))
    assert all(row.test.p_value is None for row in rows.values())
    assert "ties dropped, sign-flip test" not in rows


def test_one_rater_cannot_be_left_out():
    assert not any("left out" in way for way in by_way(table({"p1": "x", "p2": "y"})))


def test_kinds_are_never_pooled():
    both = pd.concat([table(), table(kind="model")])
    kinds = [row.rater_kind for row in sensitivity_rows(both)]
    assert kinds == ["person"] * 6 + ["model"] * 6
