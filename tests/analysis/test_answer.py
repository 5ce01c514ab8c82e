"""The first paragraph says what the tests say, and never that methods are equal."""

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.answer import answer
from analysis.shares import share_rows
from analysis.tidy import validate
from analysis.words import equals, p_value


def rows(for_x, for_y, ties=0, *, criterion="coherence", kind="person", planned=None):
    said = ["x"] * for_x + ["y"] * for_y + ["tie"] * ties
    records = [
        {"pair_id": str(i), "dataset": "d", "method_a": "x", "method_b": "y", "rater": f"r-{kind}"}
        | {"criterion": criterion, "verdict": verdict, "rater_kind": kind}
        for i, verdict in enumerate(said)
    ]
    return share_rows(validate(pd.DataFrame(records)), planned=planned)


def test_a_difference():
    text = answer(rows(9, 1), alpha=0.05, exploratory=False)
    assert "1\u00a0person compared 10\u00a0pairs of continuations." in text
    # 2 · 11 / 1024 = .0215
    assert "x was preferred to y on coherence (win share 90.0\u00a0%" in text
    assert "p\u00a0=\u00a0.021)" in text


def test_the_one_ahead_comes_first():
    text = answer(rows(1, 9), alpha=0.05, exploratory=False)
    assert "y was preferred to x on coherence (win share 90.0\u00a0%" in text


def test_no_evidence():
    text = answer(rows(6, 4), alpha=0.05, exploratory=False)
    assert "There is no evidence of a difference between x and y on coherence (win share 60.0\u00a0%" in text
    assert "preferred" not in text


def test_no_test():
    text = answer(rows(0, 0, 5), alpha=0.05, exploratory=False)
    assert "every pair is balanced between x and y, so there is nothing to test" in text


def test_holm_decides():
    both = (*rows(9, 1), *rows(9, 1, criterion="fluency"))
    assert answer(both, alpha=0.05, exploratory=False).count("preferred") == 1
    frame = pd.DataFrame(
        [
            {"pair_id": str(i), "dataset": "d", "method_a": "x", "method_b": "y", "rater": "r"}
            | {"criterion": criterion, "verdict": "x" if i < 9 else "y"}
            for criterion in ("a", "b", "c")
            for i in range(10)
        ]
    )
    # Three of .0215 each: Holm gives .064.
    text = answer(share_rows(validate(frame)), alpha=0.05, exploratory=False)
    assert "no evidence of a difference" in text
    assert "preferred" not in text
    assert "after Holm's correction for 3 results" in text


def test_what_was_not_declared_is_left_to_the_table():
    planned = (("x", "y", "coherence"),)
    both = (*rows(5, 5, planned=planned), *rows(9, 1, criterion="fluency", planned=planned))
    text = answer(both, alpha=0.05, exploratory=False)
    assert "no evidence of a difference between x and y on coherence" in text
    assert "fluency" not in text
    assert "1\u00a0result outside the declared family" in text


def test_simulated_and_exploratory_are_said():
    text = answer(rows(9, 1, kind="simulated"), alpha=0.05, exploratory=True)
    assert text.startswith("These verdicts are SIMULATED")
    assert "exploratory" in text
    mixed = (*rows(9, 1, kind="simulated"), *rows(5, 5))
    assert answer(mixed, alpha=0.05, exploratory=False).startswith("Some of these verdicts are SIMULATED")


def test_many_results_stay_one_paragraph():
    many = tuple(row for i in range(9) for row in rows(9, 1, criterion=f"c{i}"))
    many += tuple(row for i in range(4) for row in rows(5, 5, criterion=f"n{i}"))
    text = answer(many, alpha=0.05, exploratory=False)
    assert "A difference also appears in 3\u00a0further results" in text
    assert "In 4\u00a0further results there is no evidence of a difference" in text
    assert "\n" not in text


@settings(max_examples=30)
@given(st.integers(0, 12), st.integers(0, 12), st.integers(0, 5))
def test_never_equal(for_x, for_y, ties):
    if for_x + for_y + ties == 0:
        return
    result = rows(for_x, for_y, ties)
    text = answer(result, alpha=0.05, exploratory=False)
    p = result[0].test.p_value
    assert "equal" not in text
    assert ("preferred" in text) == (p is not None and p <= 0.05)
    assert ("no evidence of a difference" in text) == (p is not None and p > 0.05)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.05, ".050"),
        (0.0499, ".050"),
        (0.5, ".50"),
        (0.00123, ".0012"),
        (0.999, ">.99"),
        (1e-300, "1.0e-300"),
    ],
)
def test_p_values_keep_two_digits(value, text):
    assert p_value(value) == text
    assert equals(None) == "no test"


def test_criteria_that_are_one_are_said_to_be():
    said = answer(rows(6, 4), alpha=0.05, exploratory=False, redundant=("a and b carry the same verdict",))
    assert "Of the criteria, a and b carry the same verdict." in said
    said = answer(rows(6, 4), alpha=0.05, exploratory=False, redundant=("one", "two"))
    assert "the audits name them" in said
