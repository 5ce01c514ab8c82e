"""A pair that a rater cannot judge goes to another one, and is no verdict."""

from dataclasses import replace

import pytest
from rating import people

from guard_eval.errors import StudyError
from guard_eval.store import handout, notes, pairs, unblind, verdicts
from guard_eval.store import raters as store_raters
from guard_eval.store.handout import MOST_SKIPS, SPARE_SKIPS


@pytest.fixture
def skip(store, plan):
    """Let a rater skip the pair before it; return the pair's number."""

    def skip(rater, *, reasons=("unreadable",), by=None, **options):
        (given,) = handout.claim(store, rater, by or plan)
        assert handout.skip(store, given.presentation, reasons, rater=rater, **options)
        return given.presentation

    return skip


def pairs_of(store, *numbers):
    with store.read() as connection:
        from sqlalchemy import select

        from guard_eval.store.schema import presentation

        statement = select(presentation.c.id, presentation.c.pair_id)
        result = {row.id: row.pair_id for row in connection.execute(statement)}
    return [result[number] for number in numbers]


def test_a_skipped_pair_goes_to_another_rater_at_once_and_never_back(store, make_pairs, one, skip):
    pairs.add(store, make_pairs(1))
    ann, ben = people(store, "Ann", "Ben")
    number = skip(ann, by=one, comment="half of it is boxes")
    assert handout.claim(store, ann, one) == []
    assert handout.progress(store, ann, one) == (0, 0)
    (given,) = handout.claim(store, ben, one)
    assert pairs_of(store, number) == pairs_of(store, given.presentation)
    verdicts.save(store, given.presentation, {"fluency": "A"}, rater=ben)
    assert [row.rater for row in unblind.tidy(store)] == ["Ben"]
    assert [(row.rater, row.detail) for row in notes.read(store, kind="skip")] == [("Ann", "unreadable")]
    assert [(note.kind, note.detail) for note in notes.read(store, rater=ann)] == [
        ("skip", "unreadable"),
        ("comment", "half of it is boxes"),
    ]


def test_a_press_that_comes_twice_skips_once(store, make_pairs, plan, skip):
    pairs.add(store, make_pairs(3))
    (ann,) = people(store, "Ann")
    number = skip(ann)
    assert handout.skip(store, number, ["unreadable"], rater=ann)
    assert len(notes.read(store, kind="skip")) == len(notes.read(store)) == 1


@pytest.mark.parametrize("reasons", [[], ["unreadable"]])
def test_what_was_rated_or_has_no_reason_is_not_skipped(store, make_pairs, plan, reasons):
    pairs.add(store, make_pairs(2))
    ann, ben = people(store, "Ann", "Ben")
    (given,) = handout.claim(store, ann, plan)
    if reasons:
        verdicts.save(store, given.presentation, {"fluency": "A"}, rater=ann)
    with pytest.raises(StudyError, match="was rated, or no reason"):
        handout.skip(store, given.presentation, reasons, rater=ann)
    with pytest.raises(StudyError, match="not handed to the rater 'Ben'"):
        handout.skip(store, given.presentation, ["unreadable"], rater=ben)
    assert notes.read(store, kind="skip") == []


def test_who_skips_everything_is_stopped(store, make_pairs, plan, skip):
    pairs.add(store, make_pairs(20))
    (ann,) = people(store, "Ann")
    for _ in range(SPARE_SKIPS):
        skip(ann)
    (given,) = handout.claim(store, ann, plan)
    assert not handout.skip(store, given.presentation, ["unreadable"], rater=ann)
    assert handout.claim(store, ann, plan)[0].presentation == given.presentation
    verdicts.save(store, given.presentation, {"fluency": "A"}, rater=ann)
    skip(ann)
    assert len(notes.read(store, kind="skip")) == SPARE_SKIPS + 1


def test_a_pair_that_several_skipped_is_given_to_nobody_new(store, make_pairs, plan, skip):
    pairs.add(store, make_pairs(1))
    raters = people(store, *(f"R{number}" for number in range(MOST_SKIPS + 1)))
    for rater in raters[:-1]:
        assert handout.progress(store, raters[-1], plan) == (0, 1)
        skip(rater)
    assert handout.claim(store, raters[-1], plan) == []
    assert handout.progress(store, raters[-1], plan) == (0, 0)
    # another number of raters a pair marks all pairs again
    assert handout.claim(store, raters[-1], replace(plan, slots=4)) == []
    # skips of somebody who is excluded say nothing
    store_raters.exclude(store, "R0", "skips everything", "owner")
    assert len(handout.claim(store, raters[-1], plan)) == 1


def test_a_verdict_that_comes_after_a_skip_is_kept_and_does_not_count(store, make_pairs, plan, skip):
    pairs.add(store, make_pairs(2))
    (ann,) = people(store, "Ann")
    number = skip(ann)
    assert verdicts.save(store, number, {"fluency": "A"}, rater=ann).surplus
    assert unblind.tidy(store) == []
