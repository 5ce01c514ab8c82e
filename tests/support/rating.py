"""People who rate, for tests of the store."""

from collections import Counter

from guard_eval.store import handout, unblind, verdicts
from guard_eval.store import raters as store_raters


def invite_people(store, *names):
    """Invite people with these names, and return the raters."""
    return [store_raters.invite_rater(store, name)[0] for name in names]


def claim_pair(store, rater, plan):
    """Return the rater's next pair."""
    (blind_pair,) = handout.claim_pairs(store, rater, plan)
    return blind_pair


def save_choice(store, rater, presentation, choice="A", **more):
    """Save a rater's verdict on a presentation."""
    return verdicts.save_verdict(store, presentation.presentation, {"fluency": choice}, rater=rater, **more)


def rate_all_pairs(store, rater, plan, choose=lambda _: "A"):
    """Rate until no pair is left, and return all claimed presentations."""
    presentation = []
    while claimed := handout.claim_pairs(store, rater, plan):
        presentation += claimed
        save_choice(store, rater, claimed[0], choose(claimed[0]))
    return presentation


def exclude_rater(store, name):
    """Exclude the rater with this name."""
    store_raters.decide_about_rater(store, name, "exclude", by="owner", reason="why")


def include_rater(store, name):
    """Include the rater with this name again."""
    store_raters.decide_about_rater(store, name, "include", by="owner", reason="why")


def count_side_leads(store):
    """Return how much more often a method was shown as A than as B, in the verdicts that count.

    The first counter is by rater's name and method. The second is by pair and kind of rater, for the pair's
    first method.
    """
    raters, pairs = Counter(), Counter()
    sides = {row.presentation: row for row in unblind.read_tidy_rows(store)}
    for row in sides.values():
        side = 1 if row.shown_first == row.method_a else -1
        raters[row.rater, row.method_a] += side
        raters[row.rater, row.method_b] -= side
        pairs[row.pair_id, row.rater_kind] += side
    return raters, pairs


def find_largest_lead(count_side_leads):
    """Return the largest difference between the two sides."""
    return max(map(abs, count_side_leads.values()))
