"""Which slot is shown next, and on which side: the rules as a table of cases, without a database."""

from collections import Counter

import pytest
from sqlalchemy import text

from guard_eval.store.database import Store
from guard_eval.store.showings import slots
from guard_eval.store.showings.sides import OpenSlot, choose_slot_and_side

A_DRAW, B_DRAW = 0, 15
"""The coin falls on a for the lowest draws and on b for the highest ones."""


def make_slot(pair_id, side=None, methods="xy", *, number=0, reserved=False):
    """Return an open slot of a pair of two methods, each named by a letter."""
    method_a, method_b = methods
    fields = {"method_a": method_a, "method_b": method_b, "side": side, "reserved": reserved}
    return OpenSlot(id=10 * pair_id + number, pair_id=str(pair_id), number=number, **fields)


MANY = [make_slot(number) for number in range(1, 18)]
"""So many slots that the end is not near."""

FIXED = [make_slot(number, "a") for number in range(2, 7)]
OTHERS = [make_slot(number, methods="uv") for number in range(30, 40)]
BEHIND = [make_slot(number, "b", methods) for number, methods in enumerate(("xp", "xq", "xr", "xs", "xt"), 2)]
RESERVED = [make_slot(number, side, reserved=True) for number, side in enumerate("bba", 1)]

CASES = {
    "no slot": ([], {}, A_DRAW, None),
    "the coin says a": ([make_slot(1)], {}, A_DRAW, (10, "a")),
    "the coin says b": ([make_slot(1)], {}, B_DRAW, (10, "b")),
    "a fixed side is no matter of the coin": ([make_slot(1, "b")], {}, A_DRAW, (10, "b")),
    "the fixed side that the coin says": ([make_slot(1, "b"), make_slot(2, "a")], {}, A_DRAW, (20, "a")),
    "a fixed slot before a new pair": ([make_slot(1), make_slot(2, "a"), *MANY[2:]], {}, A_DRAW, (20, "a")),
    "the coin before a fixed slot": ([make_slot(1), make_slot(2, "b"), *MANY[2:]], {}, A_DRAW, (170, "a")),
    # draws 0 to 7 are a without fixed slots; one that is fixed on b makes 6 and 7 a draw of b
    "an even coin": (MANY, {}, 7, (170, "a")),
    "a coin that leans": ([make_slot(1, "b"), *MANY[1:]], {}, 7, (10, "b")),
    "a coin that leans to a": ([make_slot(1, "a"), *MANY[1:]], {}, 8, (10, "a")),
    "a coin that leans no further": ([make_slot(1, "b"), *MANY[1:]], {}, 5, (170, "a")),
    "the slot of a roster first": ([*MANY, make_slot(20, "b", reserved=True)], {}, A_DRAW, (200, "b")),
    "a slot of a roster leans no coin": (RESERVED, {}, 7, (30, "a")),
    "the first slot of a pair": ([make_slot(1, number=0), make_slot(1, number=1)], {}, A_DRAW, (10, "a")),
    # x was A four times more often than B: a fifth is allowed, a sixth only for odd draws
    "a lead below the bound": (MANY, {"x": 4, "y": -4}, 0, (170, "a")),
    "a lead at the bound of five": (MANY, {"x": 5, "y": -5}, 0, (170, "b")),
    "a lead at the bound of six": (MANY, {"x": 5, "y": -5}, 1, (170, "a")),
    "a lead at six": (MANY, {"x": 6, "y": -6}, 1, (170, "b")),
    "the other method leads": (MANY, {"y": -5}, 0, (170, "b")),
    "all slots would raise the lead": ([make_slot(1, "a")], {"x": 9}, B_DRAW, (10, "a")),
    "methods without a lead": ([make_slot(1, "a"), make_slot(2, "a", "zw")], {"x": 9}, 0, (20, "a")),
    # five fixed slots will make x lead by five; a free pair makes up for one of them, against the coin
    "near the end": ([make_slot(1), *FIXED], {}, A_DRAW, (10, "b")),
    "an even end": ([make_slot(1), *FIXED[:4]], {}, A_DRAW, (50, "a")),
    "other methods at the end": ([make_slot(1, methods="zw"), *FIXED], {}, A_DRAW, (60, "a")),
    "one method behind at the end": ([make_slot(1), *BEHIND], {}, B_DRAW, (10, "a")),
    "fifteen slots": ([make_slot(1), *FIXED, *OTHERS[:9]], {}, A_DRAW, (10, "b")),
    "sixteen slots": ([make_slot(1), *FIXED, *OTHERS], {}, A_DRAW, (60, "a")),
}  # fmt: skip


@pytest.mark.parametrize(("open_slots", "lead", "draw", "expected"), CASES.values(), ids=CASES)
def test_choose_slot_returns_the_expected_slot_and_side(open_slots, lead, draw, expected):
    before = Counter(lead)
    choice = choose_slot_and_side(open_slots, before, draw)
    assert (choice and (choice[0].id, choice[1])) == expected
    assert before == Counter(lead)


def test_reading_open_slots_uses_the_database_index(tmp_path):
    """Without the index, each hand-out would sort all open slots of the study."""
    with Store.open(f"sqlite:///{tmp_path / 'study.db'}", create=True) as store, store.begin_read() as db:
        parameters = {"pool": "people", "rater": 1, "start": 1}
        steps = db.execute(text(f"EXPLAIN QUERY PLAN {slots.OPEN_SLOTS.statement}"), parameters).all()
    searches = [step.detail for step in steps if step.detail.startswith("SEARCH slot ")]
    assert len(searches) == 3
    assert all("ix_slot_free (pool=? AND for_rater=? AND shuffle" in line for line in searches)
    assert not any("ORDER BY" in step.detail for step in steps)
