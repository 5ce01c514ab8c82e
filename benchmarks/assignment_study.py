"""A study of a million pairs for the benchmark of hand-out: made and filled in bulk, looked at in SQL."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection, Engine, bindparam, text

from guard_eval.records import Pair, Plan, Rater
from guard_eval.store import Store
from guard_eval.store.handout import occupancy
from guard_eval.store.schema import Moment, rater

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
METHODS = ("contrastive(k=10)", "guard", "top_k(k=50)", "top_p(p=0.95)")
DATASETS = ("book", "wikinews", "wikitext")
_PART = 50_000


class Clock:
    """Says a time that the simulation moves."""

    def __init__(self) -> None:
        self.now = BEGAN

    def __call__(self) -> datetime:
        """Return the time."""
        return self.now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += timedelta(seconds=seconds)


def make_pairs(start: int, end: int) -> list[Pair]:
    """Return pairs with tiny texts: six comparisons of four methods, three datasets."""
    comparisons = [(a, b) for a in METHODS for b in METHODS if a < b]
    made = []
    for number in range(start, end):
        method_a, method_b = comparisons[number % len(comparisons)]
        ids = f"c{number}a", f"c{number}b"
        made.append(
            Pair(
                id=Pair.make_id(method_a, method_b, *ids),
                dataset=DATASETS[number // len(comparisons) % len(DATASETS)],
                prompt_id=f"p{number}",
                prompt=f"prompt {number}",
                method_a=method_a,
                method_b=method_b,
                continuation_a=ids[0],
                continuation_b=ids[1],
                text_a=f"a {number}",
                text_b=f"b {number}",
                position=number,
            )
        )
    return made


def fill_with_pairs(store: Store, count: int) -> None:
    """Add the pairs, some at a time."""
    for start in range(0, count, 2 * _PART):
        store.add_pairs(make_pairs(start, min(count, start + 2 * _PART)))


def add_raters(engine: Engine, count: int) -> list[Rater]:
    """Add people in one transaction, as inviting them waits for the disk each time."""
    names = [f"rater {number:05d}" for number in range(count)]
    rows = [{"name": name, "kind": "person", "created_at": BEGAN} for name in names]
    with engine.begin() as connection:
        connection.execute(rater.insert(), rows)
        found = dict(connection.execute(rater.select().with_only_columns(rater.c.name, rater.c.id)).all())
    return [Rater(id=found[name], name=name, kind="person") for name in names]


def fill_with_ratings(engine: Engine, raters: list[Rater], plan: Plan, *, share: float, now: datetime) -> int:
    """Rate in bulk what is missing to about a share of all slots; return how many ratings that was.

    Which slots is decided by the pairs' places on the ring. No rater gets a pair twice; a slot for which only
    such a one would be there is left, and so are leases that are under way.
    """
    asked = {"now": now, "raters": len(raters), "who": raters[0].id, "share": round(share * 1000)}
    slots = " UNION ALL ".join(f"SELECT {slot} AS slot" for slot in range(plan.slots))
    with engine.begin() as connection:
        before = connection.execute(text("SELECT coalesce(max(id), 0) FROM presentation")).scalar_one()
        fill = text(_FILL.format(slots=slots)).bindparams(bindparam("now", type_=Moment))
        count = connection.execute(fill, asked).rowcount
        connection.execute(text(_SAY), {"before": before})
        occupancy.recount(connection, occupancy.PEOPLE)
    if engine.dialect.name == "postgresql":  # as its autovacuum does in time
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("VACUUM ANALYZE"))
    return count


_FILL = """
INSERT INTO presentation (pair_id, rater_id, pool, slot, attempt, first, handed_out, leased_until, rated_at,
    superseded, withdrawn, role)
SELECT pair_id, rater_id, 'people', slot, 0, first, :now, :now, :now, false, false, 'study' FROM (
    SELECT pair_id, slot, CASE WHEN (slot + position) % 2 = 0 THEN 'a' ELSE 'b' END AS first,
        :who + (position + slot * (1 + position / :raters)) % :raters AS rater_id
    FROM occupancy CROSS JOIN ({slots}) AS slots
    WHERE pool = 'people' AND (ring / 7 + slot * 7919) % 1000 < :share
) AS wanted
WHERE NOT EXISTS (SELECT 1 FROM presentation AS p WHERE p.pair_id = wanted.pair_id AND p.pool = 'people'
    AND (p.slot = wanted.slot OR p.rater_id = wanted.rater_id))
"""
_SAY = """
INSERT INTO verdict (presentation_id, criterion, revision, choice, at)
SELECT id, 'fluency', 0, 'A', rated_at FROM presentation WHERE id > :before AND rated_at IS NOT NULL
"""

UNEVEN = "a rater's sides differ by at most, per method"
_COUNTED = (
    "presentation WHERE role = 'study' AND rated_at IS NOT NULL AND NOT superseded AND NOT withdrawn "
    "AND pool = 'people'"
)

CHECKS = {
    "pairs rated more often than asked": """
        SELECT count(*) FROM
        (SELECT pair_id FROM {counted} GROUP BY pair_id HAVING count(*) > {slots}) AS x""",
    "pairs rated less often": """
        SELECT (SELECT count(*) FROM pair) - (SELECT count(*) FROM
        (SELECT pair_id FROM {counted} GROUP BY pair_id HAVING count(*) >= {slots}) AS x)""",
    "raters shown a pair twice": """
        SELECT count(*) FROM (SELECT pair_id FROM presentation WHERE role = 'study' AND pool = 'people'
        GROUP BY pair_id, rater_id HAVING count(*) > 1) AS x""",
    "full pairs with uneven sides": """
        SELECT count(*) FROM (SELECT pair_id FROM {counted} GROUP BY pair_id HAVING count(*) = {slots}
        AND abs(sum(CASE first WHEN 'a' THEN 1 ELSE -1 END)) > {slots} % 2) AS x""",
    "ratings without a verdict": """
        SELECT count(*) FROM presentation WHERE rated_at IS NOT NULL
        AND id NOT IN (SELECT presentation_id FROM verdict)""",
    "verdicts without a rating": """
        SELECT count(*) FROM verdict WHERE presentation_id NOT IN
        (SELECT id FROM presentation WHERE rated_at IS NOT NULL)""",
    "pairs whose held slots are miscounted": """
        SELECT count(*) FROM occupancy LEFT JOIN (SELECT pair_id, count(*) AS times FROM presentation
        WHERE pool = 'people' AND NOT superseded AND NOT withdrawn GROUP BY pair_id) AS x
        ON x.pair_id = occupancy.pair_id WHERE occupancy.pool = 'people'
        AND (held <> coalesce(times, 0) OR vacant <> (coalesce(times, 0) < {slots}))""",
    UNEVEN: """
        SELECT coalesce(max(abs(d)), 0) FROM (SELECT rater_id, m, sum(d) AS d FROM (
        SELECT rater_id, method_a AS m, CASE first WHEN 'a' THEN 1 ELSE -1 END AS d FROM presentation
        JOIN pair ON pair.id = pair_id WHERE {mine} UNION ALL
        SELECT rater_id, method_b AS m, CASE first WHEN 'a' THEN -1 ELSE 1 END AS d FROM presentation
        JOIN pair ON pair.id = pair_id WHERE {mine}) AS y GROUP BY rater_id, m) AS x""",
}


def checked(engine: Engine, slots: int) -> Iterator[tuple[str, int]]:
    """Yield what SQL of its own counts in the database; none of it uses the store.

    Args:
        engine: The database.
        slots: How often each pair is to be rated.
    """
    mine = _COUNTED.partition(" WHERE ")[2]
    with engine.connect() as connection:
        for what, statement in CHECKS.items():
            query = statement.format(counted=_COUNTED, slots=slots, mine=mine)
            yield what, int(connection.execute(text(query)).scalar_one())


def size(connection: Connection) -> int:
    """Return how many bytes the database takes."""
    if connection.dialect.name == "sqlite":
        pages, each = (
            connection.execute(text(f"PRAGMA {name}")).scalar_one() for name in ("page_count", "page_size")
        )
        return int(pages * each)
    return int(connection.execute(text("SELECT pg_database_size(current_database())")).scalar_one())
