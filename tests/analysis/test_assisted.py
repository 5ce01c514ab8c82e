"""People's mean assisted by a judge: by hand, against other programs, and what must hold for any data."""

import numpy as np
import pytest
from hypothesis import strategies as st

PEOPLE = [1, 0.75, 0.5, 0.25, 0, 0.625, 1, 0.375, 0.875, 0.5]
JUDGE = [1, 1, 0.5, 0, 0.5, 0.5, 1, 0, 0.5, 1, *[1, 0.5, 0, 0, 1, 0.5, 1, 1, 0.5, 0.5, 0, 1, 1, 0.5, 1]]


def padded(people, judge):
    return np.array([*people, *[np.nan] * (len(judge) - len(people))], dtype=float)


def variance(found):
    return ((found.interval.estimate - 0.5) / found.test.statistic) ** 2


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
