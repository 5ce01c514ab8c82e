"""Rounds in the store: their order, the recorded decisions, and the effect of exclusions."""

from dataclasses import replace
from itertools import combinations

import pytest
from factories import make_pair
from rating import claim_pair, exclude_rater, include_rater, invite_people, rate_all_pairs, save_choice
from refusals import expect_refusal
from sqlalchemy import exc, text

from guard_eval.records import RoundPlan
from guard_eval.rounds import compare_couples
from guard_eval.store import pairs, raters, unblind, verdicts
from guard_eval.store.handout import (
    claim_pairs,
    count_rated_and_remaining_pairs,
    find_end_of_rater_wait,
    skip_presentation,
)
from guard_eval.store.judging import requests
from guard_eval.store.schema import add_rows
from guard_eval.store.showings import roster, rounds, slots

SIZES = (8, 8, 4)
"""The number of prompts in each of the three rounds."""
XY, XZ, YZ = ("x", "y"), ("x", "z"), ("y", "z")


@pytest.fixture
def plan(plan):
    """A plan with two raters per pair, in which beaten systems stop."""
    rule = RoundPlan(design="rounds", criterion="fluency", alpha=0.05, showings=2)
    return replace(plan, rounds=rule)


def add_pairs_in_rounds(store, plan, sizes=SIZES):
    """Add all couples of x, y and z on the prompts of each round."""
    numbers = iter(range(sum(sizes)))
    prompts = [(next(numbers), number) for number, size in enumerate(sizes, start=1) for _ in range(size)]
    drawn = [
        make_pair(
            prompt, method_a=a, method_b=b, round=number, text_a=f"{prompt} {a}", text_b=f"{prompt} {b}"
        )
        for a, b in combinations("xyz", 2)
        for prompt, number in prompts
    ]
    placed = [replace(pair, position=position) for position, pair in enumerate(drawn)]
    pairs.add_pairs(store, placed, plan)


@pytest.fixture
def find_round():
    """Return a function that finds the round of a shown pair by its prompt."""
    last = [SIZES[0], SIZES[0] + SIZES[1]]
    return lambda presented: 1 + sum(int(presented.prompt.split()[-1]) >= first for first in last)


def prefer_x(presented):
    """Prefer the text by x, and y and z equally."""
    return {"x": "A"}.get(presented.text_a[-1], {"x": "B"}.get(presented.text_b[-1], "tie"))


def read_stopped_couples(store, group="people"):
    """Return the couples that stopped after each finished round."""
    with store.begin_read() as db:
        closed = rounds.count_closed_rounds(db, group)
        stopped = rounds.read_stopping_rounds(db, group)
    return [[couple for couple, last in stopped.items() if last == number] for number in range(1, closed + 1)]


def read_round_scores(store):
    with store.begin_read() as db:
        return rounds.read_round_scores(db, "people")


def compute_p_values(store):
    return [comparison.p_adjusted for comparison in compare_couples(read_round_scores(store))]


@pytest.mark.both_databases
def test_rounds_are_sequential_and_stop_beaten_systems(store, ann, ben, plan, find_round):
    add_pairs_in_rounds(store, plan)
    first = rate_all_pairs(store, ann, plan, prefer_x)
    assert {find_round(blind_pair) for blind_pair in first} == {1}
    assert len(first) == 3 * SIZES[0]
    assert count_rated_and_remaining_pairs(store, ann, plan) == (24, 0)
    assert read_stopped_couples(store) == []
    # Ben completes the round, and is handed the next one at once
    second = rate_all_pairs(store, ben, plan, prefer_x)
    assert [find_round(blind_pair) for blind_pair in second] == [1] * 24 + [2] * 24
    assert read_stopped_couples(store) == [[]]
    # of one mind on 16 prompts: x is better than both, and nobody else is left
    presented = rate_all_pairs(store, ann, plan, prefer_x)
    assert [find_round(blind_pair) for blind_pair in presented] == [2] * 24
    assert read_stopped_couples(store) == [[], [XY, XZ, YZ]]
    assert rate_all_pairs(store, ben, plan, prefer_x) == []
    assert len(unblind.read_tidy_rows(store)) == 2 * 48
    assert len(read_round_scores(store).prompts) == 16


def test_slots_of_a_beaten_system_are_closed(store, ann, ben, plan, find_round):
    add_pairs_in_rounds(store, plan)

    def against_z(presented):
        ends = (presented.text_a[-1], presented.text_b[-1])
        return "tie" if "z" not in ends else "AB"[ends[0] == "z"]

    presented = [
        blind_pair
        for who in (ann, ben, ann, ben)
        for blind_pair in rate_all_pairs(store, who, plan, against_z)
    ]
    assert read_stopped_couples(store)[1] == [XZ, YZ]
    last = [blind_pair for blind_pair in presented if find_round(blind_pair) == 3]
    assert len(last) == 2 * SIZES[2]
    assert {blind_pair.text_a[-1] for blind_pair in last} == {"x", "y"}
    assert len(read_stopped_couples(store)) == 3
    with store.begin_read() as db:
        assert rounds.count_active_pairs(db, "people") == 3 * 16 + 4
        assert rounds.count_active_pairs(db, "people", after_round=2) == 4
        assert rounds.count_active_pairs(db, "people", after_round=3) == 0


@pytest.mark.both_databases
def test_a_recorded_decision_is_never_changed(store, plan):
    add_pairs_in_rounds(store, plan, (1,))
    for who in invite_people(store, "Ann", "Ben"):
        rate_all_pairs(store, who, plan)
    assert len(read_stopped_couples(store)) == 1
    with store.begin_write() as (db, _):
        add_rows(db, "stopped", [{"part": "people", "method_a": "x", "method_b": "y", "number": 1}])
    changes = ("UPDATE closed_round SET number = 7", "DELETE FROM closed_round", "DELETE FROM stopped")
    for change in map(text, changes):
        with pytest.raises(exc.DBAPIError, match="append-only"), store.begin_write() as (db, _):
            db.execute(change)


def test_the_last_rating_of_a_round_opens_the_next_round(store, ann, ben, plan, find_round):
    """Each verdict is saved and the next pair claimed in one call, as the page does."""
    add_pairs_in_rounds(store, plan)
    rate_all_pairs(store, ann, plan)
    presented = claim_pair(store, ben, plan)
    seen = []
    while presented is not None and find_round(presented) == 1:
        assert read_stopped_couples(store) == []
        seen.append(presented)
        presented = save_choice(store, ben, presented, then=plan)
    assert len(seen) == 3 * SIZES[0]
    assert find_round(presented) == 2


def test_a_round_does_not_end_while_a_pair_is_open(*, store, ann, ben, cem, clock, plan, find_round):
    add_pairs_in_rounds(store, plan)
    held = claim_pair(store, cem, plan)
    rate_all_pairs(store, ann, plan)
    assert {find_round(blind_pair) for blind_pair in rate_all_pairs(store, ben, plan)} == {1}
    assert read_stopped_couples(store) == []
    clock.advance(hours=1)  # the lease is over, and somebody else takes it
    assert {find_round(blind_pair) for blind_pair in rate_all_pairs(store, ann, plan)} <= {1}
    clock.advance(hours=1)
    (dan,) = invite_people(store, "Dan")
    assert find_round(rate_all_pairs(store, dan, plan)[0]) == 1
    assert len(read_stopped_couples(store)) == 1
    save_choice(store, cem, held)  # late
    rows = unblind.read_tidy_rows(store, include_surplus=True)
    assert [row.rater for row in rows if row.surplus] == ["Cem"]


def test_a_rater_waits_for_the_next_round(store, ann, ben, clock, plan):
    add_pairs_in_rounds(store, plan)
    rate_all_pairs(store, ann, plan)
    assert find_end_of_rater_wait(store, ann, plan) == clock.now + plan.lease
    clock.advance(minutes=29)
    assert find_end_of_rater_wait(store, ann, plan) is not None
    clock.advance(minutes=1)
    assert find_end_of_rater_wait(store, ann, plan) is None
    for who in (ben, ann, ben):
        rate_all_pairs(store, who, plan, prefer_x)
    assert find_end_of_rater_wait(store, ann, plan) is None


def test_an_exclusion_reopens_rounds_but_keeps_decisions(*, store, ann, ben, cem, plan, find_round):
    """Cem rates Ann's pairs again. Before that, these prompts do not count."""
    add_pairs_in_rounds(store, plan)
    for who in (ann, ben, ann):
        rate_all_pairs(store, who, plan, prefer_x)
    stopped = read_stopped_couples(store)
    exclude_rater(store, "Ann")
    assert compute_p_values(store) == [1, 1, 1]
    presented = rate_all_pairs(store, cem, plan, prefer_x)
    assert sorted(map(find_round, presented)) == [1] * 24 + [2] * 24
    assert [p <= 0.05 for p in compute_p_values(store)] == [True, True, False]
    include_rater(store, "Ann")  # her slots are taken
    assert {row.rater for row in unblind.read_tidy_rows(store)} == {"Ben", "Cem"}
    assert read_stopped_couples(store) == stopped


def test_verdicts_of_an_included_rater_count_at_once(store, ann, ben, plan):
    add_pairs_in_rounds(store, plan)
    for who in (ann, ben, ann):
        rate_all_pairs(store, who, plan, prefer_x)
    before = compute_p_values(store)
    exclude_rater(store, "Ann")
    include_rater(store, "Ann")
    assert compute_p_values(store) == before


def test_an_exclusion_keeps_the_current_round_open(*, store, ann, ben, cem, plan, find_round):
    add_pairs_in_rounds(store, plan)
    rate_all_pairs(store, ann, plan)
    exclude_rater(store, "Ann")
    assert {find_round(blind_pair) for blind_pair in rate_all_pairs(store, ben, plan)} == {1}
    assert read_stopped_couples(store) == []
    assert find_round(rate_all_pairs(store, cem, plan)[-1]) == 2
    assert len(read_stopped_couples(store)) == 1


def test_a_roster_reserves_slots_round_by_round(store, plan, find_round):
    add_pairs_in_rounds(store, plan)
    names = ("Ann", "Ben", "Cem")
    everybody = invite_people(store, *names)
    assert roster.reserve_slots(store, names, plan) == 2 * 3 * sum(SIZES)
    presented = [set(map(find_round, rate_all_pairs(store, who, plan, prefer_x))) for who in everybody]
    assert presented == [{1}, {1}, {1, 2}]
    assert read_stopped_couples(store) == [[]]


def test_a_pair_skipped_by_many_gives_no_score(store, plan):
    add_pairs_in_rounds(store, plan)
    everybody = invite_people(store, "Ann", "Ben", "Cem", "Dan", "Eve")
    chosen = {"0 x", "0 y"}
    for who in everybody[:3]:
        for presented in claim_pairs(store, who, plan, limit=24):
            if {presented.text_a, presented.text_b} == chosen:
                assert skip_presentation(store, presented.presentation, ["unreadable"], rater=who)
    for who in everybody:
        rate_all_pairs(store, who, plan, prefer_x)
    assert read_round_scores(store).sizes == SIZES
    complete = [len(scores) == 3 for _, scores in read_round_scores(store).prompts]
    assert complete.count(False) == 1


def test_a_later_revision_changes_p_but_no_decision_of_a_round(store, ann, ben, plan):
    add_pairs_in_rounds(store, plan)
    presented = [rate_all_pairs(store, ann, plan, prefer_x), rate_all_pairs(store, ben, plan, prefer_x)]
    presented[0] += rate_all_pairs(store, ann, plan, prefer_x)
    assert list(map(len, read_stopped_couples(store))) == [0, 3]
    for who, pages in zip((ann, ben), presented, strict=True):
        for comparison in pages:
            save_choice(store, who, comparison, "tie")
    assert compute_p_values(store) == [1, 1, 1]
    assert list(map(len, read_stopped_couples(store))) == [0, 3]


def test_presentations_of_one_prompt_are_far_apart(store, ann, plan):
    """In random order, about 14 of 60 pairs would come within five pairs of another pair of their prompt."""
    add_pairs_in_rounds(store, plan, (20,))
    prompts = [blind.prompt for blind in rate_all_pairs(store, ann, plan)]
    near = sum(prompt in prompts[max(0, at - 5) : at] for at, prompt in enumerate(prompts))
    assert len(prompts) == 60
    assert near <= 3


def test_a_plan_with_rounds_refuses_pairs_without_rounds(store, ann, add_new_pairs, plan):
    add_new_pairs(2)
    with expect_refusal(
        r"pairs\.design requires rounds, but the study.s pairs have none; run: guard-eval pair"
    ):
        slots.apply_hand_out_plan(store, plan)
    assert len(rate_all_pairs(store, ann, plan)) == 2  # a served app loses no rating


def test_a_study_without_rounds_records_no_decision(store, ann, add_new_pairs, plan):
    single_plan = replace(plan, slots=1, rounds=None)
    add_new_pairs(3)
    assert len(rate_all_pairs(store, ann, single_plan)) == 3
    assert find_end_of_rater_wait(store, ann, single_plan) is None
    assert read_stopped_couples(store) == []


def test_a_judge_has_separate_rounds(store, plan):
    """A preview reads the questions of all rounds, and a run those of one round at a time."""
    add_pairs_in_rounds(store, plan)
    who = raters.get_or_add_rater(store, "judge-1", "model")
    for _ in range(2):
        with store.begin_write() as (db, now):
            questions = requests.read_due_questions(db, now, who.name, plan)
            answers = [(question, {"fluency": prefer_x(question.blind)}) for question in questions]
            verdicts.save_judged_verdicts(db, who, answers, now=now, declared={})
        assert len(questions) == 2 * 24
    with store.begin_write() as (db, now):
        assert requests.read_due_questions(db, now, who.name, plan) == []
    assert read_stopped_couples(store, "judge judge-1")[1][:2] == [XY, XZ]
    assert read_stopped_couples(store) == []
    with store.begin_read() as db:
        assert requests.read_open_questions(db, who.name, plan) == []
        assert len(requests.read_open_questions(db, "judge-2", plan)) == 2 * 3 * sum(SIZES)
