"""Simulated studies have the truth that was asked for, by counting a large draw and by another program."""

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats import inter_rater

from analysis.planning.simulation import Design, simulate, truth

pytestmark = pytest.mark.slow

MODELS = ["latent normal", "Dirichlet-multinomial"]
PANELS = [(0.0, "fixed"), (0.5, "fixed"), (0.5, "one apart"), (0.5, "random")]


def large(design, *, seed=1, studies=400):
    """Return a draw as one table of verdicts [items, raters]."""
    drawn = simulate(design, studies=studies, rng=np.random.default_rng(seed))[:, 0]
    return drawn.reshape(-1, design.raters)


def kappa(verdicts):
    return inter_rater.fleiss_kappa(
        np.stack([(verdicts == choice).sum(axis=1) for choice in (1, 0, -1)], axis=1)
    )


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("sd", "panel"), PANELS)
@pytest.mark.parametrize("asked", [(0.5, 0.32, 0.41), (0.6, 0.67, 0.05), (0.8, 0.1, 0.7)])
def test_a_large_draw_has_the_share_ties_and_agreement_asked_for(model, sd, panel, asked):
    share, ties, agreement = asked
    design = Design(
        items=100 if panel != "random" else 10,
        raters=4,
        share=share,
        ties=ties,
        agreement=agreement,
        model=model,
        rater_sd=sd,
        panel=panel,
    )
    verdicts = large(design, studies=400 if panel != "random" else 4000)
    # Four standard errors of 40 000 items, or of 16 000 raters.
    assert (1 + verdicts.mean()) / 2 == pytest.approx(share, abs=0.01)
    assert (verdicts == 0).mean() == pytest.approx(ties, abs=0.01)
    assert kappa(verdicts) == pytest.approx(agreement, abs=0.015)
    found = truth(design)
    assert (found.share, found.ties, found.agreement) == pytest.approx((share, ties, agreement), abs=1e-4)


def test_the_truth_of_raters_by_adding_up_a_normal_distribution():
    # Verdicts of two raters on an item: a bivariate normal distribution cut at two thresholds.
    design = Design(items=1, raters=2, share=0.55, ties=0.4, agreement=0.3)
    found = truth(design)
    cuts = stats.norm.ppf([0.25, 0.65])  # 25 % losses, 40 % ties, 35 % wins

    def both(correlation):
        joint = stats.multivariate_normal([0, 0], [[1, correlation], [correlation, 1]])
        low, high = joint.cdf([cuts[0]] * 2), joint.cdf([cuts[1]] * 2)
        mixed = joint.cdf([cuts[0], cuts[1]])
        return {"loss": low, "tie": high + low - 2 * mixed, "win": 1 - 2 * 0.65 + high}

    # The latent correlation at which two raters both say "loss" as often as in the model …
    grid = np.linspace(0.3, 0.7, 401)
    best = min(grid, key=lambda rho: abs(both(rho)["loss"] - found.together[2][2]))
    # … is that at which they agree on ties and wins as often as there, too.
    assert both(best)["tie"] == pytest.approx(found.together[1][1], abs=1e-3)
    assert both(best)["win"] == pytest.approx(found.together[0][0], abs=1e-3)


def test_the_dirichlet_multinomial_truth_by_its_formula():
    # κ = 1/(1 + c); two verdicts "win" have the chance π (cπ + 1)/(c + 1). Here c = 1, π = .34.
    found = truth(Design(items=1, raters=3, ties=0.32, agreement=0.5, model="Dirichlet-multinomial"))
    assert found.together[0][0] == pytest.approx(0.34 * 1.34 / 2, abs=1e-4)
    assert found.together[0][1] == pytest.approx(0.34 * 0.32 / 2, abs=1e-4)


@pytest.mark.parametrize("panel", ["fixed", "one apart"])
def test_a_fixed_panel_has_biased_raters_and_an_unbiased_share(panel):
    design = Design(items=100, raters=3, rater_sd=0.5, panel=panel)
    own = (1 + large(design).mean(axis=0)) / 2
    assert own.mean() == pytest.approx(0.5, abs=0.008)
    assert own.max() - own.min() > 0.15
    again = (1 + large(design, seed=2).mean(axis=0)) / 2
    assert again == pytest.approx(own, abs=0.02)  # the same raters in every study


def test_random_raters_differ_from_study_to_study():
    design = Design(items=2000, raters=1, rater_sd=0.5, panel="random")
    shares = (1 + simulate(design, studies=400, rng=np.random.default_rng(3)).mean(axis=(1, 2, 3))) / 2
    assert shares.std() > 0.08  # of the items alone it would be .009
    assert shares.mean() == pytest.approx(0.5, abs=0.025)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("correlation", [0.0, 0.5, 1.0])
def test_criteria_repeat_each_other_as_far_as_asked(model, correlation):
    design = Design(items=100, raters=2, criteria=2, correlation=correlation, model=model)
    drawn = simulate(design, studies=300, rng=np.random.default_rng(4)).astype(float)
    found = np.corrcoef(drawn[:, 0].ravel(), drawn[:, 1].ravel())[0, 1]
    # Cutting normal numbers into three verdicts takes some of the correlation away.
    lowest = correlation if model != "latent normal" or correlation in (0, 1) else 0.38
    assert lowest - 0.02 < found < correlation + 0.02
    assert drawn[:, 1].mean() == pytest.approx(0, abs=0.02)


@pytest.mark.parametrize("model", MODELS)
def test_the_generator_decides_everything(model):
    design = Design(items=5, raters=3, criteria=2, correlation=0.3, rater_sd=0.2, panel="random", model=model)
    first, again = (simulate(design, studies=7, rng=np.random.default_rng(5)) for _ in range(2))
    assert first.shape == (7, 2, 5, 3)
    assert first.dtype == np.int8
    assert (first == again).all()
    assert set(np.unique(first)) <= {-1, 0, 1}


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"items": 0}, "at least 1"),
        ({"share": 0.9, "ties": 0.3}, "leaves no wins or no losses"),
        ({"agreement": 1.0}, "out of range"),
        ({"model": "probit"}, "unknown model"),
    ],
)
def test_impossible_designs(wrong, says):
    with pytest.raises(ValueError, match=says):
        Design(**({"items": 10, "raters": 3} | wrong))


def test_no_agreement_to_be_had_with_raters_so_far_apart():
    with pytest.raises(ValueError, match="take a smaller rater_sd"):
        truth(Design(items=10, raters=2, agreement=0.9, rater_sd=50.0))
