"""The benchmark of ranks simulates what it says; what it finds is in docs/calibration.md."""

import numpy as np


def test_a_study_has_what_it_says_and_a_line_its_figures(load):
    ranks = load("ranks")
    rng = np.random.default_rng(1)
    rows = ranks.study(rng, np.array([2.0, 0.0, -2.0]), 50, 2, 3)
    assert rows.shape == (4, 300)
    assert (rows[1] < rows[2]).all()
    wins = rows[3][(rows[1] == 0) & (rows[2] == 2)]
    assert wins.mean() > 1.9
    assert ranks.ranked(rows, np.array([2.0, 0.0, -2.0]), 50)[:2] == (True, True)
    line = ranks.line_of(((4, 20, 6, 2), True, 5))
    assert line[:4] == ("4", "20", "6 of 6, 2 raters", "alike")
    assert float(line[4]) >= 0.6
