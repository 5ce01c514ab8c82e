"""People's win share, assisted by a judge who judged more pairs: prediction-powered inference.

People rate a random part of the pairs that a judge judges. The share is people's: the judge narrows its
interval as far as it agrees with them, and moves it nowhere if it does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from analysis.analyses.evidence import CELL_COLUMNS, Evidence, cell_record, estimate_record, frame_of
from analysis.analyses.win_share import fixed_share
from analysis.stats.assisted import METHOD, assisted_share
from analysis.verdicts.scores import Cell, UnitScores, by_cell
from guard_eval.estimate import adjust, join_notes
from guard_eval.records import PEOPLE_OF
from guard_eval.reporting.words import and_list

FEWEST_RATED = 10
"""With fewer prompts that people rated nothing is estimated."""
CALIBRATED = 40
"""From so many on coverage was measured (docs/assisted.md)."""
RARE = 0.001
"""A part of the pairs that chance gives more rarely than this is not taken for random."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class AssistedCase:
    """One comparison and criterion, and one judge: the items that people rated, and those that it judged.

    `judged` has the judge's `share` of each item; `raters` is how many people rated.
    """

    cell: Cell
    people: pd.DataFrame
    judged: pd.DataFrame
    raters: int


def assisted(evidence: Evidence) -> pd.DataFrame:
    """Return people's share assisted by each judge that judged more pairs than people rated.

    `rater_kind` and `judge` are the judge's; the share is people's. If it cannot be assisted, the share is
    missing and `note` has the reason. Holm's correction runs over the comparisons and criteria of a judge.
    """
    records = [
        _record(case, evidence)
        for case in _cases(evidence)
        if len(case.judged) > len(case.people) and UnitScores.of(case.people).n >= FEWEST_RATED
    ]
    for judge in {(row["rater_kind"], row["judge"]) for row in records}:
        group = [row for row in records if (row["rater_kind"], row["judge"]) == judge]
        for row, value in zip(group, adjust([row["p"] for row in group]), strict=True):
            row["p_adjusted"] = value
    return frame_of(records, CELL_COLUMNS)


def _cases(evidence: Evidence) -> Iterator[AssistedCase]:
    scores = dict(by_cell(evidence.scored.scores))
    items = dict(by_cell(evidence.scored.items))
    for cell, group in scores.items():
        theirs = cell._replace(rater_kind=PEOPLE_OF.get(cell.rater_kind, ""), judge="")
        if cell.judge and theirs in items:
            judged = group.assign(share=0.5 + group["net"] / (2 * group["showings"]), raters=1)
            raters = scores[theirs]["rater"].nunique()
            yield AssistedCase(cell=cell, people=items[theirs], judged=judged, raters=raters)


def _record(case: AssistedCase, evidence: Evidence) -> dict[str, Any]:
    alone = fixed_share(case.people, level=evidence.level)
    judged_alone = fixed_share(case.judged, level=evidence.level)
    ratings, rated = int(case.people["raters"].sum()), len(case.people)
    record = cell_record(case.cell) | {
        "people": case.raters,
        "pairs_rated": rated,
        "pairs_judged": len(case.judged),
        "units_rated": UnitScores.of(case.people).n,
        **estimate_record(alone, "people_alone", "people_"),
        **estimate_record(judged_alone, "judge_alone", "judge_"),
        **estimate_record(None, "people_assisted"),
        "level": evidence.level,
        "p": None,
        "p_adjusted": None,
        "weight": None,
        "correlation": None,
        "ratings_gained": None,
        "method": METHOD,
        "note": _obstacle(case, random=evidence.context.random_part),
    }
    if record["note"]:
        return record
    theirs = case.people.set_index("pair_id")["share"].reindex(case.judged["pair_id"])
    result = assisted_share(
        theirs.to_numpy(dtype=float),
        case.judged["share"].to_numpy(),
        pd.factorize(case.judged["dataset"], sort=True)[0],
        UnitScores.of(case.judged).codes,
        level=evidence.level,
    )
    few = f"people rated {result.share.n} units, and coverage was measured from {CALIBRATED} on"
    gained = None if result.effective is None else (result.effective - rated) * ratings / rated
    return record | {
        **estimate_record(result.share, "people_assisted"),
        "p": result.share.p,
        "weight": float(result.weight),
        "correlation": result.correlation,
        "ratings_gained": gained,
        "note": join_notes(result.share.note, few if result.share.n < CALIBRATED else ""),
    }


def _obstacle(case: AssistedCase, *, random: bool) -> str:
    """Return why people's share cannot be assisted by this judge, with the remedy; empty if it can."""
    who = f"{case.cell.judge} on {case.cell.criterion}"
    rated, judged = set(case.people["pair_id"]), set(case.judged["pair_id"])
    if outside := sorted(rated - judged):
        return (
            f"{who}: {len(outside)} of the {len(rated)} pairs that people rated were not judged (the first "
            f"is {outside[0]!r}); let the judge judge them, or leave their ratings out: the share is then of "
            "pairs that the judge would judge"
        )
    return "" if random or len(judged) == len(rated) else _difference(case)


def _difference(case: AssistedCase) -> str:
    """Return in what the rated pairs differ from the others more than chance lets them; empty if in nothing.

    Compared are the datasets (χ² test), and the judge's scores within them (Welch's t, over prompts).
    """
    judged = case.judged
    rated = judged["pair_id"].isin(case.people["pair_id"])
    remedy = "; if people's pairs are a random part within each dataset, declare it: --set random_part=true"
    who = f"{case.cell.judge} on {case.cell.criterion}: the pairs that people rated are no random part"
    counts = pd.crosstab(judged["dataset"], rated)
    if len(counts) > 1 and stats.chi2_contingency(counts).pvalue < RARE:
        parts = [f"{row[True]} of {row.sum()} in {name}" for name, row in counts.iterrows()]
        return f"{who}: {and_list(parts)}{remedy}"
    apart = judged["share"] - judged.groupby("dataset")["share"].transform("mean")
    inside, rest = (apart[side].groupby(judged.loc[side, "unit"]).mean() for side in (rated, ~rated))
    if np.ptp(apart) > 0 and len(rest) > 1 and stats.ttest_ind(inside, rest, equal_var=False).pvalue < RARE:
        shares = [f"{judged.loc[side, 'share'].mean():.0%}" for side in (rated, ~rated)]
        return f"{who}: the judge's win share is {shares[0]} on them and {shares[1]} on the others{remedy}"
    return ""
