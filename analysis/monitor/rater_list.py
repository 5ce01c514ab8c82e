"""`raters list`: list all raters of a study, and flag raters whom the owner should check."""

from __future__ import annotations

from collections.abc import Mapping

from analysis.monitor.ratings import read_ratings
from analysis.monitor.status import list_flag_names
from guard_eval.records import record
from guard_eval.reporting.escaping import join_lines
from guard_eval.reporting.tables import Table
from guard_eval.store import Store, manage
from guard_eval.store.manage import Raters
from guard_eval.study import Study


@record
class ListedRaters(Raters):
    """All raters of a study, and the flags of each rater by name, with figures."""

    flags: Mapping[str, str]


def list_raters(study: Study, /) -> ListedRaters:
    """List the raters with their source, progress and state.

    `guard-eval status` shows how long they take and how they rate.

    Args:
        study: The study's folder.
    """
    with Store.open(study.database) as store:
        listed = manage.tabulate_raters(store)
        slots = study.hand_out_plan.slots
        ratings = read_ratings(store, listed.raters, slots=slots)
    flags = {rater.rater: ", ".join(list_flag_names(rater)) for rater in ratings.raters if rater.flags}
    table = Table(
        caption="Raters to look at",
        columns=("rater", "look at"),
        rows=tuple((join_lines(name), words) for name, words in flags.items()),
        text_columns=2,
        note="A flag is a reason to check a rater, not a reason to exclude one.",
    )
    tables = (*listed.tables, table) if flags else listed.tables
    return ListedRaters(raters=listed.raters, tables=tables, flags=flags)
