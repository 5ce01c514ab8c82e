"""GPT-4's verdicts: the printed tables are compared with the published 150 × 6 verdicts."""

import csv
import inspect
import re
from collections import Counter
from itertools import product
from typing import get_args

import pytest
from paper_data import (
    ACS,
    CRITERIA,
    DATA,
    DATASETS,
    GUARD,
    Counts,
    count_judge_verdicts,
    count_verdict_patterns,
    find_figure,
    find_figures,
    name_counts,
    read_human_counts,
)
from scipy import stats

from analysis.replication.paper import find_paper_table
from analysis.stats.printed import are_percentages_possible, find_possible_counts, round_percentage

pytestmark = pytest.mark.slow

TABLE, BESIDE = "tab:llm_judgements", "tab:llm_with_human"
PAIRS = 150
SMALLER = (60, 120)  # numbers of verdicts that fit the columns for Top-k and Top-p
OPPONENTS = tuple(dict.fromkeys(f.versus for f in find_figures(TABLE) if f.strategy == GUARD))
PLACES = (*DATASETS, "All")


def test_verdict_patterns_equal_the_published_verdicts():
    file = DATA / "judgments" / "guard_llm_gpt4.csv"
    if not file.is_file():
        pytest.skip(f"{file} is not here: the verdicts do not lie in the repository, only their counts")
    code = {"GUARD": 1, "tie": 0, "ACS": -1}
    sheets = {}
    with file.open(encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            dataset = {"wikitext": "Wikitext", "wikinews": "Wikinews", "book": "BookCorpus"}[row["dataset"]]
            sheets.setdefault((dataset, row["pair_id"]), {})[row["criterion"]] = code[row["verdict"]]
    counted = Counter((dataset, tuple(sheet[c] for c in CRITERIA)) for (dataset, _), sheet in sheets.items())
    assert counted == {(dataset, verdicts): pairs for dataset, verdicts, pairs in count_verdict_patterns()}


def find_row(versus, criterion):
    """Return GUARD's wins, the rival's wins, and ties, as printed."""
    cells = ((GUARD, versus, "win"), (versus, GUARD, "win"), (GUARD, versus, "tie"))
    return tuple(
        find_figure(TABLE, strategy=strategy, versus=other, metric=f"judge.{criterion}.{what}").value
        for strategy, other, what in cells
    )


def test_published_verdicts_give_the_judges_figures(claim):
    """win shares of GUARD and ACS by GPT-4, over all datasets and per dataset
    (tab:llm_judgements, tab:llm_with_human)"""
    right = []
    for criterion in ("overall", *CRITERIA):
        result = count_judge_verdicts(criterion)
        cells = zip((result.wins, result.losses, result.ties), find_row(ACS, criterion), strict=True)
        right += [count in find_possible_counts(text, result.n) for count, text in cells]
    for criterion, dataset in product(("coherence", "fluency"), PLACES):
        result = count_judge_verdicts(criterion, dataset)
        for (strategy, what), count in name_counts(result).items():
            metric = f"judge.{criterion}.{what}"
            text = find_figure(BESIDE, dataset=dataset, strategy=strategy, metric=metric).value
            right.append(count in find_possible_counts(text, result.n))
    claim.holds(f"{sum(right)} of {len(right)} figures are what the published verdicts give")
    assert right == [True] * 45
    assert count_judge_verdicts("fluency") == Counts(wins=61, ties=36, losses=53)  # 40.7, 24.0, 35.3 % of 150


def test_no_gpt_4_model_can_be_asked_again(claim):
    """GPT-4 judges the pairs (sec:exp_setup)"""
    chat_model = pytest.importorskip(
        "openai.types.shared.chat_model", reason="the judge's SDK names the dates"
    )
    text = " ".join(inspect.getsource(chat_model).split())
    ends = {}
    for names, day in re.findall(r'- ((?:"[^"]+",? ?)+): Announced shutdown date: (\d{4}-\d\d-\d\d)', text):
        ends |= dict.fromkeys(re.findall(r'"([^"]+)"', names), day)
    models = {name for name in get_args(chat_model.ChatModel) if re.match(r"gpt-4(?:-|$)", name)}
    last = max(ends[name] for name in models)
    claim.fails(f"none of {len(models)} models called gpt-4 is on sale after {last}")
    assert last == "2026-10-23"
    model = find_paper_table("llm").make_study_tables()["judge"][0]["model"]
    assert model == "gpt-6.1-sol"
    assert model in get_args(chat_model.ChatModel)


def test_overall_row_is_the_mean_of_six_criteria(claim):
    """a row “Overall” for each opponent (tab:llm_judgements)"""
    off = []
    for versus in OPPONENTS:
        columns = zip(*(map(float, find_row(versus, criterion)) for criterion in CRITERIA), strict=True)
        printed_shares = map(float, find_row(versus, "overall"))
        off += [abs(sum(column) / 6 - value) for column, value in zip(columns, printed_shares, strict=True)]
    claim.holds(
        "it is the mean of the six criteria, factuality among them, to within "
        f"{max(off):.2f} points for all three opponents"
    )
    assert max(off) < 0.1


def describe_top_p():
    """Describe the p-value of GUARD's 60 : 40 against Top-p for each possible number of verdicts."""
    return ", ".join(
        f"n = {n} gives p = {Counts(wins=n * 60 // 100, ties=0, losses=n * 40 // 100).p_value:.2g}"
        for n in (*SMALLER, PAIRS)
    )


def test_judge_does_not_distinguish_guard_and_acs(claim):
    """by GPT-4 GUARD “outperforms all three competitors in five out of six metrics”, ACS among them
    (sec:results)"""
    p_values = {criterion: count_judge_verdicts(criterion).p_value for criterion in CRITERIA}
    least = min(p_values, key=p_values.get)
    claim.fails(
        "against ACS no criterion differs by more than chance would have it: p = "
        + ", ".join(f"{criterion} {p_value:.2f}" for criterion, p_value in p_values.items())
    )
    assert least == "factuality"
    assert all(p_value > 0.05 for p_value in p_values.values())
    result = count_judge_verdicts("coherence")  # by another program: twice the smaller tail
    tail = stats.binom.cdf(min(result.wins, result.losses), result.wins + result.losses, 0.5)
    assert p_values["coherence"] == pytest.approx(2 * tail)


def test_five_criteria_of_the_judge_nearly_always_agree(claim):
    """six core metrics are measured (sec:exp_setup)"""
    sheets = [
        (dict(zip(CRITERIA, verdicts, strict=True)), pairs) for _, verdicts, pairs in count_verdict_patterns()
    ]
    same = sum(n for sheet, n in sheets if len({sheet[c] for c in CRITERIA if c != "factuality"}) == 1)
    against = sum(n for sheet, n in sheets if (sheet["factuality"], sheet["coherence"]) == (-1, 1))
    claim.fails(
        f"on {same} of {PAIRS} pairs the five besides factuality carry one and the same verdict: "
        "they are close to one measurement reported five times"
    )
    assert same == 140
    assert against > 0


def find_nearest_percentage(percentage):
    return max(round_percentage(round(float(percentage) * PAIRS / 100), PAIRS, decimals=1))


def test_150_verdicts_cannot_give_shares_of_two_rivals(claim):
    """“for n = 150 continuations” (tab:llm_judgements)"""
    impossible, common = [], {}
    for versus in OPPONENTS:
        rows = {criterion: find_row(versus, criterion) for criterion in CRITERIA}
        impossible += [
            f"{versus}, {criterion}: {cell} (nearest {find_nearest_percentage(cell)})"
            for criterion, cells in rows.items()
            for cell in cells
            if not find_possible_counts(cell, PAIRS)
        ]
        common[versus] = [
            n
            for n in range(1, PAIRS + 1)
            if all(are_percentages_possible(cells, n) for cells in rows.values())
        ]
    claim.fails(f"impossible as shares of 150: {'; '.join(impossible)}", quoted=describe_top_p())
    assert list(common.values()) == [[150], [60, 120], [60, 120]]
    for versus in OPPONENTS[1:]:
        # 79/120 = 65.83 and 59/120 = 49.17 are no counts of 60; pooled over six criteria, n is 360.
        shares = find_row(versus, "overall")
        possible = [n for n in (60, 120, 150, 360, 720, 900) if are_percentages_possible(shares, n)]
        assert possible == [120, 360, 720]


def test_ticks_of_agreement_follow_from_the_counts(claim):
    """“Agree?”: 6 ticks and 2 crosses (tab:llm_with_human)"""
    agree, printed_shares = {}, {}
    for cell in product(("coherence", "fluency"), PLACES):
        people, judge = read_human_counts(*cell), count_judge_verdicts(*cell)
        agree[cell] = (people.lead > 0) == (judge.lead > 0) and judge.lead != 0
        printed_shares[cell] = (
            find_figure(BESIDE, dataset=cell[1], metric=f"both.{cell[0]}.agree").value == "yes"
        )
    claim.holds("all 8 follow from the counts, if to agree is that both have the same one method ahead")
    assert agree == printed_shares
    assert Counter(agree.values()) == {True: 6, False: 2}
