"""The human study's and the judge's checks by hand."""

import csv
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from analysis.core.simulation import Design
from guard_eval.replicate.checks import run
from guard_eval.replicate.checks.human_tests import error_rates
from guard_eval.replicate.checks.sources import CRITERIA, Counts, human_counts, judge_counts, verdict_patterns

ROOT = Path(__file__).parents[3]
GOLDEN = ROOT / "tests" / "golden" / "guard_human_counts_from_paper.csv"
GPT4 = ROOT.parent / "shared" / "data" / "judgments" / "guard_llm_gpt4.csv"
NAMES = {"wikitext": "Wikitext", "wikinews": "Wikinews", "book": "BookCorpus"}


def test_the_counts_are_the_published_ones():
    with GOLDEN.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            counts = human_counts(row["criterion"], NAMES[row["dataset"]])
            assert counts == Counts(
                wins=int(row["guard_wins"]), ties=int(row["ties"]), losses=int(row["acs_wins"])
            )


def test_shares_and_leads_by_hand():
    coherence = human_counts("coherence")
    assert (coherence.wins, coherence.ties, coherence.losses) == (251, 193, 156)
    assert coherence.share == pytest.approx(100 * 347.5 / 600)  # 57.92
    assert coherence.lead == pytest.approx(100 * 95 / 600)  # 15.8
    assert human_counts("fluency").lead == pytest.approx(100 * 34 / 600)  # 5.7


def test_the_pooled_binomial_errs_four_times_as_often_as_it_says():
    """Verdicts of a pair that are always the same: 4 ratings are 1, the variance is 4 times as large."""
    # P(|N(0, 2)| > 1.96) = 2 Φ(−0.98) = .327; the sign-flip test counts pairs.
    design = Design(items=150, raters=4, ties=0.32, agreement=0.98, model="Dirichlet-multinomial")
    pooled, by_item = error_rates(design, studies=400, seed=3)
    assert pooled == pytest.approx(0.32, abs=0.08)
    assert by_item < 0.09


def test_one_rater_leaves_the_binomial_its_level():
    pooled, by_item = error_rates(Design(items=150, raters=1, ties=0.32), studies=400, seed=4)
    assert max(pooled, by_item) < 0.09


def test_the_patterns_are_the_published_verdicts():
    assert sum(pairs for _, _, pairs in verdict_patterns()) == 150
    if not GPT4.is_file():
        pytest.skip(f"{GPT4} is not here: the verdicts do not lie in the repository, only their counts")
    code = {"GUARD": 1, "tie": 0, "ACS": -1}
    sheets: dict[str, dict[str, int]] = {}
    datasets = {}
    with GPT4.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            sheets.setdefault(row["pair_id"], {})[row["criterion"]] = code[row["verdict"]]
            datasets[row["pair_id"]] = NAMES[row["dataset"]]
    counted = Counter((datasets[pair], tuple(sheet[c] for c in CRITERIA)) for pair, sheet in sheets.items())
    assert counted == {(dataset, verdicts): pairs for dataset, verdicts, pairs in verdict_patterns()}


def test_the_judges_counts_by_hand():
    # tab:llm_judgements: 40.7, 35.3 and 24.0 % of 150 are 61, 53 and 36.
    assert judge_counts("fluency") == Counts(wins=61, ties=36, losses=53)
    # 34.3, 30.6 and 35.1 % of 900 verdicts.
    assert judge_counts("overall").n == 900
    assert round(100 * judge_counts("overall").wins / 900, 1) == 34.3


def test_the_judges_p_values_by_another_program():
    (check,) = run(["judge-evidence"])
    for criterion in CRITERIA:
        counts = judge_counts(criterion)
        wins, n = counts.wins, counts.wins + counts.losses
        # Twice the smaller tail: the distribution is symmetric.
        p_value = min(1, 2 * stats.binom.cdf(min(wins, n - wins), n, 0.5))
        assert f"{criterion} {p_value:.2f}" in check.found


def test_what_agreement_a_kappa_means():
    (check,) = run(["human-kappa"])
    # coherence: P_e = (251² + 193² + 156²)/600² = .346; P = .346 + .41 · .654 = .614
    margins = np.array([251, 193, 156]) / 600
    assert (margins**2).sum() == pytest.approx(0.3461, abs=1e-4)
    assert "coherence 61 %" in check.detail[0]
