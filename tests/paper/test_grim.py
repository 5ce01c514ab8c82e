"""GRIM against counting, and against what the paper's tables can and cannot be."""

from fractions import Fraction

import pytest
from grim import counts, fits, nearest, printed
from hypothesis import given
from hypothesis import strategies as st


@given(st.integers(1, 400), st.integers(0, 2), st.data())
def test_what_counts_give_is_possible_and_fits(n, decimals, data):
    wins = data.draw(st.integers(0, n))
    ties = data.draw(st.integers(0, n - wins))
    row = [data.draw(st.sampled_from(sorted(printed(k, n, decimals)))) for k in (wins, ties, n - wins - ties)]
    assert wins in counts(row[0], n)
    assert fits(row, n)


@given(st.integers(1, 60), st.integers(0, 1000))
def test_a_cell_and_its_nearest_are_what_counting_finds(n, tenths):
    shares = [Fraction(100 * k, n) for k in range(n + 1)]
    cell = f"{tenths / 10:.1f}"
    distances = [abs(share - Fraction(tenths, 10)) for share in shares]
    assert [*counts(cell, n)] == [k for k in range(n + 1) if distances[k] <= Fraction(1, 20)]
    assert nearest(cell, n) in printed(distances.index(min(distances)), n, 1)


def test_possible_cells_whose_counts_cannot_sum():
    assert fits(["33", "33", "33"], 3)  # one each
    assert counts("67", 3)
    assert not fits(["67", "67"], 3)  # two each
    assert fits(["33.3", "33.3", "33.3"], 150)  # rounding alone breaks no sum


@pytest.mark.parametrize(("percentage", "possible"), [("12", True), ("13", True), ("14", False)])
def test_a_half_may_be_rounded_either_way(percentage, possible):
    assert bool(counts(percentage, 8)) is possible  # 1/8 = 12.5 %
