"""A look ahead: what a judge would be shown, without handing it out."""

from guard_eval.records import BlindPair


def test_it_is_what_will_be_handed_out_and_leaves_no_trace(store, make_pairs, plan):
    store.add_pairs(make_pairs(3))
    ahead = store.waiting("judge", plan)
    assert store.raters() == []
    judge = store.rater("judge", "model")
    given = store.hand_out(judge, plan, limit=99)
    assert [without_number(blind) for blind in given] == ahead
    assert {blind.presentation for blind in ahead} == {0}


def without_number(blind):
    return BlindPair(presentation=0, prompt=blind.prompt, text_a=blind.text_a, text_b=blind.text_b)


def test_both_orders_are_shown_and_rated_ones_are_left_out(store, make_pairs, plan):
    (pair,) = pairs = make_pairs(1)
    store.add_pairs(pairs)
    assert [(b.text_a, b.text_b) for b in store.waiting("judge", plan)] == [
        (pair.text_a, pair.text_b),
        (pair.text_b, pair.text_a),
    ]
    judge = store.rater("judge", "model")
    (first,) = store.hand_out(judge, plan)
    store.save(first.presentation, {"fluency": "tie"}, rater=judge)
    assert [(b.text_a, b.text_b) for b in store.waiting("judge", plan)] == [(pair.text_b, pair.text_a)]
    assert len(store.waiting("another judge", plan)) == 2
