"""The slots that are kept for the raters of a roster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sqlalchemy import Connection, insert, select

from guard_eval.errors import StudyError
from guard_eval.store import occupancy, raters
from guard_eval.store.orders import Place
from guard_eval.store.roster import plan_roster
from guard_eval.store.schema import assignment, presentation
from guard_eval.store.schema import occupancy as table
from guard_eval.store.values import Plan


def assign(connection: Connection, names: Sequence[str], plan: Plan) -> int:
    """Keep the slots of all pairs that nobody was shown yet for the people of those names; return how many.

    Must run alone in the pool of people.

    Raises:
        StudyError: A name is unknown, revoked, excluded, no person's, or there twice; there are no such
            pairs; or the quota is too small for them.
    """
    people = [_person(connection, name) for name in names]
    if not people or len(set(people)) < len(people):
        raise StudyError(
            f"the roster {', '.join(names)!r} names nobody, or somebody twice; name each rater once"
        )
    occupancy.complete(connection, raters.PEOPLE)
    columns = (table.c.pair_id, table.c.position, table.c.dataset, table.c.method_a, table.c.method_b)
    begun = select(presentation.c.pair_id).where(presentation.c.pool == raters.PEOPLE)
    untouched = select(*columns).where(
        table.c.pool == raters.PEOPLE,
        table.c.pair_id.not_in(begun),
        table.c.pair_id.not_in(select(assignment.c.pair_id)),
    )
    places = {pair_id: Place(*rest) for pair_id, *rest in connection.execute(untouched)}
    if not places:
        raise StudyError(
            "no pair is left to plan a roster for; plan it after guard-eval pair, before anybody rates"
        )
    planned = plan_roster(places, people, slots=plan.slots, seed=plan.seed)
    load = Counter(kept.rater_id for slots in planned.values() for kept in slots)
    if plan.quota is not None and max(load.values()) > plan.quota:
        raise StudyError(
            f"a roster of {len(people)} would rate up to {max(load.values())} pairs each, and the quota is "
            f"{plan.quota}; name more raters or raise the quota"
        )
    rows = [{"pair_id": pair_id, **kept._asdict()} for pair_id, slots in planned.items() for kept in slots]
    connection.execute(insert(assignment), rows)
    occupancy.recount(connection, raters.PEOPLE)
    return len(rows)


def _person(connection: Connection, name: str) -> int:
    who = raters.find(connection, name)
    if who.kind != "person":
        raise StudyError(f"the rater {name!r} is a {who.kind}; a roster is of people")
    if any(raters.standing(connection, who)):
        raise StudyError(f"the rater {name!r} is revoked or excluded; leave it out of the roster")
    return who.id
