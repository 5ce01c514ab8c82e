"""Notes on raters and pairs: appended, once, with the verdict they belong to."""

import pytest

from guard_eval.errors import StudyError
from guard_eval.records import Rater
from guard_eval.store import Note


@pytest.fixture
def opened(store, make_pairs, plan):
    """A rater and the number of what it was handed."""
    store.add_pairs(make_pairs(3))
    rater, _ = store.invite("Ann")
    return rater, store.hand_out(rater, plan)[0].presentation


def details(store, **wanted):
    return [(note.kind, note.detail) for note in store.notes(**wanted)]


def test_a_note_says_who_what_and_when(store, opened, clock):
    ann, number = opened
    store.note(ann, "consent", "yes")
    clock.advance(minutes=1)
    store.note(ann, "problem", "garbled \x00 \ud800", presentation=number)
    first, second = store.notes()
    assert first == Note(
        rater="Ann", kind="consent", detail="yes", presentation=None, at=second.at.replace(minute=4)
    )
    assert (second.detail, second.presentation, second.at) == ("garbled \x00 \ud800", number, clock())


def test_notes_are_chosen_by_rater_kind_and_presentation_in_the_order_written(store, opened, clock):
    ann, number = opened
    ben, _ = store.invite("Ben")
    store.note(ann, "break", "1")
    clock.advance(hours=-2)  # the order does not hang on the clock
    store.note(ben, "break", "2")
    store.note(ann, "comment", "3", presentation=number)
    assert details(store) == [("break", "1"), ("break", "2"), ("comment", "3")]
    assert details(store, rater=ann) == details(store, rater="Ann") == [("break", "1"), ("comment", "3")]
    assert details(store, kind="break") == [("break", "1"), ("break", "2")]
    assert details(store, rater=ben, kind="comment") == details(store, presentation=number + 1) == []
    assert details(store, presentation=number) == [("comment", "3")]


def test_a_note_that_cannot_be_is_refused(store, opened):
    ann, number = opened
    eve, _ = store.invite("Eve")
    nobody = Rater(id=99, name="Nobody", kind="person")
    for error, message, who, kind, detail, shown in (
        (StudyError, "'Nobody' is not of this study", nobody, "consent", "", None),
        (StudyError, f"presentation {number} was not handed to the rater 'Eve'", eve, "comment", "", number),
        (StudyError, "comment has 20001 characters; write at most 20000", ann, "comment", "x" * 20_001, None),
        (ValueError, "'gossip' is no kind of note; choose from: arrival, consent", ann, "gossip", "", None),
        (ValueError, "Store.exclude", ann, "exclude", "", None),
        (ValueError, "Store.include", ann, "include", "", None),
    ):
        with pytest.raises(error, match=message):
            store.note(who, kind, detail, presentation=shown)
    assert store.notes() == []


def test_remarks_are_saved_with_the_verdict_and_repeats_add_nothing(store, opened):
    ann, number = opened
    store.save(number, {"fluency": "A"}, rater=ann, comment="", problem="")
    assert store.notes() == []  # an empty remark on a new pair is none
    for _ in range(2):  # a double click
        store.save(number, {"fluency": "A"}, rater=ann, comment="hard", problem="cut off")
    assert details(store) == [("comment", "hard"), ("problem", "cut off")]
    store.save(number, {"fluency": "B"}, rater=ann)  # says nothing of remarks
    store.save(number, {"fluency": "B"}, rater=ann, comment="harder", problem="cut off")
    store.save(number, {"fluency": "B"}, rater=ann, comment="")  # takes the comment back
    assert details(store, kind="comment") == [("comment", "hard"), ("comment", "harder"), ("comment", "")]
    assert {note.presentation for note in store.notes()} == {number}


def test_a_verdict_that_is_refused_leaves_no_remark_and_the_other_way_round(store, opened):
    ann, number = opened
    with pytest.raises(StudyError, match="no choice"):
        store.save(number, {"fluency": "C"}, rater=ann, comment="x")
    with pytest.raises(StudyError, match="20001"):
        store.save(number, {"fluency": "A"}, rater=ann, comment="x" * 20_001)
    assert store.notes() == []
    assert store.current(number, rater=ann) == {}


def test_the_trail_is_what_was_rated_in_the_order_shown(store, make_pairs, plan, clock):
    store.add_pairs(make_pairs(4))
    ann, _ = store.invite("Ann")
    ben, _ = store.invite("Ben")
    shown = []
    for _ in range(3):
        shown += store.hand_out(ann, plan)
        store.save(shown[-1].presentation, {"fluency": "A"}, rater=ann)
        clock.advance(minutes=-5)
    store.hand_out(ann, plan)  # not rated
    store.hand_out(ben, plan)
    assert store.trail(ann) == [blind.presentation for blind in shown]
    assert store.trail(ben) == []
    assert [store.presented(number, rater=ann) for number in store.trail(ann)] == shown


def test_only_the_rater_is_shown_it_again(store, opened):
    ann, number = opened
    eve, _ = store.invite("Eve")
    assert store.presented(number, rater=ann).presentation == number
    with pytest.raises(StudyError, match="not handed to the rater 'Eve'"):
        store.presented(number, rater=eve)
    with pytest.raises(StudyError, match="no presentation 4711"):
        store.presented(4711, rater=ann)
