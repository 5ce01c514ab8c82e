"""Fleiss' and Cohen's κ, α, AC1 and AC2 against published figures, definitions and other programs."""

import csv
import itertools
import math
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.inter_rater import cohens_kappa, fleiss_kappa
from verdicts_by_hand import table

from analysis.reports.sections.agreement import agreement_table
from analysis.results.agreement import agreement_rows
from analysis.stats.agreement import cohen, fleiss, gwet, krippendorff, weight_matrix
from analysis.stats.counts import Patterns, from_counts, from_verdicts

GOLDEN = Path(__file__).parents[1] / "golden"
METRICS = ("nominal", "ordinal", "interval")
WEIGHTS = ("nominal", "linear", "ordinal")

# irrCAC's distrib.6raters (Gwet 2014): 15 patients, 6 psychiatrists, 5 diagnoses.
SIX_RATERS = [
    [0, 0, 0, 6, 0],
    [0, 3, 0, 0, 3],
    [0, 1, 4, 0, 1],
    [0, 0, 0, 0, 6],
    [0, 3, 0, 3, 0],
    [2, 0, 4, 0, 0],
    [0, 0, 4, 0, 2],
    [2, 0, 3, 1, 0],
    [2, 0, 0, 4, 0],
    [0, 0, 0, 0, 6],
    [1, 0, 0, 5, 0],
    [1, 1, 0, 4, 0],
    [0, 3, 3, 0, 0],
    [1, 0, 0, 5, 0],
    [0, 2, 0, 3, 1],
]
# irrCAC's cont3x3abstractors (Gwet 2014): 100 records, 2 abstractors.
ABSTRACTORS = np.array([[13, 0, 0], [0, 20, 7], [0, 4, 56]])


def textbook():
    """Return Krippendorff's example with missing data, which is also irrCAC's cac.raw4raters."""
    with (GOLDEN / "irrcac_raw_4raters.csv").open(encoding="utf-8") as file:
        return [[int(cell) - 1 if cell else -1 for cell in row[1:]] for row in list(csv.reader(file))[1:]]


def two_raters(table):
    return np.divmod(np.repeat(np.arange(table.size), table.ravel()), len(table))


def item_by_item(verdicts, categories):
    """Return the items as patterns of their own, each occurring once."""
    counts = np.array([[item.count(k) for k in range(categories)] for item in verdicts])
    counts = counts[counts.any(axis=1)]
    return Patterns(counts=counts, items=np.ones(len(counts), dtype=np.int64))


# The definitions, item by item and pair by pair, with a weight per item so that they can be differentiated.


def defined_distance(metric, totals, a, b):
    low, high = sorted((a, b))
    if metric == "nominal":
        return float(a != b)
    if metric == "interval":
        return float(a - b) ** 2
    return (sum(totals[low : high + 1]) - (totals[low] + totals[high]) / 2) ** 2


def defined_alpha(items, weights, metric, categories):
    """Return 1 − D_o / D_e from Krippendorff's coincidence matrix."""
    coincidences = np.zeros((categories, categories))
    for item, weight in zip(items, weights, strict=True):
        for a, b in itertools.permutations(item, 2):
            coincidences[a, b] += weight / (len(item) - 1)
    totals = coincidences.sum(axis=0)
    n = totals.sum()
    both = list(itertools.product(range(categories), repeat=2))
    distance = {(a, b): defined_distance(metric, totals, a, b) for a, b in both}
    observed = sum(coincidences[a, b] * distance[a, b] for a, b in both) / n
    expected = sum(totals[a] * totals[b] * distance[a, b] for a, b in both) / (n * (n - 1))
    return 1 - observed / expected


def defined_ac(items, weights, matrix):
    """Return Gwet's coefficient from the mean agreement of pairs and the mean share of each category."""
    q = len(matrix)
    agreement, paired = 0.0, 0.0
    shares = np.zeros(q)
    for item, weight in zip(items, weights, strict=True):
        for verdict in item:
            shares[verdict] += weight / len(item) / sum(weights)
        if len(item) > 1:
            pairs = [matrix[a, b] for a, b in itertools.permutations(item, 2)]
            agreement += weight * sum(pairs) / len(pairs)
            paired += weight
    chance = matrix.sum() / (q * (q - 1)) * sum(p * (1 - p) for p in shares)
    return (agreement / paired - chance) / (1 - chance)


def defined_weights(weights, q):
    """Return Gwet's weights; the ordinal ones count the C(d + 1, 2) pairs from one category to the other."""
    weigh = {
        "nominal": lambda d: float(d == 0),
        "linear": lambda d: 1 - d / (q - 1),
        "ordinal": lambda d: 1 - math.comb(d + 1, 2) / math.comb(q, 2),
    }[weights]
    return np.array([[weigh(abs(a - b)) for b in range(q)] for a in range(q)])


def differentiated_error(function, n, step=1e-5):
    """Return √(n/(n − 1) Σ (U − Ū)²) with U the derivative of `function` by each item's weight."""
    slopes = []
    for i in range(n):
        up, down = np.ones(n), np.ones(n)
        up[i] += step
        down[i] -= step
        slopes.append((function(up) - function(down)) / (2 * step))
    return math.sqrt(n / (n - 1) * ((np.array(slopes) - np.mean(slopes)) ** 2).sum())


@st.composite
def ratings(draw):
    categories, raters = draw(st.integers(2, 4)), draw(st.integers(2, 5))
    item = st.lists(st.integers(-1, categories - 1), min_size=raters, max_size=raters)
    return categories, draw(st.lists(item, min_size=2, max_size=12))


def paired_items(verdicts, at_least=2):
    items = [[verdict for verdict in item if verdict >= 0] for item in verdicts]
    return [item for item in items if len(item) >= at_least]


def test_fleiss_1971():
    table = np.loadtxt(GOLDEN / "fleiss_1971_diagnoses.csv", delimiter=",", skiprows=1, dtype=int)[:, 1:]
    assert table.shape == (30, 5)
    assert set(table.sum(axis=1)) == {6}
    result = fleiss(table)
    assert result.value == pytest.approx(0.430, abs=5e-4)
    assert result.raw == pytest.approx(0.5556, abs=5e-4)
    assert result.expected == pytest.approx(0.2199, abs=5e-4)


def test_fleiss_with_missing_cells_as_in_irrcac():
    result = fleiss(from_verdicts(textbook(), categories=5))
    assert result.value == pytest.approx(0.76117, abs=5e-6)
    assert result.standard_error == pytest.approx(0.15302, abs=5e-6)
    assert result.low == pytest.approx(0.42438, abs=5e-6)
    assert result.high == 1.0
    assert result.raw == pytest.approx(0.81818, abs=5e-6)
    assert result.expected == pytest.approx(0.23872, abs=5e-6)
    assert result.n == 11
    assert len(result.warnings) == 2


@given(ratings())
def test_fleiss_as_in_statsmodels(drawn):
    categories, verdicts = drawn
    items = [item for item in verdicts if min(item) >= 0]
    table = np.array([[item.count(k) for k in range(categories)] for item in items]).reshape(-1, categories)
    assume((table.sum(axis=0) > 0).sum() > 1)
    assert fleiss(table).value == pytest.approx(fleiss_kappa(table), abs=1e-9)


@pytest.mark.parametrize(
    ("metric", "value"), [("nominal", 0.743421), ("ordinal", 0.815388), ("interval", 0.849107)]
)
def test_alpha_of_krippendorffs_example(metric, value):
    result = krippendorff(from_verdicts(textbook(), categories=5), metric=metric)
    assert result.value == pytest.approx(value, abs=5e-7)
    assert result.n == 11
    assert result.ratings == 41
    assert result.warnings[0] == "1 item(s) rated once are left out"


def test_alpha_as_in_irrcac():
    example = krippendorff(from_verdicts(textbook(), categories=5))
    # irrCAC prints 0.805 = 1 − (1 − 1/40)(1 − 0.8) for agreement: the 1/N stands there, not in chance.
    assert 1 - (1 - 1 / 40) * (1 - example.raw) == pytest.approx(0.805)
    assert example.standard_error == pytest.approx(0.14548, rel=1 / 40)
    six = krippendorff(from_counts(SIX_RATERS))
    assert six.value == pytest.approx(0.4204384, abs=5e-8)
    # Complete nominal data: α = 1 − (1 − 1/N)(1 − κ), so the error is that of Fleiss' κ, 0.08119291 in
    # irrCAC, times 89/90.
    assert six.standard_error == pytest.approx(0.08119291 * 89 / 90, abs=5e-8)
    abstractors = krippendorff(from_verdicts(np.stack(two_raters(ABSTRACTORS), axis=1), categories=3))
    assert abstractors.value == pytest.approx(0.7972585, abs=5e-8)


def test_ac1_as_in_irrcac():
    result = gwet(from_verdicts(textbook(), categories=5))
    assert result.value == pytest.approx(0.77544, abs=5e-6)
    assert result.standard_error == pytest.approx(0.14295, abs=5e-6)
    assert result.low == pytest.approx(0.461, abs=5e-4)
    assert result.high == 1.0
    assert result.raw == pytest.approx(0.8181818, abs=5e-8)
    assert result.expected == pytest.approx(0.1903212, abs=5e-8)
    six = gwet(from_counts(SIX_RATERS))
    assert six.value == pytest.approx(0.4448007, abs=5e-8)
    assert six.standard_error == pytest.approx(0.08418757, abs=5e-9)
    assert (six.low, six.high) == pytest.approx((0.264, 0.625), abs=5e-4)


def test_the_error_of_ac1_grows_with_items_rated_once():
    # Two items rated twice, (0, 0) and (1, 1), and two rated once, 0 and 1: p_a = 1 and p_e = 2·½·½ = ½, so
    # AC1 = 1. By chance every item says ½, so nothing comes from there; the items say 4/2·(1 − ½)/½ = 2, 2,
    # 0, 0, which lie 1 from their mean 1: error √(4/(4·3)). Without the two rated once there is no spread.
    result = gwet(from_counts([[2, 0], [0, 2], [1, 0], [0, 1]]))
    assert result.value == pytest.approx(1.0)
    assert result.standard_error == pytest.approx(math.sqrt(1 / 3))
    assert gwet(from_counts([[2, 0], [0, 2]])).standard_error is None
    assert "widen Gwet's interval" in result.warnings[0]


def test_ac1_of_a_contingency_table_as_in_irrcac():
    result = gwet(from_verdicts(np.stack(two_raters(ABSTRACTORS), axis=1), categories=3))
    assert result.value == pytest.approx(0.8493305, abs=5e-8)
    # For contingency tables irrCAC divides by n where everywhere else it divides by n − 1.
    assert result.standard_error * math.sqrt(99 / 100) == pytest.approx(0.04321747, abs=5e-9)


def test_ac2_by_hand():
    # Two raters, 3 categories: (0, 0), (0, 1), (2, 2), (1, 2). Linear weights 1, ½, 0:
    # p_a = (1 + ½ + 1 + ½)/4 = 3/4; shares 3/8, 2/8, 3/8; Σ p(1 − p) = (15 + 12 + 15)/64 = 21/32;
    # T = 3 + 4·½ = 5; p_e = 5/6 · 21/32 = 35/64; AC2 = (48 − 35)/(64 − 35) = 13/29.
    patterns = from_verdicts([[0, 0], [0, 1], [2, 2], [1, 2]], categories=3)
    linear = gwet(patterns, weights="linear")
    assert linear.raw == pytest.approx(3 / 4)
    assert linear.expected == pytest.approx(35 / 64)
    assert linear.value == pytest.approx(13 / 29)
    # Ordinal weights 1, 2/3, 0: p_a = (2 + 4/3)/4 = 5/6; T = 3 + 4·2/3 = 17/3; p_e = 17/18 · 21/32 = 119/192;
    # AC2 = (160 − 119)/(192 − 119) = 41/73.
    assert gwet(patterns, weights="ordinal").value == pytest.approx(41 / 73)


def test_weights_as_in_irrcac():
    assert weight_matrix("linear", 3).tolist() == [[1, 0.5, 0], [0.5, 1, 0.5], [0, 0.5, 1]]
    assert weight_matrix("ordinal", 3)[0] == pytest.approx([1, 2 / 3, 0])
    # Four categories: pairs among 2, 3, 4 neighbours are 1, 3, 6, of 6.
    assert weight_matrix("ordinal", 4)[0] == pytest.approx([1, 5 / 6, 1 / 2, 0])


@settings(deadline=None)
@given(ratings(), st.sampled_from(METRICS))
def test_alpha_is_its_definition_and_its_error_the_derivative(drawn, metric):
    categories, verdicts = drawn
    items = paired_items(verdicts)
    assume(len(items) > 1)
    assume(len(set(itertools.chain(*items))) > 1)

    def alpha(weights):
        return defined_alpha(items, weights, metric, categories)

    result = krippendorff(from_verdicts(verdicts, categories=categories), metric=metric)
    assert result.value == pytest.approx(alpha(np.ones(len(items))), abs=1e-9)
    assert result.value == pytest.approx((result.raw - result.expected) / (1 - result.expected), abs=1e-9)
    assert (result.standard_error or 0.0) == pytest.approx(differentiated_error(alpha, len(items)), abs=1e-6)


@settings(deadline=None)
@given(ratings(), st.sampled_from(WEIGHTS))
def test_gwets_coefficients_are_their_definition_and_their_error_the_derivative(drawn, weights):
    categories, verdicts = drawn
    items = paired_items(verdicts, at_least=1)
    assume(any(len(item) > 1 for item in items))
    matrix = defined_weights(weights, categories)

    def coefficient(by_item):
        return defined_ac(items, by_item, matrix)

    result = gwet(from_verdicts(verdicts, categories=categories), weights=weights)
    assert result.value == pytest.approx(coefficient(np.ones(len(items))), abs=1e-9)
    # With items rated once Gwet's error is another (`test_ac1_as_in_irrcac`).
    if len(items) > 1 and min(len(item) for item in items) > 1:
        error = differentiated_error(coefficient, len(items))
        assert (result.standard_error or 0.0) == pytest.approx(error, abs=1e-6)


@given(ratings(), st.sampled_from(METRICS))
def test_alpha_as_in_the_krippendorff_package(drawn, metric):
    package = pytest.importorskip("krippendorff")
    categories, verdicts = drawn
    items = paired_items(verdicts)
    assume(len(set(itertools.chain(*items))) > 1)
    table = np.array([[item.count(k) for k in range(categories)] for item in verdicts])
    theirs = package.alpha(
        value_counts=table, value_domain=list(range(categories)), level_of_measurement=metric
    )
    assert krippendorff(from_counts(table), metric=metric).value == pytest.approx(theirs, abs=1e-9)


@given(ratings(), st.randoms(use_true_random=False))
def test_the_order_of_raters_and_items_and_the_reduction_make_no_difference(drawn, random):
    categories, verdicts = drawn
    shuffled = [random.sample(item, len(item)) for item in random.sample(verdicts, len(verdicts))]
    same = from_verdicts(verdicts, categories=categories)
    for other in (from_verdicts(shuffled, categories=categories), item_by_item(verdicts, categories)):
        for coefficient in (
            fleiss,
            *(partial(gwet, weights=weights) for weights in WEIGHTS),
            *(partial(krippendorff, metric=metric) for metric in METRICS),
        ):
            close_to(coefficient(same), coefficient(other))


@given(ratings(), st.randoms(use_true_random=False))
def test_nominal_coefficients_ignore_the_names_of_categories(drawn, random):
    categories, verdicts = drawn
    names = random.sample(range(categories), categories)
    renamed = [[names[verdict] if verdict >= 0 else -1 for verdict in item] for item in verdicts]
    one, two = (from_verdicts(v, categories=categories) for v in (verdicts, renamed))
    for coefficient in (fleiss, gwet, krippendorff):
        close_to(coefficient(one), coefficient(two))


@given(ratings(), st.sampled_from(METRICS))
def test_reversed_scales_agree_alike(drawn, metric):
    categories, verdicts = drawn
    turned = [[categories - 1 - verdict if verdict >= 0 else -1 for verdict in item] for item in verdicts]
    one, two = (from_verdicts(v, categories=categories) for v in (verdicts, turned))
    close_to(krippendorff(one, metric=metric), krippendorff(two, metric=metric))


def close_to(ours, theirs):
    for field in ("value", "raw", "expected", "low", "high", "standard_error"):
        one, two = getattr(ours, field), getattr(theirs, field)
        assert (one is None) == (two is None)
        assert one is None or one == pytest.approx(two, abs=1e-9)
    assert (ours.n, ours.ratings, ours.reason, ours.warnings) == (
        theirs.n,
        theirs.ratings,
        theirs.reason,
        theirs.warnings,
    )


def test_alpha_of_complete_data_is_near_fleiss():
    # α = 1 − (1 − 1/N)(1 − κ) with N ratings, when all items have as many.
    kappa = fleiss(SIX_RATERS).value
    assert krippendorff(from_counts(SIX_RATERS)).value == pytest.approx(1 - 89 / 90 * (1 - kappa))


def test_all_the_same():
    patterns = from_counts([[4, 0, 0], [3, 0, 0]])
    for coefficient in (fleiss, *(partial(krippendorff, metric=metric) for metric in METRICS)):
        result = coefficient(patterns)
        assert result.value is None
        assert result.raw == result.expected == 1.0
        assert "all verdicts are the same" in result.reason
    for weights in WEIGHTS:
        result = gwet(patterns, weights=weights)
        assert result.value == 1.0
        assert result.expected == 0.0
        assert result.low is None
        assert any("all verdicts are the same" in warning for warning in result.warnings)
    assert gwet(from_counts([[2, 0], [1, 0]])).standard_error is None
    assert gwet(from_counts([[2], [3]])).reason == "there is only one category"
    assert cohen([1, 1, 1], [1, 1, 1], categories=3).value is None
    assert "all verdicts are the same" in cohen([1, 1, 1], [1, 1, 1], categories=3).reason
    # An item rated once has no part in α: the rest is all the same.
    assert krippendorff(from_counts([[2, 0], [2, 0], [0, 1]])).value is None


def test_no_item_rated_twice():
    for patterns in (from_counts([[1, 0], [0, 1]]), from_counts(np.zeros((0, 2), dtype=int))):
        for result in (fleiss(patterns), gwet(patterns), krippendorff(patterns)):
            assert result.value is None
            assert result.raw is None
            assert result.reason == "no item was rated twice"
            assert result.n == 0
    assert cohen([0, -1], [-1, 1], categories=2).reason == "no item was rated by both"


def test_one_item_has_a_value_and_no_interval():
    # One rating each way: κ = AC1 = (0 − ½)/(1 − ½) = −1; α = 1 − (N − 1) O/E = 1 − 1·2/2 = 0.
    patterns = from_counts([[1, 1]])
    values = {fleiss: -1.0, krippendorff: 0.0, gwet: -1.0}
    for coefficient, value in values.items():
        result = coefficient(patterns)
        assert result.value == pytest.approx(value)
        assert result.low is None
        assert result.high is None
        assert "one item, so no interval can be given" in result.warnings


def test_perfect_agreement_has_no_interval():
    for coefficient in (fleiss, gwet, krippendorff):
        result = coefficient(from_counts([[3, 0], [0, 3], [3, 0], [0, 3]]))
        assert result.value == pytest.approx(1.0)
        assert result.low is None
        assert result.warnings
    both = cohen([0, 1, 2, 1], [0, 1, 2, 1], categories=3)
    assert both.value == pytest.approx(1.0)
    assert both.low is None


def test_the_interval_widens_with_the_level():
    patterns = from_counts(SIX_RATERS)
    for coefficient in (fleiss, gwet, krippendorff):
        result = coefficient(patterns, level=0.8)
        half = stats.t.ppf(0.9, 14) * result.standard_error
        assert (result.low, result.high) == pytest.approx((result.value - half, result.value + half))
        assert coefficient(patterns, level=0.95).low < result.low


def test_cohen_as_in_irrcac():
    result = cohen(*two_raters(ABSTRACTORS), categories=3)
    assert result.value == pytest.approx(0.7964094, abs=5e-8)
    assert result.standard_error == pytest.approx(0.05891072, abs=5e-9)
    assert result.n == 100


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=2, max_size=40))
def test_cohen_as_in_statsmodels(pairs):
    first, second = zip(*pairs, strict=True)
    table = np.zeros((3, 3), dtype=int)
    np.add.at(table, (first, second), 1)
    assume(len(set(first + second)) > 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        # Its test of κ = 0 divides by an error that may be 0, and rounding can make a variance of 0 negative.
        theirs = cohens_kappa(table)
    result = cohen(first, second, categories=3)
    assert result.value == pytest.approx(theirs.kappa, abs=1e-9)
    assert (result.standard_error or 0.0) == pytest.approx(np.nan_to_num(theirs.std_kappa), abs=1e-6)
    if result.low is not None:
        assert result.low == pytest.approx(max(-1.0, theirs.kappa_low), abs=1e-6)
        assert result.high == pytest.approx(min(1.0, theirs.kappa_upp), abs=1e-6)


def test_cohen_leaves_out_items_that_one_has_not_rated():
    complete = cohen([0, 0, 1, 1, 2], [0, 1, 1, 1, 2], categories=3)
    missing = cohen([0, 0, 1, -1, 1, 2, 0, -1], [0, 1, 1, 2, 1, 2, -1, -1], categories=3)
    assert missing.value == complete.value
    assert missing.n == 5
    assert missing.warnings == ("2 item(s) rated by one of the two are left out",)


def test_wrong_settings_and_verdicts_are_named():
    patterns = from_counts([[1, 1]])
    with pytest.raises(ValueError, match="nominal, linear, ordinal, not 'cubic'"):
        gwet(patterns, weights="cubic")
    with pytest.raises(ValueError, match="nominal, ordinal, interval, not 'ratio'"):
        krippendorff(patterns, metric="ratio")
    for coefficient in (fleiss, gwet, krippendorff):
        with pytest.raises(ValueError, match="between 0 and 1; 95"):
            coefficient(patterns, level=95)
    with pytest.raises(ValueError, match="they have 1 and 2"):
        cohen([0], [0, 1], categories=2)
    with pytest.raises(ValueError, match="from 0 to 1; 2 is neither"):
        cohen([0, 2], [0, 1], categories=2)
    with pytest.raises(ValueError, match="integers"):
        cohen([0.5], [0.5], categories=2)
    with pytest.raises(ValueError, match="at least one category"):
        cohen([], [], categories=0)


def test_the_paradox_of_kappa_is_pointed_out():
    # Eight pairs both for x, one x y, one y x: raw .8; κ = (.8 − .82)/(1 − .82) = −.11;
    # AC1: chance ½(.9·.1 + .1·.9) = .09 over three categories, (.8 − .09)/.91 = .78.
    both = ["xx"] * 8 + ["xy", "yx"]
    (row,) = agreement_rows(table(dict(enumerate(both)), criterion="fluency"))
    assert row.agreement.value == pytest.approx(-0.02 / 0.18)
    assert row.ac1.value == pytest.approx(0.71 / 0.91)
    # α = 1 − D_o/D_e = 1 − (4/20)/(2·18·2/(20·19)): its chance is without replacement.
    assert row.alpha.value == pytest.approx(1 - (4 / 20) / (2 * 18 * 2 / (20 * 19)))
    assert row.paradox
    shown = agreement_table((row,))
    assert "Fluency, people: raters mostly agree, and κ is low because one verdict dominates." in shown.note
    assert shown.columns[-2:] == ("Krippendorff's α, ordinal", "Gwet's AC1")


def test_few_verdicts_off_the_commonest_give_no_interval():
    four, five = ([[0, 2, 0]] * 20 + [[1, 1, 0]] * many for many in (4, 5))
    for coefficient in (
        fleiss,
        lambda counts: gwet(from_counts(counts)),
        lambda counts: krippendorff(from_counts(counts)),
    ):
        few, enough = coefficient(np.array(four)), coefficient(np.array(five))
        assert (few.low, few.high) == (None, None)
        assert few.warnings[-1].startswith("fewer than 5 items have any but one and the same verdict")
        assert few.standard_error > 0
        assert enough.low < enough.value < enough.high
