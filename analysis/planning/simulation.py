"""Simulated studies whose truth is known: verdicts of a panel, under two models of how they come about.

In both models what a rater feels is normal noise of standard deviation 1 around the rater's bias. Each item
has two thresholds: below the lower one the verdict is method_b, above the upper one method_a, between them a
tie. The models differ in where the items' thresholds come from:

- *latent normal*: both thresholds move together, by a normal effect of the item (an ordinal probit model with
  random items);
- *Dirichlet-multinomial*: an unbiased rater's chances of the three verdicts are a draw from a Dirichlet
  distribution for each item. Items differ in how tied they are as well as in who wins.

The parameters are found numerically such that share, tie rate and Fleiss' κ are the ones wanted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

Model = Literal["latent normal", "Dirichlet-multinomial"]
Panel = Literal["fixed", "one apart", "random"]

_BLOCK = 1 << 21
"""Ratings drawn at a time."""
_LEAST_AGREEMENT = 5e-4
"""Stands for 0: items that do not differ at all are a limit of both models that no root finder reaches."""

_WIDEST = 9.0
"""Logarithm of the spread beyond which the root finder has lost its way."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Design:
    """A study to simulate: its size, its truth, and how its raters judge.

    The truth, `share`, `ties` and `agreement`, is what infinitely many items would show with this panel
    (`fixed`, `one apart`) or with infinitely many raters (`random`). A panel has no agreement if it is one
    rater; then `agreement` is what more raters like this one would have.

    `panel` says what the raters' biases are; a bias of 1 is as large as the rater's noise.

    - `fixed`: the same in every study, rater_sd × equidistant normal scores, mean 0 and standard deviation
      rater_sd. Biases come in pairs ± b, so without a difference between the methods an item's score is
      symmetric about zero.
    - `one apart`: the same in every study; one rater is biased towards method_a and the others a little
      towards method_b, mean 0 and standard deviation rater_sd. Without a difference the panel's share is
      still one half, but an item's score is not symmetric, as a randomisation test would have it.
    - `random`: drawn again for each study, normal with standard deviation rater_sd. The truth is about all
      raters there might be, and the study's own panel is a sample of them.

    One rater of a fixed panel has no bias. A rater has the same bias in all criteria.

    Attributes:
        items: Items in a study.
        raters: Raters, each of whom rates every item.
        share: Tie-split win share of method_a.
        ties: Share of ties.
        agreement: Fleiss' κ, from 0 (which is taken as .0005) to below 1.
        model: Where the items' differences come from.
        rater_sd: Standard deviation of the raters' biases, in units of a rater's own noise.
        panel: What the biases are; nothing if `rater_sd` is 0.
        criteria: Criteria, all with the same truth.
        correlation: How far the criteria repeat each other, from 0 to 1. Latent normal: the correlation of
            item effects and of noise. Dirichlet-multinomial: the chance that two criteria of an item are one
            and the same draw, which is the correlation of their scores.

    Raises:
        ValueError: If a value is out of range, or share and ties contradict each other.
    """

    items: int
    raters: int
    share: float = 0.5
    ties: float = 0.32
    agreement: float = 0.41
    model: Model = "latent normal"
    rater_sd: float = 0.0
    panel: Panel = "fixed"
    criteria: int = 1
    correlation: float = 0.0

    def __post_init__(self) -> None:
        if min(self.items, self.raters, self.criteria) < 1:
            raise ValueError(f"items, raters and criteria are at least 1: {self}")
        if self.model not in get_args(Model) or self.panel not in get_args(Panel):
            raise ValueError(f"unknown model or panel: {self}")
        if not 0 < self.ties < 1 or self.ties / 2 >= min(self.share, 1 - self.share):
            raise ValueError(
                f"a share of {self.share:g} with {self.ties:g} ties leaves no wins or no losses; "
                "share − ties/2 and 1 − share − ties/2 must be above 0, and so must ties"
            )
        if not (0 <= self.agreement < 1 and 0 <= self.correlation <= 1 and self.rater_sd >= 0):
            raise ValueError(f"agreement, correlation or rater_sd is out of range: {self}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Truth:
    """What infinitely many items show.

    Attributes:
        chances: Of win, tie and loss for method_a, averaged over the panel, [3].
        together: Chances of two verdicts by two different raters on one item, [3, 3], symmetric.
    """

    chances: tuple[float, float, float]
    together: tuple[tuple[float, float, float], ...]

    @property
    def share(self) -> float:
        """Return the tie-split share."""
        return self.chances[0] + self.chances[1] / 2

    @property
    def ties(self) -> float:
        """Return the tie rate."""
        return self.chances[1]

    @property
    def untied(self) -> float:
        """Return method_a's share of the ratings that are no ties."""
        return self.chances[0] / (self.chances[0] + self.chances[2])

    @property
    def raw(self) -> float:
        """Return how often two raters of an item agree."""
        return sum(self.together[k][k] for k in range(3))

    @property
    def agreement(self) -> float:
        """Return Fleiss' κ."""
        expected = sum(chance**2 for chance in self.chances)
        return (self.raw - expected) / (1 - expected)


def truth(design: Design) -> Truth:
    """Return what `design` comes to, from the parameters found, by quadrature."""
    return _truth(_solved(design), design)


def own_share_sd(design: Design) -> float:
    """Return the standard deviation of raters' own win shares over infinitely many items."""
    each, mass, weights = _each_rater(_solved(design), design)
    own = mass @ ((1 + each[..., 0] - each[..., 2]) / 2)
    return math.sqrt(max(0.0, float(np.cov(own, aweights=weights, ddof=0))))


def simulate(design: Design, *, studies: int, rng: np.random.Generator) -> NDArray[np.int8]:
    """Return verdicts of `studies` studies, int8 [studies, criteria, items, raters].

    +1 is a win of method_a, 0 a tie, −1 a win of method_b. Everything is drawn from `rng`.
    """
    shape = (design.criteria, design.items, design.raters)
    out = np.empty((studies, *shape), dtype=np.int8)
    parameters = _solved(design)
    draw = _latent_normal if design.model == "latent normal" else _dirichlet
    fixed = None if design.panel == "random" else _biases(design)[0]
    step = max(1, _BLOCK // math.prod(shape))
    for start in range(0, studies, step):
        n = min(step, studies - start)
        lower, upper, felt = draw(design, parameters, n, rng)
        if design.rater_sd > 0:
            drawn = rng.standard_normal((n, 1, 1, design.raters)) * design.rater_sd
            felt += (drawn if fixed is None else fixed).astype(np.float32)
        verdicts = out[start : start + n]
        np.greater(felt, upper, out=verdicts, casting="unsafe")
        verdicts -= felt < lower
    return out


Parameters = tuple[float, float, float]
"""Lower and upper threshold of a middling item, and how far items differ (on a log scale)."""
Drawn = tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]
"""Lower and upper thresholds [n, criteria, items, 1], and noise [n, criteria, items, raters]."""


def _latent_normal(design: Design, parameters: Parameters, n: int, rng: np.random.Generator) -> Drawn:
    lower, upper, spread = parameters
    effects = _correlated(design, (n, design.criteria, design.items, 1), rng) * np.float32(math.exp(spread))
    noise = _correlated(design, (n, design.criteria, design.items, design.raters), rng)
    return np.float32(lower) - effects, np.float32(upper) - effects, noise


def _correlated(
    design: Design, shape: tuple[int, int, int, int], rng: np.random.Generator
) -> NDArray[np.float32]:
    """Return standard normal numbers that correlate over the criteria, the second axis."""
    own = rng.standard_normal(shape, dtype=np.float32)
    if design.criteria > 1 and design.correlation > 0:
        common = rng.standard_normal((shape[0], 1, *shape[2:]), dtype=np.float32)
        own *= np.float32(math.sqrt(1 - design.correlation))
        own += np.float32(math.sqrt(design.correlation)) * common
    return own


def _dirichlet(design: Design, parameters: Parameters, n: int, rng: np.random.Generator) -> Drawn:
    alpha = _concentrations(parameters)
    chances = rng.dirichlet(alpha, (n, design.criteria, design.items))
    noise = rng.standard_normal((n, design.criteria, design.items, design.raters), dtype=np.float32)
    if design.criteria > 1 and design.correlation > 0:
        # Both of two criteria are the common draw with chance √c · √c.
        common = rng.dirichlet(alpha, (n, 1, design.items))
        shared = rng.standard_normal((n, 1, design.items, design.raters), dtype=np.float32)
        same = rng.random((n, design.criteria, design.items, 1)) < math.sqrt(design.correlation)
        chances, noise = np.where(same, common, chances), np.where(same, shared, noise)
    lower = special.ndtri(chances[..., 2]).astype(np.float32)
    upper = -special.ndtri(chances[..., 0]).astype(np.float32)
    return lower[..., None], upper[..., None], noise


def _concentrations(parameters: Parameters) -> NDArray[np.float64]:
    """Return the Dirichlet distribution's parameters for win, tie, loss."""
    lower, upper, concentration = parameters
    loss, win = float(special.ndtr(lower)), float(special.ndtr(-upper))
    return math.exp(concentration) * np.array([win, 1 - win - loss, loss])


def _biases(design: Design) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the raters' biases and their weights; of random raters, nodes and weights of a quadrature."""
    if design.rater_sd == 0:
        return np.zeros(1), np.ones(1)
    if design.panel == "random":
        nodes, weights = _normal_nodes(20)
        return nodes * design.rater_sd, weights
    places = np.arange(1, design.raters + 1)
    if design.panel == "fixed":
        scores = special.ndtri((places - 0.5) / design.raters)
    else:
        scores = np.where(places == 1, design.raters - 1.0, -1.0)
    spread = math.sqrt(float((scores**2).mean()))
    scores = scores / spread * design.rater_sd if spread > 0 else np.zeros(design.raters)
    return scores, np.full(design.raters, 1 / design.raters)


def _solved(design: Design) -> Parameters:
    """Return the parameters that give the share, tie rate and κ wanted; they depend on nothing else."""
    several = design.rater_sd > 0 and design.panel != "random"
    agreement = max(design.agreement, _LEAST_AGREEMENT)
    raters = design.raters if several else 1
    return _solve(replace(design, items=1, raters=raters, criteria=1, correlation=0.0, agreement=agreement))


@lru_cache(maxsize=512)
def _solve(design: Design) -> Parameters:
    """Find the parameters numerically.

    Without biases the Dirichlet distribution's are known: κ = 1 / (1 + concentration).
    """
    biases = _biases(design)[0].tolist()
    model, share, ties, agreement = design.model, design.share, design.ties, design.agreement
    loss, win = 1 - share - ties / 2, share - ties / 2
    lower, upper = float(special.ndtri(loss)), -float(special.ndtri(win))
    if model == "Dirichlet-multinomial":
        if not any(biases):
            return lower, upper, math.log(1 / agreement - 1)
        start = (lower, upper, math.log(1 / max(agreement, 0.1) - 1))
    else:
        # A first guess at the latent correlation, which lies above κ, and more so if raters differ.
        correlation = min(0.98, 1.4 * max(agreement, 0.1 if any(biases) else 0.0))
        scale = 1 / math.sqrt(1 - correlation)
        start = (lower * scale, upper * scale, math.log(math.sqrt(correlation) * scale))

    def misses(parameters: NDArray[np.float64]) -> list[float]:
        found = _truth(_triple(parameters), design)
        return [found.share - share, found.ties - ties, found.agreement - agreement]

    solution = optimize.root(misses, start, tol=1e-10)
    if not solution.success or max(map(abs, misses(solution.x))) > 1e-6:
        raise ValueError(
            f"no {model} model has a share of {share:g}, {ties:g} ties and κ = {agreement:g} with biases "
            f"{', '.join(f'{bias:.2f}' for bias in biases)}; take a smaller rater_sd or another agreement"
        )
    return _triple(solution.x)


def _triple(values: NDArray[np.float64]) -> Parameters:
    lower, upper, spread = (float(value) for value in values)
    return lower, upper, min(_WIDEST, max(-_WIDEST, spread))


def _each_rater(
    parameters: Parameters, design: Design
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return raters' chances of win, tie, loss at nodes of items, [nodes, raters, 3], and both's weights."""
    lower, upper, mass = _thresholds(parameters, design.model)
    shift, weights = _biases(design)
    loss, win = special.ndtr(lower[:, None] - shift), special.ndtr(shift - upper[:, None])
    return np.stack([win, 1 - win - loss, loss], axis=2), mass, weights


def _truth(parameters: Parameters, design: Design) -> Truth:
    each, mass, weight = _each_rater(parameters, design)
    anyone = np.einsum("qrk,r->qk", each, weight)
    together = np.einsum("q,qk,ql->kl", mass, anyone, anyone)
    if design.rater_sd > 0 and design.panel != "random" and design.raters > 1:
        # All ordered pairs of raters less those of a rater with the same rater.
        raters = design.raters
        alone = np.einsum("q,qrk,qrl->kl", mass, each, each)
        together = (raters**2 * together - alone) / (raters * (raters - 1))
    chances = mass @ anyone
    return Truth(
        chances=(float(chances[0]), float(chances[1]), float(chances[2])),
        together=tuple((float(row[0]), float(row[1]), float(row[2])) for row in together),
    )


def _thresholds(
    parameters: Parameters, model: Model
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return lower and upper thresholds of items at the nodes of a quadrature, and the nodes' weights."""
    if model == "latent normal":
        nodes, weights = _normal_nodes(120)
        effects = nodes * math.exp(parameters[2])
        return parameters[0] - effects, parameters[1] - effects, weights
    win, tie, loss = _concentrations(parameters)
    uniform, weights = _uniform_nodes(48)
    tied = special.betaincinv(tie, win + loss, uniform)[:, None]
    won = special.betaincinv(win, loss, uniform)
    lost = special.betaincinv(loss, win, 1 - uniform)
    lower, upper = special.ndtri((1 - tied) * lost), -special.ndtri((1 - tied) * won)
    return lower.ravel(), upper.ravel(), np.outer(weights, weights).ravel()


@lru_cache
def _normal_nodes(size: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return nodes and weights of a quadrature over a standard normal number."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(size)
    return nodes, weights / weights.sum()


@lru_cache
def _uniform_nodes(size: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return nodes and weights of a quadrature over a number that is uniform from 0 to 1."""
    nodes, weights = np.polynomial.legendre.leggauss(size)
    return (nodes + 1) / 2, weights / 2
