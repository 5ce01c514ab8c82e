"""Verdicts and remarks are appended: revisions, repeats, refusals, and the next pair with them."""

import math
from dataclasses import replace

import pytest
from factories import make_gold
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from rating import claim_pair, invite_people, save_choice
from refusals import expect_refusal
from sqlalchemy import event

from guard_eval.errors import StudyError
from guard_eval.records import CHOICES, Rater
from guard_eval.store import Store, pairs, raters, unblind
from guard_eval.store.handout import claim_pairs, skip_presentation
from guard_eval.store.notes import read_notes, write_note
from guard_eval.store.settings import (
    read_criteria_wording,
    read_settings_at_first_verdict,
    store_criteria_wording,
)
from guard_eval.store.verdicts import (
    read_current_choices,
    read_presentation,
    read_rated_presentations,
    save_verdict,
)


@pytest.fixture
def ann(store, add_new_pairs):
    add_new_pairs(3)
    return raters.invite_rater(store, "Ann")[0]


@pytest.fixture
def number(store, ann, plan):
    """The number of the presentation that Ann was handed."""
    return claim_pair(store, ann, plan).presentation


def is_nothing_saved(store):
    return unblind.read_verdict_history(store) == read_notes(store) == []


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    history=st.lists(
        st.dictionaries(st.sampled_from("xyz"), st.sampled_from(CHOICES), min_size=1), max_size=6
    )
)
@example([{"x": "A", "y": "tie"}, {"x": "B", "y": "tie"}, {"x": "A"}, {"x": "A"}, {"z": "B"}])
def test_a_changed_choice_adds_a_revision(store, add_new_pairs, plan, history):
    add_new_pairs(1)
    rater = raters.get_or_add_rater(store, f"simulated {len(raters.read_rater_progress(store))}", "simulated")
    number = claim_pairs(store, rater, replace(plan, slots=30))[0].presentation
    expected = {}
    for choices in history:
        for criterion, choice in choices.items():
            revisions = expected.setdefault(criterion, [])
            if revisions[-1:] != [choice]:
                revisions.append(choice)
        assert save_verdict(store, number, choices, rater=rater) is None
    stored = {}
    for row in unblind.read_verdict_history(store):
        if row.presentation == number:
            stored.setdefault(row.criterion, []).append(row.position)
    assert stored == expected
    last = {name: revisions[-1] for name, revisions in expected.items()}
    assert read_current_choices(store, number, rater=rater) == last
    rows = [row for row in unblind.read_tidy_rows(store) if row.presentation == number]
    assert {row.criterion: row.position for row in rows} == last


@pytest.mark.parametrize("seconds", [12.25, 0.0, -1.0, math.nan, math.inf])
def test_an_impossible_duration_does_not_lose_the_verdict(store, ann, number, clock, seconds):
    stored = seconds if 0 <= seconds < math.inf else None
    save_verdict(store, number, {"fluency": "A"}, rater=ann, seconds=seconds, active_seconds=seconds)
    clock.advance(seconds=5)  # a browser's word is cut to the time since the pair was handed out
    save_verdict(store, number, {"fluency": "B"}, rater=ann, seconds=seconds, by_browser=True)
    clock.advance(hours=-1)
    save_verdict(store, number, {"fluency": "A"}, rater=ann, seconds=seconds, by_browser=True)
    first, second, third = unblind.read_verdict_history(store)
    assert (first.seconds, first.active_seconds) == (stored, stored)
    assert second.seconds == (stored and min(stored, 5.0))
    assert third.seconds is None  # the clock was set back


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({}, "the verdict has no choice; choose A, B or tie"),
        *(({"fluency": "A", name: "A"}, "criterion") for name in ("", " ", "x" * 201)),
        *(
            ({"fluency": "A", "coherence": wrong}, "is not a choice for 'coherence'; choose from: A, tie, B")
            for wrong in ("C", "a", "", "guard", None, 1)
        ),
    ],
)
def test_an_invalid_verdict_is_refused_as_a_whole(store, ann, number, choices, message):
    with expect_refusal(message):
        save_verdict(store, number, choices, rater=ann, comment="x")
    assert is_nothing_saved(store)


def test_presentations_of_other_raters_are_refused(store, ann, number):
    eve, _ = raters.invite_rater(store, "Eve")
    nobody = Rater(id=99, name="Nobody", kind="person")
    for who, presented, message in (
        *((ann, unknown, f"{unknown} was not handed to") for unknown in (0, -1, 2, 4711, 2**31, 2**70)),
        (eve, number, f"presentation {number} was not handed to 'Eve'"),
        (nobody, number, "'Nobody' is not in this study"),
    ):
        for refused, arguments in (
            (save_verdict, {"choices": {"fluency": "A"}}),
            (read_current_choices, {}),
            (read_presentation, {}),
            (skip_presentation, {"problems": ["unreadable"]}),
        ):
            with expect_refusal(message):
                refused(store, presented, **arguments, rater=who)
    assert is_nothing_saved(store)


def test_remarks_are_saved_once_with_the_verdict(store, ann, number):
    def save(**more):
        save_verdict(store, number, {"fluency": "A"}, rater=ann, **more)

    save(comment="", problem="")
    assert read_notes(store) == []  # an empty remark on a new pair is none
    for _ in range(2):  # a double click
        save(comment="hard", problem="cut off")
    save()  # says nothing of remarks
    save(comment="harder", problem="cut off")
    save(comment="")  # takes the comment back
    assert [note.detail for note in read_notes(store, kind="comment")] == ["hard", "harder", ""]
    assert [note.detail for note in read_notes(store, kind="problem")] == ["cut off"]
    assert {note.presentation for note in read_notes(store)} == {number}


def test_a_note_that_is_too_long_is_refused(store, ann):
    with expect_refusal("comment has 20001 characters; write at most 20000"):
        write_note(store, ann, "comment", "x" * 20_001)
    assert read_notes(store) == []


def test_rated_presentations_come_in_the_order_shown(store, ann, plan, clock):
    presented = []
    for _ in range(2):
        presented += claim_pairs(store, ann, plan)
        save_choice(store, ann, presented[-1])
        clock.advance(minutes=-5)
    claim_pairs(store, ann, plan)  # not rated
    trail = read_rated_presentations(store, ann)
    assert [read_presentation(store, number, rater=ann) for number in trail] == presented
    assert read_rated_presentations(store, invite_people(store, "Ben")[0]) == []


def test_save_verdict_returns_the_same_next_pair_as_claim_pairs(store, ann, plan):
    """The pairs include gold pairs and repeats."""
    pairs.add_gold_pairs(store, make_gold(2))
    checked = replace(plan, gold_every=3, repeats=1)
    presented = claim_pair(store, ann, checked)
    count = 0
    while presented is not None:
        following = save_choice(store, ann, presented, then=checked)
        assert claim_pairs(store, ann, checked) == ([following] if following else [])
        presented, count = following, count + 1
    assert count == 3 + 1 + 1


def test_a_verdict_and_the_next_pair_are_one_transaction(store, ann, number, plan):
    def fail(*_):
        raise StudyError("the database went away")

    event.listen(store.engine, "commit", fail)
    with expect_refusal("went away"):
        save_verdict(store, number, {"fluency": "A"}, rater=ann, comment="late", then=plan)
    event.remove(store.engine, "commit", fail)
    assert is_nothing_saved(store)
    assert claim_pair(store, ann, plan).presentation == number
    assert save_verdict(store, number, {"fluency": "A"}, rater=ann, comment="late", then=plan) is not None
    assert len(unblind.read_tidy_rows(store)) == len(read_notes(store)) == 1


@pytest.mark.both_databases
@pytest.mark.parametrize("slots", [1, 2, 50])
def test_a_rating_takes_one_transaction_and_few_statements(store, add_new_pairs, plan, slots):
    plan = replace(plan, slots=slots)
    add_new_pairs(20)
    ann, *others = invite_people(store, "Ann", *(f"Rater {number}" for number in range(min(slots, 6))))
    for other in others[1:]:
        for blind in claim_pairs(store, other, plan, limit=5):
            save_choice(store, other, blind)
    following = save_choice(store, ann, claim_pair(store, ann, plan), then=plan)
    sent = []
    event.listen(store.engine, "before_cursor_execute", lambda *seen: sent.append(seen[2]))
    event.listen(store.engine, "commit", lambda _: sent.append("COMMIT"))
    save_choice(store, ann, following, then=plan)
    assert sent.count("COMMIT") == 1
    statements = [sql for sql in sent if not sql.startswith(("BEGIN", "COMMIT", "SELECT pg_adv"))]
    assert len(statements) <= 13


def test_the_first_verdict_stores_the_settings(store_url, make_pairs, plan, judge_all):
    def declared(store):
        return [read_settings_at_first_verdict(store, name) for name in ("people", "judge gpt")]

    with Store.open(
        store_url, create=True, declared={"people": '{"n": 1}', "judge gpt": '{"n": 1}'}
    ) as store:
        pairs.add_pairs(store, make_pairs(2))
        rater, _ = raters.invite_rater(store, "Ann")
        first, second = claim_pairs(store, rater, plan, limit=2)
        assert declared(store) == [None, None]
        save_choice(store, rater, first)
        assert declared(store) == ['{"n": 1}', None]
    with Store.open(store_url, declared={"people": '{"n": 2}', "judge gpt": '{"n": 3}'}) as store:
        save_choice(store, rater, second)
        judge_all(store, "gpt", plan)
        assert declared(store) == ['{"n": 1}', '{"n": 3}']


def test_later_settings_are_not_stored_for_old_verdicts(store_url, make_pairs, plan):
    with Store.open(store_url, create=True) as store:
        pairs.add_pairs(store, make_pairs(1))
        rater, _ = raters.invite_rater(store, "Ann")
        presented = claim_pair(store, rater, plan)
        save_choice(store, rater, presented)
    with Store.open(store_url, declared={"people": "too late"}) as store:
        save_choice(store, rater, presented, "B")
        assert read_settings_at_first_verdict(store, "people") is None


def test_a_criterion_keeps_the_words_of_its_first_verdict(store, ann, number):
    store_criteria_wording(store, {"wit": "Wit: a", "flow_": "Flow: a", "flowx": "Flow: b"})
    store_criteria_wording(store, {"wit": "Wit: b"})
    assert read_criteria_wording(store) == {}
    save_verdict(store, number, {"wit": "A", "flow_": "B"}, rater=ann)
    store_criteria_wording(store, {"wit": "Wit: c", "flowx": "Flow: c"})
    assert read_criteria_wording(store) == {"wit": "Wit: b", "flow_": "Flow: a"}
