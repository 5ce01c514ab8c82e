"""Which of several methods is best: strengths, ranks, and how sure they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.evidence import Evidence, frame_of, honours
from analysis.stats.population import FEWEST_EQUAL
from analysis.stats.ranks.any_difference import any_difference
from analysis.stats.ranks.davidson import davidson, fit, shares
from analysis.stats.ranks.rank_sets import (
    Comparisons,
    any_difference_p,
    largest_errors,
    rank_sets,
    simultaneous_line,
)
from analysis.verdicts.scores import UnitScores
from guard_eval.estimate import Estimate, adjust, join_notes, why_no_p
from guard_eval.reporting.words import KIND_PLACE, and_list
from guard_eval.rubric import COMPOSITE

Floats = NDArray[np.float64]
Numbers = NDArray[np.integer]
FEWEST_UNITS = 5
"""Below so many units no sets of ranks are given: with 2, they were wrong in .19 of simulated studies."""
FEWEST_RATERS, SURE_RATERS = 4, 8
"""Raters from whom on ranks for raters like them are concluded, and from whom on also if leans are skewed."""
FEW_RATERS = (
    "with fewer than eight raters the ranks for raters like these are wrong too often if one of them leans "
    "far to one side"
)
CLUSTERS = "the largest difference of expected shares, with raters and {unit}s as crossed clusters"
NOT_SEQUENTIAL = "no rank is concluded, since no test of ranks holds if results are viewed early (sequential)"
SMOOTHED = "ranks are of strengths after half a win was given to either side of every comparison made"


@honours(
    "alpha",
    "correction",
    "sequential",
    "raters",
    "assisted_by",
    "panel",
    "composite",
    unaffected=("weights", "margin"),
)
def ranking(evidence: Evidence) -> pd.DataFrame:
    """Return the methods by strength, by people and by each judge, on each criterion.

    Strengths are Davidson's (1970), with ties as verdicts of their own. If comparisons do not connect all
    methods, each group of three or more is ranked by itself (`group`). `expected_share` is against the
    average other method, ties split. `possible_best` and `possible_worst` are the least and the greatest rank
    of each method, all right at once at the level; they are missing if nothing can be concluded. Of raters
    who are a sample, ranks and shares hold for all raters of the same kind.
    """
    scores, tables = evidence.scored.scores, []
    if len(set(scores["method_a"].unique()) | set(scores["method_b"].unique())) < 3:
        return frame_of([])
    for (kind, judge, criterion), cell in scores.groupby(["rater_kind", "judge", "criterion"], sort=True):
        for number, (group, apart) in enumerate(_groups(cell), start=1):
            key = {
                "rater_kind": str(kind),
                "judge": str(judge),
                "criterion": str(criterion),
                "group": number,
            }
            tables.append(_records(evidence, key, cell[cell["method_a"].isin(group)], group, apart))
    _adjust(tables, evidence)
    tables.sort(key=lambda rows: _place(rows[0]))
    return frame_of([row for rows in tables for row in rows])


def _place(row: dict[str, Any]) -> tuple[object, ...]:
    criterion = (row["criterion"] != COMPOSITE, row["criterion"])
    return KIND_PLACE[row["rater_kind"]], row["judge"], criterion, row["group"]


def _adjust(tables: list[list[dict[str, Any]]], evidence: Evidence) -> None:
    """Fill in the corrected p of "no method is better", over the criteria of people or of one judge."""
    alpha, correction = evidence.alpha, evidence.adjustment
    for who in {(rows[0]["rater_kind"], rows[0]["judge"]) for rows in tables}:
        group = [rows for rows in tables if (rows[0]["rater_kind"], rows[0]["judge"]) == who]
        smallest = [rows[0]["_smallest"] for rows in group]
        p_values = [rows[0]["p_any_difference"] for rows in group]
        adjusted = adjust(p_values, correction, smallest=smallest, alpha=alpha)
        for rows, value in zip(group, adjusted, strict=True):
            for row in rows:
                row["p_any_difference_adjusted"] = value
                if row["p_any_difference"] is not None and value is None:
                    row["p_any_difference"] = None
                    row["note"] = join_notes(row["note"], why_no_p(max(smallest), alpha))
                del row["_smallest"]


def _groups(cell: pd.DataFrame) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Return each group of three or more methods that comparisons connect, and the methods outside it."""
    compared = cell[["method_a", "method_b"]].drop_duplicates()
    group_of: dict[str, set[str]] = {}
    for a, b in compared.itertuples(index=False, name=None):
        joined = group_of.get(a, {a}) | group_of.get(b, {b})
        group_of |= dict.fromkeys(joined, joined)
    everyone = set(group_of)
    for group in sorted({tuple(sorted(group)) for group in group_of.values()}):
        if len(group) > 2:
            yield group, tuple(sorted(everyone - set(group)))


def _records(
    evidence: Evidence,
    key: dict[str, Any],
    cell: pd.DataFrame,
    methods: tuple[str, ...],
    apart: tuple[str, ...],
) -> list[dict[str, Any]]:
    by_unit, count, level = UnitScores.of(cell), len(methods), evidence.level
    number = {name: index for index, name in enumerate(methods)}
    first, second = (cell[name].map(number).to_numpy(dtype=np.int64) for name in ("method_a", "method_b"))
    sides = np.sign(cell["net"].to_numpy()).astype(np.int64)
    wins, ties = np.zeros((2, count, count))
    np.add.at(wins, (first[sides > 0], second[sides > 0]), 1)
    np.add.at(wins, (second[sides < 0], first[sides < 0]), 1)
    np.add.at(ties, (first[sides == 0], second[sides == 0]), 1)
    ties += ties.T
    strengths = davidson(wins, ties, methods)
    parameters, smoothed = _finite(strengths.parameters, wins, ties)
    expected = shares(parameters)
    compared = Comparisons(by_unit.codes, first, second, 1 + sides, by_unit.strata)
    rater, names = pd.factorize(cell["rater"], sort=True)
    is_random = evidence.context.plan.raters == "random" and not key["judge"]
    sampled = rater if is_random else None
    errors = compared.errors(compared.drawn_in(parameters), sampled)
    why_none, few = _why_no_sets(by_unit.n, f"{by_unit.name}s"), ""
    if is_random and not why_none:
        equal = len(cell) ** 2 / float((np.bincount(rater) ** 2).sum())
        why_none = _why_no_raters(len(names), equal)
        few = FEW_RATERS if len(names) < SURE_RATERS else ""
    if evidence.context.plan.sequential:
        why_none = NOT_SEQUENTIAL
    assisted_by = evidence.context.plan.assisted_by
    alone_note = f"{assisted_by} assists no ranking: it is of people alone" if assisted_by else ""
    largest = largest_errors(errors, seed=evidence.seed)
    widths = errors.widths(compared.units_by_method(count), level=level)
    nets = _nets(by_unit.codes, compared, sides, count)
    # Where all raters agree on everything, there are as many cases as raters.
    cases = _nets(rater, compared, sides, count) if is_random and len(names) < by_unit.n else nets
    sets = rank_sets(expected, widths, cases, line=simultaneous_line(largest, level=level), level=level)
    limits = compared.errors(parameters, sampled).limits(expected, level=level)
    difference = any_difference(nets, seed=evidence.seed)
    if evidence.context.plan.sequential or (is_random and why_none):
        difference = Estimate(method=difference.method)
    elif is_random and difference.p is not None:
        p = max(difference.p, any_difference_p(expected, widths, largest))
        difference = replace(difference, p=p, method=CLUSTERS.format(unit=by_unit.name))
    alone = f"never compared with {and_list(apart)}, which stand apart" if apart else ""
    common = {
        "level": level,
        "comparisons": len(cell),
        "unit": by_unit.name,
        "units": by_unit.n,
        "p_any_difference": difference.p,
        "p_any_difference_adjusted": None,
        "any_difference_test": difference.method,
        "note": join_notes(
            alone,
            strengths.reason,
            SMOOTHED if smoothed else "",
            why_none or few,
            difference.note,
            "" if key["judge"] else alone_note,
        ),
        "_smallest": difference.smallest_p,
    }
    return [
        key
        | {
            "method": methods[at],
            "rank": rank,
            "possible_best": None if why_none else sets[at][0],
            "possible_worst": None if why_none else sets[at][1],
            "strength": None if smoothed else float(parameters[at]),
            "expected_share": float(expected[at]),
            "share_low": None if why_none or smoothed else float(limits[at][0]),
            "share_high": None if why_none or smoothed else float(limits[at][1]),
        }
        | common
        for rank, at in enumerate(sorted(range(count), key=lambda at: (-parameters[at], at)), start=1)
    ]


def _nets(codes: Numbers, compared: Comparisons, sides: Numbers, methods: int) -> Floats:
    """Return the wins less losses of each method by unit or by rater, [codes, K]."""
    nets = np.zeros((int(codes.max()) + 1, methods))
    np.add.at(nets, (codes, compared.first), sides)
    np.add.at(nets, (codes, compared.second), -sides)
    return nets


def _why_no_sets(units: int, name: str) -> str:
    """Return why no sets of ranks are given, or nothing."""
    if units < FEWEST_UNITS:
        return f"no ranks are concluded from {units} {name}; at least {FEWEST_UNITS} are needed"
    return ""


def _why_no_raters(raters: int, equal: float) -> str:
    """Return why no ranks for other raters are given, or nothing."""
    if raters < FEWEST_RATERS:
        return f"ranks for other raters need at least {FEWEST_RATERS} raters, and there are {raters}"
    if equal < FEWEST_EQUAL:
        return (
            f"most verdicts are by so few of the {raters} raters that they count as {equal:.1f} of equal "
            f"weight, and ranks for other raters need {FEWEST_EQUAL:g}"
        )
    return ""


def _finite(parameters: Floats | None, wins: Floats, ties: Floats) -> tuple[Floats, bool]:
    """Return finite log-strengths and log ν, and whether half wins were needed to have them."""
    if parameters is not None:
        return parameters, False
    compared = (wins + wins.T + ties) > 0
    return fit(wins + compared / 2, ties), True
