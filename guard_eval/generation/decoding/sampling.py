"""Strategies that draw. Each function returns logits with −inf for the tokens that it removes.

−inf in the logits given marks a token that cannot come. At least one token of each row is kept. The sources
stand beside the names in `strategies/values.py`.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from guard_eval.generation.decoding.candidates import keep_largest, scatter, sort_values
from guard_eval.generation.decoding.context import Context
from guard_eval.generation.decoding.entropy import log_normaliser, shannon_entropy
from guard_eval.generation.strategies import (
    AdaptiveDecoding,
    EpsilonSampling,
    EtaSampling,
    Greedy,
    MinP,
    Mirostat,
    PLess,
    Temperature,
    TopK,
    TopNSigma,
    TopP,
    Typical,
    apply_step,
    initial_state,
    trace_values,
    update_state,
)

ZIPF_TOKENS = 100
"""m of Mirostat: how many of the likeliest tokens the exponent is estimated from."""


def tempered(logits: Tensor, temperature: float) -> Tensor:
    """Return logits `[B, V]`, float32, up to a constant, divided by the temperature."""
    if temperature == 1:
        return logits
    # The largest becomes 0, so that no division overflows where it matters. A temperature beyond float32's
    # numbers would divide 0 by 0, or −inf by inf.
    limits = torch.finfo(torch.float32)
    return (logits - logits.amax(-1, keepdim=True)) / min(max(temperature, limits.tiny), limits.max)


@apply_step.register
def greedy(strategy: Greedy, logits: Tensor, context: object) -> Tensor:  # noqa: ARG001
    """Leave the logits as they are: the likeliest token is taken."""
    return logits


@apply_step.register
def temperature(strategy: Temperature, logits: Tensor, context: object) -> Tensor:  # noqa: ARG001
    """Return the log-weights of softmax(logits / τ) over all tokens."""
    return tempered(logits, strategy.tau)


@apply_step.register
def top_k(strategy: TopK, logits: Tensor, context: object) -> Tensor:  # noqa: ARG001
    """Keep the k most likely tokens; of equally likely ones those with smaller ids."""
    k = min(strategy.k, logits.shape[1])
    largest = logits.topk(k).values
    return keep_largest(logits, largest, torch.full_like(largest[:, 0], k, dtype=torch.long))


@apply_step.register
def top_p(strategy: TopP, logits: Tensor, context: object) -> Tensor:  # noqa: ARG001
    """Keep the smallest set of most likely tokens whose probability reaches p (section 3.1 of its paper).

    The token that reaches p is kept. Of equally likely ones the smaller id is kept.
    """
    if strategy.p == 1:  # rounding must not remove a token
        return logits
    ordered = sort_values(logits)
    p = ordered.softmax(-1)
    count = (p.cumsum(-1, dtype=torch.float64) - p < strategy.p).sum(-1)
    return keep_largest(logits, ordered, count)


@apply_step.register
def typical(strategy: Typical, logits: Tensor, context: object) -> Tensor:  # noqa: ARG001
    """Keep the smallest set, of those with −ln p nearest to the entropy, whose probability reaches τ.

    The token that reaches τ is kept. Of equally near ones the smaller id is kept.
    """
    entropy, log_z = shannon_entropy(logits)
    log_p = logits.double() - log_z[:, None]
    distance = (log_p + entropy[:, None]).abs()  # infinite for a token that cannot come
    ids = torch.sort(distance, dim=-1, stable=True).indices
    ordered = log_p.gather(1, ids)
    p = ordered.exp()
    before = p.cumsum(-1) - p
    remaining = ordered.float().masked_fill(before >= strategy.tau * p.sum(-1, keepdim=True), -torch.inf)
    return scatter(logits, ids, remaining)


@apply_step.register
def min_p(strategy: MinP, logits: Tensor, context: object) -> Tensor:  # noqa: ARG001
    """Keep the tokens that are at least p times as likely as the most likely one."""
    share = (logits - logits.amax(-1, keepdim=True)).exp()
    return logits.masked_fill(share < strategy.p, -torch.inf)


@apply_step.register
def adaptive(strategy: AdaptiveDecoding, logits: Tensor, context: object) -> Tensor:  # noqa: ARG001
    """Keep the tokens that add more than ε to the confidence, and at least the first."""
    values, ids = torch.sort(logits, dim=-1, descending=True, stable=True)
    admitted = confidence_gain(values.double().softmax(-1)) > strategy.epsilon
    admitted[:, 0] = True
    return scatter(logits, ids, values.masked_fill(~admitted, -torch.inf))


def confidence_gain(p: Tensor) -> Tensor:
    """Return ΔConf_k of adaptive decoding: what admitting the k-th most likely token adds to the confidence.

    R_k is thought of as spread evenly over the V − k other tokens. The gain does not always decline: a token
    may add less than ε and a later one more.

    Args:
        p: Probabilities in descending order, `[B, V]`, float64.
    """
    vocabulary = p.shape[-1]
    # Summed from the smallest: 1 − Σ p would lose the digits of a small rest, and its sign.
    before = p.flip(-1).cumsum(-1).flip(-1)
    after = torch.nn.functional.pad(before[:, 1:], (0, 1))
    others = torch.arange(vocabulary - 1, -1, -1, dtype=p.dtype, device=p.device)
    spread = torch.xlogy(after, after / others.clamp(min=1)) - torch.xlogy(before, before / (others + 1))
    return (torch.xlogy(p, p) + spread) / math.log(vocabulary)


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
def mirostat(_strategy: Mirostat, logits: Tensor, context: Context) -> Tensor:
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
    finite = b.isfinite()
    s = (t * b.masked_fill(~finite, 0)).sum(-1) / (t.square() * finite).sum(-1).clamp(min=1e-12)
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
