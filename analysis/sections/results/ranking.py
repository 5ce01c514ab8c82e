"""Rank several methods: strengths, ranks, and their uncertainty."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from itertools import chain

import numpy as np
import pandas as pd

from analysis.evidence import MIN_RANKED, Evidence, declare_plan_keys
from analysis.scores.scores import CELL, ITEM, UnitScores, find_item_numbers, group_connected_methods
from analysis.sections.results.rounds import find_eliminated_systems, summarise_rounds
from analysis.sections.results.shares import group_items_with_plan_weights
from analysis.sections.section import (
    CriterionRow,
    Section,
    group_by,
    make_limit_column_metadata,
    make_table_of_first_rows,
    name_raters,
)
from analysis.stats.davidson import compute_expected_shares, explain_infinite_strengths, fit_strengths
from analysis.stats.population import FEWEST_EQUAL
from analysis.stats.rank_sets import (
    Comparisons,
    compute_any_difference_p,
    draw_largest_errors,
    find_rank_sets,
    find_simultaneous_half_width,
    run_any_difference_test,
)
from guard_eval.estimate import Estimate, Integers, adjust_p_values, explain_unreachable_alpha, join_notes
from guard_eval.frozen import record
from guard_eval.reporting.tables import Table
from guard_eval.reporting.words import (
    KIND_PLACE,
    capitalise,
    count_in_words,
    find_criterion_title,
    format_number,
    format_p_in_sentence,
    format_percent,
    format_share_limits,
    join_with_and,
)
from guard_eval.rounds import METHOD
from guard_eval.rubric import COMPOSITE

FEWEST_UNITS = 5
"""The smallest number of units for possible ranks. With 2, they were wrong in .19 of simulated studies."""
FEWEST_RATERS = 4
"""The smallest number of raters for possible ranks that are valid for raters in general."""
SURE_RATERS = 8
"""With fewer raters, a warning says that ranks for raters in general may be wrong too often."""
FEW_RATERS = (
    "with fewer than eight raters the ranks for raters in general may be wrong too often if one rater "
    "prefers one method strongly"
)
CLUSTERS = "the largest difference of expected shares, with raters and {unit}s as crossed clusters"
NO_RANK = "there are no possible ranks, because"
NOT_SEQUENTIAL = f"{NO_RANK} no test of ranks holds if results are viewed early (sequential)"
NOT_DECIDED = f"{NO_RANK} comparisons stopped when they were decided, and no test of this ranking holds"
SMOOTHED = "ranks are of strengths after half a win was added for each method of every comparison"
HOW_TO_READ = (
    "The true ranks of all methods lie in the possible ones at once, at the level of the intervals. Expected "
    "share: against the average other method, ties split. Strength: Davidson's, on a log scale."
)


@record
class RankingRow(CriterionRow):
    """The rank of one method, by people or by one judge, on one criterion.

    Attributes:
        group: The number of the group, if comparisons do not connect all methods.
        method: The method.
        rank: The rank of the method by strength.
        possible_best: The best possible rank of the method; missing if nothing can be concluded. At `level`,
            the possible ranks of all methods contain the true ranks.
        possible_worst: The worst possible rank.
        strength: The log-strength by Davidson's (1970) model, which has ties.
        expected_share: The share against the average other method; a tie counts half.
        level: The confidence level.
        comparisons: The number of comparisons of the group.
        unit: The unit that the errors treat as independent: `prompt` or `pair`.
        units: The number of units.
        p_any_difference: The p-value of the hypothesis "no method is better".
        p_any_difference_adjusted: This p-value, corrected for the number of criteria.
        any_difference_test: The name of the test.
        note: A warning about the ranking.
        left_after: The round after which the method left, in studies where beaten methods leave.
    """

    group: int
    method: str
    rank: int
    possible_best: int | None
    possible_worst: int | None
    strength: float | None
    expected_share: Estimate = field(metadata=make_limit_column_metadata("share_"))
    level: float
    comparisons: int
    unit: str
    units: int
    p_any_difference: float | None
    p_any_difference_adjusted: float | None = None
    any_difference_test: str
    note: str
    left_after: int | None = None

    @property
    def share(self) -> float:
        """Return the expected win share against the average other method."""
        return self.expected_share.value or 0.0

    @property
    def possible_ranks(self) -> str:
        """Return the possible ranks of the method as text, such as `1–3`."""
        if self.possible_best is None:
            return "not concluded"
        low, high = self.possible_best, self.possible_worst
        return f"{low}" if low == high else f"{low} to {high}"

    def shows_no_difference(self, alpha: float) -> bool:
        """Return whether the test finds no evidence that any method is better."""
        p = self.p_any_difference_adjusted
        return NO_RANK not in self.note and (p is None or p > alpha)


@record
class _Ranking:
    """The rows of one ranking, and the smallest possible p of the test for any difference."""

    rows: list[RankingRow]
    smallest_p: float


@record
class _ConnectedGroup:
    """A group of methods connected by comparisons, judged by one kind of raters on one criterion.

    Attributes:
        kind, judge, criterion: The kind of raters, the judge, and the criterion.
        number: The number of the group.
        methods: The methods.
        apart: The methods that no comparison connects with this group.
        scores: The scores of the comparisons.
    """

    kind: str
    judge: str
    criterion: str
    number: int
    methods: tuple[str, ...]
    apart: tuple[str, ...]
    scores: pd.DataFrame


@declare_plan_keys(
    "alpha",
    "correction",
    "weights",
    "sequential",
    "raters",
    "assisted_by",
    "panel",
    "composite",
    needs=lambda evidence: evidence.is_ranked,
)
def rank_methods(evidence: Evidence) -> list[RankingRow]:
    """Rank the methods by strength: a row per method and criterion, for people and for each judge.

    If comparisons do not connect all methods, each group of three or more methods has a separate ranking. Two
    methods are not ranked, because their win share is enough. If raters are declared to be a sample, ranks
    and shares are valid for all raters of the same kind.
    """
    tables = [
        _rank_connected_methods(evidence, group) for group in _find_connected_groups(evidence.scored.scores)
    ]
    rows = sorted(_adjust_any_difference_p(tables, evidence), key=_make_ranking_sort_key)
    return (
        [_use_ranks_valid_at_all_rounds(row, evidence) for row in rows]
        if evidence.has_early_stopping
        else rows
    )


def _use_ranks_valid_at_all_rounds(row: RankingRow, evidence: Evidence) -> RankingRow:
    """Return a copy of a row with possible ranks and a p that stay valid if results are read every round."""
    row = replace(row, expected_share=Estimate(value=row.share), any_difference_test=METHOD)
    alpha = evidence.plan.alpha
    key = (row.rater_group, row.criterion)
    duels = [duel for duel in evidence.rows(summarise_rounds) if (duel.rater_group, duel.criterion) == key]
    if not duels:
        return replace(
            row,
            possible_best=None,
            possible_worst=None,
            left_after=None,
            p_any_difference=None,
            p_any_difference_adjusted=None,
            note=NOT_DECIDED,
        )
    decided_duels = [duel for duel in duels if duel.is_significant(alpha)]
    better = sum(duel.behind == row.method for duel in decided_duels)
    worse = sum(duel.ahead == row.method for duel in decided_duels)
    methods = {method for duel in duels for method in duel.methods}
    smallest = min((duel.p_adjusted for duel in duels if duel.p_adjusted is not None), default=None)
    return replace(
        row,
        possible_best=1 + better,
        possible_worst=len(methods) - worse,
        left_after=find_eliminated_systems(duels, alpha).get(row.method),
        p_any_difference=smallest,
        p_any_difference_adjusted=smallest,
        note="",
    )


def group_ranking_rows(evidence: Evidence) -> list[list[RankingRow]]:
    """Return the rows of each ranking, the best method first."""
    rows = evidence.rows(rank_methods)
    return list(group_by(rows, lambda row: (row.rater_group, row.criterion, row.group)).values())


def _make_ranking_sort_key(row: RankingRow) -> tuple[object, ...]:
    """Return the sort key of a row: by raters (people first), criterion (composite first) and rank."""
    is_criterion = row.criterion != COMPOSITE
    return KIND_PLACE[row.rater_kind], row.judge, is_criterion, row.criterion, row.group, row.rank


def _find_connected_groups(scores: pd.DataFrame) -> Iterator[_ConnectedGroup]:
    """Yield the groups of methods that comparisons connect, if a group is large enough to be ranked."""
    for (kind, judge, criterion), judged in scores.groupby(CELL[2:], sort=True):
        compared = judged[CELL[:2]].drop_duplicates()
        connected = group_connected_methods(compared.itertuples(index=False, name=None))
        everybody = {method for group in connected for method in group}
        ranked = [group for group in connected if len(group) >= MIN_RANKED]
        for position, methods in enumerate(ranked, start=1):
            yield _ConnectedGroup(
                kind=str(kind),
                judge=str(judge),
                criterion=str(criterion),
                number=position,
                methods=methods,
                apart=tuple(sorted(everybody.difference(methods))),
                scores=judged[judged["method_a"].isin(methods)],
            )


def _adjust_any_difference_p(rankings: Sequence[_Ranking], evidence: Evidence) -> Iterator[RankingRow]:
    """Correct the p of "no method is better" for the number of criteria, for people and for each judge."""
    for family in group_by(rankings, lambda table: table.rows[0].rater_group).values():
        smallest = [table.smallest_p for table in family]
        p_values = [table.rows[0].p_any_difference for table in family]
        plan = evidence.plan
        adjusted = adjust_p_values(
            p_values, evidence.adjustment, smallest_p_values=smallest, alpha=plan.alpha
        )
        for table, p, value in zip(family, p_values, adjusted, strict=True):
            why = (
                explain_unreachable_alpha(max(smallest), plan.alpha)
                if p is not None and value is None
                else ""
            )
            for row in table.rows:
                yield replace(
                    row,
                    p_any_difference=None if value is None else p,
                    p_any_difference_adjusted=value,
                    note=join_notes(row.note, why),
                )


def _rank_connected_methods(evidence: Evidence, group: _ConnectedGroup) -> _Ranking:
    """Rank the methods of a group: strengths, expected shares, possible ranks, test of any difference."""
    level = evidence.plan.level
    is_random = evidence.plan.raters == "random" and not group.judge
    by_unit = UnitScores.from_items(group.scores)
    compared = _encode_comparisons(evidence, group, by_unit)
    rater = pd.factorize(group.scores["rater"], sort=True)[0]
    sampled = rater if is_random else None
    wins, ties = compared.sum_wins_and_ties()
    why_infinite = explain_infinite_strengths(wins, ties, group.methods)
    is_smoothed = bool(why_infinite)
    # Each method gets half a win in every comparison, so that the strengths are finite.
    is_compared = (wins + wins.T + ties) > 0
    half_wins = is_compared / 2 if is_smoothed else 0.0
    parameters = fit_strengths(wins + half_wins, ties)
    expected = compute_expected_shares(parameters)
    errors = compared.estimate_errors(compared.shrink_strengths(parameters), sampled)
    largest = draw_largest_errors(errors, seed=evidence.seed)
    widths = errors.widen_errors_of_few_units(compared.count_units_by_method(), level=level)
    nets = compared.sum_net_wins(by_unit.codes)
    half_width = find_simultaneous_half_width(largest, level=level)
    sets = find_rank_sets(expected, widths, nets, half_width=half_width, level=level)
    why_none, caution = _explain_missing_ranks(evidence, by_unit, sampled)
    difference = run_any_difference_test(nets, seed=evidence.seed)
    if evidence.plan.sequential or (is_random and why_none):
        difference = Estimate(method=difference.method)
    elif is_random and difference.p is not None:
        p = max(difference.p, compute_any_difference_p(expected, widths, largest))
        difference = replace(difference, p=p, method=CLUSTERS.format(unit=by_unit.name))
    assistant = evidence.plan.assisted_by if not group.judge else None
    notes = (
        f"never compared with {join_with_and(group.apart)}, which have no rank here" if group.apart else "",
        why_infinite,
        SMOOTHED if is_smoothed else "",
        why_none or caution,
        difference.note,
        f"{assistant} assists no ranking: it is of people alone" if assistant else "",
    )
    bounds = compared.estimate_errors(parameters, sampled).find_share_limits(expected, level=level)
    has_limits = not (why_none or is_smoothed)
    by_strength = np.argsort(-parameters[:-1], kind="stable")
    rows = [
        RankingRow(
            group.kind,
            group.judge,
            group.criterion,
            group=group.number,
            method=group.methods[at],
            rank=rank,
            possible_best=None if why_none else sets[at][0],
            possible_worst=None if why_none else sets[at][1],
            strength=None if is_smoothed else float(parameters[at]),
            expected_share=Estimate(
                value=float(expected[at]),
                low=float(bounds[at, 0]) if has_limits else None,
                high=float(bounds[at, 1]) if has_limits else None,
            ),
            level=level,
            comparisons=len(group.scores),
            unit=by_unit.name,
            units=by_unit.n,
            p_any_difference=difference.p,
            any_difference_test=difference.method,
            note=join_notes(*notes),
        )
        for rank, at in enumerate(by_strength, start=1)
    ]
    return _Ranking(rows=rows, smallest_p=difference.smallest_p)


def _encode_comparisons(evidence: Evidence, group: _ConnectedGroup, by_unit: UnitScores) -> Comparisons:
    """Return the comparisons of a group, with methods as numbers. The ratings of a pair share its weight."""
    numbers = {name: index for index, name in enumerate(group.methods)}
    first, second = (np.asarray(group.scores[side].map(numbers), dtype=np.int64) for side in CELL[:2])
    points = 1 + np.sign(group.scores["net"].to_numpy()).astype(np.int64)
    item, _ = find_item_numbers(group.scores)
    ratings = np.bincount(item)
    weight = ratings.mean() / ratings[item]
    if evidence.plan.weights != "equal":
        items = pd.concat(group_items_with_plan_weights(evidence).values())
        weight = weight * group.scores[ITEM].merge(items, on=ITEM, how="left")["weight"].to_numpy()
    return Comparisons(by_unit.codes, first, second, points, by_unit.strata, weight)


def _explain_missing_ranks(
    evidence: Evidence, by_unit: UnitScores, rater: Integers | None
) -> tuple[str, str]:
    """Return the reason why there are no ranks, and a warning about the ranks; either may be empty.

    Args:
        evidence: The evidence.
        by_unit: The units of the comparisons.
        rater: The rater of each comparison, numbered from 0; None if the answer is about these raters only.
    """
    if evidence.plan.sequential:
        return NOT_SEQUENTIAL, ""
    if by_unit.n < FEWEST_UNITS:
        units = f"{by_unit.n} {by_unit.name}s"
        return f"no ranks are concluded from {units}; at least {FEWEST_UNITS} are needed", ""
    if rater is None:
        return "", ""
    counts = np.bincount(rater)
    if len(counts) < FEWEST_RATERS:
        few = f"ranks for other raters need at least {FEWEST_RATERS} raters, and there are {len(counts)}"
        return few, ""
    equal = float(counts.sum() ** 2 / (counts**2).sum())
    if equal < FEWEST_EQUAL:
        unequal = (
            f"most verdicts are by so few of the {len(counts)} raters that they count as {equal:.1f} of "
            f"equal weight, and ranks for other raters need {FEWEST_EQUAL:g}"
        )
        return unequal, ""
    return "", FEW_RATERS if len(counts) < SURE_RATERS else ""


def make_section(evidence: Evidence) -> Section | None:
    """Make the section "How do the methods rank?"."""
    if not evidence.is_ranked:
        return None
    tables = tuple(chain.from_iterable(map(_make_ranking_table, group_ranking_rows(evidence))))
    methods = {row.method for row in evidence.rows(rank_methods)}
    return Section(
        anchor="ranking",
        question="How do the methods rank?",
        answer=f"{count_in_words(len(methods), 'method')}, {count_in_words(len(tables), 'ranking')}",
        notes=(HOW_TO_READ,),
        tables=tables,
        is_open=True,
    )


def _make_ranking_table(rows: Sequence[RankingRow]) -> tuple[Table, ...]:
    """Return the table of one ranking."""
    return make_table_of_first_rows(
        rows,
        lambda row: {"Method": row.method},
        lambda row: {
            "Rank": row.rank,
            "Ranks possible": row.possible_ranks,
            "Expected share": format_percent(row.share),
            "Interval": format_share_limits(row.expected_share),
            "Strength": format_number(row.strength),
            "Left after round": row.left_after,
        },
        csv_name="ranking",
        caption=f"{capitalise(find_criterion_title(rows[0].criterion))}, judged by {name_raters(rows[0])}",
        note=_describe_ranking_basis(rows[0]),
    )


def _describe_ranking_basis(row: RankingRow) -> str:
    """Describe a ranking: its comparisons and units, the p-value for any difference, and its note."""
    p = row.p_any_difference_adjusted
    difference = "no test" if p is None else format_p_in_sentence(p)
    basis = f"{row.comparisons} comparisons of {count_in_words(row.units, row.unit)}"
    return f"{basis}; any difference: {difference}. {capitalise(row.note)}".strip()
