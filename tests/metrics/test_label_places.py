"""Labels of points: none covers another, a point, or the edge of the axes."""

import itertools
import random

import numpy as np
import pytest

from guard_eval.metrics.figures.canvas import nudged


@pytest.mark.parametrize("seed", range(5))
def test_labels_stand_clear_of_each_other_and_within_the_axes(seed):
    draw = random.Random(seed)
    # fifteen points within 120 × 60 pixels of axes of 700 × 390
    places = np.array([(draw.uniform(560, 680), draw.uniform(200, 260)) for _ in range(15)])
    sizes = np.array([(20.0, 14.0)] * 15)
    middles = places + nudged(places, sizes, np.array([[0.0, 0.0], [700.0, 390.0]]))
    for one, other in itertools.combinations(middles, 2):
        assert abs(one[0] - other[0]) >= 20 - 1e-9 or abs(one[1] - other[1]) >= 14 - 1e-9
    assert (middles >= sizes / 2).all()
    assert (middles <= np.array([700, 390]) - sizes / 2).all()
    # and none of them hides a point
    gaps = np.abs(middles[:, None] - places)
    assert not ((gaps[..., 0] < 10) & (gaps[..., 1] < 7)).any()
