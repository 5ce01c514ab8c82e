"""Hand-out of pairs: order, leases, quotas, skips, and clocks that jump."""

from collections import Counter
from dataclasses import replace

import pytest
from rating import claim_pair, exclude_rater, invite_people, rate_all_pairs, save_choice
from refusals import expect_refusal

from guard_eval.store import notes, raters, unblind, verdicts
from guard_eval.store.handout import (
    SPARE_SKIPS,
    claim_pairs,
    count_rated_and_remaining_pairs,
    find_end_of_rater_wait,
    skip_presentation,
)
from guard_eval.store.pairs import add_pairs
from guard_eval.store.showings import roster, slots
from guard_eval.store.showings.slots import MOST_SKIPS


def list_prompts(presented):
    return [blind.prompt for blind in presented]


def split_raters_by_surplus(store):
    """Return the raters of counted verdicts, and those of surplus verdicts."""
    rows = unblind.read_tidy_rows(store, include_surplus=True)
    return [row.rater for row in rows if not row.surplus], [row.rater for row in rows if row.surplus]


@pytest.fixture
def one_pair(store, add_new_pairs):
    """One pair in the store, and three people."""
    add_new_pairs(1)
    return invite_people(store, "Ann", "Ben", "Eve")


def test_a_rater_sees_every_pair_once_in_seeded_order(*, store, ann, ben, make_pairs, add_new_pairs, plan):
    add_new_pairs(9)
    ann_saw = list_prompts(rate_all_pairs(store, ann, plan))
    assert sorted(ann_saw) == sorted(pair.prompt for pair in make_pairs(9)) != ann_saw
    assert claim_pairs(store, ann, plan) == []
    ben_saw = list_prompts(rate_all_pairs(store, ben, plan))
    assert sorted(ben_saw) == sorted(ann_saw)
    assert ben_saw != ann_saw


def test_people_rate_a_sample_and_a_judge_rates_all(*, store, ann, ben, cem, make_pairs, plan, judge_all):
    add_pairs(store, [replace(pair, for_people=pair.position % 3 == 0) for pair in make_pairs(9)])
    sample = ["The prompt of number 0", "The prompt of number 3", "The prompt of number 6"]
    assert count_rated_and_remaining_pairs(store, ann, plan) == (0, 3)
    assert roster.reserve_slots(store, [ann.name, ben.name], plan) == 6
    simulated = raters.get_or_add_rater(store, "SIMULATED", "simulated")
    for rater in (ann, ben, simulated):
        assert sorted(list_prompts(rate_all_pairs(store, rater, plan))) == sample
    assert claim_pairs(store, cem, plan) == []  # the simulated raters' slots are no person's
    assert len(judge_all(store, "judge", plan)) == 18  # both orders
    with pytest.raises(KeyError, match="model"):
        claim_pairs(store, raters.get_or_add_rater(store, "judge", "model"), plan)


def test_an_open_pair_is_handed_out_again_with_a_new_lease(store, one_pair, single_plan, clock):
    ann, ben, _ = one_pair
    presented = claim_pairs(store, ann, single_plan)
    clock.advance(minutes=29)
    assert claim_pairs(store, ann, single_plan) == presented
    clock.advance(minutes=29)  # 58 minutes after the first hand-out, 29 after the second
    assert claim_pairs(store, ben, single_plan) == []


def test_an_expired_lease_gives_the_slot_to_another_rater(store, one_pair, single_plan, clock):
    ann, ben, eve = one_pair
    abandoned = claim_pair(store, ann, single_plan)
    clock.advance(minutes=29, seconds=59)
    assert claim_pairs(store, ben, single_plan) == []
    clock.advance(seconds=1)
    taken = claim_pair(store, ben, single_plan)
    assert (taken.text_a, taken.text_b) == (abandoned.text_a, abandoned.text_b)
    assert taken.presentation != abandoned.presentation
    assert claim_pairs(store, ann, single_plan) == []  # another has its slot, and nobody sees a pair twice
    assert claim_pairs(store, eve, single_plan) == []
    assert count_rated_and_remaining_pairs(store, ann, single_plan) == (0, 0)
    save_choice(store, ann, abandoned)
    save_choice(store, ben, taken)
    assert split_raters_by_surplus(store) == (["Ben"], ["Ann"])


def test_a_late_verdict_counts_if_the_slot_is_still_free(store, one_pair, single_plan, clock):
    ann, ben, _ = one_pair
    presented = claim_pair(store, ann, single_plan)
    clock.advance(days=3)
    save_choice(store, ann, presented)
    assert claim_pairs(store, ben, single_plan) == []
    assert split_raters_by_surplus(store) == (["Ann"], [])


def test_a_waiting_rater_learns_when_a_lease_ends(store, one_pair, single_plan, clock):
    ann, ben, _ = one_pair
    presented = claim_pair(store, ann, single_plan)
    assert find_end_of_rater_wait(store, ben, single_plan) == clock() + single_plan.lease
    save_choice(store, ann, presented)
    assert find_end_of_rater_wait(store, ben, single_plan) is None


def test_progress_counts_rated_and_remaining_pairs(store, add_new_pairs, plan):
    add_new_pairs(4)
    ann, ben, eve = invite_people(store, "Ann", "Ben", "Eve")
    assert count_rated_and_remaining_pairs(store, ann, plan) == (0, 4)
    presented = claim_pairs(store, ann, plan, limit=2)
    assert count_rated_and_remaining_pairs(store, ann, plan) == (0, 4)
    save_choice(store, ann, presented[0])
    assert count_rated_and_remaining_pairs(store, ann, plan) == (1, 3)
    rate_all_pairs(store, ben, plan)
    assert count_rated_and_remaining_pairs(store, ben, plan) == (4, 0)
    # Ann holds two of four pairs.
    assert count_rated_and_remaining_pairs(store, eve, plan) == (0, 2)


def test_a_slot_lost_to_another_rater_uses_no_quota(*, store, ann, ben, add_new_pairs, plan, clock):
    add_new_pairs(2)
    single_plan = replace(plan, slots=1, quota=1)
    lost = claim_pairs(store, ann, single_plan)
    clock.advance(hours=1)
    claim_pairs(store, ben, replace(single_plan, quota=2), limit=2)
    assert count_rated_and_remaining_pairs(store, ann, single_plan) == (0, 0)
    raters.decide_about_rater(store, "Ben", "revoke", by="owner")
    assert count_rated_and_remaining_pairs(store, ann, single_plan) == (0, 1)
    assert claim_pairs(store, ann, single_plan) == lost


def test_a_clock_set_back_does_not_extend_a_lease(store, one_pair, single_plan, clock):
    ann, ben, _ = one_pair
    presented = claim_pair(store, ann, single_plan)
    clock.advance(days=-1)
    assert claim_pairs(store, ann, single_plan) == [presented]  # a refresh
    save_choice(store, ann, presented)
    assert verdicts.read_rated_presentations(store, ann) == [presented.presentation]
    exclude_rater(store, "Ann")
    assert len(claim_pairs(store, ben, single_plan)) == 1
    clock.advance(days=-1)
    assert claim_pairs(store, one_pair[2], single_plan) == []
    clock.advance(minutes=30)
    assert len(claim_pairs(store, one_pair[2], single_plan)) == 1


@pytest.mark.parametrize("change", [{"milliseconds": -1}, {"seconds": 30}])
def test_a_renewed_lease_never_ends_earlier(store, one_pair, single_plan, clock, change):
    ann, ben, _ = one_pair
    presented = claim_pairs(store, ann, replace(single_plan, lease=2 * single_plan.lease))[0]
    clock.advance(**change)
    assert claim_pairs(store, ben, single_plan) == []
    save_choice(store, ann, presented)
    assert split_raters_by_surplus(store) == (["Ann"], [])


def test_lost_pairs_return_to_a_rater_only_within_the_quota(*, store, ann, ben, add_new_pairs, plan, clock):
    add_new_pairs(2)
    single_plan = replace(plan, slots=1, quota=1)
    lost = claim_pair(store, ann, single_plan)
    clock.advance(hours=1)
    first, second = claim_pairs(store, ben, replace(single_plan, quota=2), limit=2)
    assert claim_pairs(store, ann, single_plan) == []
    other = first if second.prompt == lost.prompt else second
    skip_presentation(store, other.presentation, ["unreadable"], rater=ben)
    save_choice(store, ann, claim_pair(store, ann, single_plan))
    raters.decide_about_rater(store, "Ben", "revoke", by="owner")  # so that the lost one is free
    assert claim_pairs(store, ann, single_plan) == []
    assert count_rated_and_remaining_pairs(store, ann, single_plan) == (1, 0)


def test_an_idle_rater_waits_at_most_one_lease(store, one_pair, single_plan, clock):
    ann, ben, _ = one_pair
    notes.write_note(store, ben, "consent", "{}")
    for minutes, waits in ((20, True), (9, True), (1, False)):
        clock.advance(minutes=minutes)
        claim_pairs(store, ann, single_plan)  # who looks at her pair again and again
        assert (find_end_of_rater_wait(store, ben, single_plan) is not None) == waits
    notes.write_note(store, ben, "practice", "{}")
    assert find_end_of_rater_wait(store, ben, single_plan) == clock() + single_plan.lease


def skip_next_pair(store, rater, plan, **options):
    """Let a rater skip the next pair; return the pair."""
    presented = claim_pair(store, rater, plan)
    assert skip_presentation(store, presented.presentation, ["unreadable"], rater=rater, **options)
    return presented


def test_a_skipped_pair_goes_to_another_rater(store, one_pair, single_plan):
    ann, ben, _ = one_pair
    skipped = skip_next_pair(store, ann, single_plan, comment="half of it is boxes")
    # A press may come twice.
    assert skip_presentation(store, skipped.presentation, ["unreadable"], rater=ann)
    assert claim_pairs(store, ann, single_plan) == []
    assert count_rated_and_remaining_pairs(store, ann, single_plan) == (0, 0)
    presented = claim_pair(store, ben, single_plan)
    assert presented.prompt == skipped.prompt
    save_choice(store, ben, presented)
    save_choice(store, ann, skipped)  # a verdict after a skip is kept and does not count
    assert split_raters_by_surplus(store) == (["Ben"], ["Ann"])
    assert [(note.kind, note.detail) for note in notes.read_notes(store, rater=ann.name)] == [
        ("skip", "unreadable"),
        ("comment", "half of it is boxes"),
    ]


def test_a_skip_needs_a_reason_and_an_unrated_pair(store, one_pair, plan):
    ann, ben, _ = one_pair
    presented = claim_pair(store, ann, plan)
    for who, reasons, message in (
        (ann, [], "a reason to skip"),
        (ben, ["unreadable"], "not handed to 'Ben'"),
    ):
        with expect_refusal(message):
            skip_presentation(store, presented.presentation, reasons, rater=who)
    save_choice(store, ann, presented)
    with expect_refusal("is already rated; change its verdict"):
        skip_presentation(store, presented.presentation, ["unreadable"], rater=ann)
    assert notes.read_notes(store) == []


def test_a_rater_cannot_skip_everything(store, ann, add_new_pairs, plan):
    add_new_pairs(20)
    for _ in range(SPARE_SKIPS):
        skip_next_pair(store, ann, plan)
    presented = claim_pair(store, ann, plan)
    assert not skip_presentation(store, presented.presentation, ["unreadable"], rater=ann)
    assert claim_pairs(store, ann, plan) == [presented]
    save_choice(store, ann, presented)
    skip_next_pair(store, ann, plan)


def test_a_pair_skipped_by_three_raters_is_closed(store, add_new_pairs, plan):
    add_new_pairs(1)
    *skippers, last = invite_people(store, *(f"R{number}" for number in range(MOST_SKIPS + 1)))
    for rater in skippers:
        assert count_rated_and_remaining_pairs(store, last, plan) == (0, 1)
        skip_next_pair(store, rater, plan)
    assert count_rated_and_remaining_pairs(store, last, plan) == (0, 0)
    # another number of raters a pair opens no pair again
    slots.apply_hand_out_plan(store, replace(plan, slots=4))
    assert claim_pairs(store, last, replace(plan, slots=4)) == []
    # skips of somebody who is excluded say nothing
    exclude_rater(store, "R0")
    assert len(claim_pairs(store, last, plan)) == 1


def test_a_pair_skipped_in_a_roster_goes_to_another_rater(*, store, ann, ben, cem, add_new_pairs, plan):
    add_new_pairs(8)
    roster.reserve_slots(store, ["Ann", "Ben"], plan)
    skip_next_pair(store, ann, plan)
    for who in (ann, ben, cem):
        rate_all_pairs(store, who, plan)
    rows = unblind.read_tidy_rows(store)
    assert set(Counter(row.pair_id for row in rows).values()) == {2}
    assert Counter(row.rater for row in rows) == {"Ann": 7, "Ben": 8, "Cem": 1}
