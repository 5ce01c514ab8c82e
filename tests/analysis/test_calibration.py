"""Error rates under "no difference", with raters as in the paper (κ = 0.41): what holds, what does not."""

import numpy as np

from analysis.core.intervals import item_mean
from analysis.core.significance import binomial, sign_flip

STUDIES, ITEMS, RATERS = 600, 150, 4


def test_the_item_level_test_keeps_its_error_rate_and_the_pooled_one_does_not():
    # Dirichlet-multinomial ratings: the intra-item correlation is 1 / (1 + concentration) = .41.
    rng = np.random.default_rng(20261120)
    concentration = 1 / 0.41 - 1
    alpha = concentration * np.array([0.34, 0.32, 0.34])
    pooled = by_item = covered = 0
    for _ in range(STUDIES):
        chances = rng.dirichlet(alpha, ITEMS)
        counts = np.array([rng.multinomial(RATERS, chance) for chance in chances])
        net = counts[:, 0] - counts[:, 2]
        pooled += binomial(int(counts[:, 0].sum()), int(counts[:, 2].sum())).p_value <= 0.05
        by_item += sign_flip(net, np.full(ITEMS, RATERS)).p_value <= 0.05
        interval = item_mean(0.5 + net / (2 * RATERS), ["d"] * ITEMS)
        covered += interval.low <= 0.5 <= interval.high
    # Three standard errors of a rate of 5 % in 600 studies are 2.7 points.
    assert by_item / STUDIES < 0.077
    assert covered / STUDIES > 0.923
    assert pooled / STUDIES > 0.12
