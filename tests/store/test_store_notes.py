"""Notes on raters and pairs: appended, once, with the verdict they belong to."""

import pytest

from guard_eval.errors import StudyError
from guard_eval.records import Rater
from guard_eval.store import Note, handout, notes, pairs, raters, verdicts


@pytest.fixture
def opened(store, make_pairs, plan):
    """A rater and the number of what it was handed."""
    pairs.add(store, make_pairs(3))
    rater, _ = raters.invite(store, "Ann")
    return rater, handout.claim(store, rater, plan)[0].presentation


def details(store, **wanted):
    return [(note.kind, note.detail) for note in notes.read(store, **wanted)]


def test_a_note_says_who_what_and_when(store, opened, clock):
    ann, number = opened
    notes.write(store, ann, "consent", "yes")
    clock.advance(minutes=1)
    notes.write(store, ann, "problem", "garbled \U0001f600", presentation=number)
    first, second = notes.read(store)
    assert first == Note(
        rater="Ann", kind="consent", detail="yes", presentation=None, at=second.at.replace(minute=4)
    )
    assert (second.detail, second.presentation, second.at) == ("garbled \U0001f600", number, clock())


def test_a_note_that_cannot_be_is_refused(store, opened):
    ann, number = opened
    eve, _ = raters.invite(store, "Eve")
    nobody = Rater(id=99, name="Nobody", kind="person")
    for error, message, who, kind, detail, shown in (
        (StudyError, "'Nobody' is not of this study", nobody, "consent", "", None),
        (StudyError, f"presentation {number} was not handed to the rater 'Eve'", eve, "comment", "", number),
        (StudyError, "comment has 20001 characters; write at most 20000", ann, "comment", "x" * 20_001, None),
        (ValueError, "'gossip' is no kind of note; choose from: arrival, consent", ann, "gossip", "", None),
        (ValueError, "raters.exclude", ann, "exclude", "", None),
        (ValueError, "raters.include", ann, "include", "", None),
    ):
        with pytest.raises(error, match=message):
            notes.write(store, who, kind, detail, presentation=shown)
    assert notes.read(store) == []


def test_remarks_are_saved_with_the_verdict_and_repeats_add_nothing(store, opened):
    ann, number = opened
    verdicts.save(store, number, {"fluency": "A"}, rater=ann, comment="", problem="")
    assert notes.read(store) == []  # an empty remark on a new pair is none
    for _ in range(2):  # a double click
        verdicts.save(store, number, {"fluency": "A"}, rater=ann, comment="hard", problem="cut off")
    assert details(store) == [("comment", "hard"), ("problem", "cut off")]
    verdicts.save(store, number, {"fluency": "B"}, rater=ann)  # says nothing of remarks
    verdicts.save(store, number, {"fluency": "B"}, rater=ann, comment="harder", problem="cut off")
    verdicts.save(store, number, {"fluency": "B"}, rater=ann, comment="")  # takes the comment back
    assert details(store, kind="comment") == [("comment", "hard"), ("comment", "harder"), ("comment", "")]
    assert {note.presentation for note in notes.read(store)} == {number}


def test_a_verdict_that_is_refused_leaves_no_remark_and_the_other_way_round(store, opened):
    ann, number = opened
    with pytest.raises(StudyError, match="no choice"):
        verdicts.save(store, number, {"fluency": "C"}, rater=ann, comment="x")
    with pytest.raises(StudyError, match="20001"):
        verdicts.save(store, number, {"fluency": "A"}, rater=ann, comment="x" * 20_001)
    assert notes.read(store) == []
    assert verdicts.current(store, number, rater=ann) == {}


def test_the_trail_is_what_was_rated_in_the_order_shown(store, make_pairs, plan, clock):
    pairs.add(store, make_pairs(4))
    ann, _ = raters.invite(store, "Ann")
    ben, _ = raters.invite(store, "Ben")
    shown = []
    for _ in range(3):
        shown += handout.claim(store, ann, plan)
        verdicts.save(store, shown[-1].presentation, {"fluency": "A"}, rater=ann)
        clock.advance(minutes=-5)
    handout.claim(store, ann, plan)  # not rated
    handout.claim(store, ben, plan)
    assert verdicts.trail(store, ann) == [blind.presentation for blind in shown]
    assert verdicts.trail(store, ben) == []
    assert [verdicts.presented(store, number, rater=ann) for number in verdicts.trail(store, ann)] == shown
