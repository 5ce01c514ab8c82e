"""Win shares: how often each method was preferred, with interval, test and corrected p."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.evidence import (
    ALL,
    ANSWER_KEYS,
    CORRECTION_NAMES,
    Evidence,
    cell_record,
    frame_of,
    honours,
)
from analysis.stats.joint_flips import max_t
from analysis.stats.proportion import pooled_binomial
from analysis.verdicts.scores import CELL, Planned, ResultKey, UnitScores, by_cell
from analysis.verdicts.win_share import (
    fixed_share,
    random_share,
    unequal_weight_note,
    unit_scores,
    weigh_by_precision,
)
from guard_eval.estimate import adjust, join_notes, why_no_p
from guard_eval.records import PEOPLE_OF
from guard_eval.reporting.words import KIND_PLACE
from guard_eval.rubric import COMPOSITE


@honours(
    "alpha",
    "correction",
    "weights",
    "raters",
    "panel",
    "composite",
    unaffected=("margin", "sequential", "assisted_by"),
)
def shares(evidence: Evidence, *, by_dataset: Iterable[tuple[str, str]] | None = None) -> pd.DataFrame:
    """Return win shares per comparison and criterion, of people and of each judge: all datasets, then each.

    The correction runs over the rows of all datasets, for people and for each judge apart: over the planned
    cells that they judged or, without a plan, over all of their cells. `p` is uncorrected; the deciding p is
    `p_adjusted` in the family and `p` outside it.

    Args:
        evidence: The verdicts.
        by_dataset: The comparisons that have rows for each dataset, too; `None` for all of them.
    """
    scores, items = evidence.scored.scores, dict(by_cell(evidence.scored.items))
    split_pairs = None if by_dataset is None else set(by_dataset)
    records = []
    for cell, rated in by_cell(scores):
        pairs = items[cell]
        records.append(_record(evidence, cell, ALL, rated, pairs))
        datasets = sorted(pairs["dataset"].unique())
        if len(datasets) > 1 and (split_pairs is None or cell[:2] in split_pairs):
            for name in datasets:
                part = rated[rated["dataset"] == name], pairs[pairs["dataset"] == name]
                records.append(_record(evidence, cell, str(name), *part))
    records.sort(key=plan_order(evidence.context.planned))  # stable: the datasets stay behind their total
    correct(records, evidence, p="p", adjusted="p_adjusted")
    for record in records:
        del record["scores"]
        why = why_no_p(record["smallest_p"], evidence.alpha) if record["p"] is not None else ""
        if why:
            record |= {"p": None, "note": join_notes(record["note"], why)}
    return frame_of(records)


def _record(
    evidence: Evidence, cell: ResultKey, dataset: str, scores: pd.DataFrame, items: pd.DataFrame
) -> dict[str, Any]:
    fewest, largest = int(items["raters"].min()), int(items["raters"].max())
    weight = "every pair weighs the same"
    if evidence.context.plan.weights == "precision":
        items, weight = weigh_by_precision(items, scores), "a pair weighs by its precision"
    share = fixed_share(items, level=evidence.level)
    uneven = f"pairs have between {fewest} and {largest} raters; {weight}"
    notes = [uneven if fewest < largest else ""]
    if evidence.context.plan.raters == "random" and cell.rater_kind not in PEOPLE_OF:
        share = random_share(scores, items, share)
        notes.append(unequal_weight_note(scores, share))
    wins, losses = int((scores["net"] > 0).sum()), int((scores["net"] < 0).sum())
    ties = len(scores) - wins - losses
    pooled = pooled_binomial(wins, losses)
    score = (scores["net"] / scores["showings"]).to_numpy(dtype=float)
    by_unit = UnitScores.of(items)
    return cell_record(cell) | {
        "dataset": dataset,
        "pairs": len(items),
        "raters": int(scores["rater"].nunique()),
        "unit": by_unit.name,
        "units": by_unit.n,
        "verdicts": int(scores["verdicts"].sum()),
        "wins": wins,
        "ties": ties,
        "losses": losses,
        "win_share": share.value,
        "low": share.low,
        "high": share.high,
        "level": evidence.level,
        "standard_error": share.error,
        "df": share.df,
        "p": share.p,
        "smallest_p": share.smallest_p,
        "method": share.method,
        "p_adjusted": None,
        "correction": CORRECTION_NAMES[evidence.context.plan.correction],
        "family": 0,
        "declared_beforehand": evidence.context.planned is not None,
        "win_share_pooled": (wins + ties / 2) / len(scores),
        "p_pooled_binomial": None if why_no_p(pooled.smallest_p, evidence.alpha) else pooled.p,
        "score_sum": float(score.sum()),
        "score_size": float(np.abs(score).sum()),
        "score_squares": float((score**2).sum()),
        "note": join_notes(*notes, share.note),
        "scores": unit_scores(items) if evidence.context.plan.correction == "max-t" else None,
    }


def plan_order(planned: Planned | None) -> Any:  # noqa: ANN401  a key for sort
    """Return a sort key of records: by who judged, the planned cells first and in the plan's order."""
    index = {cell: number for number, cell in enumerate(planned or ())}

    def key(row: Mapping[str, Any]) -> tuple[object, ...]:
        cell = (row["method_a"], row["method_b"], row["criterion"])
        is_composite = row["criterion"] == COMPOSITE
        who = KIND_PLACE[row["rater_kind"]], row["judge"]
        return (*who, index.get(cell, len(index)), *cell[:2], not is_composite, row["criterion"])

    return key


def families(records: Sequence[Mapping[str, Any]], planned: Planned | None) -> list[list[int]]:
    """Return the places of rows over all datasets that are corrected together: people's, and each judge's."""
    of: dict[tuple[str, str], list[int]] = {}
    for index, row in enumerate(records):
        cell = (row["method_a"], row["method_b"], row["criterion"])
        if row.get("dataset", ALL) == ALL and (planned is None or cell in planned):
            of.setdefault((row["rater_kind"], row["judge"]), []).append(index)
    return list(of.values())


def correct(records: list[dict[str, Any]], evidence: Evidence, *, p: str, adjusted: str) -> None:
    """Fill in the corrected p and the size of the family of each row over all datasets.

    A row whose test flips signs has the units' `scores`, which max-T flips together.
    """
    for places in families(records, evidence.context.planned):
        group = [records[index] for index in places]
        values = adjust(
            [row[p] for row in group],
            evidence.adjustment,
            smallest=[row.get("smallest_p", 0.0) for row in group],
            alpha=evidence.alpha,
        )
        if evidence.context.plan.correction == "max-t" and all("scores" in row for row in group):
            together = pd.concat([row["scores"] for row in group], axis=1).fillna(0.0).to_numpy()
            drawn = max_t(together, seed=evidence.seed)
            # Holm's p is an upper bound, and not drawn.
            values = [
                None if value is None else max(row[p], min(value, largest))
                for row, value, largest in zip(group, values, drawn, strict=True)
            ]
        for row, value in zip(group, values, strict=True):
            if row[p] is not None and value is None:
                why = "no corrected p: with so few that differ it could not have been small"
                row["note"] = join_notes(row["note"], why)
            row |= {adjusted: value, "family": len(group)}


def deciding_p(row: Any) -> float | None:  # noqa: ANN401  a row of the frame
    """Return the p that a conclusion rests on: corrected in the family, as it is outside."""
    value: float | None = row.p_adjusted if row.family else row.p
    return value


def totals(frame: pd.DataFrame) -> list[Any]:
    """Return the rows over all datasets, as tuples with names."""
    return [row for row in frame.itertuples(index=False) if row.dataset == ALL]


@honours("panel", unaffected=("alpha", "composite", *ANSWER_KEYS))
def coverage(evidence: Evidence) -> pd.DataFrame:
    """Return what people, and each judge, have rated: raters, pairs, units, ratings, first and last day."""
    frame, scores = evidence.frame, evidence.scored.scores
    at = frame["at"].astype(str).str[:10] if "at" in frame.columns else None
    records = []
    for (kind, judge), group in scores.groupby(["rater_kind", "judge"], sort=True):
        rows = (frame["rater_kind"] == kind) & (frame["rater"].isin(set(group["rater"])))
        days = sorted(set(at[rows]) - {"", "nan", "None"}) if at is not None else []
        records.append(
            {
                "rater_kind": kind,
                "judge": judge,
                "raters": group["rater"].nunique(),
                "pairs": len(group[["method_a", "method_b", "pair_id"]].drop_duplicates()),
                "unit": UnitScores.of(group).name,
                "units": group["unit"].nunique(),
                "ratings": len(group[["rater", *CELL[:2], "pair_id"]].drop_duplicates()),
                "criteria": group["criterion"].nunique() - (COMPOSITE in set(group["criterion"])),
                "first_day": days[0] if days else None,
                "last_day": days[-1] if days else None,
            }
        )
    return frame_of(records, order=("rater_kind", "judge"))
