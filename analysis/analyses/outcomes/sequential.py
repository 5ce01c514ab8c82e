"""Tests and intervals that hold however often one looks while verdicts come in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from analysis.analyses.outcomes.shares import correct, plan_order
from analysis.evidence import CELL_COLUMNS, Evidence, cell_record, estimate_record, frame_of, honours
from analysis.stats.sequential import anytime
from analysis.verdicts.scores import CELL, ResultKey, ScoredVerdicts, UnitScores, by_cell, with_judges
from guard_eval.estimate import join_notes
from guard_eval.rubric import COMPOSITE


@honours(
    "alpha",
    "correction",
    "sequential",
    "panel",
    "composite",
    unaffected=("weights", "margin", "raters", "assisted_by"),
)
def sequential(evidence: Evidence) -> pd.DataFrame:
    """Return a row per comparison and criterion, of people and of each judge.

    Items stand in the order of their last verdict (column `at`) or, if a comparison lacks the time of any of
    its verdicts, in the order of the table's rows. An item counts when all its raters have rated it: half
    rated at an earlier look it would have counted twice. `path_n`, `path_low` and `path_high` have the
    interval after each unit.
    """
    if not evidence.context.plan.sequential:
        return frame_of([], CELL_COLUMNS)
    scored = evidence.scored
    items = scored.items.merge(_last(scored), on=[*CELL, "pair_id"], validate="one_to_one")
    records = [_record(evidence, cell, rows) for cell, rows in by_cell(items)]
    records.sort(key=plan_order(evidence.context.planned))
    correct(records, evidence, p="p", adjusted="p_adjusted")
    return frame_of(records)


def _last(scored: ScoredVerdicts) -> pd.DataFrame:
    """Return when the last verdict on each item came, if all have a time, and in which row.

    A panel's verdict on an item comes with the last of its judges, a composite with the last of its criteria.
    """
    frame = with_judges(scored.frame)
    frame = pd.concat([frame, *(panel.verdicts(frame).assign(judge=panel.name) for panel in scored.panels)])
    if scored.composite is not None:
        group = frame[frame["criterion"].isin(scored.composite.weights)]
        frame = pd.concat([frame, group.assign(criterion=COMPOSITE)])
    at = frame["at"] if "at" in frame.columns else pd.Series(None, index=frame.index, dtype=object)
    times = pd.to_datetime(at, utc=True, format="ISO8601", errors="coerce")
    rows = frame.index.to_numpy()
    timed = frame[[*CELL, "pair_id"]].assign(time=times.to_numpy(), row=rows, timed=times.notna().to_numpy())
    grouped = timed.groupby([*CELL, "pair_id"], sort=True)
    return grouped.agg(time=("time", "max"), row=("row", "max"), timed=("timed", "all")).reset_index()


def _record(evidence: Evidence, cell: ResultKey, items: pd.DataFrame) -> dict[str, Any]:
    wait, by_time = evidence.context.raters_per_item.get(cell.rater_kind), bool(items["timed"].all())
    by_unit = UnitScores.of(items)
    short = np.zeros(len(items)) if wait is None else (items["raters"] < wait).to_numpy(dtype=float)
    # A prompt counts once: with its last pair, when all of them are rated.
    complete = items[~(by_unit.sums(short)[:, 0] > 0)[by_unit.codes]]
    moment = "time" if by_time else "row"
    last = complete.groupby("unit")[moment].transform("max")
    ordered = complete.assign(last=last).sort_values(["last", "unit", moment, "pair_id"], kind="stable")
    alone = by_unit.n == len(items)
    if alone:
        ordered = complete.sort_values([moment, "pair_id"], kind="stable")
    units = UnitScores.of(ordered)
    sums = units.sums(2 * ordered["share"].to_numpy(dtype=float) - 1, np.ones(len(ordered)))
    test = anytime(sums[:, 0], sizes=None if alone else sums[:, 1], alpha=evidence.alpha)
    counts = complete["raters"]
    uneven = wait is None and len(counts) and counts.min() != counts.max()
    note = join_notes(
        "" if by_time else "no time is known: the test holds if items came in the order of the table",
        f"items have between {counts.min()} and {counts.max()} raters; the test holds if none was looked at "
        "before its last verdict"
        if uneven
        else "",
        test.share.note,
    )
    return cell_record(cell) | {
        "unit": by_unit.name,
        "units": test.share.n,
        "waiting": len(items) - len(complete),
        **estimate_record(test.share, "win_share"),
        "p": test.share.p,
        "p_adjusted": None,
        "family": 0,
        "log_e_value": float(test.log_e[-1]) if len(test.log_e) else 0.0,
        "reached_after": test.crossed,
        "method": test.share.method,
        "note": note,
    }
