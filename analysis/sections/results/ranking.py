"""Rank several methods: strengths, ranks, and their uncertainty."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Annotated

import numpy as np
import pandas as pd

from analysis.evidence import MIN_RANKED, SHARE_KEYS, Evidence, declare_plan_keys
from analysis.scores.scores import (
    CELL,
    ITEM,
    UnitScores,
    convert_scores_to_labels,
    find_item_numbers,
    group_connected_methods,
)
from analysis.sections.results.rounds import find_eliminated_systems, summarise_rounds
from analysis.sections.results.shares import group_items_with_plan_weights
from analysis.sections.section import (
    CriterionRow,
    Section,
    group_by,
    make_table_of_first_rows,
    name_raters,
)
from analysis.stats.davidson import compute_expected_shares, fit_strengths, has_finite_strengths
from analysis.stats.population import explain_too_few_raters
from analysis.stats.rank_sets import (
    Comparisons,
    compute_any_difference_p,
    draw_largest_errors,
    find_rank_sets,
    find_simultaneous_half_width,
    run_any_difference_test,
)
from guard_eval.estimate import Estimate, Integers, adjust_p_values, explain_unreachable_alpha, join_notes
from guard_eval.records import record
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
NEVER_COMPARED = "never compared with"
EQUAL_STRENGTHS = 1e-6
"""The largest difference between log-strengths that are equal."""
NO_RANK = "there are no possible ranks, because"
NOT_SEQUENTIAL = f"{NO_RANK} no test of ranks holds if results are viewed early (sequential)"
NOT_DECIDED = f"{NO_RANK} comparisons stopped when they were decided, and no test of this ranking holds"
SMOOTHED = (
    "no finite strengths fit these verdicts, so ranks are of strengths after half a win was added for each "
    "method of every comparison"
)
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
        rank: The rank of the method by strength. Methods of equal strength have the same rank.
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
    expected_share: Annotated[Estimate, "share_"]
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


@declare_plan_keys(*SHARE_KEYS, "sequential", "assisted_by", needs=lambda evidence: evidence.is_ranked)
def rank_methods(evidence: Evidence) -> list[RankingRow]:
    """Rank the methods by strength: a row per method and criterion, for people and for each judge.

    If comparisons do not connect all methods, each group of three or more methods has a separate ranking. Two
    methods are not ranked, because their win share is enough. If raters are declared to be a sample, ranks
    and shares are valid for all raters of the same kind.
    """
    rankings: list[tuple[list[RankingRow], float]] = []
    for (kind, judge, criterion), scores in evidence.scored.scores.groupby(CELL[2:], sort=True):
        compared = scores[CELL[:2]].drop_duplicates()
        connected = group_connected_methods(compared.itertuples(index=False, name=None))
        ranked = [methods for methods in connected if len(methods) >= MIN_RANKED]
        for number, methods in enumerate(ranked, start=1):
            apart = sorted({*chain(*connected)}.difference(methods))
            of_group = scores[scores["method_a"].isin(methods)]
            new = partial(RankingRow, str(kind), str(judge), str(criterion), group=number)
            rankings.append(_rank_connected_methods(evidence, new, methods, apart, of_group))
    rows = [*_adjust_any_difference_p(rankings, evidence)]
    if evidence.has_early_stopping:
        rows = [_use_ranks_valid_at_all_rounds(row, evidence) for row in rows]
    return sorted(rows, key=_make_ranking_sort_key)


def _use_ranks_valid_at_all_rounds(row: RankingRow, evidence: Evidence) -> RankingRow:
    """Return a copy of a row with possible ranks and a p that stay valid if results are read every round."""
    alpha = evidence.plan.alpha
    key = (row.rater_group, row.criterion)
    duels = [duel for duel in evidence.rows(summarise_rounds) if (duel.rater_group, duel.criterion) == key]
    decided_duels = [duel for duel in duels if duel.is_significant(alpha)]
    better = sum(duel.behind == row.method for duel in decided_duels)
    worse = sum(duel.ahead == row.method for duel in decided_duels)
    methods = {method for duel in duels for method in duel.methods}
    smallest = min((duel.p_adjusted for duel in duels if duel.p_adjusted is not None), default=None)
    return replace(
        row,
        expected_share=Estimate(value=row.share),
        any_difference_test=METHOD,
        possible_best=1 + better if duels else None,
        possible_worst=len(methods) - worse if duels else None,
        left_after=find_eliminated_systems(duels, alpha).get(row.method),
        p_any_difference=smallest,
        p_any_difference_adjusted=smallest,
        note="" if duels else NOT_DECIDED,
    )


def group_ranking_rows(evidence: Evidence) -> list[list[RankingRow]]:
    """Return the rows of each ranking, the best method first."""
    rows = evidence.rows(rank_methods)
    return list(group_by(rows, lambda row: (row.rater_group, row.criterion, row.group)).values())


def _make_ranking_sort_key(row: RankingRow) -> tuple[object, ...]:
    """Return the sort key of a row: by raters (people first), criterion (composite first) and rank."""
    is_criterion = row.criterion != COMPOSITE
    return KIND_PLACE[row.rater_kind], row.judge, is_criterion, row.criterion, row.group, row.rank


def _adjust_any_difference_p(
    rankings: Sequence[tuple[list[RankingRow], float]], evidence: Evidence
) -> Iterator[RankingRow]:
    """Correct the p of "no method is better" for the number of criteria, for people and for each judge."""
    alpha = evidence.plan.alpha
    for family in group_by(rankings, lambda ranking: ranking[0][0].rater_group).values():
        smallest = [smallest_p for _, smallest_p in family]
        p_values = [rows[0].p_any_difference for rows, _ in family]
        adjusted = adjust_p_values(p_values, evidence.adjustment, smallest_p_values=smallest, alpha=alpha)
        for (rows, _), p, value in zip(family, p_values, adjusted, strict=True):
            is_withheld = p is not None and value is None
            why = explain_unreachable_alpha(max(smallest), alpha) if is_withheld else ""
            for row in rows:
                yield replace(
                    row,
                    p_any_difference=None if is_withheld else p,
                    p_any_difference_adjusted=value,
                    note=join_notes(row.note, why),
                )


def _rank_connected_methods(
    evidence: Evidence,
    make_row: Callable[..., RankingRow],
    methods: Sequence[str],
    apart: Sequence[str],
    scores: pd.DataFrame,
) -> tuple[list[RankingRow], float]:
    """Rank methods that comparisons connect: strengths, expected shares, possible ranks and a test.

    Args:
        evidence: The evidence.
        make_row: Makes a row with the raters, the criterion and the number of the group.
        methods: The methods.
        apart: The methods that no comparison connects with these methods.
        scores: The scores of the comparisons.

    Returns:
        The rows, and the smallest possible p of the test for any difference.
    """
    level = evidence.plan.level
    is_judge = (scores["judge"] != "").any()
    is_random = evidence.plan.raters == "random" and not is_judge
    by_unit = UnitScores.from_items(scores)
    compared = _encode_comparisons(evidence, methods, scores, by_unit)
    sampled = pd.factorize(scores["rater"], sort=True)[0] if is_random else None
    wins, ties = compared.sum_wins_and_ties()
    is_smoothed = not has_finite_strengths(wins, ties)
    # Each method gets half a win in every comparison, so that the strengths are finite.
    is_compared = (wins + wins.T + ties) > 0
    half_wins = is_compared / 2 if is_smoothed else 0.0
    parameters = fit_strengths(wins + half_wins, ties)
    expected = compute_expected_shares(parameters)
    errors = compared.estimate_errors(compared.shrink_strengths(parameters), sampled)
    largest = draw_largest_errors(errors, seed=evidence.seed)
    widths = errors.widen_errors_of_few_units(compared.count_units_by_method(), level=level)
    nets = compared.sum_net_wins()
    half_width = find_simultaneous_half_width(largest, level=level)
    sets = find_rank_sets(expected, widths, nets, half_width=half_width, level=level)
    why_none, caution = _explain_missing_ranks(evidence, by_unit, sampled)
    difference = run_any_difference_test(nets, seed=evidence.seed)
    if evidence.plan.sequential or (is_random and why_none):
        difference = Estimate(method=difference.method)
    elif is_random and difference.p is not None:
        p = max(difference.p, compute_any_difference_p(expected, widths, largest))
        difference = replace(difference, p=p, method=CLUSTERS.format(unit=by_unit.name))
    assistant = None if is_judge else evidence.plan.assisted_by
    notes = (
        f"{NEVER_COMPARED} {join_with_and(apart)}, which have no rank here" if apart else "",
        SMOOTHED if is_smoothed else "",
        why_none or caution,
        difference.note,
        f"{assistant} assists no ranking: it is of people alone" if assistant else "",
    )
    bounds = compared.estimate_errors(parameters, sampled).find_share_limits(expected, level=level)
    has_limits = not (why_none or is_smoothed)
    by_strength = np.argsort(-parameters[:-1], kind="stable")
    rows = [
        make_row(
            method=methods[at],
            rank=1 + int(np.sum(parameters[:-1] > parameters[at] + EQUAL_STRENGTHS)),
            possible_best=None if why_none else sets[at][0],
            possible_worst=None if why_none else sets[at][1],
            strength=None if is_smoothed else float(parameters[at]),
            expected_share=Estimate(
                value=float(expected[at]),
                low=float(bounds[at, 0]) if has_limits else None,
                high=float(bounds[at, 1]) if has_limits else None,
            ),
            level=level,
            comparisons=len(scores),
            unit=by_unit.name,
            units=by_unit.n,
            p_any_difference=difference.p,
            any_difference_test=difference.method,
            note=join_notes(*notes),
        )
        for at in by_strength
    ]
    return rows, difference.smallest_p


def _encode_comparisons(
    evidence: Evidence, methods: Sequence[str], scores: pd.DataFrame, by_unit: UnitScores
) -> Comparisons:
    """Return comparisons with methods as numbers. The ratings of a pair share its weight."""
    numbers = {name: index for index, name in enumerate(methods)}
    first, second = (np.asarray(scores[side].map(numbers), dtype=np.int64) for side in CELL[:2])
    points = convert_scores_to_labels(scores)
    item, _ = find_item_numbers(scores)
    ratings = np.bincount(item)
    weight = ratings.mean() / ratings[item]
    if evidence.plan.weights != "equal":
        items = pd.concat(group_items_with_plan_weights(evidence).values())
        weight = weight * scores[ITEM].merge(items, on=ITEM, how="left")["weight"].to_numpy()
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
    caution = FEW_RATERS if len(counts) < SURE_RATERS else ""
    return explain_too_few_raters(counts, FEWEST_RATERS), caution


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
    basis = f"{row.comparisons:,} comparisons of {count_in_words(row.units, row.unit)}"
    return f"{basis}; any difference: {difference}. {capitalise(row.note)}".strip()
