"""Models of single ratings where they can be solved by hand, and where they must say nothing."""

import numpy as np
import pytest
from scipy import stats
from verdicts_by_hand import table

from analysis.results.models import linear_model, ordinal_model, placed_model
from analysis.results.sensitivity import sensitivity_rows
from analysis.verdicts.scores import rater_scores

POINTS = {"x": 1, "-": 0, "y": -1}
MODELS = (linear_model, ordinal_model)


def scores(letters, **more):
    return rater_scores(table({f"p{i:03}": item for i, item in enumerate(letters)}, **more))


def drawn(seed, items=12, raters=3, chances=(0.5, 0.2, 0.3)):
    rng = np.random.default_rng(seed)
    return ["".join(rng.choice(["x", "-", "y"], size=raters, p=chances)) for _ in range(items)]


def test_a_complete_table_gives_the_mean_of_item_means_and_their_spread():
    letters = drawn(0)
    found = linear_model(scores(letters))
    means = np.array([np.mean([POINTS[letter] for letter in item]) for item in letters])
    assert found.share.estimate == pytest.approx(0.5 + means.mean() / 2)
    # Complete and balanced: every item has leverage 1/n, which the bias reduction takes out.
    error = np.sqrt(((means - means.mean()) ** 2).sum()) / (len(means) - 1)
    assert found.test.statistic == pytest.approx(means.mean() / error)
    freedom = 12 - 3  # the panel's mean and two terms
    assert found.test.p_value == pytest.approx(2 * stats.t.sf(abs(means.mean() / error), freedom))
    assert found.share.high - found.share.low == pytest.approx(stats.t.ppf(0.975, freedom) * error)
    assert "terms for 3\u00a0raters" in found.note
    assert found.test.warnings == ("12 items are few for sandwich errors",)


def test_one_rater_in_closed_form():
    # 18 for x, 9 ties, 9 for y; items are independent, and each has leverage 1/n.
    one = scores("x" * 18 + "-" * 9 + "y" * 9)
    reduction = 36 / 35
    mean, spread = 9 / 36, np.sqrt(27 / 36 - (9 / 36) ** 2)
    linear = linear_model(one)
    assert linear.share.estimate == pytest.approx(22.5 / 36)
    assert linear.test.statistic == pytest.approx(mean / (reduction * spread / 6))
    # Thresholds logit P(not y) = logit 3/4 and logit P(x) = 0; an item moves them by residual / (n p q).
    ordinal = ordinal_model(one)
    assert ordinal.share.estimate == pytest.approx((3 / 4 + 1 / 2) / 2)
    moves = {
        letter: ((letter != "y") - 3 / 4) / (3 / 16) / 2 + ((letter == "x") - 1 / 2) / (1 / 4) / 2
        for letter in "x-y"
    }
    variance = (18 * moves["x"] ** 2 + 9 * moves["-"] ** 2 + 9 * moves["y"] ** 2) / 36**2
    assert ordinal.test.statistic == pytest.approx(np.log(3) / 2 / (reduction * np.sqrt(variance)), rel=1e-5)
    assert all(model.note.count("raters") == 0 for model in (linear, ordinal))


def test_ratings_that_repeat_each_other_count_once():
    # Four raters of one mind say what one rater says: pooled, n would be four times as large.
    letters = drawn(3, items=60, raters=1)
    one, four = linear_model(scores(letters)), linear_model(scores([4 * item for item in letters]))
    assert four.share.estimate == pytest.approx(one.share.estimate)
    assert four.test.statistic == pytest.approx(one.test.statistic)


@pytest.mark.parametrize("model", MODELS)
def test_the_other_method_has_the_rest(model):
    letters = drawn(5, items=30)
    found = model(scores(letters))
    turned = model(scores([item.translate(str.maketrans("xy", "yx")) for item in letters]))
    assert turned.share.estimate == pytest.approx(1 - found.share.estimate)
    assert turned.share.low == pytest.approx(1 - found.share.high)
    assert turned.test.statistic == pytest.approx(-found.test.statistic)
    assert turned.test.p_value == pytest.approx(found.test.p_value)


@pytest.mark.parametrize("model", MODELS)
def test_one_rater_of_few_ratings_hardly_moves_the_whole(model):
    """Four raters are half and half on 100 items; a fifth, who rated six, is for x in five of them."""
    rng = np.random.default_rng(2)
    letters = ["".join(item) for item in rng.choice(["x", "-", "y"], size=(100, 4))]
    letters = [item + fifth for item, fifth in zip(letters, [*"xxxxxy", *" " * 94], strict=True)]
    found = model(scores(letters))
    assert "terms for 5\u00a0raters" in found.note
    points = [POINTS[letter] for item in letters for letter in item if letter != " "]
    pooled = 0.5 + np.mean(points) / 2
    # Were he one of five alike, the whole would lie at .567.
    assert found.share.estimate == pytest.approx(pooled, abs=0.01)


def test_one_rater_of_few_sides_hardly_moves_the_whole():
    """Four raters are half and half on 100 items; the fifth ties on 94, and is for x on five of six."""
    letters = [4 * "xy"[i % 2] + ("-" if i >= 6 else "xxxxxy"[i]) for i in range(100)]
    for row in sensitivity_rows(table({f"p{i:03}": item for i, item in enumerate(letters)})):
        if row.share is not None and "majority" not in row.analysis and "dropped" not in row.analysis:
            assert row.share == pytest.approx(0.5, abs=0.03), row.analysis


def test_the_place_is_taken_out():
    # x is first in 30 of 40 and then wins 24; second in 10 and wins 2: the first place wins 80 % either way.
    letters = "x" * 24 + "y" * 6 + "x" * 2 + "y" * 8
    first = {f"p{i:03}": "x" if i < 30 else "y" for i in range(40)}
    frame = table({f"p{i:03}": letter for i, letter in enumerate(letters)}, first=first)
    found = placed_model(frame)
    assert found.share.estimate == pytest.approx(0.5)
    assert found.test.p_value == pytest.approx(1.0)
    assert "to be shown first and not second is worth 60.0 points of share" in found.note
    assert linear_model(rater_scores(frame)).share.estimate == pytest.approx(0.65)


def test_a_place_that_never_changes_is_said():
    letters = {f"p{i:03}": letter for i, letter in enumerate("xxyx-xyx")}
    found = placed_model(table(letters, first=dict.fromkeys(letters, "x")))
    assert found.test.p_value is None
    assert found.note == "y was first in 0 of 8\u00a0verdicts: place and method cannot be separated"
    assert placed_model(table(letters)) is None


@pytest.mark.parametrize(
    ("model", "letters", "why"),
    [
        (linear_model, ["xx"] * 9, "all verdicts are the same"),
        (ordinal_model, ["xx", "x-"] * 9, "there is no loss"),
        (ordinal_model, ["--"] * 9, "there is no win and no loss"),
        (linear_model, ["xy"], "there are too few items"),
        (linear_model, ["x", "-"], "there are too few items"),
        (linear_model, ["xy", "yx"] * 20, "the ratings leave no error to reckon with"),
    ],
)
def test_what_cannot_be_told_is_not(model, letters, why):
    found = model(scores(letters))
    assert (found.test.p_value, found.share.low, found.note) == (None, None, why)
    assert found.share.estimate is None


def test_a_rater_always_for_one_method_costs_the_terms_and_not_the_model():
    letters = [item + "x" for item in drawn(8, items=40, raters=2)]
    found = ordinal_model(scores(letters))
    assert "no terms for raters: a rater is always for one method" in found.note
    assert found.test.p_value is not None
    assert "terms for 3\u00a0raters" in linear_model(scores(letters)).note


def test_many_raters_have_no_terms():
    letters = ["".join(item) for item in zip(*[drawn(9, items=80, raters=1)] * 33, strict=True)]
    assert "no terms for raters: there are 33 raters" in linear_model(scores(letters)).note


def test_a_rater_of_few_ratings_has_no_term_that_fits_him_exactly():
    letters = [item + ("x" if i == 0 else " ") for i, item in enumerate(drawn(9, items=30, raters=2))]
    found = linear_model(scores(letters))
    assert "no terms for raters: a rater has fewer than 5 ratings" in found.note
    assert found.test.p_value is not None


def test_a_judge_in_both_orders_is_one_rating():
    frame = scores(drawn(10, items=30, raters=1))
    twice = frame.assign(net=frame["net"] * 2, showings=2)
    for model in MODELS:
        assert model(twice).test == model(frame).test


def test_any_small_study_gives_figures_or_a_reason():
    # Warnings are errors here: none may get out.
    for seed in range(12):
        rng = np.random.default_rng(seed)
        chances = rng.dirichlet([0.5, 0.5, 0.5])
        frame = scores(
            drawn(seed, items=int(rng.integers(1, 20)), raters=int(rng.integers(1, 5)), chances=chances)
        )
        for model in MODELS:
            found = model(frame)
            if found.test.p_value is None:
                assert found.note
                continue
            assert 0 <= found.test.p_value <= 1
            assert 0 <= found.share.low <= found.share.estimate <= found.share.high <= 1


def test_the_ordinal_share_is_that_of_the_verdicts_without_terms_for_raters():
    letters = [item + "x" for item in drawn(11, items=40, raters=2)]
    counts = {letter: sum(item.count(letter) for item in letters) for letter in "x-y"}
    assert ordinal_model(scores(letters)).share.estimate == pytest.approx(
        (counts["x"] + counts["-"] / 2) / 120
    )
