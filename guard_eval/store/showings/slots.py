"""Make, open, hold and release slots, the planned showings of every pair.

A slot is free while no presentation holds it. A rater's open pair holds its slot for a lease. After the
lease, another rater may take the slot; a later verdict of the first rater is then *surplus*: stored, but not
counted. If no other rater took the slot, the first rater gets it back. Slots 2k and 2k + 1 of a pair show
opposite sides.

The time to find open slots is about the same with 100 pairs and with 100 000: open slots are in an index, and
the search starts at a position that the seed draws for each rater and showing.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from sqlalchemy import Connection

from guard_eval.errors import StudyError
from guard_eval.records import PEOPLE, HandOutPlan, make_content_id
from guard_eval.store.database import Store
from guard_eval.store.schema import add_rows, query, split_into_sql_chunks
from guard_eval.store.settings import read_value, store_value
from guard_eval.store.showings import rounds
from guard_eval.store.showings.rounds import PLAYING
from guard_eval.store.showings.sides import LAST_SLOTS, OpenSlot

POOLS = {"person": PEOPLE, "simulated": "simulated"}
"""The pool of slots of each kind of rater. A model sees every pair and needs no slots."""

MOST_SKIPS = 3
"""If this many raters have skipped a pair, no new rater gets it."""

Kept = Literal["all", "rated", "nothing"]
"""The slots that a rater keeps: all, including rated slots that were lost; only the rated ones; or none."""

_RING_END = 2**31 - 1

# `side` is the only side on which a slot can be shown: its own, or the opposite of its partner's side.
# The condition on `shuffle` makes SQLite use the index for the slots of a roster, too.
OPEN_SLOTS = query("""
    WITH candidate AS NOT MATERIALIZED (
        SELECT slot.id, slot.pair_id, slot.number, slot.for_rater, slot.shuffle, pair.method_a, pair.method_b,
            pair.prompt_id,
            coalesce(slot.first, CASE partner.first WHEN 'a' THEN 'b' WHEN 'b' THEN 'a' END) AS side
        FROM slot
        JOIN pair ON pair.id = slot.pair_id
        LEFT JOIN slot AS partner ON partner.pair_id = slot.pair_id AND partner.pool = slot.pool
            AND partner.number = slot.number + 1 - 2 * (slot.number % 2)
        WHERE slot.pool = :pool AND slot.held_by IS NULL AND slot.open AND NOT EXISTS (
            SELECT 1 FROM presentation
            WHERE presentation.rater_id = :rater AND presentation.pair_id = slot.pair_id
        )
    )
    SELECT id, pair_id, number, method_a, method_b, side, for_rater IS NOT NULL AS reserved,
        prompt_id IN (
            SELECT pair.prompt_id FROM (
                SELECT pair_id FROM presentation WHERE rater_id = :rater ORDER BY id DESC LIMIT 10
            ) AS last_shown JOIN pair ON pair.id = last_shown.pair_id
        ) AS was_read
    FROM (
        SELECT * FROM (
            SELECT * FROM candidate WHERE for_rater = :rater AND shuffle >= 0
            ORDER BY shuffle, number LIMIT 32
        ) AS kept
        UNION ALL
        SELECT * FROM (
            SELECT * FROM candidate WHERE for_rater IS NULL AND shuffle >= :start
            ORDER BY shuffle, number LIMIT 32
        ) AS after_start
        UNION ALL
        SELECT * FROM (
            SELECT * FROM candidate WHERE for_rater IS NULL AND shuffle < :start
            ORDER BY shuffle, number LIMIT 32
        ) AS before_start
    ) AS open_slot
    LIMIT 32
""")

# The pairs that a rater can still see.
COUNT_UNSEEN_PAIRS = query("""
    SELECT count(*) FROM (
        SELECT DISTINCT slot.pair_id FROM slot
        WHERE slot.pool = :pool AND slot.open AND (slot.held_by IS NULL OR slot.leased_until <= :now)
            AND (slot.for_rater IS NULL OR slot.for_rater = :rater)
            AND NOT EXISTS (
                SELECT 1 FROM presentation
                WHERE presentation.rater_id = :rater AND presentation.pair_id = slot.pair_id
            )
        LIMIT :limit
    ) AS new_pair
""")

COUNT_FREE_SLOTS = query("""
    SELECT count(*) FROM slot WHERE pool = 'people' AND held_by IS NULL AND open AND for_rater IS NULL
""")

# Among pairs that others have open, and that the rater has not seen.
NEXT_LEASE_END = query("""
    SELECT min(slot.leased_until) AS leased_until FROM slot
    WHERE slot.pool = :pool AND slot.open AND slot.leased_until > :now AND slot.for_rater IS NULL
        AND NOT EXISTS (
            SELECT 1 FROM presentation
            WHERE presentation.rater_id = :rater AND presentation.pair_id = slot.pair_id
        )
""")

_LACKING = query("""
    SELECT pair.id FROM pair
    WHERE pair.expected IS NULL AND pair.for_people AND NOT EXISTS (
        SELECT 1 FROM slot WHERE slot.pair_id = pair.id AND slot.pool = :pool AND slot.number = :number
    )
""")

# Skips by excluded raters do not count.
_OPEN = query(f"""
    UPDATE slot SET open = id IN (
        SELECT id FROM (
            SELECT id, row_number() OVER (
                PARTITION BY pair_id ORDER BY held_by IS NULL, leased_until IS NOT NULL, number
            ) AS place
            FROM slot WHERE pool = :pool AND pair_id IN :pairs
        ) AS ranked WHERE place <= :planned
    ) AND pair_id IN (
        SELECT id FROM pair WHERE {PLAYING}
    ) AND pair_id NOT IN (
        SELECT presentation.pair_id FROM presentation
        JOIN slot AS shown ON shown.id = presentation.slot_id
        JOIN rater ON rater.id = presentation.rater_id
        WHERE shown.pool = :pool AND shown.pair_id IN :pairs AND rater.excluded_at IS NULL AND EXISTS (
            SELECT 1 FROM note WHERE note.presentation_id = presentation.id AND note.kind = 'skip'
        )
        GROUP BY presentation.pair_id HAVING count(*) >= :most_skips
    )
    WHERE pool = :pool AND pair_id IN :pairs
""")  # noqa: S608 (constants)

# A slot that is held without a lease is rated.
_COUNT_UNRATED = query("""
    SELECT count(*) FROM (
        SELECT id FROM slot
        WHERE pool = :pool AND open AND (held_by IS NULL OR leased_until IS NOT NULL) LIMIT :limit
    ) AS unrated
""")

_COUNT_UNPLACED = query("SELECT count(*) FROM pair WHERE expected IS NULL AND round = 0")

_PAIRS_WITH_SLOTS = query("SELECT DISTINCT pair_id FROM slot WHERE pool = :pool")

_END_LEASES = query("""
    UPDATE slot
    SET held_by = CASE WHEN leased_until > :now THEN held_by END,
        leased_until = CASE WHEN leased_until > :now THEN :until END
    WHERE (leased_until <= :now OR leased_until > :until) AND for_rater IS NULL
""")

_HOLD = query("""
    UPDATE slot SET held_by = :presentation, first = :side, leased_until = :until WHERE id = :slot
""")

_RELEASE = query("""
    UPDATE slot SET held_by = NULL, leased_until = NULL, for_rater = NULL WHERE held_by IN :presentations
""")

_SHOWN = query("SELECT id, pair_id, rated_at FROM presentation WHERE rater_id = :rater")

_LEAVE_ROSTER = query("UPDATE slot SET for_rater = NULL WHERE for_rater = :rater AND held_by IS NULL")

_TAKE_BACK = query("""
    UPDATE slot SET held_by = (
        SELECT max(id) FROM presentation
        WHERE slot_id = slot.id AND rater_id = :rater AND rated_at IS NOT NULL
    )
    WHERE held_by IS NULL AND id IN (
        SELECT slot_id FROM presentation WHERE rater_id = :rater AND rated_at IS NOT NULL
    )
""")


# Make and open the slots of the owner's plan.


def apply_hand_out_plan(store: Store, plan: HandOutPlan) -> None:
    """Apply a plan from now on: make missing slots, and close slots beyond the plan.

    The owner's commands and the start of the app call this. The hand-out follows the plan that was applied
    last: a server that started with an older study.toml neither closes nor opens slots.

    Raises:
        StudyError: The plan has rounds, but the pairs have none.
    """
    with store.begin_write() as (db, _):
        if plan.rounds is not None and _COUNT_UNPLACED(db).scalar_one():
            raise StudyError(
                "pairs.design requires rounds, but the study's pairs have none; run: guard-eval pair STUDY"
            )
        for pool in POOLS.values():
            planned = _read_slots_per_pair(db, pool)
            if planned != plan.slots and (planned or pool == PEOPLE):
                _set_slots_per_pair(db, pool, plan.slots)


def prepare_slots(db: Connection, plan: HandOutPlan, now: datetime, pool: str = PEOPLE) -> None:
    """Make the slots of a pool if there are none, and open the slots of the next round if it is due.

    A round is over when all its available slots are rated. The slots of a pair that too many raters have
    skipped are not available, and the pair's prompt does not count.
    """
    if _read_slots_per_pair(db, pool) == 0:
        _set_slots_per_pair(db, pool, plan.slots)
    while plan.rounds is not None and not count_unrated_slots(db, pool, limit=1):
        if not rounds.close_round(db, now, pool, plan.rounds):
            break
        _open_all_slots(db, pool)


def _read_slots_per_pair(db: Connection, pool: str) -> int:
    """Return the planned number of open slots of each pair in a pool."""
    return int(read_value(db, f"slots {pool}") or 0)


def _set_slots_per_pair(db: Connection, pool: str, number: int) -> None:
    """Store the planned number of open slots of each pair in a pool, and open or close slots."""
    store_value(db, f"slots {pool}", str(number))
    make_missing_slots(db)
    _open_all_slots(db, pool)


def _open_all_slots(db: Connection, pool: str) -> None:
    """Open the planned slots of all pairs in a pool."""
    open_slots(db, pool, _PAIRS_WITH_SLOTS(db, pool=pool).scalars().all())


def make_missing_slots(db: Connection) -> None:
    """Make the slots that pairs lack in each pool, for example pairs that were added later."""
    for pool in POOLS.values():
        for number in range(_read_slots_per_pair(db, pool)):
            lacking = _LACKING(db, pool=pool, number=number).scalars()
            same = {"pool": pool, "number": number}
            rows = [
                same | {"pair_id": pair_id, "shuffle": draw_hand_out_position(pair_id)} for pair_id in lacking
            ]
            add_rows(db, "slot", rows)


def open_slots(db: Connection, pool: str, pair_ids: Sequence[str]) -> None:
    """Open the planned number of slots of each pair, rated or held slots first; close the others.

    All slots are closed if too many raters have skipped the pair, if the pair belongs to a later round, or if
    the comparison has stopped.
    """
    planned = _read_slots_per_pair(db, pool)
    for some_pairs in split_into_sql_chunks(pair_ids):
        _OPEN(db, pool=pool, part=pool, ahead=1, planned=planned, most_skips=MOST_SKIPS, pairs=some_pairs)


# Find the slots that a rater can see.


def draw_hand_out_position(*key: object) -> int:
    """Draw a position in the order of hand-out, for a pair or for the start of a rater's search."""
    return int(make_content_id("ring", *key)[:8], 16) % _RING_END


def find_open_slots(
    db: Connection, pool: str, rater_id: int, plan: HandOutPlan, now: datetime, *, start: int
) -> list[OpenSlot]:
    """Return a few open slots of pairs that the rater has not seen, from a position in the hand-out order.

    Expired leases are ended only when few slots are open: before then, nobody needs these slots.
    """
    about = {"pool": pool, "rater": rater_id, "start": start}
    rows = OPEN_SLOTS(db, **about).mappings().all()
    if len(rows) < LAST_SLOTS:
        end_expired_leases(db, plan, now)
        rows = OPEN_SLOTS(db, **about).mappings().all()
    return [OpenSlot(**row) for row in rows]


def count_unrated_slots(db: Connection, pool: str, *, limit: int = 2**31 - 1) -> int:
    """Count the unrated slots of a pool that may be handed out, up to `limit`."""
    return int(_COUNT_UNRATED(db, pool=pool, limit=limit).scalar_one())


# Let presentations hold slots, and release them.


def hold_slot(db: Connection, slot_id: int, number: int, side: str, until: datetime | None) -> None:
    """Give a slot to a presentation until the lease ends at `until`, or for good if `until` is None."""
    _HOLD(db, slot=slot_id, presentation=number, side=side, until=until)


def end_expired_leases(db: Connection, plan: HandOutPlan, now: datetime) -> None:
    """Free unrated slots with an expired lease, except those of a roster.

    If the clock was set back, a lease is shortened to one that begins now.
    """
    _END_LEASES(db, now=now, until=now + plan.lease)


def release_slots(db: Connection, presentations: Sequence[int]) -> None:
    """Free the slots of these presentations. A verdict that arrives later may be surplus."""
    for some_presentations in split_into_sql_chunks(presentations):
        _RELEASE(db, presentations=some_presentations)


def keep_or_free_slots_of_rater(db: Connection, rater_id: int, keep: Kept) -> None:
    """Let a rater keep some slots (see `Kept`), free the others, and reopen slots of the rater's pairs.

    With "all", the rater also regains the slots of rated presentations, unless another rater has taken them.
    Otherwise, the rater loses slots that a roster reserves.
    """
    presentations = _SHOWN(db, rater=rater_id).all()
    if keep == "all":
        _TAKE_BACK(db, rater=rater_id)
    else:
        release_slots(db, [row.id for row in presentations if keep == "nothing" or row.rated_at is None])
        _LEAVE_ROSTER(db, rater=rater_id)
    open_slots(db, PEOPLE, list({row.pair_id for row in presentations}))
