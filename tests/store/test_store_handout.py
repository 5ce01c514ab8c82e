"""Who is shown what, on which side, for how long."""

from dataclasses import replace

import pytest
from rating import people, rate_all

from guard_eval.records import content_id
from guard_eval.store import RaterProgress


def prompts(shown):
    return [blind.prompt for blind in shown]


def test_a_rater_sees_every_pair_once_in_the_seeds_order(store, make_pairs, plan):
    pairs = make_pairs(9)
    store.add_pairs(pairs)
    ann, ben = people(store, "Ann", "Ben")
    expected = [pair.prompt for pair in sorted(pairs, key=lambda pair: content_id(7, ann.name, pair.id))]
    assert prompts(rate_all(store, ann, plan)) == expected
    assert store.hand_out(ann, plan) == []
    other = prompts(rate_all(store, ben, plan))
    assert sorted(other) == sorted(expected)
    assert other != expected


def test_people_rate_their_part_and_a_judge_all(store, make_pairs, plan, claim):
    pairs = [replace(pair, for_people=pair.position % 3 == 0) for pair in make_pairs(9)]
    assert store.add_pairs(pairs) == 9
    assert store.add_pairs(pairs) == 0
    assert store.pairs() == pairs
    part = sorted(pair.prompt for pair in pairs if pair.for_people)
    ann, ben = people(store, "Ann", "Ben")
    assert store.progress(ann, plan) == (0, 3)
    assert store.assign([ann.name, ben.name], plan) == 6
    for rater in (ann, ben):
        assert sorted(prompts(rate_all(store, rater, plan))) == part
    simulated = store.rater("SIMULATED", "simulated")
    assert sorted(prompts(rate_all(store, simulated, plan))) == part
    assert len(claim(store, store.rater("judge", "model"), plan, 99)) == 18  # both orders


def test_a_blind_pair_holds_the_two_texts_and_no_name(store, make_pairs, plan):
    pairs = make_pairs(4)
    store.add_pairs(pairs)
    given = store.hand_out(people(store, "Ann")[0], plan, limit=4)
    assert {frozenset((blind.text_a, blind.text_b)) for blind in given} == {
        frozenset((pair.text_a, pair.text_b)) for pair in pairs
    }
    assert not any(name in repr(blind) for blind in given for name in ("guard", "top_k", "wiki", "prompt-"))


def test_the_second_of_a_couple_sees_the_other_side(store, make_pairs, plan):
    store.add_pairs(make_pairs(9))
    first, second = people(store, "Ann", "Ben")
    shown = [
        {blind.prompt: (blind.text_a, blind.text_b) for blind in store.hand_out(who, plan, limit=9)}
        for who in (first, second)
    ]
    assert shown[1] == {prompt: texts[::-1] for prompt, texts in shown[0].items()}
    assert len({texts[0].split()[0] for texts in shown[0].values()}) == 2  # either method comes first


def test_an_open_pair_is_given_again_with_a_new_lease(store, make_pairs, one, clock):
    store.add_pairs(make_pairs(3))
    ann, ben = people(store, "Ann", "Ben")
    given = store.hand_out(ann, one)
    clock.advance(minutes=29)
    assert store.hand_out(ann, one) == given
    clock.advance(minutes=29)  # 58 minutes after the first hand-out, 29 after the second
    assert given[0].prompt not in prompts(rate_all(store, ben, one))
    assert store.raters()[0] == RaterProgress(name="Ann", kind="person", revoked=False, handed_out=1, rated=0)


def test_open_pairs_come_first_and_free_ones_fill_up(store, make_pairs, plan):
    store.add_pairs(make_pairs(5))
    ann = people(store, "Ann")[0]
    first = store.hand_out(ann, plan, limit=2)
    assert len(first) == 2
    more = store.hand_out(ann, plan, limit=4)
    assert more[:2] == first
    assert len({blind.presentation for blind in more}) == 4
    assert len(store.hand_out(ann, plan, limit=100)) == 5
    assert store.hand_out(ann, plan, limit=1) == first[:1]
    assert store.hand_out(ann, plan, limit=0) == []


def test_a_lease_that_is_over_gives_the_slot_to_another(store, make_pairs, one, clock):
    store.add_pairs(make_pairs(1))
    ann, ben, eve = people(store, "Ann", "Ben", "Eve")
    abandoned = store.hand_out(ann, one)[0]
    clock.advance(minutes=29, seconds=59)
    assert store.hand_out(ben, one) == []
    clock.advance(seconds=1)
    taken = store.hand_out(ben, one)[0]
    assert (taken.text_a, taken.text_b) == (abandoned.text_a, abandoned.text_b)
    assert taken.presentation != abandoned.presentation
    assert store.hand_out(ann, one) == []  # another has its slot, and nobody sees a pair twice
    assert store.hand_out(eve, one) == []
    assert store.progress(ann, one) == (0, 0)

    late = store.save(abandoned.presentation, {"fluency": "A"}, rater=ann)
    counted = store.save(taken.presentation, {"fluency": "B"}, rater=ben)
    assert (late.surplus, counted.surplus) == (True, False)
    assert [row.rater for row in store.tidy()] == [ben.name]
    assert [(row.rater, row.surplus) for row in store.tidy(include_surplus=True)] == [
        (ann.name, True),
        (ben.name, False),
    ]


def test_a_late_verdict_counts_while_nobody_took_the_slot(store, make_pairs, one, clock):
    store.add_pairs(make_pairs(1))
    ann, ben = people(store, "Ann", "Ben")
    given = store.hand_out(ann, one)[0]
    clock.advance(days=3)
    assert not store.save(given.presentation, {"fluency": "A"}, rater=ann).surplus
    assert store.hand_out(ben, one) == []


def test_a_model_is_handed_nothing(store, plan):
    judge = store.rater("judge", "model")
    for asked in (store.hand_out, store.progress):
        with pytest.raises(ValueError, match="the model 'judge' is handed nothing"):
            asked(judge, plan)


def test_pools_do_not_take_each_others_slots(store, make_pairs, one, claim):
    store.add_pairs(make_pairs(2))
    raters = [store.invite("Ann")[0], store.rater("simulated", "simulated")]
    judges = [store.rater(name, "model") for name in ("judge", "people", "simulated judge")]
    assert [len(claim(store, judge, one, 9)) for judge in judges] == [2, 2, 2]
    assert [len(rate_all(store, rater, one)) for rater in raters] == [2, 2]
    assert rate_all(store, store.rater("another simulated", "simulated"), one) == []


def test_progress_counts_rated_and_what_is_left(store, make_pairs, plan):
    store.add_pairs(make_pairs(4))
    ann, ben, eve = people(store, "Ann", "Ben", "Eve")
    assert store.progress(ann, plan) == (0, 4)
    given = store.hand_out(ann, plan, limit=2)
    assert store.progress(ann, plan) == (0, 4)
    store.save(given[0].presentation, {"fluency": "A"}, rater=ann)
    assert store.progress(ann, plan) == (1, 3)
    rate_all(store, ben, plan)
    assert store.progress(ben, plan) == (4, 0)
    assert store.progress(eve, plan) == (0, 2)  # Ann holds two of the four pairs, Ben has rated all


def test_pairs_and_slots_added_later_are_handed_out_too(store, make_pairs, one, plan):
    ann, ben = people(store, "Ann", "Ben")
    assert store.hand_out(ann, one) == []
    assert store.progress(ann, one) == (0, 0)
    store.add_pairs(make_pairs(2))
    assert len(rate_all(store, ann, one)) == 2
    store.add_pairs(make_pairs(5))
    assert len(rate_all(store, ann, one)) == 3
    assert rate_all(store, ben, one) == []
    assert len(rate_all(store, ben, plan)) == 5


def test_hundreds_at_once(store, make_pairs, plan):
    store.add_pairs(make_pairs(1100))
    ann = people(store, "Ann")[0]
    given = store.hand_out(ann, plan, limit=10_000)
    assert len({blind.presentation for blind in given}) == 1100
    assert store.hand_out(ann, plan, limit=10_000) == given
