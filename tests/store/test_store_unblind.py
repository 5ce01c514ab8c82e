"""Letters become methods once, and rightly; every revision is there for whoever wants to see it."""

from collections import Counter
from dataclasses import asdict, replace

import pytest
from rating import people

from guard_eval.store import HistoryRow, TidyRow, handout, raters, unblind, verdicts
from guard_eval.store import pairs as store_pairs
from guard_eval.store.unblind import resolve


@pytest.mark.parametrize(
    ("first", "choice", "expected"),
    [
        ("a", "A", "guard"),  # guard's text was on the left, and the left was better
        ("a", "B", "top_k(k=50)"),
        ("a", "tie", "tie"),
        ("b", "A", "top_k(k=50)"),  # top-k's text was on the left
        ("b", "B", "guard"),
        ("b", "tie", "tie"),
    ],
)
def test_a_letter_names_the_method_whose_text_it_stood_over(make_pairs, first, choice, expected):
    assert resolve(make_pairs(1)[0], first, choice) == expected


def test_a_row_says_everything_and_a_change_of_mind_is_another(store, make_pairs, plan, clock):
    pair = replace(make_pairs(1)[0], text_a="four", text_b="six éé😀")
    store_pairs.add(store, [pair])
    ann, _ = raters.invite(store, "Ann")
    blind = handout.claim(store, ann, plan)[0]
    left, right = (pair.method_a, pair.method_b) if blind.text_a == "four" else (pair.method_b, pair.method_a)
    clock.advance(seconds=60)
    verdicts.save(store, blind.presentation, {"fluency": "A"}, rater=ann, seconds=60.0, active_seconds=41.5)
    row = TidyRow(
        pair_id=pair.id,
        dataset="wikinews",
        prompt_id=pair.prompt_id,
        method_a="guard",
        method_b="top_k(k=50)",
        rater="Ann",
        criterion="fluency",
        verdict=left,
        rater_kind="person",
        presentation=blind.presentation,
        slot=0,
        shown_first=left,
        seconds=60.0,
        active_seconds=41.5,
        at="2026-01-02T03:05:05.678+00:00",
        length_a=4,
        length_b=7,
        surplus=False,
        position="A",
    )
    assert unblind.tidy(store) == [row]
    clock.advance(seconds=5)
    verdicts.save(store, blind.presentation, {"fluency": "B"}, rater=ann)
    later = {"position": "B", "verdict": right, "seconds": None, "active_seconds": None}
    later["at"] = "2026-01-02T03:05:10.678+00:00"
    common = {"role": "study", "handed_out": "2026-01-02T03:04:05.678+00:00"}
    assert unblind.history(store) == [
        HistoryRow(**asdict(row), **common, revision=0),
        HistoryRow(**(asdict(row) | later), **common, revision=1),
    ]
    assert [(row.position, row.verdict) for row in unblind.tidy(store)] == [("B", right)]


def test_moments_are_utc_whatever_zone_the_clock_has(store_url, make_pairs, plan, clock):
    from datetime import timedelta, timezone

    from guard_eval.store import Store

    there = timezone(timedelta(hours=9, minutes=30))
    with Store.open(store_url, create=True, clock=lambda: clock().astimezone(there)) as store:
        store_pairs.add(store, make_pairs(1))
        ann, _ = raters.invite(store, "Ann")
        verdicts.save(store, handout.claim(store, ann, plan)[0].presentation, {"fluency": "A"}, rater=ann)
        assert unblind.tidy(store)[0].at == "2026-01-02T03:04:05.678+00:00"


def test_swapping_sides_never_changes_the_method(store, make_pairs, plan, judge):
    """A judge that knows which text it likes, by its words, names that method in both orders."""
    pairs = {pair.prompt: pair for pair in make_pairs(12)}
    store_pairs.add(store, list(pairs.values()))
    liked = {pair.id: ("guard", "top_k(k=50)", "tie")[pair.position % 3] for pair in pairs.values()}

    def choose(blind):
        pair = pairs[blind.prompt]
        text = {pair.method_a: pair.text_a, pair.method_b: pair.text_b}.get(liked[pair.id])
        return "tie" if text is None else "A" if blind.text_a == text else "B"

    judge(store, "judge", plan, choose)
    rows = unblind.tidy(store)
    assert Counter((row.pair_id, row.verdict) for row in rows) == dict.fromkeys(liked.items(), 2)
    sides = {(row.pair_id, row.shown_first) for row in rows}
    assert sides == {(pair_id, method) for pair_id in liked for method in ("guard", "top_k(k=50)")}


def test_rows_come_in_one_order(store, make_pairs, plan):
    store_pairs.add(store, make_pairs(3))
    for name in ("b", "a"):
        rater, _ = raters.invite(store, name)
        for blind in handout.claim(store, rater, plan, limit=3):
            verdicts.save(store, blind.presentation, {"fluency": "A", "coherence": "B"}, rater=rater)
    rows = unblind.tidy(store)
    prompts = {pair.id: pair.position for pair in store_pairs.read(store)}
    keys = [(prompts[row.pair_id], row.rater, row.criterion) for row in rows]
    assert keys == sorted(keys)
    assert len(keys) == 3 * 2 * 2
    assert set(Counter(row.verdict for row in rows)) == {"guard", "top_k(k=50)"}


def test_surplus_excluded_and_repeats_are_there_and_marked(store, make_pairs, plan, clock):
    store_pairs.add(store, make_pairs(2))
    one = replace(plan, slots=1, repeats=1)
    late, ann = people(store, "late", "Ann")
    lost = handout.claim(store, late, one)[0].presentation
    clock.advance(hours=1)
    while given := handout.claim(store, ann, one):
        verdicts.save(store, given[0].presentation, {"fluency": "A"}, rater=ann)
    verdicts.save(store, lost, {"fluency": "tie"}, rater=late)
    raters.exclude(store, "Ann", "why", "who")
    rows = [(row.rater, row.role, row.surplus, row.excluded, row.position) for row in unblind.history(store)]
    assert rows == [
        ("late", "study", True, False, "tie"),
        ("Ann", "study", False, True, "A"),
        ("Ann", "study", False, True, "A"),
        ("Ann", "repeat", False, True, "A"),
    ]
