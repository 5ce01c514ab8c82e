"""A look ahead: what a judge would be shown, without handing it out."""

from dataclasses import replace

from judged import LEASE

from guard_eval.store import JudgeProgress


def test_it_is_what_will_be_claimed_and_leaves_no_trace(store, make_pairs, plan):
    store.add_pairs(make_pairs(3))
    ahead = store.waiting("judge", plan)
    assert store.raters() == []
    run = store.begin(store.rater("judge", "model"), LEASE)
    given = store.claim(run, plan, 99)
    assert [without_number(showing) for showing in given] == ahead
    assert {showing.blind.presentation for showing in ahead} == {0}


def without_number(showing):
    return replace(showing, blind=replace(showing.blind, presentation=0))


def texts(showings):
    return [(showing.blind.text_a, showing.blind.text_b, showing.sample) for showing in showings]


def test_both_orders_are_shown_and_rated_ones_are_left_out(store, make_pairs, plan, claim):
    (pair,) = pairs = make_pairs(1)
    store.add_pairs(pairs)
    one, other = (pair.text_a, pair.text_b, 0), (pair.text_b, pair.text_a, 0)
    assert texts(store.waiting("judge", plan)) == [one, other]
    judge = store.rater("judge", "model")
    (first,) = claim(store, judge, plan)
    store.save(first.presentation, {"fluency": "tie"}, rater=judge)
    assert texts(store.waiting("judge", plan)) == [other]
    assert len(store.waiting("another judge", plan)) == 2


def test_samples_are_asked_in_each_order(store, make_pairs, plan):
    (pair,) = pairs = make_pairs(1)
    store.add_pairs(pairs)
    shown = store.waiting("judge", replace(plan, slots=6))
    assert texts(shown) == [
        (*sides, sample)
        for sample in range(3)
        for sides in ((pair.text_a, pair.text_b), (pair.text_b, pair.text_a))
    ]


def test_one_order_is_drawn_by_the_seed_and_either_method_stands_first_equally_often(store, make_pairs, plan):
    pairs = make_pairs(20)
    store.add_pairs(pairs)
    drawn = set()
    for seed in range(8):
        shown = store.waiting("judge", replace(plan, seed=seed, slots=4, one_order=True))
        assert len(shown) == 40  # two samples of one order
        first = {(each.blind.prompt, each.blind.text_a.startswith("text")) for each in shown}
        assert len(first) == 20  # both samples in the same order
        assert sum(is_first for _, is_first in first) == 10
        drawn.add(frozenset(first))
    assert len(drawn) == 8
    store.rater("judge", "model")
    assert store.judge_progress(
        store.rater("judge", "model"), replace(plan, one_order=True)
    ) == JudgeProgress(rated=0, left=20, in_batch=0)
