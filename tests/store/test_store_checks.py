"""Gold pairs, repeats and quotas: mixed in, counted, and no part of the study."""

from dataclasses import replace

import pytest
from rating import make_gold, people, rate_all

from guard_eval.errors import StudyError
from guard_eval.store import handout, raters, unblind, verdicts
from guard_eval.store import pairs as store_pairs


def is_gold(blind):
    return blind.prompt.startswith("A gold")


def test_gold_pairs_are_no_part_of_the_study(store, make_pairs, plan, judge):
    pairs = make_pairs(3)
    store_pairs.add(store, pairs)
    assert store_pairs.add_gold(store, make_gold(2)) == 2
    assert store_pairs.add_gold(store, make_gold(3)) == 1
    assert store_pairs.read_gold(store) == make_gold(3)
    assert store_pairs.read(store) == pairs
    assert store_pairs.add(store, pairs) == 0
    ann, _ = raters.invite(store, "Ann")
    assert len(rate_all(store, ann, plan)) == 3  # the plan asks for no gold
    gold = replace(plan, gold_every=1)
    assert sum(map(is_gold, rate_all(store, ann, gold))) == 3
    assert len(unblind.tidy(store)) == 3
    assert not any(map(is_gold, judge(store, "judge", gold)))
    assert {row.name: row.rated for row in raters.read(store)} == {"Ann": 3, "judge": 6}


def test_one_gold_pair_comes_in_every_block_at_its_own_place_for_each_rater(store, make_pairs, plan):
    store_pairs.add(store, make_pairs(12))
    store_pairs.add_gold(store, make_gold(5))
    four = replace(plan, gold_every=4, slots=3)
    places = []
    for name in ("Ann", "Ben", "Eve"):
        rater, _ = raters.invite(store, name)
        assert handout.progress(store, rater, four) == (0, 15)
        shown = rate_all(store, rater, four)
        assert len(shown) == 15
        before = [sum(not is_gold(blind) for blind in shown[:at]) for at, b in enumerate(shown) if is_gold(b)]
        assert [1 <= count - 4 * block <= 4 for block, count in enumerate(before)] == [True] * 3
        places.append(before)
    assert len({tuple(index) for index in places}) > 1


def test_gold_is_judged_by_the_method_not_the_side(store, make_pairs, plan):
    store_pairs.add(store, make_pairs(4))
    store_pairs.add_gold(store, make_gold(4))
    ann, ben = people(store, "Ann", "Ben")
    one = replace(plan, gold_every=1)
    rate_all(store, ann, one, lambda blind: "A" if blind.text_a.startswith("right") else "B")
    shown = rate_all(store, ben, one)  # always A
    right = [blind.text_a.startswith("right") for blind in shown if is_gold(blind)]
    assert set(right) == {True, False}  # or the seed makes the test useless
    checks = unblind.checks(store)
    assert [(row.check, row.criterion, row.expected) for row in checks] == [("gold", "fluency", "human")] * 8
    assert [row.passed for row in checks if row.rater == "Ann"] == [True] * 4
    assert [row.passed for row in checks if row.rater == "Ben"] == right
    assert {row.answer for row in checks if not row.passed} == {"shuffled"}


def test_a_tie_fails_gold_and_a_change_of_mind_counts(store, make_pairs, plan):
    store_pairs.add(store, make_pairs(1))
    store_pairs.add_gold(store, make_gold(1))
    ann, _ = raters.invite(store, "Ann")
    (gold,) = filter(is_gold, rate_all(store, ann, replace(plan, gold_every=1)))
    right = "A" if gold.text_a.startswith("right") else "B"
    wrong = "AB".replace(right, "")
    answers = {"fluency": "tie", "coherence": wrong, "relevance": "A"}  # of the last nothing is expected
    verdicts.save(store, gold.presentation, answers, rater=ann)
    result = {row.criterion: (row.expected, row.answer, row.passed) for row in unblind.checks(store)}
    assert result == {"fluency": ("human", "tie", False), "coherence": ("shuffled", "shuffled", True)}


def test_a_slot_lost_to_another_leaves_the_quota_alone(store, make_pairs, plan, clock):
    store_pairs.add(store, make_pairs(2))
    ann, ben = people(store, "Ann", "Ben")
    one = replace(plan, slots=1, quota=1)
    lost = handout.claim(store, ann, one)[0].presentation
    clock.advance(hours=1)
    handout.claim(store, ben, replace(one, quota=2), limit=2)
    assert handout.progress(store, ann, one) == (0, 0)  # nothing is free
    raters.revoke(store, "Ben")
    assert handout.progress(store, ann, one) == (0, 1)
    assert handout.claim(store, ann, one)[0].presentation == lost


def test_repeats_come_later_with_the_sides_swapped(store, make_pairs, plan):
    store_pairs.add(store, make_pairs(12))
    twice = replace(plan, quota=8, repeats=2)
    for name in ("Ann", "Ben"):
        rater, _ = raters.invite(store, name)
        assert handout.progress(store, rater, twice) == (0, 10)
        shown = rate_all(store, rater, twice)
        assert len(shown) == 10
        texts = [frozenset((blind.text_a, blind.text_b)) for blind in shown]
        again = [at for at, pair in enumerate(texts) if pair in texts[:at]]
        assert len(again) == 2
        for at in again:
            before = texts.index(texts[at])
            assert at - before >= 3
            assert (shown[at].text_a, shown[at].text_b) == (shown[before].text_b, shown[before].text_a)
    assert len(unblind.tidy(store)) == 16


def test_what_is_left_of_the_repeats_comes_at_the_end(store, make_pairs, plan):
    """Of 10 pairs Ann gets 4, as Ben took the others: the repeats planned for after the fifth come then."""
    store_pairs.add(store, make_pairs(10))
    one = replace(plan, slots=1)
    ben, ann = people(store, "Ben", "Ann")
    assert len(rate_all(store, ben, replace(one, quota=6))) == 6
    five = replace(one, repeats=5)
    assert handout.progress(store, ann, five) == (0, 6)  # two, as half of what was rated can come again
    assert len(rate_all(store, ann, five)) == 6
    assert handout.progress(store, ann, five) == (6, 0)


def test_gold_repeats_and_quota_together_keep_the_promise_of_progress(store, make_pairs, plan):
    store_pairs.add(store, make_pairs(12))
    store_pairs.add_gold(store, make_gold(2))
    every = replace(plan, quota=9, gold_every=3, repeats=2)
    ann, _ = raters.invite(store, "Ann")
    totals = set()
    for _ in range(99):
        totals.add(sum(handout.progress(store, ann, every)))
        if not (given := handout.claim(store, ann, every)):
            break
        totals.add(sum(handout.progress(store, ann, every)))
        verdicts.save(store, given[0].presentation, {"fluency": "A"}, rater=ann)
    assert totals == {9 + 2 + 2}
    assert verdicts.trail(store, ann) == sorted(verdicts.trail(store, ann))
    assert len(verdicts.trail(store, ann)) == 13


def test_bad_gold_is_refused(store, make_pairs):
    store_pairs.add(store, make_pairs(1))
    store_pairs.add_gold(store, make_gold(1))
    (entry,) = make_gold(1)
    for wrong, message in (
        (replace(entry, expected={"fluency": "b"}), "another answer"),
        (replace(entry, pair=replace(entry.pair, text_a="new")), "with other texts"),
        (replace(entry, pair=make_pairs(1)[0]), "is one of the study's"),
        (replace(entry, expected={}), "no expected answer"),
        (
            replace(entry, pair=replace(entry.pair, text_a="né", text_b=" ne\u0301\r\n")),
            "the same text twice",
        ),
        (replace(entry, expected={"fluency": "tie"}), "expects 'tie' on 'fluency'; write 'a' or 'b'"),
        (replace(entry, expected={"": "a"}), "criterion '' is empty"),
    ):
        with pytest.raises(StudyError, match=message):
            store_pairs.add_gold(store, [wrong])
    with pytest.raises(StudyError, match="is a gold pair already"):
        store_pairs.add(store, [entry.pair])
    assert store_pairs.read_gold(store) == [entry]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"slots": 0}, "0 slots"),
        ({"quota": 0}, "0 pairs per rater"),
        ({"gold_every": 0}, "0 pairs to one gold"),
        ({"repeats": -1}, "-1 repeats"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(plan, change, message):
    with pytest.raises(StudyError, match=message):
        replace(plan, **change)
