"""Preference for a place, by hand."""

import pandas as pd
import pytest

from analysis.results.position import position_rows
from analysis.stats.intervals import wilson
from analysis.verdicts.tidy import validate


def frame(rows):
    columns = ["pair_id", "rater", "verdict", "shown_first", "presentation"]
    table = pd.DataFrame(rows, columns=columns).assign(dataset="d", method_a="x", method_b="y", criterion="c")
    return validate(table)


def test_by_hand():
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


def test_flips():
    rows = [("1", "gpt", "x", "x", "0"), ("1", "gpt", "y", "y", "1")]  # always the first: a flip
    rows += [("2", "gpt", "x", "x", "0"), ("2", "gpt", "x", "y", "1")]  # steadfast
    rows += [("3", "gpt", "tie", "x", "0"), ("3", "gpt", "y", "y", "1")]  # a tie is no flip
    rows += [("4", "gpt", "x", "x", "0"), ("4", "gpt", "y", "x", "1")]  # the same order twice does not count
    (row,) = position_rows(frame(rows))
    assert (row.both_orders, row.flipped) == (3, 1)


def test_only_ties_leave_the_share_undefined():
    (row,) = position_rows(frame([("1", "r", "tie", "x", "0")]))
    assert row.share.estimate is None


def test_unknown_places_give_no_row():
    table = frame([("1", "r", "x", "x", "0")])
    assert position_rows(table.drop(columns="shown_first")) == ()
