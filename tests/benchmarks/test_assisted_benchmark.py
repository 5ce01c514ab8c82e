"""The benchmark of assisted people simulates what it says; what it finds is in docs/assisted.md."""

import numpy as np
import pytest


@pytest.mark.slow
def test_a_judge_correlates_as_asked_and_a_line_has_its_figures(load):
    assisted = load("assisted")
    world = assisted.WORLDS[1]
    weight = world.weight_for(0.55)
    people, judge, dataset = world.draw(30_000, weight, np.random.default_rng(1))
    assert np.corrcoef(people, judge)[0, 1] == pytest.approx(0.55, abs=0.02)
    assert np.bincount(dataset) / 30_000 == pytest.approx(world.sizes, abs=0.01)
    plain = assisted.WORLDS[0].draw(30_000, 0.0, np.random.default_rng(1))[1]
    lean = world.draw(30_000, 0.0, np.random.default_rng(1))[1]
    assert lean.mean() - plain.mean() == pytest.approx(0.1 * (1 - plain.mean()), abs=0.01)
    name, rated, *figures = assisted.studies((world, 40, 0.55, 60))
    assert (name, rated) == (world.name, 40)
    r, covers, alone, width, best = map(float, figures)
    assert 0.4 < r < 0.7
    assert min(covers, alone) > 0.8
    assert 0.75 < best < width < 0.95
