"""Does the result depend on a column of the table, such as the genre, the language or the length?"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace

import numpy as np
import pandas as pd

from analysis.evidence import Evidence, declare_plan_keys
from analysis.scores.scores import compute_mean_scores, group_by_result, score_items
from analysis.sections.results.shares import (
    CountedRow,
    TestedRow,
    correct_p_values,
    describe_sequential_plan,
    make_share_cells,
    measure_total_shares,
)
from analysis.sections.section import (
    Section,
    make_result_labels,
    make_table_of_first_rows,
    name_first_method,
    select_first_notes,
)
from analysis.stats.interaction import run_interaction_test
from analysis.verdicts.reading import get_reading
from analysis.verdicts.table import HEADINGS, KNOWN, STORED, convert_to_texts, has_named_raters
from guard_eval.errors import StudyError, suggest_nearest_word
from guard_eval.estimate import Estimate
from guard_eval.files.headings import simplify_heading, split_heading_words
from guard_eval.records import PEOPLE_OF, SPLITTING, record
from guard_eval.reporting.words import (
    count_in_words,
    find_criterion_title,
    format_p,
    format_p_in_sentence,
    format_percent,
    join_distinct_names,
    join_with_and,
)

MAX_VALUES = 12
"""If a column has more distinct values, numbers are split into thirds and a column of texts is refused."""
_THIRDS = 3
PAIR = ["dataset", "pair_id"]
RATED_COLUMNS = (KNOWN | STORED) - SPLITTING
"""Columns that describe the comparison or the rating, and cannot split results."""
NOTES = (
    "p is corrected over all rows of a table, and that of a declared interaction for the results, too.",
    "A difference at one value and none at another is no evidence that they differ; the interaction is.",
)


@record
class ValueRow(CountedRow):
    """The win share of one result, from the verdicts with one value of a column.

    Attributes:
        column: The column.
        value: The value of the column.
    """

    column: str
    value: str


@record
class InteractionRow(TestedRow):
    """A test whether the win share of one result depends on a column.

    Attributes:
        column: The column.
        groups: The number of values of the column.
        units: The number of units.
        method: The test.
    """

    column: str
    groups: int
    units: int
    method: str


def find_split_column(frame: pd.DataFrame, heading: str) -> str:
    """Find a column of a validated table by its heading in the table or in the file.

    Raises:
        StudyError: No column has this heading, or the column describes how pairs were rated.
    """
    roles = {role.column: role.role for role in get_reading(frame).roles if role.role in frame.columns}
    columns = roles | {str(name): str(name) for name in frame.columns}
    allowed = {text: name for text, name in columns.items() if text and name not in RATED_COLUMNS}
    name = columns.get(heading, "")
    why = ""
    if heading not in columns:
        why = "the table has no such column"
    elif heading not in allowed or (
        name not in SPLITTING
        and (
            all(_varies_within_equal_keys(frame, name, keys) for keys in (PAIR, ["rater"]))
            or (not _varies_within_equal_keys(frame, "rater", PAIR) and _is_about_verdicts(name))
        )
    ):
        why = "this column describes the ratings, not the pairs or the raters, so it cannot split results"
    elif name == "rater" and not has_named_raters(frame):
        why = (
            "the table does not say which rater gave which verdict; if a column names the raters, declare "
            "it: --set columns.rater=HEADING"
        )
    elif frame[name].isna().all():
        why = "the column is empty"
    if why:
        others = sorted(set(allowed) - {heading})
        raise StudyError(f"--by {heading}: {why}; {suggest_nearest_word(heading, others)}")
    return name


def _is_about_verdicts(heading: str) -> bool:
    """Return whether a heading names what raters say beside a verdict. One rater's cells cannot tell."""
    words = (simplify_heading(heading), *split_heading_words(heading))
    return any(re.fullmatch(HEADINGS["about_verdicts"], word) for word in words)


def _varies_within_equal_keys(frame: pd.DataFrame, column: str, keys: list[str]) -> bool:
    """Return whether rows with the same keys have different values in a column."""
    return bool(frame.groupby(keys, observed=True)[column].nunique().gt(1).any())


def list_split_columns(evidence: Evidence) -> tuple[str, ...]:
    """Return the columns by which results are split: the declared columns, then those chosen later."""
    return (*evidence.context.by, *evidence.context.explored)


ONLY_THESE_RATERS = (
    'with raters = "random" only a property of the raters can be tested; remove this setting for a test that '
    "is about these raters"
)
NO_WEIGHTS = "the test of a column gives every pair the same weight; remove weights, or remove by"


@declare_plan_keys(
    "alpha", "correction", "weights", "raters", "composite", "sequential", needs=list_split_columns
)
def measure_shares_by_column_value(evidence: Evidence) -> list[ValueRow]:
    """Return the win shares for each value of each split column. All p-values are corrected together."""
    names = {field.name for field in fields(CountedRow)} - {"p_adjusted", "family"}
    rows = [
        ValueRow(**{name: getattr(row, name) for name in names}, column=column, value=value)
        for column in list_split_columns(evidence)
        for value, subset in _split_evidence_by_value(evidence, column)
        for row in subset.rows(measure_total_shares)
    ]
    return correct_p_values(rows, evidence)


@declare_plan_keys(
    "correction", "raters", "composite", refuses={"weights": NO_WEIGHTS}, needs=list_split_columns
)
def run_interaction_tests(evidence: Evidence) -> list[InteractionRow]:
    """Test for each result and column whether the share depends on the column.

    Tests of declared columns belong to the family of the declared results. Tests of other columns are
    corrected together, outside that family.
    """
    if evidence.has_early_stopping:
        return []
    rows = []
    for column in list_split_columns(evidence):
        subsets = [
            dict(group_by_result(subset.scored.scores))
            for _, subset in _split_evidence_by_value(evidence, column)
        ]
        # The question whether the raters differ is about these raters in any plan.
        is_about_all = evidence.plan.raters == "random" and column != "rater"
        for key, whole in group_by_result(evidence.scored.scores):
            rated = [subset[key] for subset in subsets if key in subset]
            if rated:
                is_sample = is_about_all and key.rater_kind not in PEOPLE_OF
                run_test = _test_exchange_of_raters if is_sample else _test_exchange_of_prompts
                test = run_test(_join_scores_with_value_numbers(whole, rated), evidence.seed)
                rows.append(
                    InteractionRow(
                        *key,
                        column=column,
                        groups=len(rated),
                        units=test.n,
                        method=test.method,
                        p=test.p,
                        note=test.note,
                    )
                )
    declared = evidence.context.by
    of_declared = [row for row in rows if row.column in declared]
    of_explored = [row for row in rows if row.column in evidence.context.explored]
    return [
        *correct_p_values(of_declared, evidence, further_tests=1 / max(1, len(declared))),
        *correct_p_values(of_explored, evidence),
    ]


def _join_scores_with_value_numbers(
    all_scores: pd.DataFrame, scores_by_value: Sequence[pd.DataFrame]
) -> pd.DataFrame:
    """Return all raters' scores of one result with the number of the column's value.

    Args:
        all_scores: The scores of the result, with the units of the whole table.
        scores_by_value: The scores for each value of the column.
    """
    unit_of = all_scores.groupby(PAIR, observed=True)["unit"].first()
    scores = pd.concat([group.assign(value=number) for number, group in enumerate(scores_by_value)])
    return scores.drop(columns="unit").join(unit_of, on=PAIR)


def _test_exchange_of_prompts(scores: pd.DataFrame, seed: int) -> Estimate:
    """Test whether these raters' shares depend on the value, by exchanging values of prompts."""
    items = [score_items(group).assign(value=value) for value, group in scores.groupby("value")]
    sums = pd.concat(items).groupby(["value", "unit"])["share"].agg(["sum", "size"]).reset_index()
    return run_interaction_test(sums["sum"], sums["size"], sums["value"], sums["unit"], seed=seed)


def _test_exchange_of_raters(scores: pd.DataFrame, seed: int) -> Estimate:
    """Test whether the shares of all raters depend on the value, by exchanging values of raters."""
    values_of_rater = scores.groupby("rater", observed=True)["value"].nunique()
    by_unit = scores.groupby("unit")[["rater", "value"]].nunique()
    # Raters with the same value have more in common if they alone rated the same prompts.
    have_own_prompts = by_unit["rater"].max() > 1 and by_unit["value"].max() == 1
    if values_of_rater.max() > 1 or have_own_prompts:
        return Estimate(n=len(values_of_rater), method="no test for all raters", note=ONLY_THESE_RATERS)
    rated = scores.assign(score=compute_mean_scores(scores))
    sums = rated.groupby(["value", "rater"], observed=True)["score"].agg(["sum", "size"]).reset_index()
    units = sums["rater"].astype(str)
    return run_interaction_test(sums["sum"], sums["size"], sums["value"], units, name="raters", seed=seed)


def _split_evidence_by_value(evidence: Evidence, column: str) -> Iterator[tuple[str, Evidence]]:
    """Yield each value of a column and the evidence with this value. Judges of a panel count separately."""
    values = _group_column_values(evidence.frame[column], column)
    plan = evidence.plan.model_copy(update={"panel": None})
    context = replace(evidence.context, plan=plan, by=(), explored=())
    for number, value in enumerate(values.categories):
        yield str(value), Evidence.from_verdicts(evidence.frame[values.codes == number], context)


def _group_column_values(cells: pd.Series, column: str) -> pd.Categorical:
    """Return the values of a column in order. Many different numbers are grouped into thirds.

    Raises:
        StudyError: The column has too many different texts.
    """
    texts = convert_to_texts(cells)
    numbers = pd.to_numeric(pd.Series(texts.categories), errors="coerce")
    if len(texts.categories) <= MAX_VALUES:
        are_numbers = numbers.notna().all()
        return texts.reorder_categories(sorted(texts.categories, key=float if are_numbers else str))
    if numbers.isna().any():
        raise StudyError(
            f"--by {column}: the column has {len(texts.categories)} different texts; group them into at most "
            f"{MAX_VALUES}"
        )
    numbers = pd.to_numeric(pd.Series(texts, dtype=object))
    codes = pd.qcut(numbers, _THIRDS, duplicates="drop").cat.codes.to_numpy()
    ranges = numbers.groupby(codes).agg(["min", "max"]).drop(index=-1, errors="ignore")
    names = [f"{round(low, 3):g} to {round(high, 3):g}" for low, high in ranges.itertuples(index=False)]
    return pd.Categorical(np.array([*names, None], dtype=object)[codes], categories=names)


def make_section(evidence: Evidence) -> Section | None:
    """Make the section "Does the result depend on these columns?"."""
    columns = list_split_columns(evidence)
    if not columns:
        return None
    rows = evidence.rows(measure_shares_by_column_value)
    tests = evidence.rows(run_interaction_tests)
    alpha = evidence.plan.alpha
    names = join_with_and(columns)
    first = name_first_method(rows)
    figures = make_table_of_first_rows(
        rows,
        lambda row: {**make_result_labels(row), "Column": row.column, "Value": row.value},
        lambda row: {**make_share_cells(row, alpha, first), "Units": row.units},
        csv_name="by_value",
        caption=f"Win shares by {names}",
    )
    dependence = make_table_of_first_rows(
        tests,
        lambda row: {**make_result_labels(row), "Column": row.column},
        lambda row: {"p of the interaction": format_p(row.deciding_p), "Values": row.groups},
        csv_name="interactions",
        caption=f"Does the share depend on {names}?",
    )
    claims = [
        _name_values_with_extreme_share(
            row, [value for value in rows if (value.key, value.column) == (row.key, row.column)]
        )
        for row in tests
        if row.column in evidence.context.by and row.is_significant(alpha)
    ]
    return Section(
        anchor="by",
        question=f"Does the result depend on {names}?",
        answer="; ".join(claims) or ("no evidence" if evidence.context.by else "not declared, so no claim"),
        notes=(*NOTES, *describe_sequential_plan(evidence), *_describe_split_columns(evidence, tests)),
        tables=(*figures, *dependence),
    )


def _describe_split_columns(evidence: Evidence, tests: Sequence[InteractionRow]) -> Iterator[str]:
    """Describe the test, the omitted verdicts, and the columns that cannot support a claim."""
    methods = join_distinct_names(row.method for row in tests)
    yield f"Interaction: {methods or 'not tested if comparisons stop early'}."
    yield from select_first_notes(row.note for row in tests)
    for name in list_split_columns(evidence):
        if missing := convert_to_texts(evidence.frame[name]).isna().sum():
            yield f"{count_in_words(missing, 'verdict')} without {name} are left out."
    if evidence.context.explored:
        yield f"Chosen after the plan, and no claim: {join_with_and(evidence.context.explored)}."


def _name_values_with_extreme_share(test: InteractionRow, values: Sequence[ValueRow]) -> str:
    """Name the value of a column with the first method's largest share, and that with its smallest share."""
    ranked = sorted(values, key=lambda row: row.win_share.value or 0.0)
    largest, smallest = (
        f"{format_percent(row.win_share.value, 0)} where {row.column} is {row.value}"
        for row in (ranked[-1], ranked[0])
    )
    p = format_p_in_sentence(test.deciding_p)
    return (
        f"{find_criterion_title(test.criterion)}: {test.method_a} has {largest}, {smallest}; interaction {p}"
    )
