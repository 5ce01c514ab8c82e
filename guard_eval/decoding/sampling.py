"""Sampling: which tokens each strategy leaves in, and the draw among them. Truncation is done in float32.

What is left in: log-weights `[B, n]` (up to a constant; −inf is left out), and the tokens' ids `[B, n]`.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from guard_eval.decoding.candidates import top_candidates
from guard_eval.decoding.entropy import shannon_entropy
from guard_eval.decoding.noise import gumbel


def tempered(logits: Tensor, temperature: float) -> Tensor:
    """Return logits `[B, V]`, up to a constant, divided by the temperature, in float32."""
    logits = logits.float()
    if temperature == 1:
        return logits
    # The largest becomes 0, so that no division overflows where it matters. A temperature beyond float32's
    # numbers would divide 0 by 0, or −inf by inf.
    limits = torch.finfo(torch.float32)
    return (logits - logits.amax(-1, keepdim=True)) / min(max(temperature, limits.tiny), limits.max)


def temperature(logits: Tensor, tau: float) -> tuple[Tensor, Tensor]:
    """Return all tokens of `logits` `[B, V]` with the log-weights of softmax(logits / τ)."""
    return tempered(logits, tau), _ids(logits)


def top_k(logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the `k` most likely tokens of `logits` `[B, V]`; of equally likely ones the smaller ids."""
    return top_candidates(logits.float(), k)


def top_p(logits: Tensor, p: float) -> tuple[Tensor, Tensor]:
    """Return the smallest set of most likely tokens of `logits` `[B, V]` whose probability reaches `p`.

    The token that reaches `p` stays in. Of equally likely ones the smaller id stays in.

    Source: Holtzman et al. 2020 (arXiv 1904.09751), section 3.1.
    """
    ordered, ids = _sorted(logits)
    return _reaching(ordered, ordered.softmax(-1), p), ids


def typical(logits: Tensor, tau: float) -> tuple[Tensor, Tensor]:
    """Return the smallest set, of those with −ln p nearest to the entropy, whose probability reaches τ.

    The token that reaches τ stays in. Of equally near ones the smaller id stays in. Source: Meister et al.
    2023 (arXiv 2202.00666).

    Args:
        logits: `[B, V]`.
        tau: τ.
    """
    entropy, log_z = shannon_entropy(logits)
    log_p = logits.double() - log_z[:, None]
    distance = (log_p + entropy[:, None]).abs()  # infinite for a token that cannot come
    ids = torch.sort(distance, dim=-1, stable=True).indices
    ordered = log_p.gather(1, ids)
    return _reaching(ordered.float(), ordered.exp(), tau), ids


def min_p(logits: Tensor, p: float) -> tuple[Tensor, Tensor]:
    """Return the tokens of `logits` `[B, V]` that are at least `p` times as likely as the most likely one.

    Source: Nguyen et al. 2025 (arXiv 2407.01082).
    """
    logits = logits.float()
    share = (logits - logits.amax(-1, keepdim=True)).exp()
    return logits.masked_fill(share < p, -torch.inf), _ids(logits)


def adaptive(logits: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """Return the tokens of `logits` `[B, V]` that add more than ε to the confidence, and at least the first.

    Source: Zhu et al. 2024 (arXiv 2402.18223).
    """
    ordered, ids = _sorted(logits)
    kept = confidence_gain(ordered.double().softmax(-1)) > epsilon
    kept[:, 0] = True
    return ordered.masked_fill(~kept, -torch.inf), ids


def confidence_gain(p: Tensor) -> Tensor:
    """Return ΔConf_k of adaptive decoding: what admitting the k-th most likely token adds to the confidence.

    With R_k = 1 − Σ_{i≤k} p_i, what is left, thought of as spread evenly over the V − k other tokens,
    ΔConf_k = [p_k ln p_k + R_k ln(R_k / (V − k)) − R_{k−1} ln(R_{k−1} / (V − k + 1))] / ln V. It is no steady
    decline: a token may add less than ε and a later one more.

    Args:
        p: Probabilities in descending order, `[B, V]`, float64.

    Returns:
        `[B, V]`.
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


def _ids(logits: Tensor) -> Tensor:
    return torch.arange(logits.shape[1], device=logits.device).expand(len(logits), -1)


def _sorted(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Return logits in descending order, float32, and their ids; of equal ones the smaller id first."""
    ordered, ids = torch.sort(logits.float(), dim=-1, descending=True, stable=True)
    return ordered, ids


def _reaching(ordered: Tensor, p: Tensor, wanted: float) -> Tensor:
    """Return `ordered` log-weights with −inf once the probability `p` before, both `[B, V]`, is enough."""
    mass = p.cumsum(-1, dtype=torch.float64)
    before = torch.nn.functional.pad(mass[:, :-1], (1, 0))
    # Times the last sum rather than 1: rounding then drops no token where all are wanted.
    return ordered.masked_fill(before >= wanted * mass[:, -1:], -torch.inf)


def draw(log_weights: Tensor, ids: Tensor, keys: Tensor, step: int | Tensor) -> Tensor:
    """Return one token per row, `[B]`, with probability proportional to its weight (the Gumbel-max method).

    Args:
        log_weights: `[B, n]`.
        ids: `[B, n]`.
        keys: `noise.row_key` of each row, `[B]`.
        step: 0, 1, ….
    """
    if log_weights.device.type == "cpu":
        scores = _scores_of_kept(log_weights, ids, keys, step)
    else:  # a GPU would have to send the host how many are kept
        scores = log_weights.double() + gumbel(keys, step, ids)
    return ids.gather(1, scores.argmax(-1, keepdim=True))[:, 0]


def _scores_of_kept(log_weights: Tensor, ids: Tensor, keys: Tensor, step: int | Tensor) -> Tensor:
    """Return log-weights and noise, `[B, n]`, float64; no noise is made for what is left out."""
    rows, places = (log_weights > -torch.inf).nonzero(as_tuple=True)
    noise = gumbel(keys[rows], step, ids[rows, places][:, None])[:, 0]
    scores = torch.full_like(log_weights, -torch.inf, dtype=torch.float64)
    scores[rows, places] = log_weights[rows, places].double() + noise
    return scores
