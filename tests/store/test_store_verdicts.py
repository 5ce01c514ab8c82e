"""Verdicts are appended: revisions, repeats, refusals."""

import math

import pytest
from hypothesis import HealthCheck, given, settings
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


def rows(store):
    from sqlalchemy import select

    from guard_eval.store.schema import verdict

    with store._database.read() as connection:
        order = (verdict.c.criterion, verdict.c.revision)
        return [
            (row.criterion, row.revision, row.choice)
            for row in connection.execute(select(verdict).order_by(*order))
        ]


def test_a_change_of_mind_adds_a_revision_and_loses_nothing(store, opened):
    rater, number = opened
    assert store.current(number, rater=rater) == {}
    assert store.save(number, {"fluency": "A", "coherence": "tie"}, rater=rater) == Saved(
        revision=0, surplus=False
    )
    assert store.save(number, {"fluency": "B", "coherence": "tie"}, rater=rater) == Saved(
        revision=1, surplus=False
    )
    assert store.current(number, rater=rater) == {"fluency": "B", "coherence": "tie"}
    assert rows(store) == [("coherence", 0, "tie"), ("fluency", 0, "A"), ("fluency", 1, "B")]
    assert [(row.criterion, row.verdict) for row in store.tidy()][::2] == [("coherence", "tie")]
    assert len(store.tidy()) == 2


def test_a_double_click_adds_nothing(store, opened, clock):
    rater, number = opened
    for _ in range(3):
        assert store.save(number, {"fluency": "A"}, rater=rater, seconds=4.5) == Saved(
            revision=0, surplus=False
        )
        clock.advance(seconds=1)
    assert rows(store) == [("fluency", 0, "A")]


def test_going_back_to_an_earlier_choice_is_a_revision(store, opened):
    rater, number = opened
    for choice in ("A", "B", "A"):
        store.save(number, {"fluency": choice}, rater=rater)
    assert rows(store) == [("fluency", 0, "A"), ("fluency", 1, "B"), ("fluency", 2, "A")]


def test_a_criterion_can_come_later(store, opened):
    rater, number = opened
    store.save(number, {"fluency": "A"}, rater=rater)
    assert store.save(number, {"coherence": "B"}, rater=rater).revision == 0
    assert store.current(number, rater=rater) == {"fluency": "A", "coherence": "B"}


def test_any_criterion_is_taken(store, opened):
    rater, number = opened
    choices = dict.fromkeys(["any name", "nul \x00", "\ud800", "ä" * 200], "A")
    store.save(number, choices, rater=rater)
    assert store.current(number, rater=rater) == choices


@pytest.mark.parametrize("name", ["", " ", "x" * 201])
def test_a_criterion_without_a_usable_name_is_refused(store, opened, name):
    rater, number = opened
    with pytest.raises(StudyError, match="criterion"):
        store.save(number, {name: "A"}, rater=rater)


def test_durations_are_kept(store, opened):
    rater, number = opened
    store.save(number, {"fluency": "A"}, rater=rater, seconds=12.25, active_seconds=8.5)
    row = store.tidy()[0]
    assert (row.seconds, row.active_seconds) == (12.25, 8.5)


@pytest.mark.parametrize("wrong", [-1.0, math.nan, math.inf])
def test_an_impossible_duration_does_not_cost_the_verdict(store, opened, wrong):
    rater, number = opened
    store.save(number, {"fluency": "A"}, rater=rater, seconds=wrong, active_seconds=wrong)
    row = store.tidy()[0]
    assert (row.seconds, row.active_seconds) == (None, None)


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
    assert rows(store) == []


def test_an_empty_verdict_is_refused(store, opened):
    rater, number = opened
    with pytest.raises(StudyError, match="empty"):
        store.save(number, {}, rater=rater)


def test_a_wrong_choice_is_refused_with_the_whole_verdict(store, opened):
    rater, number = opened
    for choice in ("C", "a", "", "guard", None, 1):
        with pytest.raises(StudyError, match="is no choice for 'coherence'; choose from: A, tie, B"):
            store.save(number, {"fluency": "A", "coherence": choice}, rater=rater)
    assert rows(store) == []


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


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    history=st.lists(
        st.dictionaries(st.sampled_from("xyz"), st.sampled_from(CHOICES), min_size=1), max_size=6
    )
)
def test_the_current_choices_are_the_last_ones_given(store, make_pairs, plan, claim, history):
    store.add_pairs(make_pairs(1))
    judge = store.rater(f"judge {len(store.raters())}", "model")
    number = claim(store, judge, plan)[0].presentation
    expected = {}
    for choices in history:
        store.save(number, choices, rater=judge)
        expected |= choices
    assert store.current(number, rater=judge) == expected
