"""Pairs are stored once and read back unchanged, with any text."""

import re
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from rating import claim_pair, save_choice
from refusals import expect_refusal

from guard_eval.records import make_content_id
from guard_eval.store import handout, raters, unblind, verdicts
from guard_eval.store.pairs import add_pairs, explain_why_pairs_cannot_change, read_pairs
from guard_eval.store.showings import roster


def replace_texts_and_names(pair, text):
    changed = replace(pair, prompt=text, text_a=text, text_b=text + "!")
    return replace(changed, dataset=text[:1000], prompt_id=text[:1000], id=make_content_id(text))


def test_pairs_can_be_redrawn_before_verdicts(store, make_pairs, plan, clock):
    old, new = make_pairs(6), [replace(pair, id=pair.id[::-1], text_a="new") for pair in make_pairs(9)]
    ann, token = raters.invite_rater(store, "Ann")
    raters.invite_rater(store, "Bob")
    add_pairs(store, old)
    roster.reserve_slots(store, ["Ann", "Bob"], plan)
    handout.claim_pairs(store, ann, plan, limit=2)
    with expect_refusal("cannot be drawn again: a rater has a pair open, until"):
        add_pairs(store, new, replace_all=True)
    assert read_pairs(store) == old
    clock.advance(minutes=31)
    assert explain_why_pairs_cannot_change(store) is None
    assert add_pairs(store, new, replace_all=True) == 9
    assert read_pairs(store) == new
    assert raters.find_rater_by_token(store, token) == ann
    assert handout.count_rated_and_remaining_pairs(store, ann, plan) == (0, 9)
    presented = handout.claim_pairs(store, ann, plan, limit=20)
    assert len(presented) == 9
    assert all("new" in (pair.text_a, pair.text_b) for pair in presented)


def test_pairs_cannot_be_redrawn_after_a_verdict(*, store, ann, make_pairs, add_new_pairs, plan, clock):
    add_new_pairs(3)
    save_choice(store, ann, claim_pair(store, ann, plan))
    clock.advance(minutes=31)
    with expect_refusal("cannot be drawn again: they have verdicts"):
        add_pairs(store, make_pairs(2), replace_all=True)
    assert read_pairs(store) == make_pairs(3)


def test_ratings_of_replaced_pairs_go_to_no_other_pair(*, store, ann, make_pairs, add_new_pairs, plan, clock):
    """A page that stayed open must not rate a new pair with the number of an old pair."""
    add_new_pairs(3)
    old = handout.claim_pairs(store, ann, plan, limit=3)
    clock.advance(minutes=31)
    new_pairs = [replace(pair, id=pair.id[::-1], text_a="new") for pair in make_pairs(3)]
    add_pairs(store, new_pairs, replace_all=True)
    new = handout.claim_pairs(store, ann, plan, limit=3)
    for presented in old:
        with expect_refusal("was not handed to"):
            verdicts.save_verdict(store, presented.presentation, {"fluency": "A"}, rater=ann)
    assert unblind.read_tidy_rows(store) == []
    assert len(new) == 3


@pytest.mark.parametrize("stored_before", [True, False])
def test_a_stored_pair_with_another_text_is_refused(store, make_pairs, stored_before):
    first, second = make_pairs(2)
    other = replace(first, text_b="another text", dataset="another", for_people=False)
    if stored_before:
        add_pairs(store, [first])
    with expect_refusal(f"{first.id}.*another dataset and text_b and for_people.*new study"):
        add_pairs(store, [second, first, other])
    assert read_pairs(store) == ([first] if stored_before else [])


def test_a_growing_study_keeps_the_positions_of_its_pairs(store, make_pairs):
    old = make_pairs(4)
    add_pairs(store, old)
    # the larger study shuffles again: the old pairs to 5, 4, 3, 2, the new ones to 0 and 1, which are taken
    first, second = make_pairs(6)[4:]
    grown = [replace(pair, position=5 - pair.position) for pair in old]
    assert add_pairs(store, [*grown, replace(first, position=0), replace(second, position=1)]) == 2
    assert read_pairs(store) == [*old, replace(first, position=4), replace(second, position=5)]


@pytest.mark.parametrize("method", ["guard", "tie"])
def test_a_pair_with_equal_methods_or_a_method_tie_is_refused(store, make_pairs, method):
    with expect_refusal(f"compares 'guard' with '{method}'; name two methods"):
        add_pairs(store, [replace(make_pairs(1)[0], method_b=method)])


def replace_unstorable_characters(text):
    """Replace NUL and lone surrogates, which databases refuse, with U+FFFD."""
    return re.sub("[\x00\ud800-\udfff]", "\ufffd", text)


def test_a_prompt_with_a_long_id_is_refused(store, make_pairs):
    assert add_pairs(store, make_pairs(1, prompt_id="x" * 1000)) == 1
    with expect_refusal("has 1001 characters; shorten this name to at most 1000 characters"):
        add_pairs(store, make_pairs(1, prompt_id="x" * 1001))


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.characters(categories=None)) | st.text("\x00\x1a0d8\ud800\udc00ef"))
@example("a pair of lone surrogates \ud83d\ude00 that must not become one emoji")
@example("'; DROP TABLE pair; -- %s %(x)s :name \\ \\x00 line\r\nends\rand\ttabs\u2028")
@example("long " * 20_000)
def test_any_text_is_read_back_unchanged(store, make_pairs, text):
    pair = replace_texts_and_names(make_pairs(1)[0], text)
    add_pairs(store, [pair])
    assert replace_unstorable_characters(pair.text_b) in [stored.text_b for stored in read_pairs(store)]
    assert add_pairs(store, [pair]) == 0
