"""Verdicts are appended: revisions, repeats, refusals."""

import math

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from guard_eval.errors import StudyError
from guard_eval.records import CHOICES
from guard_eval.store import Saved, Store


@pytest.fixture
def opened(store, make_pairs, plan):
    """A rater and the number of what it was handed."""
    store.add_pairs(make_pairs(3))
    rater, _ = store.invite("Ann")
    return rater, store.hand_out(rater, plan)[0].presentation


def rows(store, number):
    """Return the revisions of a presentation's verdicts, by criterion."""
    revisions = {}
    for row in store.history():
        if row.presentation == number:
            revisions.setdefault(row.criterion, []).append((row.revision, row.position))
    return revisions


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    history=st.lists(
        st.dictionaries(st.sampled_from("xyz"), st.sampled_from(CHOICES), min_size=1), max_size=6
    )
)
@example([{"x": "A", "y": "tie"}, {"x": "B", "y": "tie"}, {"x": "A"}, {"x": "A"}, {"z": "B"}])
def test_a_change_of_mind_adds_a_revision_and_a_repeat_adds_nothing(store, make_pairs, plan, claim, history):
    store.add_pairs(make_pairs(1))
    judge = store.rater(f"judge {len(store.raters())}", "model")
    number = claim(store, judge, plan)[0].presentation
    assert store.current(number, rater=judge) == {}
    expected = {}
    for choices in history:
        for criterion, choice in choices.items():
            before = expected.setdefault(criterion, [])
            if not before or before[-1][1] != choice:
                before.append((len(before), choice))
        saved = store.save(number, choices, rater=judge)
        assert saved == Saved(revision=max(len(expected[name]) for name in choices) - 1, surplus=False)
    assert rows(store, number) == expected
    assert store.current(number, rater=judge) == {name: last[-1][1] for name, last in expected.items()}
    assert {(row.criterion, row.position) for row in store.tidy() if row.presentation == number} == {
        (name, last[-1][1]) for name, last in expected.items()
    }


@pytest.mark.parametrize(
    ("given", "stored"), [(12.25, 12.25), (0.0, 0.0), (-1.0, None), (math.nan, None), (math.inf, None)]
)
def test_an_impossible_duration_does_not_cost_the_verdict(store, opened, given, stored):
    rater, number = opened
    store.save(number, {"fluency": "A"}, rater=rater, seconds=given, active_seconds=given)
    (row,) = store.tidy()
    assert (row.seconds, row.active_seconds) == (stored, stored)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({}, "empty"),
        *(({"fluency": "A", name: "A"}, "criterion") for name in ("", " ", "x" * 201)),
        *(
            ({"fluency": "A", "coherence": wrong}, "is no choice for 'coherence'; choose from: A, tie, B")
            for wrong in ("C", "a", "", "guard", None, 1)
        ),
    ],
)
def test_a_verdict_that_makes_no_sense_is_refused_as_a_whole(store, opened, choices, message):
    rater, number = opened
    with pytest.raises(StudyError, match=message):
        store.save(number, choices, rater=rater)
    assert store.history() == []


def test_any_criterion_is_taken(store, opened):
    rater, number = opened
    choices = dict.fromkeys(["any name", "nul \x00", "\ud800", "ä" * 200], "A")
    store.save(number, choices, rater=rater)
    assert store.current(number, rater=rater) == choices


def test_an_unknown_presentation_is_refused(store, opened):
    rater, _ = opened
    for number in (0, -1, 2, 4711, 2**31, 2**70):
        with pytest.raises(StudyError, match=f"no presentation {number}"):
            store.save(number, {"fluency": "A"}, rater=rater)
        with pytest.raises(StudyError, match=f"no presentation {number}"):
            store.current(number, rater=rater)


def test_somebody_elses_presentation_is_refused(store, opened):
    _, number = opened
    eve, _ = store.invite("Eve")
    with pytest.raises(StudyError, match=f"presentation {number} was not handed to the rater 'Eve'"):
        store.save(number, {"fluency": "A"}, rater=eve)
    with pytest.raises(StudyError, match="not handed to the rater 'Eve'"):
        store.current(number, rater=eve)
    assert store.history() == []


def test_the_first_verdict_keeps_the_studys_hash(store_url, make_pairs, plan):
    with Store.open(store_url, create=True, study_hash="first") as store:
        store.add_pairs(make_pairs(2))
        rater, _ = store.invite("Ann")
        given = store.hand_out(rater, plan, limit=2)
        assert store.study_hash() is None
        store.save(given[0].presentation, {"fluency": "A"}, rater=rater)
        assert store.study_hash() == "first"
    with Store.open(store_url, study_hash="changed since") as store:
        store.save(given[1].presentation, {"fluency": "A"}, rater=rater)
        assert store.study_hash() == "first"


def test_a_hash_that_comes_after_the_first_verdict_is_not_taken_for_it(store_url, make_pairs, plan):
    with Store.open(store_url, create=True) as store:
        store.add_pairs(make_pairs(1))
        rater, _ = store.invite("Ann")
        number = store.hand_out(rater, plan)[0].presentation
        store.save(number, {"fluency": "A"}, rater=rater)
    with Store.open(store_url, study_hash="too late") as store:
        store.save(number, {"fluency": "B"}, rater=rater)
        assert store.study_hash() is None


def test_a_criterion_keeps_the_words_of_its_first_verdict(store, make_pairs, plan):
    store.add_pairs(make_pairs(1))
    ann, _ = store.invite("Ann")
    store.set_criteria({"wit": "Wit: a", "flow_": "Flow: a", "flowx": "Flow: b"})
    store.set_criteria({"wit": "Wit: b"})
    assert store.criteria() == {}
    (shown,) = store.hand_out(ann, plan)
    store.save(shown.presentation, {"wit": "A", "flow_": "B"}, rater=ann)
    assert store.criteria() == {"wit": "Wit: b", "flow_": "Flow: a"}
    store.set_criteria({"wit": "Wit: c", "flowx": "Flow: c"})
    assert store.criteria() == {"wit": "Wit: b", "flow_": "Flow: a"}
