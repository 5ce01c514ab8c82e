"""Gold pairs, repeats and quotas: mixed in, counted, and no part of the study."""

from dataclasses import replace

import pytest
from factories import make_gold
from rating import people, rate, rate_all

from guard_eval.errors import StudyError
from guard_eval.store import handout, pairs, raters, unblind, verdicts


def is_gold(blind):
    return blind.prompt.startswith("A gold")


def test_gold_pairs_are_excluded_from_results(store, make_pairs, plan, judge):
    pairs.add_pairs(store, make_pairs(3))
    assert pairs.add_gold_pairs(store, make_gold(2)) == 2
    assert pairs.add_gold_pairs(store, make_gold(3)) == 1
    assert pairs.read_gold_pairs(store) == make_gold(3)
    assert pairs.read_pairs(store) == make_pairs(3)
    (ann,) = people(store, "Ann")
    assert len(rate_all(store, ann, plan)) == 3  # the plan asks for no gold
    gold = replace(plan, gold_every=1)
    assert sum(map(is_gold, rate_all(store, ann, gold))) == 3
    assert len(unblind.read_tidy_rows(store)) == 3
    assert not any(map(is_gold, judge(store, "judge", gold)))
    assert {row.name: row.rated for row in raters.read_progress(store)} == {"Ann": 3, "judge": 6}


def test_each_block_has_one_gold_pair_at_a_random_position(store, make_pairs, plan):
    pairs.add_pairs(store, make_pairs(12))
    pairs.add_gold_pairs(store, make_gold(5))
    four = replace(plan, gold_every=4, slots=3)
    places, sides = set(), set()
    for rater in people(store, "Ann", "Ben", "Eve"):
        assert handout.count_progress(store, rater, four) == (0, 15)
        presented = rate_all(store, rater, four)
        assert len(presented) == 15
        at = [index for index, blind in enumerate(presented) if is_gold(blind)]
        before = tuple(sum(not is_gold(blind) for blind in presented[:index]) for index in at)
        assert [1 <= count - 4 * block <= 4 for block, count in enumerate(before)] == [True] * 3
        places.add(before)
        sides |= {presented[index].text_a.startswith("right") for index in at}
    assert len(places) > 1
    assert sides == {True, False}


def test_repeats_come_later_with_the_sides_swapped(store, make_pairs, plan):
    """The first after 10 to 19 pairs, and the other, which would come after 20, at the end."""
    pairs.add_pairs(store, make_pairs(24))
    twice = replace(plan, quota=20, repeats=2)
    for rater in people(store, "Ann", "Ben"):
        assert handout.count_progress(store, rater, twice) == (0, 22)
        presented = rate_all(store, rater, twice)
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


def test_progress_counts_gold_pairs_and_repeats(store, make_pairs, plan):
    pairs.add_pairs(store, make_pairs(12))
    pairs.add_gold_pairs(store, make_gold(2))
    every = replace(plan, quota=9, gold_every=3, repeats=2)
    (ann,) = people(store, "Ann")
    totals = {sum(handout.count_progress(store, ann, every))}
    while presented := handout.claim_pairs(store, ann, every):
        totals.add(sum(handout.count_progress(store, ann, every)))
        rate(store, ann, presented[0])
        totals.add(sum(handout.count_progress(store, ann, every)))
    assert totals == {9 + 2 + 2}
    assert verdicts.read_rated_presentations(store, ann) == sorted(
        verdicts.read_rated_presentations(store, ann)
    )
    assert len(verdicts.read_rated_presentations(store, ann)) == 13


def test_changed_gold_pairs_are_refused(store, make_pairs):
    pairs.add_pairs(store, make_pairs(1))
    pairs.add_gold_pairs(store, make_gold(1))
    (entry,) = make_gold(1)
    for wrong, message in (
        ({"expected": {"fluency": "b"}}, "with another expected"),
        ({"pair": replace(entry.pair, text_a="new")}, "with another text_a"),
        ({"pair": make_pairs(1)[0]}, "is in the study with another expected"),
    ):
        with pytest.raises(StudyError, match=message):
            pairs.add_gold_pairs(store, [replace(entry, **wrong)])
    with pytest.raises(StudyError, match="is in the study with another expected"):
        pairs.add_pairs(store, [entry.pair])
    assert pairs.read_gold_pairs(store) == [entry]
