"""Whether the human study's test is one for its data: ratings of one pair are not independent."""

from __future__ import annotations

import numpy as np

from analysis.core.correction import holm
from analysis.core.many_studies import net_histograms, sign_flips, sign_tests
from analysis.core.other_tests import clustered, tolerated_correlation
from analysis.core.significance import binomial
from analysis.core.simulation import Design, Model, simulate
from guard_eval.replicate.checks.human_study import SOURCE, SUBJECT, TABLE
from guard_eval.replicate.checks.records import Check
from guard_eval.replicate.checks.sources import DATASETS, KAPPA, RATERS, human_counts

ALPHA = 0.05
STUDIES = 2000
TIES = {"coherence": 0.32, "fluency": 0.67}


def error_rates(design: Design, *, studies: int, seed: int) -> tuple[float, float]:
    """Return how often the pooled binomial and the sign-flip test err at .05 where there is no difference."""
    verdicts = simulate(design, studies=studies, rng=np.random.default_rng(seed))[:, 0]
    wins, losses = (verdicts > 0).sum(axis=(1, 2)), (verdicts < 0).sum(axis=(1, 2))
    pooled = sign_tests(wins, losses).p_values
    by_item = sign_flips(net_histograms(verdicts)).p_values
    return float((pooled <= ALPHA).mean()), float((by_item <= ALPHA).mean())


def level(*, studies: int = STUDIES) -> Check:
    """Check the error rate of the test by simulation at the reported agreement."""
    models: tuple[Model, ...] = ("latent normal", "Dirichlet-multinomial")
    found = {
        (model, criterion): error_rates(
            Design(items=150, raters=RATERS, ties=ties, agreement=KAPPA, model=model), studies=studies, seed=1
        )
        for model in models
        for criterion, ties in TIES.items()
    }
    pooled, by_item = ([rates[place] for rates in found.values()] for place in (0, 1))
    return Check(
        name="human-test-level",
        subject=SUBJECT,
        where=TABLE,
        claim="the exact binomial test on 600 pooled ratings has level .05",
        found=f"where the methods do not differ it errs in {min(pooled):.3f} to {max(pooled):.3f} of the "
        "studies; "
        f"the exact sign-flip test on the 150 pairs in {min(by_item):.3f} to {max(by_item):.3f}",
        holds=max(pooled) < 0.065,
        source=f"{studies} simulated studies each: 150 pairs, 4 raters, κ {KAPPA}, the study's tie rates, "
        "two models",
        detail=(
            (
                "The binomial takes every rating for independent; four people who read the same two texts "
                "are "
                "not."
            ),
            "More settings: docs/calibration.md.",
        ),
    )


def clustered_tests() -> Check:
    """Say what the counts alone allow to be said of the differences."""
    parts, holds = [], []
    for criterion in TIES:
        counts = human_counts(criterion)
        numbers = counts.wins, counts.ties, counts.losses
        p_value = clustered(*numbers, raters=RATERS, correlation=KAPPA).p_value
        limit = tolerated_correlation(*numbers, raters=RATERS)
        assert p_value is not None
        holds.append(p_value <= ALPHA)
        kept = "whatever the correlation" if limit == 1 else f"up to a correlation of {limit or 0:.2f}"
        parts.append(f"{criterion} p = {p_value:.2g}, below .05 {kept}")
    return Check(
        name="human-clustered",
        subject=SUBJECT,
        where="sec:results",
        claim="“Both differences are statistically significant at the α = 0.05 level”",
        found=f"with κ {KAPPA} for the correlation of ratings of one pair: {'; '.join(parts)}",
        holds=None,
        source=f"{SOURCE}; one κ for both criteria; the ratings themselves are not published",
        detail=(
            (
                "With the raw ratings an exact test by pair could be made; with counts it cannot, so this "
                "stays "
                "open. "
                "Coherence is well supported. Fluency depends on how far the raters agreed on it."
            ),
            _holm(),
        ),
    )


def _holm() -> str:
    cells = {(c, d): human_counts(c, d) for c in TIES for d in DATASETS}
    pooled = holm([binomial(counts.wins, counts.losses).p_value for counts in cells.values()]).p_values
    said = ", ".join(
        f"{criterion} on {dataset} {value:.2g}"
        for (criterion, dataset), value in zip(cells, pooled, strict=True)
        if value is not None
    )
    return f"Even the paper's own test, Holm-corrected over the six cells per dataset, gives: {said}."


def kappa() -> Check:
    """Say what can be said of the agreement."""
    raw = []
    for criterion in TIES:
        counts = human_counts(criterion)
        expected = sum((k / counts.n) ** 2 for k in (counts.wins, counts.ties, counts.losses))
        raw.append(f"{criterion} {100 * (expected + KAPPA * (1 - expected)):.0f} %")
    return Check(
        name="human-kappa",
        subject=SUBJECT,
        where="app:E",
        claim="Fleiss' κ = 0.41, moderate agreement",
        found="one value for two criteria, and no ratings published: it cannot be recomputed",
        holds=None,
        source="totals only",
        detail=(
            f"With the printed totals as margins it means that two raters say the same in: {', '.join(raw)}.",
            (
                "“Moderate” begins at 0.41 (Landis and Koch 1977): a little less would be “fair”. No "
                "interval is "
                "given."
            ),
        ),
    )
