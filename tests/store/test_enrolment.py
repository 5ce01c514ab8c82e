"""People who come from a platform: the same id is the same rater, and nobody is let in without work."""

from dataclasses import replace

import pytest

from guard_eval.store import handout, pairs, raters, verdicts

pytestmark = pytest.mark.both_databases


@pytest.fixture
def study_of(store, make_pairs, plan):
    """Return what adds so many pairs and returns the plan with these limits."""

    def study_of(count, **limits):
        pairs.add(store, make_pairs(count))
        return replace(plan, **limits)

    return study_of


def enrol(store, number, plan):
    return raters.enrol(store, f"id-{number}", "prolific", plan)


def rate(store, who, plan, count):
    for _ in range(count):
        (shown,) = handout.claim(store, who, plan)
        verdicts.save(store, shown.presentation, {"fluency": "A"}, rater=who)


@pytest.mark.parametrize(
    ("count", "limits", "openings"),
    [
        (6, {"slots": 2}, 2),
        (6, {"slots": 2, "quota": 3}, 4),
        (6, {"slots": 2, "quota": 5}, 3),
        (6, {"slots": 1, "quota": 99}, 1),
        (1, {"slots": 3, "quota": 1}, 3),
        (0, {"slots": 2}, 0),
    ],
)
def test_as_many_enter_as_there_is_work_for(store, study_of, count, limits, openings):
    """Openings are slots over the pairs of each rater, rounded up."""
    plan = study_of(count, **limits)
    assert raters.count_openings(store, plan) == openings
    for number in range(openings):
        assert enrol(store, number, plan).refusal is None
        assert raters.count_openings(store, plan) == openings - number - 1
    refused = enrol(store, "late", plan)
    assert (refused.refusal, refused.rater, refused.token) == ("full", None, "")
    assert len(raters.read(store)) == openings


def test_a_platform_id_keeps_its_rater_in_a_full_study_too(store, make_pairs, one):
    pairs.add(store, make_pairs(2))
    first = enrol(store, 1, one)
    assert enrol(store, 2, one).refusal == "full"
    again = enrol(store, 1, one)
    assert again.rater == first.rater
    assert raters.sign_in(store, first.token) == raters.sign_in(store, again.token) == first.rater
    (row,) = raters.read(store)
    assert (row.source, row.external_id) == ("prolific", "id-1")


def test_another_browser_with_the_same_id_is_refused(store, make_pairs, plan):
    pairs.add(store, make_pairs(2))
    first = raters.enrol(store, "id", "prolific", plan, browsers=["secret"])
    stranger = raters.enrol(store, "id", "prolific", plan, browsers=["guess"])
    assert (stranger.refusal, stranger.rater, stranger.token) == ("elsewhere", None, "")
    assert raters.enrol(store, "id", "prolific", plan, browsers=["guess", "secret"]).rater == first.rater


def test_who_leaves_frees_the_opening_when_the_lease_is_over(store, make_pairs, one, clock):
    pairs.add(store, make_pairs(4))
    gone = enrol(store, 1, one).rater
    rate(store, gone, one, 1)
    handout.claim(store, gone, one)
    clock.advance(minutes=29)
    assert enrol(store, 2, one).refusal == "full"
    clock.advance(minutes=2)
    assert raters.count_openings(store, one) == 1
    new = enrol(store, 2, one).rater
    rate(store, new, one, 3)  # what the first one had open as well
    assert handout.claim(store, new, one) == handout.claim(store, gone, one) == []
    assert enrol(store, 3, one).refusal == "full"


def test_a_finished_study_is_full_and_an_excluded_rater_opens_it(store, make_pairs, one, clock):
    pairs.add(store, make_pairs(2))
    who = enrol(store, 1, one).rater
    rate(store, who, one, 2)
    clock.advance(hours=3)
    assert enrol(store, 2, one).refusal == "full"
    raters.exclude(store, who.name, "too fast", "owner")
    assert enrol(store, 2, one).refusal is None
