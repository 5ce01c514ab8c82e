"""Who is shown what, on which side, for how long."""

from dataclasses import replace

from rating import people, rate_all

from guard_eval.store import RaterProgress, handout, roster, unblind, verdicts
from guard_eval.store import pairs as store_pairs
from guard_eval.store import raters as store_raters


def prompts(shown):
    return [blind.prompt for blind in shown]


def test_a_rater_sees_every_pair_once_in_the_seeds_order(store, make_pairs, plan):
    pairs = make_pairs(9)
    store_pairs.add(store, pairs)
    ann, ben = people(store, "Ann", "Ben")
    expected = prompts(rate_all(store, ann, plan))
    assert sorted(expected) == sorted(pair.prompt for pair in pairs) != expected
    assert handout.claim(store, ann, plan) == []
    other = prompts(rate_all(store, ben, plan))
    assert sorted(other) == sorted(expected)
    assert other != expected


def test_people_rate_their_part_and_a_judge_all(store, make_pairs, plan, judge):
    pairs = [replace(pair, for_people=pair.position % 3 == 0) for pair in make_pairs(9)]
    assert store_pairs.add(store, pairs) == 9
    assert store_pairs.add(store, pairs) == 0
    assert store_pairs.read(store) == pairs
    part = sorted(pair.prompt for pair in pairs if pair.for_people)
    ann, ben = people(store, "Ann", "Ben")
    assert handout.progress(store, ann, plan) == (0, 3)
    assert roster.assign(store, [ann.name, ben.name], plan) == 6
    for rater in (ann, ben):
        assert sorted(prompts(rate_all(store, rater, plan))) == part
    simulated = store_raters.get_or_add(store, "SIMULATED", "simulated")
    assert sorted(prompts(rate_all(store, simulated, plan))) == part
    assert len(judge(store, "judge", plan)) == 18  # both orders


def test_the_second_of_a_couple_sees_the_other_side(store, make_pairs, plan):
    store_pairs.add(store, make_pairs(9))
    first, second = people(store, "Ann", "Ben")
    shown = [
        {blind.prompt: (blind.text_a, blind.text_b) for blind in handout.claim(store, who, plan, limit=9)}
        for who in (first, second)
    ]
    assert shown[1] == {prompt: texts[::-1] for prompt, texts in shown[0].items()}
    assert len({texts[0].split()[0] for texts in shown[0].values()}) == 2  # either method comes first


def test_an_open_pair_is_given_again_with_a_new_lease(store, make_pairs, one, clock):
    store_pairs.add(store, make_pairs(3))
    ann, ben = people(store, "Ann", "Ben")
    given = handout.claim(store, ann, one)
    clock.advance(minutes=29)
    assert handout.claim(store, ann, one) == given
    clock.advance(minutes=29)  # 58 minutes after the first hand-out, 29 after the second
    assert given[0].prompt not in prompts(rate_all(store, ben, one))
    assert store_raters.read(store)[0] == RaterProgress(
        name="Ann", kind="person", revoked=False, handed_out=1, rated=0
    )


def test_a_lease_that_is_over_gives_the_slot_to_another(store, make_pairs, one, clock):
    store_pairs.add(store, make_pairs(1))
    ann, ben, eve = people(store, "Ann", "Ben", "Eve")
    abandoned = handout.claim(store, ann, one)[0]
    clock.advance(minutes=29, seconds=59)
    assert handout.claim(store, ben, one) == []
    clock.advance(seconds=1)
    taken = handout.claim(store, ben, one)[0]
    assert (taken.text_a, taken.text_b) == (abandoned.text_a, abandoned.text_b)
    assert taken.presentation != abandoned.presentation
    assert handout.claim(store, ann, one) == []  # another has its slot, and nobody sees a pair twice
    assert handout.claim(store, eve, one) == []
    assert handout.progress(store, ann, one) == (0, 0)

    late = verdicts.save(store, abandoned.presentation, {"fluency": "A"}, rater=ann)
    counted = verdicts.save(store, taken.presentation, {"fluency": "B"}, rater=ben)
    assert (late.surplus, counted.surplus) == (True, False)
    assert [row.rater for row in unblind.tidy(store)] == [ben.name]
    assert [(row.rater, row.surplus) for row in unblind.tidy(store, include_surplus=True)] == [
        (ann.name, True),
        (ben.name, False),
    ]


def test_a_late_verdict_counts_while_nobody_took_the_slot(store, make_pairs, one, clock):
    store_pairs.add(store, make_pairs(1))
    ann, ben = people(store, "Ann", "Ben")
    given = handout.claim(store, ann, one)[0]
    clock.advance(days=3)
    assert not verdicts.save(store, given.presentation, {"fluency": "A"}, rater=ann).surplus
    assert handout.claim(store, ben, one) == []


def test_pools_do_not_take_each_others_slots(store, make_pairs, one, judge):
    store_pairs.add(store, make_pairs(2))
    raters = [store_raters.invite(store, "Ann")[0], store_raters.get_or_add(store, "simulated", "simulated")]
    names = ("judge", "people", "simulated judge")
    assert [len(judge(store, name, one)) for name in names] == [2, 2, 2]
    assert [len(rate_all(store, rater, one)) for rater in raters] == [2, 2]
    assert rate_all(store, store_raters.get_or_add(store, "another simulated", "simulated"), one) == []


def test_progress_counts_rated_and_what_is_left(store, make_pairs, plan):
    store_pairs.add(store, make_pairs(4))
    ann, ben, eve = people(store, "Ann", "Ben", "Eve")
    assert handout.progress(store, ann, plan) == (0, 4)
    given = handout.claim(store, ann, plan, limit=2)
    assert handout.progress(store, ann, plan) == (0, 4)
    verdicts.save(store, given[0].presentation, {"fluency": "A"}, rater=ann)
    assert handout.progress(store, ann, plan) == (1, 3)
    rate_all(store, ben, plan)
    assert handout.progress(store, ben, plan) == (4, 0)
    assert handout.progress(store, eve, plan) == (0, 2)  # Ann holds two of the four pairs, Ben has rated all
