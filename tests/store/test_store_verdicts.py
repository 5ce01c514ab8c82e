"""Verdicts are appended: revisions, repeats, refusals."""

import math
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from guard_eval.errors import StudyError
from guard_eval.records import CHOICES
from guard_eval.store import Saved, Store, handout, pairs, raters, unblind, verdicts
from guard_eval.store import settings as store_settings


@pytest.fixture
def opened(store, make_pairs, plan):
    """A rater and the number of what it was handed."""
    pairs.add(store, make_pairs(3))
    rater, _ = raters.invite(store, "Ann")
    return rater, handout.claim(store, rater, plan)[0].presentation


def rows(store, number):
    """Return the revisions of a presentation's verdicts, by criterion."""
    revisions = {}
    for row in unblind.history(store):
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
def test_a_change_of_mind_adds_a_revision_and_a_repeat_adds_nothing(store, make_pairs, plan, history):
    pairs.add(store, make_pairs(1))
    rater = raters.get_or_add(store, f"simulated {len(raters.read(store))}", "simulated")
    number = handout.claim(store, rater, replace(plan, slots=500))[0].presentation
    assert verdicts.current(store, number, rater=rater) == {}
    expected = {}
    for choices in history:
        for criterion, choice in choices.items():
            before = expected.setdefault(criterion, [])
            if not before or before[-1][1] != choice:
                before.append((len(before), choice))
        saved = verdicts.save(store, number, choices, rater=rater)
        assert saved == Saved(revision=max(len(expected[name]) for name in choices) - 1, surplus=False)
    assert rows(store, number) == expected
    assert verdicts.current(store, number, rater=rater) == {
        name: last[-1][1] for name, last in expected.items()
    }
    assert {(row.criterion, row.position) for row in unblind.tidy(store) if row.presentation == number} == {
        (name, last[-1][1]) for name, last in expected.items()
    }


@pytest.mark.parametrize(
    ("given", "stored"), [(12.25, 12.25), (0.0, 0.0), (-1.0, None), (math.nan, None), (math.inf, None)]
)
def test_an_impossible_duration_does_not_cost_the_verdict(store, opened, given, stored):
    rater, number = opened
    verdicts.save(store, number, {"fluency": "A"}, rater=rater, seconds=given, active_seconds=given)
    (row,) = unblind.tidy(store)
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
        verdicts.save(store, number, choices, rater=rater)
    assert unblind.history(store) == []


def test_an_unknown_presentation_is_refused(store, opened):
    rater, _ = opened
    for number in (0, -1, 2, 4711, 2**31, 2**70):
        with pytest.raises(StudyError, match=f"no presentation {number}"):
            verdicts.save(store, number, {"fluency": "A"}, rater=rater)
        with pytest.raises(StudyError, match=f"no presentation {number}"):
            verdicts.current(store, number, rater=rater)


def test_somebody_elses_presentation_is_refused(store, opened):
    _, number = opened
    eve, _ = raters.invite(store, "Eve")
    with pytest.raises(StudyError, match=f"presentation {number} was not handed to the rater 'Eve'"):
        verdicts.save(store, number, {"fluency": "A"}, rater=eve)
    with pytest.raises(StudyError, match="not handed to the rater 'Eve'"):
        verdicts.current(store, number, rater=eve)
    assert unblind.history(store) == []


def test_the_first_verdict_keeps_the_settings_that_hold_for_its_rater(store_url, make_pairs, plan, judge):
    first = {"people": "first", "judge gpt": "first"}
    with Store.open(store_url, create=True, declared=first) as store:
        pairs.add(store, make_pairs(2))
        rater, _ = raters.invite(store, "Ann")
        given = handout.claim(store, rater, plan, limit=2)
        assert store_settings.declared(store, "people") is None
        verdicts.save(store, given[0].presentation, {"fluency": "A"}, rater=rater)
        assert (store_settings.declared(store, "people"), store_settings.declared(store, "judge gpt")) == (
            "first",
            None,
        )
    with Store.open(store_url, declared={"people": "changed since", "judge gpt": "its own"}) as store:
        verdicts.save(store, given[1].presentation, {"fluency": "A"}, rater=rater)
        judge(store, "gpt", plan)
        assert (store_settings.declared(store, "people"), store_settings.declared(store, "judge gpt")) == (
            "first",
            "its own",
        )


def test_settings_that_come_after_the_first_verdict_are_not_taken_for_its_own(store_url, make_pairs, plan):
    with Store.open(store_url, create=True) as store:
        pairs.add(store, make_pairs(1))
        rater, _ = raters.invite(store, "Ann")
        number = handout.claim(store, rater, plan)[0].presentation
        verdicts.save(store, number, {"fluency": "A"}, rater=rater)
    with Store.open(store_url, declared={"people": "too late"}) as store:
        verdicts.save(store, number, {"fluency": "B"}, rater=rater)
        assert store_settings.declared(store, "people") is None


def test_a_criterion_keeps_the_words_of_its_first_verdict(store, make_pairs, plan):
    pairs.add(store, make_pairs(1))
    ann, _ = raters.invite(store, "Ann")
    store_settings.set_criteria(store, {"wit": "Wit: a", "flow_": "Flow: a", "flowx": "Flow: b"})
    store_settings.set_criteria(store, {"wit": "Wit: b"})
    assert store_settings.criteria(store) == {}
    (shown,) = handout.claim(store, ann, plan)
    verdicts.save(store, shown.presentation, {"wit": "A", "flow_": "B"}, rater=ann)
    assert store_settings.criteria(store) == {"wit": "Wit: b", "flow_": "Flow: a"}
    store_settings.set_criteria(store, {"wit": "Wit: c", "flowx": "Flow: c"})
    assert store_settings.criteria(store) == {"wit": "Wit: b", "flow_": "Flow: a"}
