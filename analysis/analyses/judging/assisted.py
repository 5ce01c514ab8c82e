"""People's win share, assisted by a judge who judged more pairs: prediction-powered inference.

People rate a random part of the pairs that a judge judges. The share is people's: the judge narrows its
interval as far as it agrees with them, and moves it nowhere if it does not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from analysis.analyses.outcomes.shares import correct
from analysis.evidence import CELL_COLUMNS, Evidence, cell_record, estimate_record, frame_of, honours
from analysis.stats.assisted import METHOD, AssistedShare, assisted_share
from analysis.verdicts.scores import ResultKey, UnitScores, by_cell, judged_by_both
from analysis.verdicts.win_share import fixed_share
from guard_eval.estimate import Estimate, join_notes
from guard_eval.records import PEOPLE_OF
from guard_eval.reporting.words import and_list

FEWEST_RATED = 10
"""With fewer prompts that people rated nothing is estimated."""
CALIBRATED = 40
"""From so many on coverage was measured (docs/assisted.md)."""
RARE = 0.001
"""A part of the pairs that chance gives more rarely than this is not taken for random."""


@honours(
    "alpha",
    "correction",
    "panel",
    "composite",
    unaffected=("weights", "margin", "sequential", "raters", "assisted_by"),
)
def assisted(evidence: Evidence) -> pd.DataFrame:
    """Return people's share assisted by each judge that judged more pairs than people rated.

    `rater_kind` and `judge` are the judge's; the share is people's. If it cannot be assisted, the share is
    missing and `note` has the reason. The correction runs over each judge's results of the family.
    """
    items, records = dict(by_cell(evidence.scored.items)), []
    for cell, scores, judged in judged_by_both(evidence.scored.scores):
        people = items[cell._replace(rater_kind=PEOPLE_OF[cell.rater_kind], judge="")]
        if len(judged) > len(people) and UnitScores.of(people).n >= FEWEST_RATED:
            share = 0.5 + judged["net"] / (2 * judged["showings"])
            raters = scores["rater"].nunique()
            records.append(_record(cell, raters, people, judged.assign(share=share, raters=1), evidence))
    correct(records, evidence, p="p", adjusted="p_adjusted")
    return frame_of(records, CELL_COLUMNS)


def _record(
    cell: ResultKey, raters: int, people: pd.DataFrame, judged: pd.DataFrame, evidence: Evidence
) -> dict[str, Any]:
    """Return a row from the items of people and the judge's, with their shares."""
    rated, ratings = len(people), int(people["raters"].sum())
    why = _obstacle(people, judged, random=evidence.context.random_part)
    obstacle = f"{cell.judge} on {cell.criterion}: {why}" if why else ""
    result = AssistedShare(share=Estimate(note=obstacle), weight=0.0, correlation=None, effective=None)
    few = ""
    if not obstacle:
        result = assisted_share(
            people.set_index("pair_id")["share"].reindex(judged["pair_id"]).to_numpy(dtype=float),
            judged["share"].to_numpy(),
            pd.factorize(judged["dataset"], sort=True)[0],
            UnitScores.of(judged).codes,
            level=evidence.level,
        )
        if result.share.n < CALIBRATED:
            few = f"people rated {result.share.n} units, and coverage was measured from {CALIBRATED} on"
    return cell_record(cell) | {
        "people": raters,
        "pairs_rated": rated,
        "pairs_judged": len(judged),
        "units_rated": UnitScores.of(people).n,
        **estimate_record(fixed_share(people, level=evidence.level), "people_alone", "people_"),
        **estimate_record(fixed_share(judged, level=evidence.level), "judge_alone", "judge_"),
        **estimate_record(result.share, "people_assisted"),
        "level": evidence.level,
        "p": result.share.p,
        "p_adjusted": None,
        "family": 0,
        "weight": None if obstacle else result.weight,
        "correlation": result.correlation,
        "ratings_gained": None if result.effective is None else (result.effective - rated) * ratings / rated,
        "method": METHOD,
        "note": join_notes(result.share.note, few),
    }


def _obstacle(people: pd.DataFrame, judged: pd.DataFrame, *, random: bool) -> str:
    """Return why people's share cannot be assisted by this judge, with the remedy; empty if it can.

    If people rated a part that was not declared to be random, its datasets are compared with the others' (χ²
    test), and the judge's scores within them (Welch's t, over prompts).
    """
    if outside := sorted(set(people["pair_id"]) - set(judged["pair_id"])):
        return (
            f"{len(outside)} of the {len(people)} pairs that people rated were not judged (the first is "
            f"{outside[0]!r}); let the judge judge them, or leave their ratings out: the share is then of "
            "pairs that the judge would judge"
        )
    if random or len(judged) == len(people):
        return ""
    rated = judged["pair_id"].isin(people["pair_id"])
    counts = pd.crosstab(judged["dataset"], rated)
    apart = judged["share"] - judged.groupby("dataset")["share"].transform("mean")
    inside, rest = (apart[side].groupby(judged.loc[side, "unit"]).mean() for side in (rated, ~rated))
    if len(counts) > 1 and stats.chi2_contingency(counts).pvalue < RARE:
        differs = and_list([f"{row[True]} of {row.sum()} in {name}" for name, row in counts.iterrows()])
    elif np.ptp(apart) > 0 and len(rest) > 1 and stats.ttest_ind(inside, rest, equal_var=False).pvalue < RARE:
        shares = [f"{judged.loc[side, 'share'].mean():.0%}" for side in (rated, ~rated)]
        differs = f"the judge's win share is {shares[0]} on them and {shares[1]} on the others"
    else:
        return ""
    return (
        f"the pairs that people rated are no random part: {differs}; if people's pairs are a random part "
        "within each dataset, declare it: --set random_part=true"
    )
