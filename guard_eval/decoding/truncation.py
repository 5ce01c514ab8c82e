"""More truncations: each returns logits `[B, V]`, float32, with −inf for the tokens that are left out.

They take logits `[B, V]`, of which −inf is a token that cannot come, and keep one token of each row at least.
Comparisons with probabilities are made on their logarithms in float64; a row's bits do not depend on the
others.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from guard_eval.decoding.candidates import top_candidates
from guard_eval.decoding.entropy import log_normaliser, row_sums, shannon_entropy
from guard_eval.decoding.noise import uniform

TOP_H_TOKENS = 100
"""How many of the likeliest tokens top-H looks at, as in its authors' program and transformers'."""
ZIPF_TOKENS = 100
"""m of Mirostat: how many of the likeliest tokens the exponent is estimated from."""


def epsilon_sampling(logits: Tensor, epsilon: float) -> Tensor:
    """Leave in the tokens with p ≥ ε.

    Source: Hewitt, Manning and Liang 2022 (arXiv 2210.15191), ε-sampling; `EpsilonWarper` of their program.
    """
    return _from(logits, logits.double() - log_normaliser(logits)[:, None], math.log(epsilon))


def eta_sampling(logits: Tensor, epsilon: float) -> Tensor:
    """Leave in the tokens with p ≥ η = min(ε, √ε · exp(−H)), where H is the entropy in nats.

    Source: Hewitt, Manning and Liang 2022 (arXiv 2210.15191), η-sampling with α = √ε; `EtaWarper` of their
    program.
    """
    entropy, log_z = shannon_entropy(logits)
    log_eta = (math.log(epsilon) / 2 - entropy).clamp(max=math.log(epsilon))
    return _from(logits, logits.double() - log_z[:, None], log_eta[:, None])


def p_less(logits: Tensor) -> Tensor:
    """Leave in the tokens with p ≥ Σ p², the chance that two draws are the same token.

    Source: Tan, Wu and Howard 2025 (arXiv 2509.23234); `p_less_decode` of their program.
    """
    best = logits.amax(-1, keepdim=True)
    shifted = logits - best
    log_z = log_normaliser(shifted)
    return _from(
        logits, shifted.double() - log_z[:, None], (log_normaliser(2 * shifted) - 2 * log_z)[:, None]
    )


def top_n_sigma(logits: Tensor, n: float) -> Tensor:
    """Leave in the tokens with l ≥ M − nσ, M and σ the largest and the standard deviation (n − 1) of logits.

    What cannot come (−inf) counts for neither. Source: Tang et al. 2024 (arXiv 2411.07641); README of their
    program, whose `nsigma_truncate` leaves out a token at the bound itself, too.
    """
    possible = logits > -torch.inf
    count = possible.sum(-1, dtype=torch.float64)
    mean = row_sums(logits.masked_fill(~possible, 0)) / count
    squares = row_sums((logits.double() - mean[:, None]).square().masked_fill(~possible, 0))
    sigma = (squares / (count - 1).clamp(min=1)).sqrt()
    return _from(logits, logits.double(), (logits.amax(-1).double() - n * sigma)[:, None])


def top_h(logits: Tensor, alpha: float) -> Tensor:
    """Leave in the likeliest tokens as long as Σ −p ln p over them is at most α times that over all.

    p and "all" are of the 100 likeliest tokens, as in transformers. The paper bounds the entropy of what is
    left, renormalised; its authors' program (`TopH_LogitsProcessor`) bounds its part of the sum, too, with p
    of the whole vocabulary: that is the same where the 100 hold all of the probability.

    Source: Baghaei Potraghloo et al. 2025 (arXiv 2509.02510).
    """
    values, ids = top_candidates(logits.float(), TOP_H_TOKENS)
    log_p = values.double().log_softmax(-1)
    terms = -torch.special.xlogy(log_p.exp(), log_p.exp())
    kept = terms.cumsum(-1) <= alpha * terms.sum(-1, keepdim=True)
    kept[:, 0] = True
    return torch.full_like(logits, -torch.inf).scatter(1, ids, values.masked_fill(~kept, -torch.inf))


def min_k(logits: Tensor, tau: float) -> Tensor:
    """Leave in the k tokens with the largest logits, k = max(argmax_i w_i, ⌊τ / R⌋).

    With logits l_1 ≥ l_2 ≥ … and R = l_1 − l_V, w_i = (l_i − l_{i+1}) / (i · R). What cannot come (−inf) does
    not count. Of equal w_i the first one's i is taken, of equal logits the smaller ids.

    Source: Ding et al. 2026 (arXiv 2604.11012), Algorithm 1.
    """
    ordered, ids = torch.sort(logits.double(), dim=-1, descending=True, stable=True)
    possible = ordered > -torch.inf
    least = torch.where(possible, ordered, torch.inf).amin(-1, keepdim=True)
    ordered = torch.where(possible, ordered, least)
    spread = ordered[:, :1] - least + 1e-8
    place = torch.arange(1, ordered.shape[-1], device=logits.device)
    weight = (ordered[:, :-1] - ordered[:, 1:]) / (place * spread)
    most = ordered.shape[-1]
    cliff = weight.argmax(-1) + 1 if most > 1 else torch.ones_like(ids[:, 0])
    k = torch.maximum(cliff, (tau / spread[:, 0]).clamp(max=most).long())
    return _first(logits, ids, k)


def exclude_top_choices(
    logits: Tensor, threshold: float, probability: float, keys: Tensor, step: int | Tensor
) -> Tensor:
    """Leave out the tokens of p ≥ `threshold` but the least likely of them, in a share of the steps.

    Equally likely ones of the least stay in. The author's program leaves all in where the end of the text or
    of a line would be left out. Source: p-e-w 2024 (text-generation-webui, pull request 6335).

    Args:
        logits: `[B, V]`.
        threshold: What a token must reach to be a choice.
        probability: The share of the steps.
        keys: `noise.row_key` of each row, `[B]`.
        step: 0, 1, ….
    """
    log_p = logits.double() - log_normaliser(logits)[:, None]
    choices = log_p >= (math.log(threshold) if threshold else -math.inf)
    least = torch.where(choices, log_p, torch.inf).amin(-1, keepdim=True)
    coin = uniform(keys, step, torch.full_like(keys, -1)[:, None])  # of a token that there is not
    return logits.masked_fill(choices & (log_p > least) & (coin < probability), -torch.inf)


def mirostat(logits: Tensor, mu: Tensor) -> Tensor:
    """Leave in the k likeliest tokens, for a surprise of μ bits under Zipf's law.

    s = Σ t_i b_i / Σ t_i² with t_i = ln((i + 1) / i) and b_i = ln(p_i / p_{i+1}) over the 100 likeliest, and
    k = ((s − 1) 2^μ / (1 − V^(1 − s)))^(1/s), rounded, and one more, as in the authors' program, which
    takes 3001 tokens for s, and V = 50,000 of any model.

    Args:
        logits: `[B, V]`.
        mu: μ of each row, `[B]`, float64.

    Source: Basu et al. 2021 (arXiv 2007.14966), Algorithm 1.
    """
    size = logits.shape[-1]
    ordered, ids = torch.sort(logits.float(), dim=-1, descending=True, stable=True)
    head = ordered[:, :ZIPF_TOKENS].double()
    place = torch.arange(1, head.shape[-1], dtype=torch.float64, device=logits.device)
    t = (1 / place).log1p()
    b = head[:, :-1] - head[:, 1:]
    known = b.isfinite()
    s = (t * b.masked_fill(~known, 0)).sum(-1) / (t.square() * known).sum(-1).clamp(min=1e-12)
    excess = s - 1
    log_v = math.log(size)
    # (s − 1) / (1 − V^(1 − s)), which is 1 / ln V at s = 1, and is positive on both sides of it.
    near = excess.abs() < 1e-9
    safe = torch.where(near, 1.0, excess)
    ratio = torch.where(near, 1 / max(log_v, 1e-12), safe / -torch.expm1(-safe * log_v))
    log_k = (ratio.log() + mu * math.log(2)) / s.clamp(min=1e-6)
    k = log_k.clamp(max=math.log(2.0**40)).exp().round().clamp(max=size - 1).long() + 1
    return _first(logits, ids, k)


def next_mu(mu: Tensor, logits: Tensor, tokens: Tensor, *, tau: float, eta: float) -> Tensor:
    """Return μ − η (S − τ), `[B]`, where S = −log2 p of the tokens `[B]` that were taken by logits `[B, V]`.

    Source: Basu et al. 2021 (arXiv 2007.14966), Algorithm 1. p is the whole distribution's, as in the
    authors' program, not that of the k tokens.
    """
    log_p = logits.gather(1, tokens[:, None])[:, 0].double() - log_normaliser(logits)
    return mu - eta * (-log_p / math.log(2) - tau)


def _from(logits: Tensor, values: Tensor, least: Tensor | float) -> Tensor:
    """Return logits `[B, V]` with −inf where `values` `[B, V]` are below `least`, but for the largest."""
    return logits.masked_fill((values < least) & (logits < logits.amax(-1, keepdim=True)), -torch.inf)


def _first(logits: Tensor, ids: Tensor, k: Tensor) -> Tensor:
    """Return logits `[B, V]` with −inf but for the first `k` `[B]` of `ids` `[B, V]`."""
    rank = torch.arange(ids.shape[-1], device=ids.device).expand_as(ids)
    left_out = torch.zeros_like(ids, dtype=torch.bool).scatter(1, ids, rank >= k[:, None])
    return logits.masked_fill(left_out, -torch.inf)
