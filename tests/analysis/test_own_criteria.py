"""The titles of a study's own criteria, and what was reworded."""

import pytest

from guard_eval.reporting.words import title, titled
from guard_eval.rubric import Criterion, reworded


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
