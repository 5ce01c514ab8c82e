"""Gold pairs and repeats are mixed with the study's pairs, and are no part of the results."""

from dataclasses import replace

from factories import make_gold
from rating import invite_people, rate_all_pairs, save_choice
from refusals import expect_refusal

from guard_eval.store import (
    raters,
    unblind,
    verdicts,
)
from guard_eval.store.handout import claim_pairs, count_rated_and_remaining_pairs
from guard_eval.store.pairs import add_gold_pairs, add_pairs, read_gold_pairs, read_pairs


def is_gold(blind):
    return blind.prompt.startswith("A gold")


def test_gold_pairs_are_excluded_from_results(*, store, ann, make_pairs, add_new_pairs, plan, judge_all):
    add_new_pairs(3)
    assert add_gold_pairs(store, make_gold(2)) == 2
    assert add_gold_pairs(store, make_gold(3)) == 1
    assert read_gold_pairs(store) == make_gold(3)
    assert read_pairs(store) == make_pairs(3)
    assert len(rate_all_pairs(store, ann, plan)) == 3  # the plan asks for no gold
    gold = replace(plan, gold_every=1)
    assert sum(map(is_gold, rate_all_pairs(store, ann, gold))) == 3
    assert len(unblind.read_tidy_rows(store)) == 3
    assert not any(map(is_gold, judge_all(store, "judge", gold)))
    assert {row.name: row.rated for row in raters.read_rater_progress(store)} == {"Ann": 3, "judge": 6}


def test_each_block_has_one_gold_pair_at_a_random_position(store, add_new_pairs, plan):
    add_new_pairs(12)
    add_gold_pairs(store, make_gold(5))
    four = replace(plan, gold_every=4, slots=3)
    places, sides = set(), set()
    for rater in invite_people(store, "Ann", "Ben", "Eve"):
        assert count_rated_and_remaining_pairs(store, rater, four) == (0, 15)
        presented = rate_all_pairs(store, rater, four)
        assert len(presented) == 15
        at = [index for index, blind in enumerate(presented) if is_gold(blind)]
        before = tuple(sum(not is_gold(blind) for blind in presented[:index]) for index in at)
        assert [1 <= count - 4 * block <= 4 for block, count in enumerate(before)] == [True] * 3
        places.add(before)
        sides |= {presented[index].text_a.startswith("right") for index in at}
    assert len(places) > 1
    assert sides == {True, False}


def test_repeats_come_later_with_the_sides_swapped(store, add_new_pairs, plan):
    """The first repeat comes after 10 to 19 pairs. The second one comes at the end, after 20 pairs."""
    add_new_pairs(24)
    twice = replace(plan, quota=20, repeats=2)
    for rater in invite_people(store, "Ann", "Ben"):
        assert count_rated_and_remaining_pairs(store, rater, twice) == (0, 22)
        presented = rate_all_pairs(store, rater, twice)
        texts = [frozenset((blind.text_a, blind.text_b)) for blind in presented]
        repeats = [index for index, pair in enumerate(texts) if pair in texts[:index]]
        assert len(presented) == 22
        assert len(repeats) == 2
        assert 10 <= repeats[0] < 20
        assert repeats[1] == 21
        for index in repeats:
            before = texts.index(texts[index])
            assert index - before >= 5  # of the older half of what was rated
            assert (presented[index].text_a, presented[index].text_b) == (
                presented[before].text_b,
                presented[before].text_a,
            )
    assert len(unblind.read_tidy_rows(store)) == 40


def test_progress_counts_gold_pairs_and_repeats(store, ann, add_new_pairs, plan):
    add_new_pairs(12)
    add_gold_pairs(store, make_gold(2))
    every = replace(plan, quota=9, gold_every=3, repeats=2)
    totals = {sum(count_rated_and_remaining_pairs(store, ann, every))}
    while presented := claim_pairs(store, ann, every):
        totals.add(sum(count_rated_and_remaining_pairs(store, ann, every)))
        save_choice(store, ann, presented[0])
        totals.add(sum(count_rated_and_remaining_pairs(store, ann, every)))
    assert totals == {9 + 2 + 2}
    assert verdicts.read_rated_presentations(store, ann) == sorted(
        verdicts.read_rated_presentations(store, ann)
    )
    assert len(verdicts.read_rated_presentations(store, ann)) == 13


def test_changed_gold_pairs_are_refused(store, make_pairs, add_new_pairs):
    add_new_pairs(1)
    add_gold_pairs(store, make_gold(1))
    (entry,) = make_gold(1)
    for wrong, message in (
        ({"expected": {"fluency": "b"}}, "with another expected"),
        ({"pair": replace(entry.pair, text_a="new")}, "with another text_a"),
        ({"pair": make_pairs(1)[0]}, "is in the study with another expected"),
    ):
        with expect_refusal(message):
            add_gold_pairs(store, [replace(entry, **wrong)])
    with expect_refusal("is in the study with another expected"):
        add_pairs(store, [entry.pair])
    assert read_gold_pairs(store) == [entry]
