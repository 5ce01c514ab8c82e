"""Sampling from the likeliest tokens. Each function returns logits with −inf for the tokens it removes."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from guard_eval.decoding.candidates import keep_largest, sort_values
from guard_eval.decoding.entropy import shannon_entropy
from guard_eval.strategies.protocol import apply_step
from guard_eval.strategies.values import AdaptiveDecoding, Greedy, MinP, Temperature, TopK, TopP, Typical


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
    kept = ordered.float().masked_fill(before >= strategy.tau * p.sum(-1, keepdim=True), -torch.inf)
    return scatter(logits, ids, kept)


@apply_step.register
def min_p(strategy: MinP, logits: Tensor, context: object) -> Tensor:  # noqa: ARG001
    """Keep the tokens that are at least p times as likely as the most likely one."""
    share = (logits - logits.amax(-1, keepdim=True)).exp()
    return logits.masked_fill(share < strategy.p, -torch.inf)


@apply_step.register
def adaptive(strategy: AdaptiveDecoding, logits: Tensor, context: object) -> Tensor:  # noqa: ARG001
    """Keep the tokens that add more than ε to the confidence, and at least the first."""
    values, ids = torch.sort(logits, dim=-1, descending=True, stable=True)
    kept = confidence_gain(values.double().softmax(-1)) > strategy.epsilon
    kept[:, 0] = True
    return scatter(logits, ids, values.masked_fill(~kept, -torch.inf))


def confidence_gain(p: Tensor) -> Tensor:
    """Return ΔConf_k of adaptive decoding: what admitting the k-th most likely token adds to the confidence.

    R_k is thought of as spread evenly over the V − k other tokens. The gain does not always decline: a token
    may add less than ε and a later one more.

    Args:
        p: Probabilities in descending order, `[B, V]`, float64.
    """
    vocabulary = p.shape[-1]
    if vocabulary == 1:
        return torch.zeros_like(p)
    # Summed from the smallest: 1 − Σ p would lose the digits of a small rest, and its sign.
    before = p.flip(-1).cumsum(-1).flip(-1)
    after = torch.nn.functional.pad(before[:, 1:], (0, 1))
    others = torch.arange(vocabulary - 1, -1, -1, dtype=p.dtype, device=p.device)
    spread = torch.xlogy(after, after / others.clamp(min=1)) - torch.xlogy(before, before / (others + 1))
    return (torch.xlogy(p, p) + spread) / math.log(vocabulary)


def scatter(logits: Tensor, ids: Tensor, values: Tensor) -> Tensor:
    """Return `values` `[B, n]` at the tokens `ids` `[B, n]`, and −inf at all others: `[B, V]`."""
    return torch.full_like(logits, -torch.inf, dtype=values.dtype).scatter(1, ids, values)
