"""Two one-sided tests of a margin: by simulation and by hand."""

import numpy as np
import pytest

from analysis.analyses.outcomes.equivalence import conservative_error, tost


def test_few_wins_of_a_composite_are_not_missed_too_often():
    """At the margin's edge the mean of two criteria, each with few wins, is equivalent in at most .06.

    Its wins count one half, so that by their number its ratings seem to spread four times as far as they do.
    """
    rng, items, margin = np.random.default_rng(1), 100, 0.03
    scores = (rng.random((6000, items, 2)) < 2 * margin).mean(axis=2)
    errors = scores.std(axis=1, ddof=1) / 2 / np.sqrt(items)
    wins, total = (scores > 0).sum(axis=1), scores.sum(axis=1)
    counts, sums = (wins, items - wins, 0 * wins), (total, total, (scores**2).sum(axis=1))
    result = []
    for given in (None, sums):
        grown = conservative_error(errors, counts, items, margin=margin, sums=given)
        result.append((tost(0.5 + scores.mean(axis=1) / 2, grown, items - 1, margin=margin) <= 0.05).mean())
    assert result[0] > 0.075
    assert result[1] <= 0.06


def test_beyond_the_margin_p_is_above_one_half():
    assert tost([0.7, 0.3, 0.55], 0.02, 50, margin=0.05) == pytest.approx([1.0, 1.0, 0.5], abs=1e-6)
    assert np.isnan(tost(0.5, 0.0, 10, margin=0.1))
