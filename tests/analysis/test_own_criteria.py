"""A report on a study's own criteria: titles where people read, names in the files, nothing but text."""

import pandas as pd
import pytest

from guard_eval.reporting.words import title, titled
from guard_eval.rubric import Criterion, reworded

pytestmark = pytest.mark.slow

TITLE = "DNA <b>&amp; $x_1$ **b** \\input{x} 100% _u_ `c` {{ 7*7 }}"
DEFINITION = "<script>alert(1)</script> \\write18{x} ![x](https://example.org/x.png)"
WIT = Criterion(name="wit", title=TITLE, definition=DEFINITION)
A, B = "guard", "top_k(k=50)"


def verdicts():
    """Return a fixed pattern of wins, ties and losses by three people, on two criteria."""
    return pd.DataFrame(
        {
            "pair_id": f"p{item}",
            "dataset": "d",
            "method_a": A,
            "method_b": B,
            "rater": f"r{rater}",
            "rater_kind": "person",
            "criterion": criterion,
            "verdict": (A, A, "tie", B)[(item + rater * (item % 3)) % 4],
        }
        for item in range(12)
        for rater in range(3)
        for criterion in ("wit", "story_development")
    )


def test_a_title_lasts_as_long_as_it_is_asked_for():
    with titled({"wit": "Dry wit"}):
        assert title("wit") == "Dry wit"
    with pytest.raises(KeyError), titled({"wit": "Dry wit"}):
        raise KeyError
    assert title("wit") == "wit"


def test_what_was_reworded_is_said_of_what_is_known():
    before = {"wit": "Wit: old", "other": "Other: x"}
    new = Criterion(name="wit", title="Wit", definition="new")
    assert reworded(before, [new, Criterion(name="flow", title="Flow", definition="f")]) == [
        "'wit' was asked as 'Wit: old', and is now 'Wit: new'"
    ]
    assert reworded({"wit": "Wit: new"}, [new]) == []
