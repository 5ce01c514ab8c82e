"""What holds for every analysis: kinds apart, any order of rows, prompts and pairs, an unchanged table."""

from dataclasses import replace

import pandas as pd
import pytest
from verdicts_by_hand import COMPARED, drawn_verdicts

from analysis.planning.pilot import pilot_rows
from analysis.results.agreement import agreement_rows
from analysis.results.bias import length_rows, order_rows, position_rows
from analysis.results.judges.judge_agreement import beside_rows, judge_rows
from analysis.results.population import population_rows
from analysis.results.ranking import ranking_rows
from analysis.results.raters import rater_rows
from analysis.results.sensitivity import sensitivity_rows
from analysis.results.sequential import sequential_rows
from analysis.results.shares import share_rows
from analysis.verdicts.scores import ScoredVerdicts
from analysis.verdicts.tidy import validate


def few_rankings(verdicts):
    return ranking_rows(verdicts, replicates=20)


WITHIN_A_KIND = (
    share_rows,
    agreement_rows,
    length_rows,
    position_rows,
    order_rows,
    rater_rows,
    sensitivity_rows,
    few_rankings,
    population_rows,
    sequential_rows,
)
ANALYSES = (*WITHIN_A_KIND, judge_rows, beside_rows)


@pytest.fixture(scope="module")
def table():
    return validate(drawn_verdicts(prompts=12, compared=COMPARED))


@pytest.mark.parametrize("analysis", WITHIN_A_KIND)
def test_kinds_are_never_pooled_and_people_come_first(analysis, table):
    person = table["rater_kind"] == "person"
    apart = [row for rows in (table[person], table[~person]) for row in analysis(validate(rows))]
    assert repr(analysis(table)) == repr(tuple(apart))
    assert {row.rater_kind for row in apart} == {"person", "model"}


# Where no times are known the rows decide the order of items; sums of a fit differ in the last digit.
@pytest.mark.parametrize(
    "analysis", [one for one in ANALYSES if one not in (sequential_rows, sensitivity_rows)]
)
def test_the_order_of_rows_does_not_matter(analysis, table):
    assert repr(analysis(table.sample(frac=1, random_state=1))) == repr(analysis(table))


@pytest.mark.parametrize("analysis", [*ANALYSES, pilot_rows])
def test_one_pair_per_prompt_gives_the_numbers_by_pair_to_the_last_digit(analysis):
    named = validate(drawn_verdicts(prompts=36, compared=COMPARED))
    # In one comparison a prompt has one pair; a ranking is over all of them, so there it gets one each.
    named["prompt_id"] = named["pair_id"]
    by_pair, by_prompt = analysis(named.drop(columns="prompt_id")), analysis(named)
    assert len(by_pair)
    for one, other in zip(by_pair, by_prompt, strict=True):
        known = {"unit": one.unit} if hasattr(one, "unit") else {}
        assert repr(replace(other, **known)) == repr(one)


def test_no_analysis_changes_the_table_it_shares_with_the_others(table):
    scored = ScoredVerdicts.of(table)
    before = [one.copy(deep=True) for one in (scored.frame, scored.scores, scored.items)]
    shared = [repr(analysis(scored)) for analysis in (*ANALYSES, *ANALYSES)]
    for one, other in zip(before, (scored.frame, scored.scores, scored.items), strict=True):
        pd.testing.assert_frame_equal(one, other)
    assert shared == 2 * [repr(analysis(table)) for analysis in ANALYSES]
