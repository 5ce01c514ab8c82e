"""Hand out pairs to a rater: first unrated ones, then due gold pairs and repeats, then pairs of open slots.

The functions raise a `StudyError` if the rater is not in the database.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import Connection

from guard_eval.errors import StudyError
from guard_eval.records import BlindPair, HandOutPlan, Rater, Role, make_content_id
from guard_eval.store import notes
from guard_eval.store.database import Store
from guard_eval.store.schema import query
from guard_eval.store.showings import rounds, slots
from guard_eval.store.showings.sides import DRAWS, choose_slot_and_side, compute_imbalance_change

SPARE_SKIPS = 2
"""The number of pairs that a rater may skip before rating any. Each rated pair allows one more skip.

Without this limit, a few raters could close every pair."""

MOST_COUNTED = 10_000
"""The highest number of remaining pairs that is counted for a rater without a quota."""

_REPEAT_EVERY = 10
"""A rater sees one repeat in each block of this number of pairs. Remaining repeats come at the end."""

# Presentations with an expired lease come last. They are left out if another rater has taken their slot.
_OPEN_PRESENTATIONS = query("""
    SELECT presentation.id, presentation.slot_id, presentation.first, slot.held_by
    FROM presentation LEFT JOIN slot ON slot.id = presentation.slot_id
    WHERE presentation.rater_id = :rater AND presentation.rated_at IS NULL
        AND NOT EXISTS (SELECT 1 FROM note WHERE presentation_id = presentation.id AND kind = 'skip')
        AND (slot.id IS NULL OR slot.held_by = presentation.id OR (slot.held_by IS NULL AND slot.open))
    ORDER BY slot.held_by IS NULL, presentation.id
    LIMIT :limit
""")

_SHOWN_SIDES = query("""
    SELECT pair.method_a, pair.method_b, presentation.first,
        count(*) AS times, count(presentation.rated_at) AS rated
    FROM presentation JOIN pair ON pair.id = presentation.pair_id
    WHERE presentation.rater_id = :rater AND presentation.role = 'study'
    GROUP BY pair.method_a, pair.method_b, presentation.first
""")

_SHOWN_CHECKS = query("SELECT role, pair_id FROM presentation WHERE rater_id = :rater AND role != 'study'")

_RATED_PAIRS = query("""
    SELECT pair_id, first FROM presentation
    WHERE rater_id = :rater AND role = 'study' AND rated_at IS NOT NULL
    ORDER BY id
""")

_GOLD = query("SELECT id FROM pair WHERE expected IS NOT NULL")

_COUNT_RATED = query("SELECT count(rated_at) FROM presentation WHERE rater_id = :rater")

_COUNT_SKIPS = query("SELECT count(*) FROM note WHERE rater_id = :rater AND kind = 'skip'")

_SKIPPED = query("""
    SELECT pair_id, rated_at, EXISTS (
        SELECT 1 FROM note WHERE presentation_id = presentation.id AND kind = 'skip'
    ) AS skipped
    FROM presentation WHERE id = :number
""")

_LAST_ACT = query("""
    SELECT max(at) AS at FROM (
        SELECT rated_at AS at FROM presentation WHERE rater_id = :rater
        UNION ALL
        SELECT at FROM note WHERE rater_id = :rater
    ) AS act
""")

_TEXTS = query("""
    SELECT presentation.id, pair.prompt,
        CASE presentation.first WHEN 'a' THEN pair.text_a ELSE pair.text_b END AS text_a,
        CASE presentation.first WHEN 'a' THEN pair.text_b ELSE pair.text_a END AS text_b
    FROM presentation JOIN pair ON pair.id = presentation.pair_id
    WHERE presentation.id IN :numbers
""")

_PRESENT = query("""
    INSERT INTO presentation (slot_id, pair_id, rater_id, number, first, role, handed_out)
    VALUES (:slot, :pair, :rater, :number, :first, :role, :now)
    RETURNING id
""")


def claim_pairs(store: Store, rater: Rater, plan: HandOutPlan, limit: int = 1) -> list[BlindPair]:
    """Return up to `limit` pairs: first the rater's open pairs, with a new lease, then pairs of open slots.

    The list is empty if no pair remains, or if the rater is revoked or excluded.

    Raises:
        KeyError: The rater is a model, which gets no slots.
    """
    with store.begin_write() as (db, now):
        hand_out = _HandOut(db, rater, plan, now, limit)
        if hand_out.is_out:
            return []
        for row in hand_out.open:
            if row.slot_id is not None:
                slots.hold_slot(db, row.slot_id, row.id, row.first, now + plan.lease)
        numbers = [row.id for row in hand_out.open]
        while len(numbers) < limit:
            number = hand_out.make_next_presentation()
            if number is None:
                break
            numbers.append(number)
        return read_blind_pairs(db, numbers)


def read_blind_pairs(db: Connection, numbers: Sequence[int]) -> list[BlindPair]:
    """Return the prompt and the texts A and B of each presentation, as the rater sees them."""
    rows = _TEXTS(db, numbers=list(numbers))
    blind_pairs = {row.id: BlindPair.from_texts(*row) for row in rows}
    return [blind_pairs[number] for number in numbers]


def count_rated_and_remaining_pairs(store: Store, rater: Rater, plan: HandOutPlan) -> tuple[int, int]:
    """Return the number of presentations that the rater has rated, and the number still to be rated.

    Without a quota, future presentations are counted only up to `MOST_COUNTED`.
    """
    with store.begin_write() as (db, now):
        hand_out = _HandOut(db, rater, plan, now, MOST_COUNTED)
        rated = int(_COUNT_RATED(db, rater=rater.id).scalar_one())
        if hand_out.is_out:
            return rated, 0
        about = {"pool": hand_out.pool, "rater": rater.id, "now": now}
        limit = hand_out.count_pairs_left_in_quota()
        new = slots.COUNT_UNSEEN_PAIRS(db, **about, limit=limit).scalar_one()
        checks = hand_out.count_remaining_gold_and_repeats(hand_out.counted + new)
        return rated, len(hand_out.open) + new + checks


def find_end_of_rater_wait(store: Store, rater: Rater, plan: HandOutPlan) -> datetime | None:
    """Return the end of the wait for a rater who has no pair while other raters have pairs open.

    At this time, a pair may become free for the rater, or the next round may begin.

    Return None if no further pair will come: the rater has reached the quota, has seen all pairs, or has
    waited for a whole lease.
    """
    with store.begin_write() as (db, now):
        hand_out = _HandOut(db, rater, plan, now, 1)
        if hand_out.is_out or not hand_out.count_pairs_left_in_quota():
            return None
        about = {"pool": hand_out.pool, "rater": rater.id, "now": now}
        next_end: datetime | None = slots.NEXT_LEASE_END(db, **about).scalar_one()
        closed = rounds.count_closed_rounds(db, hand_out.pool)
        if next_end is None and rounds.count_active_pairs(db, hand_out.pool, after_round=closed + 1):
            next_end = now + plan.lease
        # at most one lease after the rater's last action, because others can renew their leases for ever
        last_act = _LAST_ACT(db, rater=rater.id).scalar_one() or now
        longest = min(last_act, now) + plan.lease
        if next_end is None or longest <= now:
            return None
        return min(next_end, longest)


def skip_presentation(
    store: Store, number: int, problems: Sequence[str], *, rater: Rater, comment: str = ""
) -> bool:
    """Skip a presentation: another rater gets the slot, and this rater never sees the pair again.

    The skip is stored as a note with the reported problems, not as a verdict. If `slots.MOST_SKIPS` raters
    have skipped a pair, no new rater gets this pair. Return False, and change nothing, if the rater has
    already skipped too many pairs.

    Raises:
        StudyError: The presentation was not handed to this rater, or is already rated; the rater is revoked;
            or no problem is given.
    """
    with store.begin_write() as (db, _):
        notes.check_presentation_handed_to(db, rater, number)
        notes.check_rater_not_revoked(db, rater)
        row = _SKIPPED(db, number=number).one()
        if row.skipped:
            return True
        if row.rated_at is not None:
            raise StudyError(f"presentation {number} is already rated; change its verdict instead")
        if not problems:
            raise StudyError(
                f"a reason to skip presentation {number} is missing; give a reason, or rate the pair"
            )
        rated = _COUNT_RATED(db, rater=rater.id).scalar_one()
        skipped = _COUNT_SKIPS(db, rater=rater.id).scalar_one()
        if skipped >= rated + SPARE_SKIPS:
            return False
        notes.write_note(store, rater, "skip", ", ".join(problems), presentation=number)
        notes.write_note(store, rater, "comment", comment, presentation=number)
        slots.release_slots(db, [number])
        slots.open_slots(db, slots.POOLS[rater.kind], [row.pair_id])
        return True


class _HandOut:
    """The pairs that a rater has seen, and the choice of the next pairs, within one transaction.

    Attributes:
        is_out: Whether the rater is revoked or excluded.
        open: Up to `limit` presentations that the rater has not rated, and may still rate.
        seen_pairs: The number of the study's pairs that the rater has seen, rated or not.
        counted: The number of pairs that are rated or open. The quota limits this number.
        lead: For each method, the number of times it was text A minus the number of times it was text B.
        checks: The gold pairs and repeats that the rater has seen.
    """

    def __init__(self, db: Connection, rater: Rater, plan: HandOutPlan, now: datetime, limit: int) -> None:
        self.db = db
        self.rater = rater
        self.plan = plan
        self.now = now
        self.pool = slots.POOLS[rater.kind]
        self.is_out = notes.read_rater_status(db, rater).is_out
        slots.prepare_slots(db, plan, now, self.pool)
        self.open = list(_OPEN_PRESENTATIONS(db, rater=rater.id, limit=limit))
        self.counted = sum(row.slot_id is not None for row in self.open)
        self.seen_pairs = 0
        self.lead = Counter[str]()
        for row in _SHOWN_SIDES(db, rater=rater.id):
            self.counted += row.rated
            self.seen_pairs += row.times
            self.lead.update(compute_imbalance_change(row.method_a, row.method_b, row.first, row.times))
        # lost pairs that no other rater has taken come back, up to the quota
        lost = [row for row in self.open if row.slot_id is not None and row.held_by is None]
        while lost and plan.quota is not None and self.counted > plan.quota:
            self.open.remove(lost.pop())
            self.counted -= 1
        self.checks: Mapping[Role, set[str]] = {"gold": set(), "repeat": set()}
        if plan.gold_every is not None or plan.repeats:
            for role, pair_id in _SHOWN_CHECKS(db, rater=rater.id):
                self.checks[role].add(pair_id)

    def count_pairs_left_in_quota(self) -> int:
        """Return the number of further pairs that the quota allows."""
        return MOST_COUNTED if self.plan.quota is None else max(0, self.plan.quota - self.counted)

    def make_next_presentation(self) -> int | None:
        """Make the rater's next presentation, and return its number; None if no pair remains."""
        for role, pair_ids in self.checks.items():
            if self._draw_gold_or_repeat_position(role, len(pair_ids)) <= self.counted:
                number = self._present_gold_or_repeat(role)
                if number is not None:
                    return number
        number = self._present_pair_of_open_slot() if self.count_pairs_left_in_quota() else None
        # the remaining repeats come at the end, when the study has no further pair for the rater
        return self._present_gold_or_repeat("repeat") if number is None else number

    def _present_pair_of_open_slot(self) -> int | None:
        """Make a presentation in an open slot, and return its number; None if no slot is open."""
        start = slots.draw_hand_out_position(self.plan.seed, self.rater.name, self.seen_pairs)
        open_slots = slots.find_open_slots(
            self.db, self.pool, self.rater.id, self.plan, self.now, start=start
        )
        coin = self._draw_number_below(DRAWS, "side", self.rater.name, self.seen_pairs)
        choice = choose_slot_and_side(open_slots, self.lead, coin)
        if choice is None:
            return None
        chosen, side = choice
        number = self._add_presentation(chosen.pair_id, side, slot=chosen.id, number=chosen.number)
        slots.hold_slot(self.db, chosen.id, number, side, self.now + self.plan.lease)
        self.counted += 1
        self.seen_pairs += 1
        self.lead.update(compute_imbalance_change(chosen.method_a, chosen.method_b, side))
        return number

    def _add_presentation(
        self, pair_id: str, first: str, *, role: Role = "study", slot: int | None = None, number: int = 0
    ) -> int:
        """Store a new presentation for the rater; return its number."""
        row = {"slot": slot, "pair": pair_id, "number": number, "first": first, "role": role}
        return int(_PRESENT(self.db, **row, rater=self.rater.id, now=self.now).scalar_one())

    # Checks: gold pairs and repeats, at positions that the seed draws.

    def _present_gold_or_repeat(self, role: Role) -> int | None:
        """Make a presentation of a new gold pair or repeat, and return its number; None if there is none."""
        sides = self._draw_gold_sides() if role == "gold" else self._read_repeat_candidates()
        waiting = sides.keys() - self.checks[role]
        if not waiting:
            return None
        chosen = min(
            waiting, key=lambda pair_id: make_content_id(self.plan.seed, role, self.rater.name, pair_id)
        )
        self.checks[role].add(chosen)
        return self._add_presentation(chosen, sides[chosen], role=role)

    def _draw_gold_sides(self) -> dict[str, str]:
        """Return the gold pairs with random sides. A rater who always chooses A fails about half of them."""
        if self.plan.gold_every is None:
            return {}
        gold = _GOLD(self.db).scalars()
        return {
            pair_id: "ba"[self._draw_number_below(2, "gold side", self.rater.name, pair_id)]
            for pair_id in gold
        }

    def _read_repeat_candidates(self) -> dict[str, str]:
        """Return the older half of the rated pairs with swapped sides; an empty dict if no repeat remains."""
        if len(self.checks["repeat"]) >= self.plan.repeats:
            return {}
        rated = _RATED_PAIRS(self.db, rater=self.rater.id).all()
        return {row.pair_id: "b" if row.first == "a" else "a" for row in rated[: len(rated) // 2]}

    def count_remaining_gold_and_repeats(self, pairs: int) -> int:
        """Return the number of remaining gold pairs and repeats for a rater who will see `pairs` pairs."""
        gold = sum(
            self._draw_gold_or_repeat_position("gold", index) <= pairs
            for index in range(len(self._draw_gold_sides()))
        )
        due = {"gold": gold, "repeat": min(self.plan.repeats, pairs // 2)}
        return sum(max(0, due[role] - len(pair_ids)) for role, pair_ids in self.checks.items())

    def _draw_gold_or_repeat_position(self, role: Role, index: int) -> int:
        """Return the number of pairs before the gold pair or repeat with this index: each block has one."""
        every = start = _REPEAT_EVERY
        if role == "gold":
            every = self.plan.gold_every or 1
            start = 1
        return start + every * index + self._draw_number_below(every, role, self.rater.name, index)

    def _draw_number_below(self, limit: int, *key: object) -> int:
        """Return a number from 0 to `limit` - 1 that only the study's seed and the key decide."""
        return int(make_content_id(self.plan.seed, *key), 16) % limit
