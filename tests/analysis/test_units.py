"""The unit is the prompt wherever it is known: in tests, intervals and draws, and the report says so."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from verdicts_by_hand import COMPARED, drawn_verdicts

from analysis.reports.build import write_report
from analysis.reports.context import Context
from analysis.results.agreement import agreement_rows
from analysis.results.bias import length_rows, order_rows
from analysis.results.judges.judge_agreement import judge_rows
from analysis.results.ranking import ranking_rows
from analysis.results.sensitivity import sensitivity_rows
from analysis.results.sequential import sequential_rows
from analysis.results.shares import share_rows
from analysis.stats.intervals import item_mean
from analysis.stats.resampling import win_share_bootstrap
from analysis.verdicts.tidy import remarks, validate


def test_pairs_of_a_prompt_that_all_say_the_same_say_it_once():
    """Three copies of every pair are no further evidence: p, limits and e-values are those of one."""
    once, thrice = (validate(drawn_verdicts(copies=copies)) for copies in (1, 3))
    for one, other in zip(share_rows(once), share_rows(thrice), strict=True):
        assert other.items == 3 * one.items
        assert (other.unit, other.units) == ("prompt", one.items)
        assert other.test.p_value == pytest.approx(one.test.p_value, rel=1e-12)
        assert (other.share.estimate, other.share.low, other.share.high) == pytest.approx(
            (one.share.estimate, one.share.low, one.share.high)
        )
    for one, other in zip(agreement_rows(once), agreement_rows(thrice), strict=True):
        assert other.agreement.low == pytest.approx(one.agreement.low, nan_ok=True)
        assert (other.ac1.low, other.ac1.high) == pytest.approx((one.ac1.low, one.ac1.high), nan_ok=True)
        assert other.ac2.standard_error == pytest.approx(one.ac2.standard_error)
        for two, same in zip(one.pairs, other.pairs, strict=True):
            # Cohen's error has n below it where the clusters' has C − 1.
            wider = np.sqrt(40 / 39) * two.kappa.standard_error
            assert same.kappa.standard_error == pytest.approx(wider)


def test_nor_do_they_for_length_order_judges_and_looks():
    once, thrice = (validate(drawn_verdicts(copies=copies)) for copies in (1, 3))
    for one, other in zip(length_rows(once), length_rows(thrice), strict=True):
        for name in ("adjusted", "slope"):
            assert getattr(other.fit, name).low == pytest.approx(getattr(one.fit, name).low)
        assert other.fit.share_test.p_value == pytest.approx(one.fit.share_test.p_value)
    for one, other in zip(order_rows(once), order_rows(thrice), strict=True):
        assert other.result.test.p_value == pytest.approx(one.result.test.p_value)
        assert other.result.adjusted.low == pytest.approx(one.result.adjusted.low)
    for one, other in zip(sequential_rows(once), sequential_rows(thrice), strict=True):
        assert (other.unit, other.test.n) == ("prompt", one.test.n)
        assert other.test.p_value == pytest.approx(one.test.p_value)
        assert other.test.interval.high == pytest.approx(one.test.interval.high, abs=1e-6)
    (one,), (other,) = judge_rows(once), judge_rows(thrice)
    assert other.lean.p_value == pytest.approx(one.lean.p_value)
    for first, second in zip(one.alternative, other.alternative, strict=True):
        assert [a.p_value for a in second.annotators] == pytest.approx([a.p_value for a in first.annotators])


def test_nor_do_they_for_other_analyses():
    once, thrice = (validate(drawn_verdicts(copies=copies)) for copies in (1, 3))
    left, right = ({row.analysis: row for row in sensitivity_rows(frame)} for frame in (once, thrice))
    for name in (
        "majority of raters, sign test",
        "item means, Wilcoxon signed-rank",
        "ties dropped, sign-flip test",
    ):
        assert right[name].test.p_value == pytest.approx(left[name].test.p_value), name
    name = "item means, bootstrap stratified by dataset"
    assert right[name].interval.low == pytest.approx(left[name].interval.low)
    assert "over prompts" in right[name].interval.method
    name = "linear GEE"
    assert right[name].test.p_value == pytest.approx(left[name].test.p_value, rel=0.02)


def test_a_ranking_draws_the_pairs_of_a_prompt_together():
    once, thrice = (validate(drawn_verdicts(copies=copies, compared=COMPARED)) for copies in (1, 3))
    for frame in (once, thrice):
        row = ranking_rows(frame, replicates=60)[0]
        assert (row.unit, row.ranking.n) == ("prompts", 40)
    widths = []
    for frame in (once, thrice):
        strength = ranking_rows(frame, replicates=400)[0].ranking.strengths[0]
        widths.append(strength.high - strength.low)
    assert widths[1] == pytest.approx(widths[0], rel=0.05)


def enumerated(sums):
    """Return p of the sign-flip test by all sign patterns, in fractions of a thousandth."""
    whole = np.round(np.asarray(sums) * 1000).astype(int)
    patterns = np.array(list(product((-1, 1), repeat=len(whole))))
    return float((np.abs(patterns @ whole) >= abs(whole.sum())).mean())


@pytest.mark.parametrize("seed", range(6))
def test_the_signs_of_uneven_prompts_flip_together(seed):
    rng = np.random.default_rng(seed)
    rows, sums = [], np.zeros(8)
    for prompt in range(8):
        for pair in range(int(rng.integers(1, 5))):
            raters = int(rng.choice([1, 2, 4, 5]))
            answers = rng.choice(["x", "y", "tie"], size=raters, p=[0.5, 0.3, 0.2])
            sums[prompt] += ((answers == "x").sum() - (answers == "y").sum()) / raters
            rows += [
                {"pair_id": f"{prompt}.{pair}", "dataset": "d", "prompt_id": str(prompt), "method_a": "x"}
                | {"method_b": "y", "rater": f"r{rater}", "criterion": "c", "verdict": verdict}
                for rater, verdict in enumerate(answers)
            ]
    frame = validate(pd.DataFrame(rows))
    (row,) = share_rows(frame)
    assert row.test.p_value == pytest.approx(enumerated(sums))
    assert "the pairs of a prompt together" in row.test.method
    pairs = frame.assign(score=np.select([frame["verdict"] == "x", frame["verdict"] == "y"], [1.0, 0.0], 0.5))
    assert row.share.estimate == pytest.approx(pairs.groupby("pair_id")["score"].mean().mean())
    assert row.share.n == row.units == 8


def test_the_interval_of_equal_prompts_is_that_of_their_means():
    rng = np.random.default_rng(5)
    values = rng.random((12, 4))
    found = item_mean(values.ravel(), ["d"] * 48, clusters=np.repeat(np.arange(12), 4))
    by_hand = stats.ttest_1samp(values.mean(axis=1), 0.5).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((by_hand.low, by_hand.high))
    assert found.n == 12


def test_the_interval_of_uneven_prompts_is_cr2():
    """Against statsmodels' and clubSandwich's definition, written out: Σ (r_c / √(1 − n_c/n))² / n²."""
    sizes = np.array([1, 2, 3, 6])
    place = np.repeat(np.arange(4), sizes)
    values = np.random.default_rng(1).random(12)
    residuals = np.bincount(place, weights=values - values.mean())
    variance = (residuals**2 / (1 - sizes / 12)).sum() / 144
    # Degrees of freedom: (Σ λ)² / Σ λ² of the quadratic form's matrix, for independent items.
    rows = np.array([((place == c) - sizes[c] / 12) / np.sqrt(1 - sizes[c] / 12) for c in range(4)])
    gram = rows @ rows.T
    freedom = np.trace(gram) ** 2 / (gram * gram).sum()
    half = stats.t.ppf(0.975, freedom) * np.sqrt(variance)
    found = item_mean(values, ["d"] * 12, clusters=place)
    assert found.high - found.low == pytest.approx(2 * half)


def test_a_bootstrap_of_uneven_prompts_against_a_loop():
    rng = np.random.default_rng(2)
    sizes = rng.integers(1, 6, size=30)
    scores = np.array([rng.integers(-size, size + 1) for size in sizes])
    found = win_share_bootstrap(scores, np.ones(30, dtype=int), ["d"] * 30, sizes=sizes, seed=1)
    drawn = rng.integers(0, 30, size=(40_000, 30))
    shares = 0.5 + scores[drawn].sum(axis=1) / (2 * sizes[drawn].sum(axis=1))
    assert found.estimate == pytest.approx(0.5 + scores.sum() / (2 * sizes.sum()))
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(shares, [0.025, 0.975])), abs=0.012)
    assert found.n == 30


def test_one_id_in_two_datasets_is_two_prompts():
    frame = drawn_verdicts(prompts=10, copies=2)
    frame["prompt_id"] = [f"{int(name[2:]) // 2}" for name in frame["prompt_id"].str.slice(-1).radd("p0")]
    (row, *_) = share_rows(validate(frame))
    # Prompts 2k and 2k + 1 share the id k and lie in d0 and d1.
    assert (row.unit, row.units, row.items) == ("prompt", 10, 20)


def test_a_pair_has_one_prompt_and_a_missing_one_is_told_of():
    frame = drawn_verdicts(prompts=6, copies=2).rename(columns=str)
    wrong = frame.copy()
    wrong.loc[1, "prompt_id"] = "p5"
    with pytest.raises(Exception, match="pair_id '000-xy-1' has more than one prompt_id"):
        validate(wrong)
    frame.loc[frame["pair_id"] == "000-xy-1", "prompt_id"] = None
    checked = validate(frame)
    (remark,) = remarks(checked)
    assert remark.startswith(
        "prompt_id is empty on rows 2, 4, 6, 8: each pair there counts as a prompt of its own"
    )
    assert share_rows(checked)[0].units == 7
    none = validate(drawn_verdicts(prompts=6).assign(prompt_id=None))
    assert remarks(none) == ()
    assert (share_rows(none)[0].unit, share_rows(none)[0].units) == ("pair", 6)


def test_where_prompts_take_two_sides_the_null_holds():
    """40 prompts, half for x in all five pairs and half for y: pooled over pairs it would look sure."""
    rows = [
        {"pair_id": f"{prompt}.{pair}", "dataset": "d", "prompt_id": str(prompt), "method_a": "x"}
        | {"method_b": "y", "rater": "r", "criterion": "c", "verdict": "x" if prompt < 25 else "y"}
        for prompt in range(40)
        for pair in range(5)
    ]
    frame = validate(pd.DataFrame(rows))
    (row,) = share_rows(frame)
    assert row.test.p_value == pytest.approx(stats.binomtest(25, 40).pvalue)  # .154
    (by_pair,) = share_rows(frame.drop(columns="prompt_id"))
    assert by_pair.test.p_value == pytest.approx(stats.binomtest(125, 200).pvalue)  # 4.9e-4


@pytest.mark.slow
def test_the_report_says_which_unit_and_how_many(tmp_path):
    named = write_report(drawn_verdicts(copies=2), tmp_path / "named", Context(name="n"))
    assert "whose unit is the prompt (40 in all)" in named.summary
    page = (tmp_path / "named" / "report.md").read_text()
    assert "Unit of tests and intervals: the prompt, 40 in a result, all pairs of a prompt" in page
    table = pd.read_csv(tmp_path / "named" / "csv" / "win_shares.csv")
    assert set(table["unit"]) == {"prompt"}
    assert set(table["units"]) == {40, 20}
    unnamed = write_report(drawn_verdicts().drop(columns="prompt_id"), tmp_path / "un", Context(name="n"))
    assert "whose unit is the pair" in unnamed.summary
