"""How far a study is and how its raters agree, against sums done by hand."""

import json
from dataclasses import asdict, replace
from datetime import timedelta

import pytest
from ratings_by_hand import A, B, changed, note, pair, person, pressed, snapshot

from guard_eval.cli.overview.overview import view
from guard_eval.cli.overview.ratings import read
from guard_eval.records import Plan
from guard_eval.store import Store, handout, pairs, raters, verdicts

PEOPLE = [person("ann", rated=4, handed_out=4), person("ben", rated=4, handed_out=4)]
PAIRS = [pair(number) for number in range(5)]


def four_pairs():
    """Two raters on four pairs. By method: (a, a), (a, b), (tie, tie), (b, b); ben sees the sides swapped."""
    return [
        *pressed(1, "p0", "ann", fluency="A", seconds=20.0),
        *pressed(2, "p0", "ben", fluency="B", first=B, seconds=40.0),
        *pressed(3, "p1", "ann", fluency="A", seconds=30.0),
        *pressed(4, "p1", "ben", fluency="A", first=B, seconds=50.0),
        *pressed(5, "p2", "ann", fluency="tie"),
        *pressed(6, "p2", "ben", fluency="tie", first=B),
        *pressed(7, "p3", "ann", fluency="B"),
        *pressed(8, "p3", "ben", fluency="A", first=B),
    ]


def test_agreement_is_by_method_and_sides_by_letter():
    found = view(snapshot(four_pairs(), pairs=PAIRS, raters=PEOPLE), slots=2)
    (line,) = found.criteria
    # Three of four pairs agree; chance: 3/8 for a, 2/8 ties, 3/8 for b, so 22/64.
    assert line.raw == 3 / 4
    assert line.agreement.value == pytest.approx((3 / 4 - 22 / 64) / (1 - 22 / 64))
    assert line.agreement.low is None  # of four pairs none is given
    assert line.ties == 2 / 8
    # A was pressed by ann twice and by ben twice, B once each.
    assert line.first.value == 4 / 6
    assert line.first.n == 6


def test_what_is_there_and_what_is_wanting():
    found = view(snapshot(four_pairs(), pairs=PAIRS, raters=PEOPLE), slots=2)
    assert (found.counted, found.wanted, found.filled) == (8, 10, (1, 0, 4))
    # 20, 30, 30, 30, 30, 30, 40, 50 s
    assert found.seconds == 30.0
    assert found.seconds_left == 2 * 30.0
    assert [(line.rated, line.a_first) for line in found.pairs] == [(2, 1)] * 4 + [(0, 0)]


def test_excluded_and_surplus_ratings_do_not_count_and_are_told_of():
    rows = [replace(row, excluded=row.rater == "ben") for row in four_pairs()]
    rows[0] = replace(rows[0], surplus=True)
    found = view(snapshot(rows, pairs=PAIRS, raters=PEOPLE), slots=2)
    assert (found.counted, found.excluded, found.surplus) == (3, 4, 1)
    assert found.filled == (2, 3, 0)
    assert found.criteria[0].agreement.note == "no item was rated twice"


def test_a_change_of_mind_counts_as_it_stands_and_keeps_its_time():
    rows = four_pairs()
    rows.append(changed(rows[3], "B"))
    found = view(snapshot(rows, pairs=PAIRS, raters=PEOPLE), slots=2)
    assert found.criteria[0].raw == 1.0
    assert found.seconds == 30.0
    assert found.counted == 8


def test_nothing_tells_which_method_is_ahead():
    """A study in which every verdict goes to the other method looks the same."""
    swap = {A: B, B: A, "tie": "tie"}
    mirrored = [
        replace(row, shown_first=swap[row.shown_first], verdict=swap[row.verdict]) for row in four_pairs()
    ]
    one, other = (
        view(snapshot(rows, pairs=PAIRS, raters=PEOPLE), slots=2) for rows in (four_pairs(), mirrored)
    )
    assert replace(one, pairs=()) == replace(other, pairs=())


def test_the_last_remark_on_a_pair_stands_unless_it_was_taken_back():
    notes = [
        note("ann", "comment", "odd", 1),
        note("ben", "comment", "both good", 2),
        note("ann", "comment", "not so odd", 1),
        note("ben", "problem", "offensive", 4),
        note("ben", "problem", "", 4),
        note("ann", "consent", '{"agreed": true}'),
    ]
    found = view(snapshot(four_pairs(), pairs=PAIRS, raters=PEOPLE, notes=notes), slots=2)
    assert [(one.rater, one.text, one.prompt_id) for one in found.remarks] == [
        ("ann", "not so odd", "prompt-0"),
        ("ben", "both good", "prompt-0"),
    ]
    assert (found.pairs[0].comments, found.pairs[1].problems) == (2, 0)


def test_decisions_are_told_with_their_reason():
    detail = json.dumps({"by": "owner", "reason": "five seconds a pair"})
    notes = [note("ben", "exclude", detail), note("ben", "include", detail)]
    found = view(snapshot([], pairs=PAIRS, raters=PEOPLE, notes=notes), slots=2)
    assert [(one.kind, one.rater, one.by, one.reason) for one in found.decisions] == [
        ("exclude", "ben", "owner", "five seconds a pair"),
        ("include", "ben", "owner", "five seconds a pair"),
    ]


@pytest.mark.parametrize(
    ("first", "today", "expected"), [("x", "y", True), ("x", "x", False), (None, "y", False)]
)
def test_changed_settings_are_reported(first, today, expected):
    found = view(snapshot([], pairs=PAIRS, raters=PEOPLE, declared=first), slots=2, declared=today)
    assert found.changed_settings is expected


def test_a_study_in_which_nothing_happened():
    found = view(snapshot([], pairs=[], raters=[]), slots=2)
    assert (found.wanted, found.seconds_left, found.filled) == (0, None, (0, 0, 0))
    assert found.criteria == found.raters == ()
    json.dumps(asdict(found), allow_nan=False)


def test_what_the_store_gives(tmp_path, make_pairs):
    """A gold pair and a repeat among the rest, and a rater who is excluded."""
    plan = Plan(seed=1, slots=2, lease=timedelta(minutes=30), repeats=1)
    with Store.open(f"sqlite:///{tmp_path / 'study.db'}", create=True) as store:
        pairs.add(store, make_pairs(4))
        for name in ("ann", "ben"):
            rater, _ = raters.invite(store, name)
            while batch := handout.claim(store, rater, plan):
                verdicts.save(
                    store,
                    batch[0].presentation,
                    {"fluency": "A"},
                    rater=rater,
                    seconds=9.0,
                    comment=f"so says {name}",
                )
        raters.exclude(store, "ben", "for the test", "owner")
        found = view(read(store), slots=2)
    ann, ben = found.raters
    assert (found.counted, found.excluded, found.wanted) == (4, 4, 8)
    assert (ann.rated, ann.repeats, ben.state) == (4, 1, "excluded")
    # The same letter for the same pair with its sides swapped is the other text.
    assert ann.repeats_changed == 1
    assert ann.seconds == 9.0
    assert ann.total_seconds == 5 * 9.0
    assert len(found.remarks) == 10
    assert found.decisions[0].reason == "for the test"
