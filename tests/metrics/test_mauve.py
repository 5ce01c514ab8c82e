"""MAUVE equals the package mauve-text and hand arithmetic."""

import math
import sys
import warnings

import numpy as np
import pytest

from guard_eval.errors import MissingExtraError
from guard_eval.metrics.scorers.mauve import (
    Mauve,
    compute_mauve,
    compute_mauve_contributions,
    integrate_divergence_curve,
)

pytestmark = pytest.mark.slow


def oracle():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of SWIG's types, on Python 3.12 and later
        return pytest.importorskip("mauve", reason="mauve-text is not installed").compute_mauve


def features(seed, n, m, d, shift):
    """Return random features of two sets, around eight centres. The sets prefer different centres."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(8, d))
    sets = []
    for size, tilt in ((n, 0.0), (m, shift)):
        shares = np.exp(tilt * np.arange(8))
        chosen = rng.choice(8, size=size, p=shares / shares.sum())
        sets.append((centres[chosen] + rng.normal(size=(size, d))).astype(np.float32))
    return sets


def shares(labels, buckets):
    return np.bincount(labels, minlength=buckets) / len(labels)


@pytest.mark.parametrize(
    ("shape", "buckets"),
    [
        ((200, 200, 32, 0.4), "auto"),
        ((120, 310, 20, 0.2), "auto"),
        ((60, 60, 90, 0.8), 5),  # fewer texts than dimensions
        ((400, 400, 16, 0.3), 100),
        ((700, 700, 8, 0.2), 2),  # more points per bucket than k-means takes
    ],
)
def test_mauve_equals_mauve_text(shape, buckets):
    p, q = features(7, *shape)
    theirs = oracle()(p_features=p, q_features=q, num_buckets=buckets, seed=3)
    result = compute_mauve(p, q, buckets=buckets, seeds=(3,))
    [(p_labels, q_labels)] = result.labels
    assert result.buckets == theirs.num_buckets
    np.testing.assert_array_equal(shares(p_labels, result.buckets), theirs.p_hist)
    np.testing.assert_array_equal(shares(q_labels, result.buckets), theirs.q_hist)
    assert integrate_divergence_curve(theirs.p_hist, theirs.q_hist) == pytest.approx(
        100 * theirs.mauve, abs=1e-9
    )
    assert result.value == pytest.approx(100 * theirs.mauve, abs=1e-9)


def test_mauve_is_the_mean_over_seeds():
    p, q = features(9, 150, 150, 24, 0.3)
    result = compute_mauve(p, q)
    alone = [compute_mauve(p, q, seeds=(seed,)).values[0] for seed in range(25, 30)]
    assert list(result.values) == alone
    assert result.value == pytest.approx(sum(alone) / 5)
    assert (result.n, result.buckets, result.reason) == (150, 15, "")


def test_mauve_of_separate_sets_equals_the_integral():
    p, _ = features(11, 100, 100, 16, 0.0)
    result = compute_mauve(p + 100, -p - 100)
    # exp(-5 KL) is (1 - λ)⁵ and λ⁵: the polygon through 25 of their points, and ∫ (1 - λ)⁵ dλ⁵ = 5!·5!/10!
    assert result.value == pytest.approx(100 * math.factorial(5) ** 2 / math.factorial(10), abs=0.1)


def test_auto_buckets_are_a_tenth_of_the_texts():
    """Python rounds halves to even, and so does the authors' package."""
    sets = [[np.full((count, 2), np.nan) for count in (n, 2000)] for n in (3, 25, 35, 1314)]
    assert [compute_mauve(*pair).buckets for pair in sets] == [2, 2, 4, 131]


def test_too_few_texts_have_no_mauve():
    reasons = {
        (19, 100, "auto"): "19 texts with a reference; for 2 buckets at least 20 are needed",
        (0, 0, "auto"): "0 texts with a reference",
        (100, 99, 50): "99 texts with a reference; for 50 buckets at least 100 are needed",
    }
    for (n, m, buckets), reason in reasons.items():
        result = compute_mauve(np.ones((n, 4)), np.ones((m, 4)), buckets=buckets)
        assert math.isnan(result.value)
        assert (result.values, result.labels) == ((), ())
        assert reason in result.reason


def test_equal_constant_features_have_a_mauve_of_100():
    same = np.full((40, 6), 0.3, dtype=np.float32)
    assert compute_mauve(same, same).value == pytest.approx(100, abs=1e-9)


def test_mauve_of_nan_features_is_undefined():
    p, q = features(13, 40, 40, 6, 0.0)
    q[3, 2] = np.nan
    assert "not finite" in compute_mauve(p, q).reason


def test_mauve_does_not_depend_on_threads(capfd):
    faiss = pytest.importorskip("faiss", reason="faiss is not installed")
    p, q = features(14, 300, 300, 48, 0.3)
    before, results = faiss.omp_get_max_threads(), set()
    for threads in (1, 2, 4, before):
        faiss.omp_set_num_threads(threads)
        results.add(compute_mauve(p, q).values)
        assert faiss.omp_get_max_threads() == threads
    assert len(results) == 1
    assert capfd.readouterr() == ("", "")  # faiss does not complain of few points either


def test_mauve_without_faiss_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    p, q = features(15, 30, 30, 6, 0.0)
    with pytest.raises(MissingExtraError, match=r"'faiss-cpu'.*pip install -e '.*\[metrics\]'"):
        compute_mauve(p, q)


def mauve_of_labels(p, q, buckets, seeds=1):
    value = float(integrate_divergence_curve(shares(p, buckets), shares(q, buckets)))
    return Mauve(values=(value,) * seeds, n=len(p), buckets=buckets, labels=((p, q),) * seeds)


def test_mauve_contributions_equal_a_jackknife():
    """Without one of four prompts, the histograms of references or texts have shares in thirds."""
    p, q = np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1])
    value = float(integrate_divergence_curve([0.5, 0.5], [0.25, 0.75]))
    less_p = [
        float(integrate_divergence_curve(side, [0.25, 0.75])) - value
        for side in ([1 / 3, 2 / 3], [2 / 3, 1 / 3])
    ]
    less_q = [
        float(integrate_divergence_curve([0.5, 0.5], side)) - value for side in ([0, 1], [1 / 3, 2 / 3])
    ]
    without = np.array(
        [less_p[0] + less_q[0], less_p[0] + less_q[1], less_p[1] + less_q[1], less_p[1] + less_q[1]]
    )
    result = mauve_of_labels(p, q, 2, seeds=2)
    assert compute_mauve_contributions(result) == pytest.approx(
        value + 3 * (without.mean() - without), abs=1e-9
    )
    assert compute_mauve_contributions(result).mean() == pytest.approx(value)
