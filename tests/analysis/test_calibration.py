"""Do the defaults hold where the truth is known? A short version of benchmarks/calibration.py."""

import numpy as np
import pytest

from analysis.stats import power
from analysis.stats.simulation import Design, simulate, truth

pytestmark = pytest.mark.slow

STUDIES = 1500
SLACK = 3 * (0.05 * 0.95 / STUDIES) ** 0.5  # 1.7 points
PANELS = [(0.0, "fixed"), (0.4, "fixed"), (0.4, "one apart")]


def drawn(design, seed=20261122):
    return simulate(design, studies=STUDIES, rng=np.random.default_rng(seed))


def rejected(p_values):
    return (p_values <= 0.05).mean()


@pytest.mark.parametrize("model", ["latent normal", "Dirichlet-multinomial"])
@pytest.mark.parametrize(("sd", "panel"), PANELS)
@pytest.mark.parametrize("size", [(150, 4, 0.32, 0.41), (40, 5, 0.67, 0.05)])
def test_the_defaults_hold_for_a_fixed_panel(model, sd, panel, size):
    items, raters, ties, agreement = size
    design = Design(
        items=items, raters=raters, ties=ties, agreement=agreement, model=model, rater_sd=sd, panel=panel
    )
    histograms = power.net_histograms(drawn(design)[:, 0])
    test = power.sign_flips(histograms)
    assert abs(rejected(test.p_values) - test.sizes.mean()) < SLACK
    assert test.sizes.mean() > 0.035
    low, high = power.item_means(histograms)
    assert 0.95 - SLACK < ((low <= 0.5) & (high >= 0.5)).mean() < 0.95 + SLACK


@pytest.mark.parametrize("model", ["latent normal", "Dirichlet-multinomial"])
def test_the_interval_holds_where_there_is_a_difference(model):
    design = Design(items=60, raters=3, share=0.65, model=model, rater_sd=0.4, panel="one apart")
    low, high = power.item_means(power.net_histograms(drawn(design)[:, 0]))
    true = truth(design).share
    assert 0.95 - SLACK < ((low <= true) & (high >= true)).mean() < 0.95 + SLACK


@pytest.mark.parametrize("model", ["latent normal", "Dirichlet-multinomial"])
def test_the_papers_pooled_test_does_not_hold(model):
    verdicts = drawn(Design(items=150, raters=4, model=model))[:, 0]
    wins, losses = (verdicts > 0).sum(axis=(1, 2)), (verdicts < 0).sum(axis=(1, 2))
    assert rejected(power.sign_tests(wins, losses).p_values) > 0.12


def test_nothing_holds_for_raters_who_were_not_asked():
    design = Design(items=150, raters=3, rater_sd=0.4, panel="random")
    histograms = power.net_histograms(drawn(design)[:, 0])
    assert rejected(power.sign_flips(histograms).p_values) > 0.2


@pytest.mark.parametrize("correlation", [0.0, 0.9])
def test_holm_keeps_the_error_of_a_family(correlation):
    verdicts = drawn(Design(items=40, raters=3, criteria=5, correlation=correlation))
    p_values = np.stack(
        [power.sign_flips(power.net_histograms(verdicts[:, criterion])).p_values for criterion in range(5)],
        axis=1,
    )
    assert rejected(power.holms(p_values).min(axis=1)) < 0.05 + SLACK
    assert rejected(p_values.min(axis=1)) > 0.075
