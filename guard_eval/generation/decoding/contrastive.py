"""What contrastive decoding, contrastive search and ACS compare.

Contrastive decoding (Li et al. 2023, arXiv 2210.15097) takes what an expert finds likelier than an amateur.
Contrastive search (Su et al. 2022, arXiv 2202.06417) and its adaptive form ACS (Garces Arias et al. 2024)
score a candidate v by (1 − α) p(v | x_<t) − α max_j cos(h_v, h_j), where h are the last hidden states and j
runs over the tokens so far, those of the prompt included. ACS sets k_t and α_t at every step.

ACS follows its authors' program where their text is silent: k_t is rounded to the nearest whole number and
α_t to two decimals (halves to even), medians run over all earlier steps, and the first step's deviation is 0.
Unlike in that program, each text has a history of its own, and arctanh is held where it is finite.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from guard_eval.generation.decoding.candidates import smallest_best, top_candidates
from guard_eval.generation.decoding.entropy import aggregate, arctanh, log_normaliser, shannon_entropy
from guard_eval.generation.strategies import AdaptiveContrastiveSearch, ContrastiveSearch

K_MIN, K_RANGE = 5, 10
"""ACS's k_t lies in 5 … 15."""


@dataclass(frozen=True)
class Proposal:
    """The candidates of one step, most likely first, before their hidden states are known.

    Attributes:
        ids: `[B, k]`.
        probabilities: p(v | x_<t) in the whole vocabulary, `[B, k]`, float32.
        allowed: Which of them the row's own k_t lets in, `[B, k]`.
        alpha: α_t, `[B]`, float64.
    """

    ids: Tensor
    probabilities: Tensor
    allowed: Tensor
    alpha: Tensor


def unit(hidden: Tensor) -> Tensor:
    """Return hidden states `[..., D]` scaled to length 1, in float32."""
    return torch.nn.functional.normalize(hidden.float(), dim=-1)


def degeneration_penalty(candidates: Tensor, context: Tensor, present: Tensor) -> Tensor:
    """Return the largest cosine between each candidate's hidden state and those of the tokens so far.

    Args:
        candidates: `unit` vectors, `[B, k, D]`.
        context: `unit` vectors, `[B, n, D]`.
        present: Which of the context are tokens and not padding, `[B, n]`; at least one in each row.

    Returns:
        `[B, k]`, float32.
    """
    cosine = candidates @ context.transpose(1, 2)
    return cosine.masked_fill(~present[:, None, :], -torch.inf).amax(-1)


def choose(proposal: Proposal, penalty: Tensor) -> Tensor:
    """Return the index of the best candidate, `[B]`, given its degeneration penalty `[B, k]`.

    Of equal scores the smallest token id wins.
    """
    alpha = proposal.alpha[:, None]
    scores = (1 - alpha) * proposal.probabilities - alpha * penalty
    return smallest_best(scores.masked_fill(~proposal.allowed, -torch.inf), proposal.ids)


class Proposer:
    """Proposes the candidates of a batch of `rows` texts, step by step, at most `steps` times.

    Contrastive search has the same k and α at every step, ACS k_t and α_t by the entropies so far. For ACS
    there are as many candidates as the largest k_t of the batch; on a GPU, which would have to tell it to the
    host, there are 15. `allowed` lets in k_t of them.
    """

    def __init__(
        self,
        strategy: ContrastiveSearch | AdaptiveContrastiveSearch,
        rows: int,
        steps: int,
        device: torch.device,
    ) -> None:
        self._strategy = strategy
        self._entropies = torch.zeros(rows, steps, dtype=torch.float64, device=device)
        self._truncated = torch.zeros_like(self._entropies)

    def __call__(self, logits: Tensor, step: int) -> Proposal:
        """Return the candidates given logits `[B, V]`, float32, at a step 0, 1, …."""
        if isinstance(self._strategy, ContrastiveSearch):
            values, ids = top_candidates(logits, self._strategy.k)
            alpha = torch.full_like(values[:, 0], self._strategy.alpha, dtype=torch.float64)
            allowed = torch.ones_like(ids, dtype=torch.bool)
            return Proposal(ids, logits.softmax(-1).gather(1, ids), allowed, alpha)
        values, ids = top_candidates(logits, K_MIN + K_RANGE)
        vocabulary = logits.shape[-1]
        q = self._strategy.q
        entropy, _ = shannon_entropy(logits, values[:, :1])
        exponent = q * self._deviate(entropy, self._entropies, step, math.log(vocabulary))
        k = (K_RANGE * exponent.sigmoid() + K_MIN).round().long().clamp(max=vocabulary)
        allowed = torch.arange(ids.shape[-1], device=ids.device) < k[:, None]
        truncated, _ = shannon_entropy(values.masked_fill(~allowed, -torch.inf))
        exponent = q * self._deviate(truncated, self._truncated, step, k.double().log())
        alpha = exponent.sigmoid().round(decimals=2)
        if ids.device.type == "cpu":
            largest = int(k.max())
            ids = ids[:, :largest]
            allowed = allowed[:, :largest]
        return Proposal(ids, logits.softmax(-1).gather(1, ids), allowed, alpha)

    @staticmethod
    def _deviate(entropy: Tensor, history: Tensor, step: int, log_size: Tensor | float) -> Tensor:
        """Return ACS's arctanh((H_t − med H_<t) / log_size), `[B]`, 0 at t = 1; keep H_t.

        Args:
            entropy: H_t, `[B]`.
            history: All entropies of this kind, `[B, steps]`.
            step: t − 1.
            log_size: The entropy's upper bound: ln|V|, or ln k_t, `[B]`.
        """
        history[:, step] = entropy
        if step == 0:
            return torch.zeros_like(entropy)
        return arctanh((entropy - aggregate(history[:, :step].T, "median")) / log_size)


def contrast(expert: Tensor, amateur: Tensor, *, alpha: float, amateur_tau: float) -> Tensor:
    """Return ln p_expert − ln p_amateur of the tokens with p_expert ≥ α · max p_expert, −inf of all others.

    A token that the amateur rules out altogether has no finite score and is left out as well. Where either
    model gives no probabilities (NaN or infinite logits), all scores are NaN.

    Args:
        expert: The expert's logits, `[B, V]`.
        amateur: The amateur's, of the same texts and tokens.
        alpha: α, above 0 and at most 1.
        amateur_tau: The amateur's temperature: its probabilities are softmax(logits / τ).

    Returns:
        `[B, V]`, float32.
    """
    expert = expert.float()
    amateur = amateur.float() / amateur_tau
    best = expert.amax(-1, keepdim=True)
    likeliest = amateur.amax(-1, keepdim=True)
    # The larger terms are taken apart first: the scores' digits are few.
    difference = (expert - best) - (amateur - likeliest)
    expert_rest = log_normaliser(expert) - best[:, 0]
    amateur_rest = log_normaliser(amateur) - likeliest[:, 0]
    shift = (expert_rest - amateur_rest).float()
    scores = difference - shift[:, None]
    plausible = (expert >= best + math.log(alpha)) & (amateur > -torch.inf)
    scores = scores.masked_fill(~plausible, -torch.inf)
    are_finite = best.isfinite() & likeliest.isfinite()
    return scores.masked_fill(~are_finite, torch.nan)
