"""Two one-sided tests of a margin: against statsmodels, scipy, the interval, and a published sample size."""

import math
import re

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.weightstats import DescrStatsW
from verdicts_by_hand import listed

from analysis.reports.sections.equivalence import section, sentence
from analysis.results.equivalence import equivalence_rows
from analysis.results.shares import share_rows
from analysis.stats.equivalence import approximate_equivalence_items, error_beyond, tost, tost_of_nets
from analysis.verdicts.composite import Composite
from analysis.verdicts.scores import ScoredVerdicts
from guard_eval.errors import StudyError
from guard_eval.rubric import COMPOSITE


def ratings(shares, criterion="coherence"):
    """A pair for each share of 0, ½ or 1, by one rater."""
    words = {0.0: "y", 0.5: "tie", 1.0: "x"}
    found = [(f"{place:03}", "r", words[share]) for place, share in enumerate(shares)]
    return listed("pair_id rater verdict", found).assign(criterion=criterion)


def test_as_in_statsmodels():
    shares = np.random.default_rng(7).choice([0.0, 0.5, 1.0], size=80)
    expected = DescrStatsW(shares).ttost_mean(0.5 - 0.1, 0.5 + 0.1)[0]
    (row,) = equivalence_rows(share_rows(ratings(shares)), margin=0.1)
    assert row.p_value == pytest.approx(expected)
    nets = np.round(2 * shares - 1).astype(int)
    assert float(tost_of_nets(nets, np.abs(nets), raters=1, margin=0.1)) == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("margin", [0.05, 0.12, 0.2])
@pytest.mark.parametrize("prompts", [False, True])
@pytest.mark.parametrize("raters", ["these", "population"])
def test_consistent_with_the_interval(seed, margin, prompts, raters):
    rng = np.random.default_rng(seed)
    table = pd.concat([ratings(rng.choice([0.0, 0.5, 1.0], size=60)).assign(rater=name) for name in "abcd"])
    if prompts:
        table["prompt_id"] = (table["pair_id"].astype(int) // 3).astype(str)
    (row,) = equivalence_rows(share_rows(table, raters=raters), margin=margin)
    # The same report at level 90 %.
    (wide,) = share_rows(table, alpha=0.1, raters=raters)
    assert (row.share.low, row.share.high) == pytest.approx((wide.share.low, wide.share.high))
    assert (row.p_value <= 0.05) == (0.5 - margin <= wide.share.low and wide.share.high <= 0.5 + margin)


def test_the_four_words():
    near = [0.5] * 380 + [1.0, 0.0] * 10
    words = {
        "equivalent": near,
        "different but negligible": [0.5] * 380 + [1.0] * 20,
        "different": [1.0] * 40 + [0.0] * 5,
        "undecided": [1.0, 0.0] * 8,
    }
    for word, shares in words.items():
        (row,) = equivalence_rows(share_rows(ratings(shares)), margin=0.05)
        assert row.conclusion == word


def test_corrected_over_the_family():
    shares = np.random.default_rng(1).choice([0.0, 0.5, 0.5, 1.0], size=100)
    other = np.random.default_rng(2).choice([0.0, 0.5, 0.5, 1.0], size=100)
    table = pd.concat([ratings(shares), ratings(other, "fluency")])
    rows = equivalence_rows(share_rows(table), margin=0.1)
    small, large = sorted(rows, key=lambda row: row.p_value)
    assert small.adjusted == pytest.approx(min(1, 2 * small.p_value))
    assert large.adjusted == pytest.approx(max(small.adjusted, large.p_value))
    # Max-T is of sign flips; t tests are corrected by Holm.
    flips = equivalence_rows(share_rows(table, correction="max-t"), margin=0.1, correction="max-t")
    assert [(row.adjusted, row.correction) for row in flips] == [(row.adjusted, "Holm") for row in rows]
    declared = share_rows(table, planned=(("x", "y", "fluency"),))
    (inside,) = [row for row in equivalence_rows(declared, margin=0.1) if row.family]
    assert (inside.criterion, inside.family) == ("fluency", 1)


@pytest.mark.parametrize(("items", "margin", "raters"), [(30, 0.05, 1), (60, 0.05, 3), (20, 0.1, 1)])
def test_few_wins_among_ties_are_not_missed_too_often(items, margin, raters):
    """At the margin's edge a study of ties and few wins is equivalent in at most .07."""
    rng = np.random.default_rng(items)
    wins = rng.random((3000, items)) < 2 * margin  # so that the share is one half and the margin
    found = 0
    for many, studies in zip(*np.unique(wins.sum(axis=1), return_counts=True), strict=True):
        shares = [1.0] * many + [0.5] * (items - many)
        table = pd.concat([ratings(shares).assign(rater=name) for name in "abc"[:raters]])
        (row,) = equivalence_rows(share_rows(table), margin=margin)
        found += studies * (row.p_value is not None and row.p_value <= 0.05)
    assert found / 3000 <= 0.07


def test_few_wins_of_a_composite_are_not_missed_too_often():
    """At the margin's edge the mean of two criteria, each with few wins, is equivalent in at most .06.

    Its wins count one half, so that by their number its ratings seem to spread four times as far as they do.
    """
    rng, items, margin = np.random.default_rng(1), 100, 0.03
    scores = (rng.random((6000, items, 2)) < 2 * margin).mean(axis=2)
    errors = scores.std(axis=1, ddof=1) / 2 / np.sqrt(items)
    wins, total = (scores > 0).sum(axis=1), scores.sum(axis=1)
    counts, sums = (wins, items - wins, 0 * wins), (total, total, (scores**2).sum(axis=1))
    found = []
    for given in (None, sums):
        grown = error_beyond(errors, counts, items, margin=margin, sums=given)
        found.append((tost(0.5 + scores.mean(axis=1) / 2, grown, items - 1, margin=margin) <= 0.05).mean())
    assert found[0] > 0.075
    assert found[1] <= 0.06


def test_the_error_of_a_composite_by_hand():
    # 6 of 40 pairs are won on one of two criteria: scores of ½. A mean of such scores that is .05 off one
    # half has a variance of .05 (.5 − 2 · .05) / 2 = .01 or more; these have less, and n − 1 is below it.
    both = [ratings([1.0] * 6 + [0.5] * 34), ratings([0.5] * 40, "fluency")]
    composite = Composite(weights={"coherence": 1, "fluency": 1})
    rows = equivalence_rows(share_rows(ScoredVerdicts.of(pd.concat(both), composite=composite)), margin=0.05)
    (row,) = [row for row in rows if row.criterion == COMPOSITE]
    assert row.share.error == pytest.approx(math.sqrt(0.01 / 39))


def test_many_ties_and_few_others_are_equivalent():
    # Beyond 10 points every fifth rating were a win: of 62 none or one with a chance of 2e-5.
    (row,) = equivalence_rows(share_rows(ratings([0.5] * 60 + [1.0, 0.0])), margin=0.1)
    assert row.equivalent


def test_without_an_error_nothing_is_claimed():
    (row,) = equivalence_rows(share_rows(ratings([0.5] * 50)), margin=0.1)
    assert (row.p_value, row.conclusion) == (None, "undecided")
    assert "no width" in row.reason
    assert "no width" in section([row], name_methods=False).parts[0].note
    assert "is undecided." in sentence([row])


@pytest.mark.parametrize("ties", [0.5, 0.9, 0.97])
def test_many_studies_at_once_are_tested_as_the_report_tests_one(ties):
    verdicts = np.random.default_rng(5).choice(
        [1, 0, -1], p=[(1 - ties) / 2, ties, (1 - ties) / 2], size=(12, 40, 3)
    )
    found = tost_of_nets(verdicts.sum(axis=2), np.abs(verdicts).sum(axis=2), raters=3, margin=0.08)
    for study, p_value in zip(verdicts, found, strict=True):
        table = pd.concat(
            [ratings((1 + study[:, place]) / 2).assign(rater=name) for place, name in enumerate("abc")]
        )
        (row,) = equivalence_rows(share_rows(table), margin=0.08)
        assert p_value == pytest.approx(1.0 if row.p_value is None else row.p_value)


@pytest.mark.parametrize("margin", [0.0, -0.1, 0.5, float("nan")])
def test_a_margin_that_is_none(margin):
    with pytest.raises(StudyError, match="give one such as"):
        equivalence_rows(share_rows(ratings([0.5, 1.0, 0.0])), margin=margin)


def test_size_by_formula():
    # v ((1.6449 + 1.2816) / δ)²; for a power of 90 % both quantiles are 1.6449.
    assert approximate_equivalence_items(0.25, margin=0.1, alpha=0.05, wanted=0.8) == pytest.approx(
        25 * (stats.norm.ppf(0.95) + stats.norm.ppf(0.9)) ** 2
    )
    assert approximate_equivalence_items(0.25, margin=0.1, alpha=0.05, wanted=0.9) == pytest.approx(
        25 * 4 * 1.6448536**2
    )


def test_power_by_simulation_is_the_formula():
    items = round(approximate_equivalence_items(1 / 6, margin=0.05, alpha=0.05, wanted=0.8))
    nets = np.random.default_rng(3).integers(-1, 2, (4000, items))
    found = (tost_of_nets(nets, np.abs(nets), raters=1, margin=0.05) <= 0.05).mean()
    assert found == pytest.approx(0.8, abs=4 * (0.16 / 4000) ** 0.5)


def test_beyond_the_margin_p_is_above_one_half():
    assert tost([0.7, 0.3, 0.55], 0.02, 50, margin=0.05) == pytest.approx([1.0, 1.0, 0.5], abs=1e-6)
    assert np.isnan(tost(0.5, 0.0, 10, margin=0.1))


def shown(frame, **options):
    return sentence(equivalence_rows(share_rows(frame, **options), margin=0.1)).replace("\u00a0", " ")


def test_the_sentence_names_few_results_and_counts_many():
    near = [0.5] * 60 + [1.0, 0.0]
    two = pd.concat([ratings(near), ratings([1.0] * 30 + [0.5], "fluency")])
    assert re.fullmatch(
        r"With a margin of 10 points around 50 %: coherence is equivalent \(p [=<] \S+ for equivalence\) and "
        r"fluency is different\.",
        shown(two),
    )
    many = pd.concat([ratings(near, f"c{place}") for place in range(7)] + [ratings([1.0, 0.0], "few")])
    assert (
        shown(many)
        == "With a margin of 10 points around 50 %: 7 of 8 results are equivalent and 1 undecided."
    )
    judged = pd.concat([ratings(near), ratings(near).assign(rater="gpt", rater_kind="model")]).fillna(
        {"rater_kind": "person"}
    )
    assert "by people coherence is equivalent" in shown(judged)
    assert "by gpt coherence is equivalent" in shown(judged)


def test_a_long_table_keeps_what_was_shown():
    undecided = [ratings([1.0, 0.0], f"u{place}") for place in range(60)]
    rows = equivalence_rows(
        share_rows(pd.concat([*undecided, ratings([0.5] * 60 + [1.0, 0.0], "zest")])), margin=0.1
    )
    found = section(rows, name_methods=False)
    (table,) = found.parts
    assert len(table.rows) == 40
    assert table.rows[-1][0] == "zest"
    assert "The other 21\u00a0results are in equivalence.csv." in table.note
    assert len(found.exports["equivalence"].rows) == 61
