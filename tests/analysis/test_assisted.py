"""People's mean assisted by a judge: by hand, against other programs, and what must hold for any data."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.stats.assisted import assisted_mean, effective_items, needed_correlation
from analysis.stats.intervals import item_mean

PEOPLE = [1, 0.75, 0.5, 0.25, 0, 0.625, 1, 0.375, 0.875, 0.5]
JUDGE = [1, 1, 0.5, 0, 0.5, 0.5, 1, 0, 0.5, 1, *[1, 0.5, 0, 0, 1, 0.5, 1, 1, 0.5, 0.5, 0, 1, 1, 0.5, 1]]


def padded(people, judge):
    return np.array([*people, *[np.nan] * (len(judge) - len(people))], dtype=float)


def variance(found):
    return ((found.interval.estimate - 0.5) / found.test.statistic) ** 2


def test_by_hand():
    judge = [1, 0.5, 0.5, 0, 1, 1, 1, 0.5]
    people = padded([1, 1, 0, 0], judge)
    found = assisted_mean(people, judge, ["d"] * 8, weight=0.5)
    # people ½, the judge on these ½ and on all 11/16
    assert found.interval.estimate == pytest.approx(1 / 2 + (11 / 16 - 1 / 2) / 2)
    # ½ · (1 − 4/8) = ¼: residuals of people ±(½ − ¼·½), ±½; of the others ¼ · (⅛, ⅛, ⅛, −⅜)
    assert variance(found) == pytest.approx((2 * 0.375**2 + 2 * 0.5**2) / 12 + 0.1875 / 16 / 12)
    # Σ dy·df = ½ and Σ df² = ½ make λ = 1, r = ½/√(1·½)
    tuned = assisted_mean(people, judge, ["d"] * 8)
    assert (tuned.weight, tuned.interval.estimate) == (1.0, pytest.approx(11 / 16))
    assert tuned.correlation == pytest.approx(0.5**0.5)


def test_strata_weigh_as_they_were_judged():
    strata = ["a"] * 6 + ["b"] * 4
    judge = [1, 0, 0.5, 1, 1, 0.5, 0, 0.5, 1, 1]
    people = np.array([1, 0.5, 0.5, *[np.nan] * 3, 0, 0.5, 1, np.nan])
    found = assisted_mean(people, judge, strata, weight=0.0)
    assert found.interval.estimate == pytest.approx(0.6 * 2 / 3 + 0.4 * 0.5)
    assert variance(found) == pytest.approx(0.36 * (1 / 12) / 3 + 0.16 * (1 / 4) / 3)
    # people's part has a mean judge of ½ in both; the whole ⅔ and ⅝
    assert assisted_mean(people, judge, strata, weight=1.0).interval.estimate == pytest.approx(
        0.6 * (2 / 3 + 2 / 3 - 1 / 2) + 0.4 * (0.5 + 5 / 8 - 1 / 2)
    )


@pytest.mark.parametrize(
    ("weight", "clusters", "judged", "estimate", "error"),
    [
        # truescore 0.7.4: ppi_estimate(JUDGE[:judged], PEOPLE, range(10), lambda_=weight, clusters=…)
        (0.3, None, 25, 0.5975, 0.0911320993054013),
        (0.6, None, 25, 0.6074999999999999, 0.10267986541627701),
        (0.3, np.repeat(np.arange(12), 2), 24, 0.5896428571428571, 0.08531790789841992),
        (0.5, np.repeat(np.arange(12), 2), 24, 0.5910714285714285, 0.08806003962201751),
    ],
)
def test_against_truescore(weight, clusters, judged, estimate, error):
    # its λ is that of the items which people did not score: ours times 1 − n/N
    judge = JUDGE[:judged]
    found = assisted_mean(
        padded(PEOPLE, judge), judge, ["d"] * judged, clusters=clusters, weight=weight / (1 - 10 / judged)
    )
    assert found.interval.estimate == pytest.approx(estimate, abs=1e-9)
    assert variance(found) ** 0.5 == pytest.approx(error, abs=1e-9)


@pytest.mark.parametrize(
    ("weight", "low", "high"),
    # ppi-python 0.2.3: ppi_mean_ci(PEOPLE, JUDGE[:10], JUDGE[10:], alpha=0.05, lam=weight)
    [(0.3, 0.42768907, 0.76731093), (0.6, 0.41529899, 0.79970101)],
)
def test_against_ppi_py(weight, low, high):
    found = assisted_mean(padded(PEOPLE, JUDGE), JUDGE, ["d"] * 25, weight=weight / (1 - 10 / 25))
    assert found.interval.estimate == pytest.approx((low + high) / 2, abs=1e-8)
    # its variances divide by n, and its quantile is the normal one
    people, judge = np.array(PEOPLE), np.array(JUDGE)
    spread = (people - weight * judge[:10]).var() / 10 + weight**2 * judge[10:].var() / 15
    assert (high - low) / 2 == pytest.approx(1.959963985 * spread**0.5, abs=1e-8)
    spread = (people - weight * judge[:10]).var() / 9 + weight**2 * judge[10:].var() / 14
    assert variance(found) == pytest.approx(spread, abs=1e-12)


def test_the_variance_pays_for_the_tuning():
    people, judge = np.array(PEOPLE), np.array(JUDGE)
    found = assisted_mean(padded(PEOPLE, JUDGE), JUDGE, ["d"] * 25)
    part = judge[:10]
    residuals = []
    for left_out in range(10):
        others = np.arange(10) != left_out
        slope = np.clip(np.polyfit(part[others], people[others], 1)[0], 0, 1) * (1 - 10 / 25)
        residuals.append(
            people[left_out] - people.mean() - slope * (part[left_out] - part.mean()),
        )
    own = np.sum(np.square(residuals)) / 90
    rest = (found.weight * 0.6) ** 2 * judge[10:].var(ddof=1) / 15
    # and two items more are as people alone
    alone = people.var(ddof=1) / 10
    assert variance(found) == pytest.approx((10 * (own + rest) + 2 * alone) / 12, rel=1e-9)


SCORES = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])
TABLES = st.integers(12, 40).flatmap(
    lambda n: st.tuples(
        st.lists(SCORES, min_size=n, max_size=n),
        st.lists(SCORES, min_size=n, max_size=n),
        st.lists(st.sampled_from("ab"), min_size=n, max_size=n),
        st.integers(4, n),
        st.randoms(use_true_random=False),
    )
)


def close(one, other):
    return one == pytest.approx(other, abs=1e-9)


@given(TABLES)
def test_whatever_the_data(table):
    own, judge, strata, rated, random = table
    people = np.array(own)
    people[rated:] = np.nan
    found = assisted_mean(people, judge, strata)
    assert 0 <= found.weight <= 1
    assert 0 <= found.interval.estimate <= 1
    assert found.correlation is None or -1 - 1e-9 <= found.correlation <= 1 + 1e-9
    # the items' order is of no account
    order = list(range(len(judge)))
    random.shuffle(order)
    again = assisted_mean(people[order], np.array(judge)[order], [strata[i] for i in order])
    assert close(found.interval.estimate, again.interval.estimate)
    assert close(found.weight, again.weight)
    if found.interval.low is not None and again.interval.low is not None:
        assert close(found.interval.low, again.interval.low)
    # the other method's share is the rest
    mirror = assisted_mean(1 - people, 1 - np.array(judge), strata)
    assert close(mirror.interval.estimate, 1 - found.interval.estimate)
    # a constant judge adds nothing
    constant = assisted_mean(people, [0.5] * len(judge), strata)
    assert (constant.weight, constant.correlation) == (0.0, None)
    assert constant.effective is None or close(constant.effective, rated)


@given(TABLES, st.booleans())
def test_people_alone_where_they_scored_everything(table, alone):
    own, judge, strata, _, _ = table
    clusters = None if alone else np.arange(len(own)) // 3 + 100 * (np.array(strata) == "b")
    found = assisted_mean(own, judge, strata, clusters=clusters).interval
    expected = item_mean(own, strata, clusters=clusters)
    assert (found.estimate, found.low, found.high) == (expected.estimate, expected.low, expected.high)


def test_without_weight_it_is_the_interval_of_people_alone():
    # clusters of different sizes, strata in proportion: the variance is that of `item_mean`
    people, strata = [*PEOPLE, *PEOPLE[::-1]] * 2, ["a", "b"] * 20
    clusters = np.repeat(np.arange(10), 4) * 2 + np.tile([0, 1], 20)
    for own in (None, clusters):
        rest = None if own is None else np.concatenate([own, own + 100])
        found = assisted_mean(
            padded(people, range(80)), np.linspace(0, 1, 80), strata * 2, clusters=rest, weight=0.0
        )
        expected = item_mean(people, strata, clusters=own)
        assert close(found.interval.low, expected.low)
        assert close(found.interval.high, expected.high)


def test_a_judge_that_was_right_so_far_may_err_elsewhere():
    judge = np.array(JUDGE * 4)
    people = np.where(np.arange(100) < 40, judge, np.nan)
    found = assisted_mean(people, judge, ["d"] * 100)
    assert (found.weight, found.correlation) == (pytest.approx(1), pytest.approx(1))
    assert found.interval.estimate == pytest.approx(judge.mean())
    fixed = assisted_mean(people, judge, ["d"] * 100, weight=1.0)
    assert variance(fixed) == pytest.approx(judge.var() / 100, rel=0.05)
    assert fixed.effective == pytest.approx(effective_items(40, 100, 1), rel=0.1)
    alone = judge[:40].var(ddof=1) / 40
    assert variance(found) == pytest.approx((40 * variance(fixed) + 2 * alone) / 42)


def test_a_judge_that_contradicts_people_is_ignored():
    found = assisted_mean(padded(PEOPLE, JUDGE), 1 - np.array(JUDGE), ["d"] * 25)
    assert found.weight == 0
    assert found.correlation < 0
    assert found.interval.estimate == pytest.approx(np.mean(PEOPLE))


def test_a_prompt_that_people_rated_in_part():
    # its two halves depend on each other: were they taken for two prompts the error would be smaller
    judge = np.array([1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0] * 2, dtype=float)
    people = np.where(np.arange(24) % 2, np.nan, judge)
    clusters = np.arange(24) // 2
    apart = clusters + 50 * (np.arange(24) % 2)
    joint, split = (
        assisted_mean(people, judge, ["d"] * 24, clusters=of, weight=0.5) for of in (clusters, apart)
    )
    assert joint.interval.high - joint.interval.low > split.interval.high - split.interval.low


def test_small_datasets_are_taken_together():
    people = padded(PEOPLE, JUDGE)
    strata = ["a"] * 9 + ["b"] * 16
    assert "ignores the datasets" in assisted_mean(people, JUDGE, strata).interval.warnings[0]


def test_nothing_varies():
    found = assisted_mean([1, 1, 1, np.nan], [0.5] * 4, ["d"] * 4)
    assert (found.interval.estimate, found.interval.low, found.test.p_value) == (1.0, None, None)
    assert found.effective is None


@pytest.mark.parametrize("people", [[1, 0, 1], [np.nan, np.nan, 1, np.nan]])
def test_wrong_shapes(people):
    with pytest.raises(ValueError, match="scor"):
        assisted_mean(people, [0.5] * 4, ["d"] * 4)


def test_planning():
    assert effective_items(150, 150, 0.9) == 150
    assert needed_correlation(150, 1000, 2) == pytest.approx((0.5 / 0.85) ** 0.5)
    assert effective_items(150, 1000, needed_correlation(150, 1000, 3)) == pytest.approx(450)
    assert needed_correlation(150, 200, 5) is None
    assert needed_correlation(150, 150, 1.1) is None


@pytest.mark.slow
def test_coverage_and_width_with_few_people():
    rng = np.random.default_rng(5)
    covered = {0.0: 0, 0.8: 0}
    widths = {r: [0.0, 0.0] for r in covered}
    for r in covered:
        for _ in range(800):
            latent = rng.normal(size=400)
            noise = rng.normal(size=400)
            own = (latent > 0) / 2 + (latent > -0.4) / 2  # true share 0.5777
            judge = (r * latent + (1 - r**2) ** 0.5 * noise > 0.5).astype(float)  # leans
            found = assisted_mean(padded(own[:40], judge), judge, ["d"] * 400).interval
            alone = item_mean(own[:40], ["d"] * 40)
            covered[r] += found.low <= 0.5777 <= found.high
            widths[r][0] += found.high - found.low
            widths[r][1] += alone.high - alone.low
    # 800 studies: standard error .008
    assert all(0.93 <= count / 800 <= 0.97 for count in covered.values())
    assert widths[0.0][0] / widths[0.0][1] <= 1.03
    assert widths[0.8][0] / widths[0.8][1] <= 0.90
