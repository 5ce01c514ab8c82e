"""Rounds in the store: what is handed out before what, what is recorded, and what exclusions do to it."""

from dataclasses import replace
from itertools import combinations

import pytest
from factories import make_pair
from rating import people, rate, rate_all
from sqlalchemy import exc, text

from guard_eval.errors import StudyError
from guard_eval.records import RoundPlan
from guard_eval.rounds import compare_couples
from guard_eval.store import handout, pairs, raters, unblind
from guard_eval.store.showings import roster, rounds, slots
from guard_eval.store.sql.schema import add_rows

SIZES = (8, 8, 4)
"""Prompts of the three rounds."""
XY, XZ, YZ = ("x", "y"), ("x", "z"), ("y", "z")


@pytest.fixture
def plan(plan):
    """Two raters a pair; what is beaten leaves."""
    rule = RoundPlan(design="rounds", criterion="fluency", alpha=0.05, showings=2)
    return replace(plan, rounds=rule)


def add_pairs(store, plan, sizes=SIZES):
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
    pairs.add(store, placed, plan)


@pytest.fixture
def round_of():
    """Return the round of what a rater is shown, by its prompt."""
    last = [SIZES[0], SIZES[0] + SIZES[1]]
    return lambda presented: 1 + sum(int(presented.prompt.split()[-1]) >= first for first in last)


def for_x(presented):
    """Prefer the text by x, and y and z equally."""
    return {"x": "A"}.get(presented.text_a[-1], {"x": "B"}.get(presented.text_b[-1], "tie"))


def read_records(store, group="people"):
    """Return the couples that stopped after each round that is over."""
    with store.read() as db:
        closed = rounds.count_closed(db, group)
        stopped = rounds.read_stopping_rounds(db, group)
    return [[couple for couple, last in stopped.items() if last == number] for number in range(1, closed + 1)]


def read_contest(store, group="people"):
    with store.read() as db:
        return rounds.read_contest(db, group)


@pytest.mark.both_databases
def test_rounds_are_sequential_and_stop_beaten_systems(store, plan, round_of):
    add_pairs(store, plan)
    ann, ben = people(store, "Ann", "Ben")
    first = rate_all(store, ann, plan, for_x)
    assert {round_of(blind_pair) for blind_pair in first} == {1}
    assert len(first) == 3 * SIZES[0]
    assert handout.count_progress(store, ann, plan) == (24, 0)
    assert read_records(store) == []
    # Ben completes the round, and is handed the next one at once
    second = rate_all(store, ben, plan, for_x)
    assert [round_of(blind_pair) for blind_pair in second] == [1] * 24 + [2] * 24
    assert read_records(store) == [[]]
    # of one mind on 16 prompts: x is better than both, and nobody else is left
    presented = rate_all(store, ann, plan, for_x)
    assert [round_of(blind_pair) for blind_pair in presented] == [2] * 24
    assert read_records(store) == [[], [XY, XZ, YZ]]
    assert rate_all(store, ben, plan, for_x) == []
    assert len(unblind.read_tidy_rows(store)) == 2 * 48
    assert len(read_contest(store).prompts) == 16


def test_slots_of_a_beaten_system_are_closed(store, plan, round_of):
    add_pairs(store, plan)
    ann, ben = people(store, "Ann", "Ben")

    def against_z(presented):
        ends = (presented.text_a[-1], presented.text_b[-1])
        return "tie" if "z" not in ends else "AB"[ends[0] == "z"]

    presented = [
        blind_pair for who in (ann, ben, ann, ben) for blind_pair in rate_all(store, who, plan, against_z)
    ]
    assert read_records(store)[1] == [XZ, YZ]
    last = [blind_pair for blind_pair in presented if round_of(blind_pair) == 3]
    assert len(last) == 2 * SIZES[2]
    assert {blind_pair.text_a[-1] for blind_pair in last} == {"x", "y"}
    assert len(read_records(store)) == 3
    with store.read() as db:
        assert rounds.count_active_pairs(db, "people") == 3 * 16 + 4
        assert rounds.count_active_pairs(db, "people", after=2) == 4
        assert rounds.count_active_pairs(db, "people", after=3) == 0


@pytest.mark.both_databases
def test_a_recorded_decision_is_never_changed(store, plan):
    add_pairs(store, plan, (1,))
    for who in people(store, "Ann", "Ben"):
        rate_all(store, who, plan)
    assert len(read_records(store)) == 1
    with store.write() as (db, _):
        add_rows(db, "stopped", [{"part": "people", "method_a": "x", "method_b": "y", "number": 1}])
    changes = ("UPDATE closed_round SET number = 7", "DELETE FROM closed_round", "DELETE FROM stopped")
    for change in map(text, changes):
        with pytest.raises(exc.DBAPIError, match="append-only"), store.write() as (db, _):
            db.execute(change)


def test_the_last_rating_of_a_round_opens_the_next_round(store, plan, round_of):
    """As the page does: it saves a verdict and takes the next pair at once."""
    add_pairs(store, plan)
    ann, ben = people(store, "Ann", "Ben")
    rate_all(store, ann, plan)
    (presented,) = handout.claim(store, ben, plan)
    seen = []
    while presented is not None and round_of(presented) == 1:
        assert read_records(store) == []
        seen.append(presented)
        presented = rate(store, ben, presented, then=plan)
    assert len(seen) == 3 * SIZES[0]
    assert round_of(presented) == 2


def test_an_open_pair_keeps_its_round_from_ending(store, clock, plan, round_of):
    add_pairs(store, plan)
    ann, ben, cem = people(store, "Ann", "Ben", "Cem")
    (held,) = handout.claim(store, cem, plan)
    rate_all(store, ann, plan)
    assert {round_of(blind_pair) for blind_pair in rate_all(store, ben, plan)} == {1}
    assert read_records(store) == []
    clock.advance(hours=1)  # the lease is over, and somebody else takes it
    assert {round_of(blind_pair) for blind_pair in rate_all(store, ann, plan)} <= {1}
    clock.advance(hours=1)
    (dan,) = people(store, "Dan")
    assert round_of(rate_all(store, dan, plan)[0]) == 1
    assert len(read_records(store)) == 1
    rate(store, cem, held)  # late
    assert [row.rater for row in unblind.read_tidy_rows(store, include_surplus=True) if row.surplus] == [
        "Cem"
    ]


def test_a_rater_waits_for_the_next_round(store, clock, plan):
    add_pairs(store, plan)
    ann, ben = people(store, "Ann", "Ben")
    rate_all(store, ann, plan)
    assert handout.find_wait_end(store, ann, plan) == clock.now + plan.lease
    clock.advance(minutes=29)
    assert handout.find_wait_end(store, ann, plan) is not None
    clock.advance(minutes=1)
    assert handout.find_wait_end(store, ann, plan) is None
    for who in (ben, ann, ben):
        rate_all(store, who, plan, for_x)
    assert handout.find_wait_end(store, ann, plan) is None


def test_an_exclusion_reopens_rounds_but_keeps_decisions(store, plan, round_of):
    """Ann's ratings are given again; until then the prompts say nothing, and the report can say so."""
    add_pairs(store, plan)
    ann, ben, cem = people(store, "Ann", "Ben", "Cem")
    for who in (ann, ben, ann):
        rate_all(store, who, plan, for_x)
    stopped = read_records(store)
    raters.exclude_or_include(store, "Ann", "exclude", "why", "who")
    assert [comparison.p_adjusted for comparison in compare_couples(read_contest(store))] == [1, 1, 1]
    presented = rate_all(store, cem, plan, for_x)
    assert sorted(map(round_of, presented)) == [1] * 24 + [2] * 24
    assert [comparison.p_adjusted <= 0.05 for comparison in compare_couples(read_contest(store))] == [
        True,
        True,
        False,
    ]
    raters.exclude_or_include(store, "Ann", "include", "a mistake", "who")  # her slots are taken
    assert {row.rater for row in unblind.read_tidy_rows(store)} == {"Ben", "Cem"}
    assert read_records(store) == stopped


def test_verdicts_of_an_included_rater_count_at_once(store, plan):
    add_pairs(store, plan)
    ann, ben = people(store, "Ann", "Ben")
    for who in (ann, ben, ann):
        rate_all(store, who, plan, for_x)
    before = [comparison.p_adjusted for comparison in compare_couples(read_contest(store))]
    raters.exclude_or_include(store, "Ann", "exclude", "why", "who")
    raters.exclude_or_include(store, "Ann", "include", "a mistake", "who")
    assert [comparison.p_adjusted for comparison in compare_couples(read_contest(store))] == before


def test_an_exclusion_keeps_the_current_round_open(store, plan, round_of):
    add_pairs(store, plan)
    ann, ben, cem = people(store, "Ann", "Ben", "Cem")
    rate_all(store, ann, plan)
    raters.exclude_or_include(store, "Ann", "exclude", "why", "who")
    assert {round_of(blind_pair) for blind_pair in rate_all(store, ben, plan)} == {1}
    assert read_records(store) == []
    assert round_of(rate_all(store, cem, plan)[-1]) == 2
    assert len(read_records(store)) == 1


def test_a_roster_reserves_slots_round_by_round(store, plan, round_of):
    add_pairs(store, plan)
    names = ("Ann", "Ben", "Cem")
    everybody = people(store, *names)
    assert roster.assign(store, names, plan) == 2 * 3 * sum(SIZES)
    presented = [sorted(set(map(round_of, rate_all(store, who, plan, for_x)))) for who in everybody]
    assert presented == [[1], [1], [1, 2]]
    assert read_records(store) == [[]]


def test_a_pair_skipped_by_many_gives_no_score(store, plan):
    add_pairs(store, plan)
    everybody = people(store, "Ann", "Ben", "Cem", "Dan", "Eve")
    with store.read() as db:
        chosen = db.execute(text("SELECT pair_id FROM slot WHERE open LIMIT 1")).scalar_one()
    for who in everybody[:3]:
        for presented in handout.claim(store, who, plan, limit=24):
            number = presented.presentation
            with store.read() as db:
                statement = text(f"SELECT pair_id FROM presentation WHERE id = {number}")
                pair_id = db.execute(statement).scalar_one()
            if pair_id == chosen:
                assert handout.skip(store, number, ["unreadable"], rater=who)
    for who in everybody:
        rate_all(store, who, plan, for_x)
    assert read_contest(store).sizes == SIZES
    complete = [len(scores) == 3 for _, scores in read_contest(store).prompts]
    assert complete.count(False) == 1


def test_a_revision_after_a_round_changes_p_but_no_decision(store, plan):
    add_pairs(store, plan)
    ann, ben = people(store, "Ann", "Ben")
    presented = [rate_all(store, ann, plan, for_x), rate_all(store, ben, plan, for_x)]
    presented[0] += rate_all(store, ann, plan, for_x)
    assert list(map(len, read_records(store))) == [0, 3]
    for who, pages in zip((ann, ben), presented, strict=True):
        for comparison in pages:
            rate(store, who, comparison, "tie")
    assert [comparison.p_adjusted for comparison in compare_couples(read_contest(store))] == [1, 1, 1]
    assert list(map(len, read_records(store))) == [0, 3]


def test_presentations_of_one_prompt_are_far_apart(store, plan):
    """In random order some 14 of 60 showings would follow another one of their prompt within five."""
    add_pairs(store, plan, (20,))
    (ann,) = people(store, "Ann")
    prompts = [blind.prompt for blind in rate_all(store, ann, plan)]
    near = sum(prompt in prompts[max(0, at - 5) : at] for at, prompt in enumerate(prompts))
    assert len(prompts) == 60
    assert near <= 3


def test_pairs_without_rounds_are_refused(store, make_pairs, plan):
    pairs.add(store, make_pairs(2))
    with pytest.raises(StudyError, match=r"not in rounds, as pairs\.design wants; run: guard-eval pair"):
        slots.apply_plan(store, plan)
    (ann,) = people(store, "Ann")
    assert len(rate_all(store, ann, plan)) == 2  # a served app loses no rating


def test_a_study_without_rounds_records_nothing(store, make_pairs, plan):
    single_plan = replace(plan, slots=1, rounds=None)
    pairs.add(store, make_pairs(3))
    (ann,) = people(store, "Ann")
    assert len(rate_all(store, ann, single_plan)) == 3
    assert handout.find_wait_end(store, ann, single_plan) is None
    assert read_records(store) == []


def test_a_judge_has_separate_rounds(store, plan, judge):
    """It is asked everything of the rounds to come for a preview, and one round at a time by a run."""
    add_pairs(store, plan)
    name = "judge-1"
    rule = replace(plan.rounds, showings=2)
    judge_plan = replace(plan, rounds=rule)
    who = raters.get_or_add(store, name, "model")
    from guard_eval.store import verdicts
    from guard_eval.store.judging import requests

    statement = []
    while True:
        with store.write() as (db, now):
            questions = requests.next_questions(db, now, name, judge_plan)
            statement.append(len(questions))
            answers = [(question, {"fluency": for_x(question.blind)}) for question in questions]
            if not answers:
                break
            verdicts.save_judged(db, who, answers, now=now, declared={})
    assert statement == [2 * 24, 2 * 24, 0]
    assert read_records(store, f"judge {name}")[1][:2] == [XY, XZ]
    assert read_records(store) == []
    with store.read() as db:
        assert requests.read_questions(db, name, judge_plan) == []
        assert len(requests.read_questions(db, "judge-2", judge_plan)) == 2 * 3 * sum(SIZES)
