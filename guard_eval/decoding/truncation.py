"""More truncations. Each returns logits with −inf for the tokens that it removes.

−inf in the logits given marks a token that cannot come. At least one token of each row is kept. Probabilities
are compared as logarithms in float64. The sources stand beside the names in `strategies/values.py`.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from guard_eval.decoding.candidates import keep_largest, sort_values, top_candidates
from guard_eval.decoding.entropy import log_normaliser, shannon_entropy
from guard_eval.decoding.noise import uniform
from guard_eval.decoding.sampling import scatter, tempered
from guard_eval.strategies.protocol import apply_step, initial_state, trace_values, update_state
from guard_eval.strategies.values import (
    EpsilonSampling,
    EtaSampling,
    ExcludeTopChoices,
    MinK,
    Mirostat,
    PLess,
    TopH,
    TopNSigma,
)

TOP_H_TOKENS = 100
"""How many of the likeliest tokens top-H looks at, as in its authors' program and transformers'."""
ZIPF_TOKENS = 100
"""m of Mirostat: how many of the likeliest tokens the exponent is estimated from."""


@apply_step.register(EpsilonSampling | EtaSampling | PLess)
def keep_probable(
    strategy: EpsilonSampling | EtaSampling | PLess,
    logits: Tensor,
    context: object,  # noqa: ARG001
) -> Tensor:
    """Keep the tokens with p ≥ ε, p ≥ η = min(ε, √ε · exp(−H)), or p ≥ Σ p², as the authors' programs do."""
    entropy, log_z = shannon_entropy(logits)
    if isinstance(strategy, PLess):
        best = logits.amax(-1)
        least = log_normaliser(2 * (logits - best[:, None])) - 2 * (log_z - best)
    else:
        least = torch.full_like(entropy, math.log(strategy.epsilon))
        if isinstance(strategy, EtaSampling):
            least = torch.minimum(least, least / 2 - entropy)
    return _keep_at_least(logits, logits.double() - log_z[:, None], least[:, None])


@apply_step.register
def top_n_sigma(strategy: TopNSigma, logits: Tensor, context: object) -> Tensor:  # noqa: ARG001
    """Keep the tokens with l ≥ M − nσ, M and σ the largest and the standard deviation (n − 1) of logits.

    What cannot come (−inf) counts for neither. This is the README of the authors' program, whose
    `nsigma_truncate` also removes a token at the bound itself.
    """
    exact, possible = logits.double(), logits > -torch.inf
    count = possible.sum(-1, keepdim=True)
    mean = exact.masked_fill(~possible, 0).sum(-1, keepdim=True) / count
    squares = (exact - mean).square().masked_fill(~possible, 0).sum(-1, keepdim=True)
    sigma = (squares / (count - 1).clamp(min=1)).sqrt()
    return _keep_at_least(logits, exact, exact.amax(-1, keepdim=True) - strategy.n * sigma)


@apply_step.register
def top_h(strategy: TopH, logits: Tensor, context: object) -> Tensor:  # noqa: ARG001
    """Keep the likeliest tokens as long as Σ −p ln p over them is at most α times that over all.

    p and "all" are of the 100 likeliest tokens, as in transformers. The paper bounds the entropy of what is
    left, renormalised; its authors' program (`TopH_LogitsProcessor`) bounds its part of the sum, too, with p
    of the whole vocabulary: that is the same where the 100 hold all of the probability.
    """
    values, ids = top_candidates(logits, TOP_H_TOKENS)
    log_p = values.double().log_softmax(-1)
    terms = -torch.special.xlogy(log_p.exp(), log_p.exp())
    kept = terms.cumsum(-1) <= strategy.alpha * terms.sum(-1, keepdim=True)
    kept[:, 0] = True
    return scatter(logits, ids, values.masked_fill(~kept, -torch.inf))


@apply_step.register
def min_k(strategy: MinK, logits: Tensor, context: object) -> Tensor:  # noqa: ARG001
    """Keep the k tokens with the largest logits by Algorithm 1 of its paper; then apply the temperature.

    What cannot come (−inf) does not count. Of equal w_i the first one's i is taken, of equal logits the
    smaller ids.
    """
    exact = sort_values(logits)
    ordered = exact.double()
    possible = ordered > -torch.inf
    least = torch.where(possible, ordered, torch.inf).amin(-1, keepdim=True)
    ordered = torch.where(possible, ordered, least)
    spread = ordered[:, :1] - least + 1e-8
    index = torch.arange(1, ordered.shape[-1], device=logits.device)
    weight = (ordered[:, :-1] - ordered[:, 1:]) / (index * spread)
    size = ordered.shape[-1]
    cliff = weight.argmax(-1) + 1 if size > 1 else torch.ones_like(ordered[:, 0]).long()
    k = torch.maximum(cliff, (strategy.tau / spread[:, 0]).clamp(max=size).long())
    return tempered(keep_largest(logits, exact, k), strategy.temperature)


@apply_step.register
def exclude_top_choices(strategy: ExcludeTopChoices, logits: Tensor, context: Any) -> Tensor:  # noqa: ANN401
    """Remove the tokens of p ≥ `threshold` but the least likely of them, in a share of the steps.

    Equally likely ones of the least stay in. The author's program leaves all in where the end of the text or
    of a line would be left out.
    """
    log_p = logits.double() - log_normaliser(logits)[:, None]
    choices = log_p >= (math.log(strategy.threshold) if strategy.threshold else -math.inf)
    least = torch.where(choices, log_p, torch.inf).amin(-1, keepdim=True)
    no_token = torch.full_like(context.keys, -1)[:, None]
    coin = uniform(context.keys, context.step, no_token)
    return logits.masked_fill(choices & (log_p > least) & (coin < strategy.probability), -torch.inf)


@apply_step.register
def mirostat(_strategy: Mirostat, logits: Tensor, context: Any) -> Tensor:  # noqa: ANN401
    """Keep the k likeliest tokens, for a surprise of μ bits under Zipf's law (Algorithm 1); the state is μ.

    s = Σ t_i b_i / Σ t_i² with t_i = ln((i + 1) / i) and b_i = ln(p_i / p_{i+1}) over the 100 likeliest, and
    k = ((s − 1) 2^μ / (1 − V^(1 − s)))^(1/s), rounded, and one more, as in the authors' program, which
    takes 3001 tokens for s, and V = 50,000 of any model.
    """
    mu, size = context.state[:, 0], logits.shape[-1]
    ordered = sort_values(logits)
    head = ordered[:, :ZIPF_TOKENS].double()
    index = torch.arange(1, head.shape[-1], dtype=torch.float64, device=logits.device)
    t = (1 / index).log1p()
    b = head[:, :-1] - head[:, 1:]
    known = b.isfinite()
    s = (t * b.masked_fill(~known, 0)).sum(-1) / (t.square() * known).sum(-1).clamp(min=1e-12)
    excess, log_v = s - 1, math.log(size)
    # (s − 1) / (1 − V^(1 − s)), which is 1 / ln V at s = 1, and is positive on both sides of it.
    near = excess.abs() < 1e-9
    safe = torch.where(near, 1.0, excess)
    ratio = torch.where(near, 1 / max(log_v, 1e-12), safe / -torch.expm1(-safe * log_v))
    log_k = (ratio.log() + mu * math.log(2)) / s.clamp(min=1e-6)
    k = log_k.clamp(max=math.log(2.0**40)).exp().round().clamp(max=size - 1).long() + 1
    return keep_largest(logits, ordered, k)


@initial_state.register
def first_mu(strategy: Mirostat) -> list[float]:
    """Return μ = 2τ."""
    return [2 * strategy.tau]


@update_state.register
def next_mu(strategy: Mirostat, state: Tensor, logits: Tensor, tokens: Tensor) -> None:
    """Change μ to μ − η (S − τ), where S = −log2 p is the surprise of the token that was drawn.

    p is that of the whole distribution, as in the authors' program, not that of the k tokens.
    """
    log_p = logits.gather(1, tokens[:, None])[:, 0].double() - log_normaliser(logits)
    state[:, 0] -= strategy.eta * (-log_p / math.log(2) - strategy.tau)


@trace_values.register
def trace_mu(strategy: Mirostat, before: Tensor, after: Tensor) -> dict[str, Tensor]:  # noqa: ARG001
    """Return the μ that a step found."""
    return {"mu": before[:, 0]}


def _keep_at_least(logits: Tensor, values: Tensor, least: Tensor) -> Tensor:
    """Return logits `[B, V]` with −inf where `values` `[B, V]` are below `least`, but for the largest."""
    return logits.masked_fill((values < least) & (logits < logits.amax(-1, keepdim=True)), -torch.inf)
