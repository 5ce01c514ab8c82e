"""`check_claim`: figures of the paper, of a published table, and what is refused."""

import math
from pathlib import Path

import pytest
from paper_data import CRITERIA, count_judge_verdicts, read_human_counts
from scipy import stats

from analysis import agreement, check_claim, shares
from guard_eval.errors import StudyError

PUBLISHED = Path(__file__).parents[2].parent / "shared" / "data" / "judgments" / "cs_vs_cd_human.csv"
DATASETS = ("Wikitext", "Wikinews", "BookCorpus")


def counts_of(counts):
    return {"wins": counts.wins, "ties": counts.ties, "losses": counts.losses}


@pytest.mark.parametrize(
    ("criterion", "pooled", "clustered", "tolerated"),
    [("coherence", 2.875e-06, 0.002, 1.0), ("fluency", 0.01819, 0.13, 0.14)],
)
def test_check_reproduces_figures_of_errata(criterion, pooled, clustered, tolerated):
    checked = check_claim(**counts_of(read_human_counts(criterion)), raters=4, pairs=150, icc=0.41)
    (claim,) = checked.claims
    assert claim.pooled_p == pytest.approx(pooled, rel=1e-4)
    assert claim.p == pytest.approx(clustered, rel=0.03)
    assert claim.tolerated_icc == pytest.approx(tolerated, abs=0.005)


def test_check_counts_significant_results_after_holm():
    cells = [read_human_counts(criterion, dataset) for criterion in CRITERIA[:2] for dataset in DATASETS]
    also = tuple(f"{counts.wins},{counts.ties},{counts.losses}" for counts in cells[1:])
    checked = check_claim(**counts_of(cells[0]), also=also, raters=4, pairs=50)
    assert "3 of 6 are significant by the pooled test" in " ".join(checked.lines)
    # With the counts of one comparison alone the family counts: .01819 × 6 by Bonferroni.
    (claim,) = check_claim(**counts_of(read_human_counts("fluency")), raters=4, results=6).claims
    assert claim.pooled_p_adjusted == pytest.approx(0.01819 * 6, rel=1e-3)


def test_check_reproduces_judge_figures_of_errata():
    p_values = [
        check_claim(**counts_of(count_judge_verdicts(name)), raters=1).claims[0].pooled_p for name in CRITERIA
    ]
    assert min(p_values) == pytest.approx(0.08, abs=0.005)
    rows = ("56.7,0,43.3", "58.3,0,41.7", "0,100,0", "60.0,0,40.0")
    checked = check_claim(pairs=150, percentages=rows)
    assert checked.totals == (60, 120)
    assert [row.nearest for row in checked.printed if row.n == 150][1] == "58.0/0/42.0"
    highest_p = {row.n: row.highest_p for row in checked.printed if row.percentages == "60.0/0/40.0"}
    assert highest_p == {60: pytest.approx(0.155, abs=5e-4), 120: pytest.approx(0.0353, abs=5e-5),
                     150: pytest.approx(0.0176, abs=5e-5)}  # fmt: skip


def test_check_uses_effective_number_of_ratings():
    """Two ratings of a pair correlate by .5, so 4 are worth 1.6; and by 1, so 4 are worth one."""
    (claim,) = check_claim(wins=180, ties=140, losses=80, raters=4, pairs=100, icc=0.5).claims
    assert claim.win_share == 0.625
    assert claim.p == pytest.approx(stats.binomtest(72, 104).pvalue)
    assert claim.p_same == pytest.approx(stats.binomtest(45, 65).pvalue)


@pytest.mark.parametrize(("wins", "losses", "raters"), [(60, 40, 1), (64, 36, 2), (20, 0, 4), (51, 50, 3)])
def test_check_never_lowers_p_for_a_correlation(wins, losses, raters):
    options = {"wins": wins, "losses": losses, "ties": 20, "raters": raters}
    p_values = [check_claim(**options, icc=icc).claims[0].p for icc in (0, 0.2, 0.7, 1)]
    assert p_values == sorted(p_values)
    assert p_values[0] == pytest.approx(stats.binomtest(wins, wins + losses).pvalue)
    unanimous_pairs = stats.binomtest(wins // raters, wins // raters + losses // raters).pvalue
    assert p_values[-1] == pytest.approx(unanimous_pairs, rel=0.01)


def test_unanimous_ratings_have_a_largest_tolerated_correlation():
    (claim,) = check_claim(wins=20, ties=0, losses=0, raters=4, pairs=5).claims
    assert claim.p_same == pytest.approx(2 * 0.5**5)
    # 20 / (1 + 3 ρ) = 1 + log2(20) independent pairs reach .05.
    assert claim.tolerated_icc == pytest.approx((20 / (1 + math.log2(20)) - 1) / 3)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"raters": 4, "pairs": 600}, "600 ratings are not 4 raters × 600 pairs = 2,400"),
        ({"raters": 3, "pairs": 150}, "= 450: one of these figures is wrong."),
        ({"raters": 4}, "600 ratings by 4 raters are of 150 pairs."),
        ({"raters": 7}, "600 ratings by 7 raters are no whole number of pairs: some are missing."),
        ({"raters": 4}, "A win share of 57.92 % and a lead of 15.8 points"),
    ],
)
def test_check_compares_ratings_with_raters_and_pairs(options, sentence):
    lines = " ".join(check_claim(**counts_of(read_human_counts("coherence")), **options).lines)
    assert sentence in lines.replace("\u00a0", " ")


def test_each_comparison_has_its_own_ratings_per_pair():
    """140 ratings of 12 pairs are 11.7 a pair, also beside a comparison with one rating a pair."""
    design = {"raters": 1, "pairs": 12}
    alone = check_claim(wins=90, losses=50, **design)
    both = check_claim(wins=10, losses=2, also=("90,0,50",), **design)
    assert both.claims[1].p == alone.claims[0].p > 0.2
    assert alone.lines[0] in both.lines


def test_check_names_percentages_without_a_sum_of_100():
    """Each of 70, 20 and 11 is possible of 150, but 105, 30 and 16 make 151."""
    (table,) = check_claim(raters=3, pairs=50, percentages=("70,20,20", "70,20,11", "70.1,20,9.9")).tables
    words = [row[2] for row in table.rows if row[1] == 150]
    assert words == ["no; the sum is not 100", "no; not together", "no; nearest 70.0/20/10.0"]


@pytest.mark.parametrize("row", ["33.3,33.3,33.3", "0,0,100", "50,50"])
def test_check_gives_range_of_p_for_percentages(row):
    printed = check_claim(raters=1, pairs=3000, percentages=(row,)).printed[-1]
    expected = {"33.3,33.3,33.3": 1.0, "0,0,100": 0.0, "50,50": 1.0}[row]
    assert printed.is_possible
    assert printed.highest_p == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "counts of wins and of losses are needed"),
        ({"wins": 3}, "counts of wins and of losses are needed"),
        ({"wins": 3, "losses": 4}, "--raters is missing"),
        ({"wins": -3, "losses": 4, "raters": 1}, "whole numbers"),
        ({"wins": 0, "losses": 0, "raters": 1}, "whole numbers"),
        ({"wins": 3, "losses": 4, "raters": 0}, "at least 1"),
        ({"wins": 3, "losses": 4, "raters": 2.5}, "whole numbers"),
        ({"wins": 43.75, "losses": 21, "raters": 4}, "whole numbers"),
        ({"wins": 3, "losses": 4, "raters": 1, "icc": 1.5}, "--icc 1.5"),
        ({"wins": 3, "losses": 4, "raters": 1, "also": ("1,2",)}, "whole numbers"),
        ({"percentages": ("80,20",)}, "--raters is missing"),
        ({"percentages": ("80",), "pairs": 3}, "--percentages 80:"),
        ({"percentages": ("57,9,30,12",), "pairs": 3}, "two or three percentages with decimal points"),
        ({"percentages": ("180,20",), "pairs": 3}, "--percentages 180,20:"),
        ({"percentages": ("80,20",), "pairs": 10**9}, "1,000,000,000 ratings"),
    ],
)
def test_check_refuses_impossible_figures(options, problem):
    with pytest.raises(StudyError, match=problem):
        check_claim(**options)


@pytest.mark.skipif(not PUBLISHED.is_file(), reason="the published table is not in the repository")
def test_check_agrees_with_report_on_published_table():
    icc = agreement(PUBLISHED, rater_kind="person")["icc1"][0]
    row = next(shares(PUBLISHED, rater_kind="person").itertuples())
    counted = {"wins": row.wins, "ties": row.ties, "losses": row.losses}
    (claim,) = check_claim(**counted, raters=4, icc=icc).claims
    assert stats.norm.isf(claim.p / 2) == pytest.approx(stats.norm.isf(row.p / 2), rel=0.1)
