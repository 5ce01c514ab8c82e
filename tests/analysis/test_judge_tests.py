"""The alternative-annotator test against the published procedure, step by step."""

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from analysis.stats.judge_tests import alternative_annotator, leave_one_out


def step_by_step(labels, judge, epsilon, q=0.05, fewest=30):
    """Calderon, Reichart and Dror (2025), §3, item by item; labels [items, annotators], −1 for missing."""
    p_values, advantages = [], []
    for j in range(labels.shape[1]):
        mine, differences = [], []
        for i in range(len(labels)):
            others = [labels[i, k] for k in range(labels.shape[1]) if k != j and labels[i, k] >= 0]
            if labels[i, j] < 0 or judge[i] < 0 or not others:
                continue
            person = sum(other == labels[i, j] for other in others) / len(others)
            machine = sum(other == judge[i] for other in others) / len(others)
            mine.append(machine >= person)
            differences.append(int(person >= machine) - int(machine >= person))
        if len(mine) >= fewest:
            p_values.append(stats.ttest_1samp(differences, epsilon, alternative="less").pvalue)
            advantages.append(np.mean(mine))
    rejected = multipletests(p_values, alpha=q, method="fdr_by")[0]
    return rejected.mean(), np.mean(advantages), p_values


def long_form(labels):
    items, annotators = np.nonzero(labels >= 0)
    return items, annotators, labels[items, annotators]


def panel(seed, *, annotators=5, items=60, noise=0.4, judge_noise=0.4, missing=0.2):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, items)
    labels = np.where(
        rng.random((items, annotators)) < noise, rng.integers(0, 3, (items, annotators)), truth[:, None]
    )
    judge = np.where(rng.random(items) < judge_noise, rng.integers(0, 3, items), truth)
    labels[rng.random(labels.shape) < missing] = -1
    judge[rng.random(items) < missing / 4] = -1
    return labels, judge


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("epsilon", [0.1, 0.2])
def test_as_published(seed, epsilon):
    labels, judge = panel(seed, judge_noise=0.1 + 0.1 * seed)
    rate, advantage, p_values = step_by_step(labels, judge, epsilon)
    counts = leave_one_out(*long_form(labels), judge, categories=3)
    result = alternative_annotator(counts, epsilon=epsilon)
    assert result.winning_rate == pytest.approx(rate)
    assert result.advantage == pytest.approx(advantage)
    assert [one.p_value for one in result.annotators] == pytest.approx(p_values)
    assert result.passed == (rate >= 0.5)


def test_the_panels_are_not_all_alike():
    rates = set()
    for seed in range(6):
        labels, judge = panel(seed, judge_noise=0.1 + 0.1 * seed)
        rates.add(step_by_step(labels, judge, 0.2)[0])
    assert len(rates) > 2


def test_by_hand():
    # Two items, three people. Item 0: people 0 0 1, judge 0. Item 1: people 2 1 1, judge 2.
    labels, judge = np.array([[0, 0, 1], [2, 1, 1]]), np.array([0, 2])
    counts = leave_one_out(*long_form(labels), judge, categories=3)
    # Item 0. Left out 0 or 1: the others say 0 and 1, and judge and person are right once each: level.
    # Left out 2: the others say 0 and 0, the judge is right twice and the person never.
    # Item 1. Left out 0: the others say 1 and 1, judge and person say 2: level. Left out 1 or 2: the others
    # say 2 and 1, and each is right once: level.
    assert counts.n.tolist() == [2, 2, 2]
    assert counts.judge.tolist() == [2, 2, 2]
    assert counts.annotator.tolist() == [2, 2, 1]
    assert counts.level.tolist() == [2, 2, 1]


def test_a_judge_that_says_what_everybody_says():
    labels = np.zeros((40, 3), dtype=int)
    result = alternative_annotator(
        leave_one_out(*long_form(labels), np.zeros(40, dtype=int), categories=3), epsilon=0.1
    )
    assert (result.winning_rate, result.advantage, result.passed) == (1.0, 1.0, True)
    assert "alike on every item" in result.warnings[0]
    worst = alternative_annotator(
        leave_one_out(*long_form(labels), np.ones(40, dtype=int), categories=3), epsilon=0.1
    )
    assert (worst.winning_rate, worst.advantage, worst.passed) == (0.0, 0.0, False)


@pytest.mark.parametrize(("people", "items", "there"), [(2, 60, 2), (4, 29, 0), (1, 60, 0)])
def test_too_few_of_anything_is_undefined(people, items, there):
    labels, judge = panel(0, annotators=people, items=items, missing=0)
    result = alternative_annotator(leave_one_out(*long_form(labels), judge, categories=3), epsilon=0.2)
    assert (result.winning_rate, result.advantage, result.passed) == (None, None, None)
    assert result.reason.endswith(f"there are {there}")


def test_who_has_few_items_is_left_out_with_a_warning():
    labels, judge = panel(1, annotators=4, items=60, missing=0)
    labels[20:, 3] = -1
    result = alternative_annotator(leave_one_out(*long_form(labels), judge, categories=3), epsilon=0.2)
    assert [one.place for one in result.annotators] == [0, 1, 2]
    assert result.warnings[0].startswith("1 annotator(s)")


def test_nobody_and_nothing():
    none = np.zeros(0, dtype=int)
    assert alternative_annotator(leave_one_out(none, none, none, none, categories=3), epsilon=0.1).reason


@pytest.mark.parametrize("wrong", [{"items": [9]}, {"labels": [3]}, {"judge": [3]}, {"annotators": [-1]}])
def test_numbers_that_stand_for_nothing_are_refused(wrong):
    given = {"items": [0], "annotators": [0], "labels": [0], "judge": [0]} | wrong
    with pytest.raises(ValueError, match="must be from"):
        leave_one_out(**given, categories=3)


def test_epsilon_is_checked():
    none = np.zeros(0, dtype=int)
    with pytest.raises(ValueError, match="ε lies in"):
        alternative_annotator(leave_one_out(none, none, none, none, categories=3), epsilon=1)
