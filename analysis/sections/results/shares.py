"""Win shares: how often each method was preferred, with interval, test and corrected p."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Self, TypeVar

import pandas as pd

from analysis.evidence import ALL, CORRECTION_NAMES, SHARE_KEYS, Evidence, declare_plan_keys
from analysis.scores.scores import (
    ResultKey,
    UnitScores,
    count_wins_ties_losses,
    group_by_raters,
    group_by_result,
)
from analysis.scores.win_share import (
    estimate_share_of_all_raters,
    estimate_share_of_these_raters,
    sum_scores_by_unit,
    warn_if_rater_weights_matter,
    weigh_items_by_precision,
)
from analysis.sections.section import (
    Cells,
    ComparisonRow,
    JudgedRow,
    Section,
    group_by,
    make_result_labels,
    make_table_of_first_rows,
    name_first_method,
)
from analysis.stats.proportion import run_pooled_binomial_test
from guard_eval.estimate import Estimate, adjust_p_values, explain_unreachable_alpha, join_notes
from guard_eval.joint_flips import compute_max_t_p
from guard_eval.records import PEOPLE_OF, Couple, record
from guard_eval.reporting.words import (
    KIND_PLACE,
    count_in_words,
    format_p,
    format_percent,
    format_share_limits,
    join_with_and,
    to_sentence,
)
from guard_eval.rubric import COMPOSITE

NO_EVIDENCE = "no evidence"
TOO_FEW = "too few {unit}s"
NO_TEST = "no test"
BALANCED = "nothing to test"
NO_CORRECTED_P = "no corrected p: too few differ, so it could never be small"
NOT_FIXED = (
    "comparisons stopped when they were decided, and no test or interval of a fixed number of prompts holds"
)
ONE_LOOK = (
    "the plan is sequential, and this p and interval hold for one look only; a report has the sequential test"
)
WEIGHTS = {"equal": "every pair weighs the same", "precision": "a pair weighs by its precision"}
NOTES = (
    "Share: wins plus half the ties, averaged over pairs. Wins, ties and losses are ratings.",
    "p is corrected in bold rows of the family, uncorrected elsewhere.",
)


@record
class TestedRow(ComparisonRow):
    """A result with a test whose p is corrected for all tests of the family.

    Attributes:
        p: The p-value before the correction.
        p_adjusted: The corrected p-value.
        family: The number of results in the family; 0 if this result is outside the family.
        note: A warning about the result.
    """

    p: float | None
    p_adjusted: float | None = None
    family: int = 0
    note: str = ""

    @property
    def deciding_p(self) -> float | None:
        """Return the p for the conclusion: corrected in the family, uncorrected outside the family."""
        return self.p_adjusted if self.family else self.p

    @property
    def smallest_possible_p(self) -> float:
        """Return the smallest possible p of the test, if it is known."""
        return 0.0

    def is_significant(self, alpha: float) -> bool:
        """Return whether the test rejects the null hypothesis, by `deciding_p`."""
        return self.deciding_p is not None and self.deciding_p <= alpha


@record
class ShareRow(TestedRow):
    """A result about a win share.

    Attributes:
        win_share: The share of `method_a`.
    """

    win_share: Annotated[Estimate, ""]

    @property
    def leader(self) -> str:
        """Return the method with the larger share; the first method if both are equal."""
        is_first = self.win_share.value is None or self.win_share.value >= 0.5
        return self.method_a if is_first else self.method_b

    @property
    def other_method(self) -> str:
        """Return the method that does not lead."""
        return self.method_b if self.leader == self.method_a else self.method_a

    def get_share_of(self, method: str) -> Estimate:
        """Return the share of one of the two methods, with limits."""
        share = self.win_share
        if method == self.method_a:
            return share
        value, low, high = (None if end is None else 1 - end for end in (share.value, share.high, share.low))
        return replace(share, value=value, low=low, high=high)


@record
class SignFlipRow(ShareRow):
    """A win share with a sign-flip test, or with a test whose p is at least as large.

    Attributes:
        smallest_p: The smallest p that is possible with these units.
        method: The name of the interval and the test.
    """

    smallest_p: float
    method: str

    @property
    def smallest_possible_p(self) -> float:
        """Return the smallest possible p of the test."""
        return self.smallest_p

    def withhold_unreachable_p(self, alpha: float) -> Self:
        """Return the row without p if p could never reach the error rate. A note then gives the reason."""
        why = "" if self.p is None else explain_unreachable_alpha(self.smallest_p, alpha)
        return replace(self, p=None, note=join_notes(self.note, why)) if why else self


@record
class CountedRow(SignFlipRow):
    """A win share with the numbers of pairs, raters, units and ratings.

    Attributes:
        pairs: The number of pairs.
        raters: The number of raters, if it is known.
        unit: The unit that the test treats as independent: `prompt` or `pair`.
        units: The number of units.
        wins: The number of ratings for `method_a`.
        ties: The number of ties.
        losses: The number of ratings for `method_b`.
    """

    pairs: int
    raters: int | None
    unit: str
    units: int
    wins: int
    ties: int
    losses: int


@record
class WinShareRow(CountedRow):
    """The win share of one result, over all datasets or in one dataset.

    Attributes:
        dataset: The dataset, or `all datasets`.
        verdicts: The number of verdicts. A rater who judged a pair twice gave two verdicts.
        level: The confidence level.
        standard_error: The standard error behind the interval.
        df: The degrees of freedom of the interval.
        correction: The correction for the number of tests.
        win_share_pooled: The share over all ratings, computed as in the GUARD paper.
        p_pooled_binomial: The p of the GUARD paper's test, which treats ratings as independent.
    """

    dataset: str
    verdicts: int
    level: float
    standard_error: float | None
    df: float | None
    correction: str
    win_share_pooled: float
    p_pooled_binomial: float | None

    @property
    def ratings(self) -> int:
        """Return the number of ratings."""
        return self.wins + self.ties + self.losses


@record
class CoverageRow(JudgedRow):
    """The number of raters, pairs and ratings of people, or of one judge.

    Attributes:
        raters, pairs, units, ratings, criteria: The numbers of raters, pairs, and so on.
        unit: The unit that is treated as independent: `prompt` or `pair`.
        first_day: The day of the first verdict, if the table has times.
        last_day: The day of the last verdict.
    """

    raters: int | None
    pairs: int
    unit: str
    units: int
    ratings: int
    criteria: int
    first_day: str | None
    last_day: str | None


T = TypeVar("T", bound=TestedRow)
declare_share_keys = declare_plan_keys(*SHARE_KEYS, "sequential")


@declare_share_keys
def measure_total_shares(evidence: Evidence) -> list[WinShareRow]:
    """Return win shares over all datasets: a row per comparison and criterion, for people and for each judge.

    People's rows and each judge's rows are corrected separately: for the planned results that they judged or,
    without a plan, for all their results. `p` is uncorrected.
    """
    scores = dict(group_by_result(evidence.scored.scores))
    items = group_items_with_plan_weights(evidence)
    rows = [_make_share_row(evidence, key, ALL, rated, items[key]) for key, rated in scores.items()]
    rows.sort(key=make_plan_sort_key(evidence))
    corrected = correct_p_values(
        rows,
        evidence,
        further_tests=len(evidence.context.by),
        flipped_scores=[sum_scores_by_unit(items[row.key]) for row in rows]
        if evidence.plan.correction == "max-t"
        else (),
    )
    return [row.withhold_unreachable_p(evidence.plan.alpha) for row in corrected]


@declare_share_keys
def measure_reported_shares(evidence: Evidence) -> Iterator[WinShareRow]:
    """Return win shares over all datasets, and by dataset for the comparisons that are shown in full."""
    return _measure_shares_by_dataset(evidence, evidence.detailed_comparisons)


@declare_share_keys
def measure_all_shares(evidence: Evidence) -> Iterator[WinShareRow]:
    """Return win shares with intervals and p: a row per comparison, criterion and dataset."""
    return _measure_shares_by_dataset(evidence, evidence.comparisons)


def _measure_shares_by_dataset(evidence: Evidence, comparisons: Collection[Couple]) -> Iterator[WinShareRow]:
    """Yield win shares over all datasets, and for each of `comparisons` also the share in each dataset."""
    scores = dict(group_by_result(evidence.scored.scores))
    items = group_items_with_plan_weights(evidence)
    for total in evidence.rows(measure_total_shares):
        yield total
        rated = scores[total.key]
        pairs = items[total.key]
        datasets = sorted(pairs["dataset"].unique())
        if len(datasets) < 2 or total.methods not in comparisons:
            continue
        for name in datasets:
            of_dataset = rated[rated["dataset"] == name], pairs[pairs["dataset"] == name]
            row = _make_share_row(evidence, total.key, str(name), *of_dataset)
            yield row.withhold_unreachable_p(evidence.plan.alpha)


def group_items_with_plan_weights(evidence: Evidence) -> dict[ResultKey, pd.DataFrame]:
    """Return the items of each result, with weights if the plan declares weights."""
    items = dict(group_by_result(evidence.scored.items))
    if evidence.plan.weights == "equal":
        return items
    scores = dict(group_by_result(evidence.scored.scores))
    return {key: weigh_items_by_precision(pairs, scores[key]) for key, pairs in items.items()}


def _make_share_row(
    evidence: Evidence, key: ResultKey, dataset: str, scores: pd.DataFrame, items: pd.DataFrame
) -> WinShareRow:
    """Return the win share of one result, over all datasets or in one dataset."""
    share = fixed = estimate_share_of_these_raters(items, level=evidence.plan.level)
    fewest, largest = int(items["raters"].min()), int(items["raters"].max())
    uneven = f"pairs have between {fewest} and {largest} raters; {WEIGHTS[evidence.plan.weights]}"
    notes = [uneven if fewest < largest else ""]
    if evidence.plan.raters == "random" and key.rater_kind not in PEOPLE_OF:
        share = estimate_share_of_all_raters(scores, items, share)
        notes.append(warn_if_rater_weights_matter(scores, share))
    if evidence.has_early_stopping:
        share = replace(share, p=None, low=None, high=None, smallest_p=0.0)
        notes.append(NOT_FIXED)
    if evidence.plan.sequential:
        notes.append(ONE_LOOK)
    wins, ties, losses = count_wins_ties_losses(scores)
    pooled = run_pooled_binomial_test(wins, losses)
    smallest = 1.0 if evidence.has_early_stopping else pooled.smallest_p
    return WinShareRow(
        *key,
        dataset=dataset,
        pairs=len(items),
        raters=evidence.count_raters(scores),
        unit=fixed.unit,
        units=fixed.n,
        verdicts=int(scores["verdicts"].sum()),
        wins=wins,
        ties=ties,
        losses=losses,
        win_share=share,
        level=evidence.plan.level,
        standard_error=share.error,
        df=share.df,
        p=share.p,
        smallest_p=share.smallest_p,
        method=share.method,
        correction=CORRECTION_NAMES[evidence.plan.correction],
        win_share_pooled=(wins + ties / 2) / len(scores),
        p_pooled_binomial=None if explain_unreachable_alpha(smallest, evidence.plan.alpha) else pooled.p,
        note=join_notes(*notes, share.note),
    )


def make_plan_sort_key(evidence: Evidence) -> Callable[[ComparisonRow], tuple[object, ...]]:
    """Return a sort key: people before judges, then planned results in the order of the plan."""
    numbers = {result: number for number, result in enumerate(evidence.context.planned or ())}

    def make_key(row: ComparisonRow) -> tuple[object, ...]:
        number = numbers.get((*row.methods, row.criterion), len(numbers))
        is_criterion = row.criterion != COMPOSITE
        who = (KIND_PLACE[row.rater_kind], row.judge)
        return (*who, number, *row.methods, is_criterion, row.criterion)

    return make_key


def correct_p_values(
    rows: Sequence[T],
    evidence: Evidence,
    *,
    flipped_scores: Sequence[pd.Series] = (),
    further_tests: float = 0,
) -> list[T]:
    """Add the corrected p and the size of the family to rows over all datasets.

    Args:
        rows: The rows. People's rows and each judge's rows are corrected separately.
        evidence: The evidence. The plan in it names the family and the correction.
        flipped_scores: For max-T: the scores by unit whose signs each test flips. Holm corrects other tests.
        further_tests: The number of other tests in the family for each row. They count as if their p were 1,
            so the correction is valid for any result of these tests.
    """
    planned = evidence.context.planned
    corrected = list(rows)
    declared = [
        index for index, row in enumerate(rows) if planned is None or (*row.methods, row.criterion) in planned
    ]
    for family in group_by(declared, lambda index: rows[index].rater_group).values():
        others = round(further_tests * len(family))
        adjusted = adjust_p_values(
            [*(rows[index].p for index in family), *[None] * others],
            evidence.adjustment,
            smallest_p_values=[*(rows[index].smallest_possible_p for index in family), *[1.0] * others],
            alpha=evidence.plan.alpha,
        )
        values = adjusted[: len(family)]
        if flipped_scores:
            scores = pd.concat([flipped_scores[index] for index in family], axis=1).fillna(0.0)
            drawn = compute_max_t_p(scores.to_numpy(), seed=evidence.seed)
            # Holm's p is an upper bound without random draws; no corrected p is below the uncorrected p.
            values = [
                None if value is None else max(rows[index].p or 0.0, min(value, p * (1 + further_tests)))
                for index, value, p in zip(family, values, drawn, strict=True)
            ]
        for index, value in zip(family, values, strict=True):
            row = rows[index]
            why = NO_CORRECTED_P if row.p is not None and value is None else ""
            note = join_notes(row.note, why)
            corrected[index] = replace(row, p_adjusted=value, family=len(family) + others, note=note)
    return corrected


@declare_plan_keys("panel")
def count_pairs_and_ratings(evidence: Evidence) -> Iterator[CoverageRow]:
    """Count the pairs and ratings of people and of each judge."""
    frame = evidence.frame
    scores = evidence.scored.scores
    pair = ["method_a", "method_b", "pair_id"]
    for (kind, judge), group in group_by_raters(scores, "judge"):
        is_by_them = (frame["rater_kind"] == kind) & frame["rater"].isin(set(group["rater"]))
        times = frame[is_by_them].get("at", pd.Series(dtype=object)).dropna().unique()
        days = {str(time)[:10] for time in times} - {""}
        yield CoverageRow(
            kind,
            judge,
            raters=evidence.count_raters(group),
            pairs=len(group[pair].drop_duplicates()),
            unit=UnitScores.from_items(group).name,
            units=int(group["unit"].nunique()),
            ratings=len(group[["rater", *pair]].drop_duplicates()),
            criteria=len(set(group["criterion"]) - {COMPOSITE}),
            first_day=min(days, default=None),
            last_day=max(days, default=None),
        )


def choose_conclusion(row: TestedRow, alpha: float) -> str:
    """Return the conclusion of a test, such as "evidence". `TOO_FEW` contains the placeholder "{unit}"."""
    p = row.deciding_p
    if p is not None and p > alpha:
        return NO_EVIDENCE
    if p is not None:
        return "strong evidence" if p <= alpha / 50 else "evidence"
    if not isinstance(row, WinShareRow):
        return NO_TEST
    # The smallest p is 1 if at most one unit favours a method. If one unit does, the share is not one half.
    share = row.win_share.value
    if row.smallest_p >= 1 and share is not None and abs(share - 0.5) < 1e-9:
        return BALANCED
    is_unreachable = explain_unreachable_alpha(row.smallest_p, alpha) or "no corrected p" in row.note
    return TOO_FEW if is_unreachable else NO_TEST


def describe_conclusion(row: TestedRow, alpha: float) -> str:
    """Return the conclusion of a test for readers, with the unit of the row in place of "{unit}"."""
    unit = row.unit if isinstance(row, WinShareRow) else "unit"
    return choose_conclusion(row, alpha).format(unit=unit)


def format_p_or_reason(row: TestedRow, alpha: float) -> str:
    """Return the deciding p as text, or the reason why there is none."""
    return describe_conclusion(row, alpha) if row.deciding_p is None else format_p(row.deciding_p)


def make_share_cells(
    row: ShareRow, alpha: float, first_method: str = "", p_heading: str = "p"
) -> dict[str, str]:
    """Return the cells for the share of a row, its interval and its p.

    Args:
        row: The row.
        alpha: The error rate.
        first_method: The method whose share is given, if the heading names this method.
        p_heading: The heading of the p-values.
    """
    return {
        f"Share of {first_method}" if first_method else "Win share": format_percent(row.win_share.value),
        "Interval": format_share_limits(row.win_share),
        p_heading: format_p_or_reason(row, alpha),
    }


def make_share_and_count_cells(row: WinShareRow, alpha: float, first_method: str) -> Cells:
    """Return the cells for the share of a row, its interval, its p, and the numbers of ratings."""
    share = make_share_cells(row, alpha, first_method)
    return {**share, "Wins": row.wins, "Ties": row.ties, "Losses": row.losses}


def describe_sequential_plan(evidence: Evidence) -> list[str]:
    """Return a note for tables of tests that hold for one look only, if the plan declares several looks."""
    return [to_sentence(ONE_LOOK)] if evidence.plan.sequential else []


def make_section(evidence: Evidence) -> Section | None:
    """Make the section "What are the figures?", a table of the win shares."""
    rows = evidence.rows(measure_reported_shares)
    # With many methods, the page has the requested comparison or the totals.
    on_page = [row for row in rows if not evidence.is_ranked or row.dataset == ALL]
    if evidence.context.compare:
        on_page = [row for row in rows if row.methods == evidence.detailed_comparisons[0]]
    first = name_first_method(on_page)
    table = make_table_of_first_rows(
        on_page,
        lambda row: {**make_result_labels(row), "Dataset": row.dataset},
        lambda row: make_share_and_count_cells(row, evidence.plan.alpha, first),
        csv_name="win_shares",
        caption="Win shares",
        is_emphasised=lambda row: row.family > 0,
    )
    names = sorted({row.dataset for row in rows} - {ALL})
    by_dataset = f", by dataset ({join_with_and(names)})" if names and not evidence.is_ranked else ""
    return Section(
        anchor="shares",
        question="What are the figures?",
        answer=f"{count_in_words(len(evidence.rows(measure_total_shares)), 'result')}{by_dataset}",
        notes=(*NOTES, *describe_sequential_plan(evidence)),
        tables=table,
    )
