"""The scores of contrastive decoding, contrastive search and ACS.

Contrastive decoding (Li et al. 2023, arXiv 2210.15097) prefers tokens that are likelier for an expert model
than for an amateur model.
Contrastive search (Su et al. 2022, arXiv 2202.06417) and its adaptive form ACS (Garces Arias et al. 2024)
score a candidate v by (1 − α) p(v | x_<t) − α max_j cos(h_v, h_j), where h are the last hidden states and j
runs over the tokens so far, including the prompt's tokens. ACS sets k_t and α_t at every step.

Details of ACS that the authors' text does not define are as in their program: k_t is rounded to the nearest
whole number and α_t to two decimals (halves to even), medians are over all earlier steps, and the first
step's deviation is 0. There are two differences from that program: each text has a separate history, and the
argument of arctanh is clamped, so that the result is finite.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from guard_eval.generation.decoding.candidates import find_best_score_index, find_top_candidates
from guard_eval.generation.decoding.entropy import (
    average_entropies,
    compute_clamped_arctanh,
    compute_log_normaliser,
    shannon_entropy,
)
from guard_eval.generation.strategies import AdaptiveContrastiveSearch, ContrastiveSearch

K_MIN, K_RANGE = 5, 10
"""ACS's k_t is from 5 to 15."""


@dataclass(frozen=True)
class Proposal:
    """The candidates of one step, the most likely first, before their hidden states are known.

    Attributes:
        ids: The token ids, `[B, k]`.
        probabilities: p(v | x_<t) in the whole vocabulary, `[B, k]`, float32.
        allowed: Whether a candidate is among the first k_t of its row, `[B, k]`.
        alpha: α_t, `[B]`, float64.
    """

    ids: Tensor
    probabilities: Tensor
    allowed: Tensor
    alpha: Tensor


def normalise_vectors(hidden_states: Tensor) -> Tensor:
    """Scale hidden states `[..., D]` to length 1, in float32."""
    return torch.nn.functional.normalize(hidden_states.float(), dim=-1)


def compute_degeneration_penalty(
    candidate_vectors: Tensor, context_vectors: Tensor, context_mask: Tensor
) -> Tensor:
    """Return the largest cosine between a candidate's hidden state and that of any token so far.

    Args:
        candidate_vectors: The candidates' unit vectors, `[B, k, D]`.
        context_vectors: The unit vectors of the tokens so far, `[B, n, D]`.
        context_mask: False where the context is padding, `[B, n]`. Each row has at least one token.

    Returns:
        The penalty of each candidate, `[B, k]`, float32.
    """
    cosine = candidate_vectors @ context_vectors.transpose(1, 2)
    return cosine.masked_fill(~context_mask[:, None, :], -torch.inf).amax(-1)


def choose_candidate(proposal: Proposal, degeneration_penalty: Tensor) -> Tensor:
    """Return the index of the best candidate, `[B]`. The penalties are `[B, k]`.

    Of equal scores, the smallest token id wins.
    """
    alpha = proposal.alpha[:, None]
    scores = (1 - alpha) * proposal.probabilities - alpha * degeneration_penalty
    return find_best_score_index(scores.masked_fill(~proposal.allowed, -torch.inf), proposal.ids)


class Proposer:
    """A function that proposes the next tokens of `rows` texts, for up to `steps` steps.

    Contrastive search has the same k and α at every step. In ACS, k_t and α_t depend on the entropies so far,
    and `allowed` marks the first k_t candidates of a row. The number of candidates is the largest k_t of the
    batch. On a GPU there are always 15 candidates, so that the host does not wait for k_t.
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
        """Return the candidates of a step 0, 1, … for its logits `[B, V]`, float32."""
        if isinstance(self._strategy, ContrastiveSearch):
            values, ids = find_top_candidates(logits, self._strategy.k)
            alpha = torch.full_like(values[:, 0], self._strategy.alpha, dtype=torch.float64)
            allowed = torch.ones_like(ids, dtype=torch.bool)
        else:
            ids, allowed, alpha = self._propose_acs_candidates(logits, step, self._strategy.q)
        probabilities = logits.softmax(-1).gather(1, ids)
        return Proposal(ids, probabilities, allowed, alpha)

    def _propose_acs_candidates(self, logits: Tensor, step: int, q: float) -> tuple[Tensor, Tensor, Tensor]:
        """Return ACS's candidates `[B, k]`, whether each is allowed `[B, k]`, and α_t `[B]`."""
        values, ids = find_top_candidates(logits, K_MIN + K_RANGE)
        vocabulary = logits.shape[-1]
        entropy, _ = shannon_entropy(logits, values[:, :1])
        exponent = q * self._compute_deviation_from_median(
            entropy, self._entropies, step, math.log(vocabulary)
        )
        k = (K_RANGE * exponent.sigmoid() + K_MIN).round().long().clamp(max=vocabulary)
        allowed = torch.arange(ids.shape[-1], device=ids.device) < k[:, None]
        truncated, _ = shannon_entropy(values.masked_fill(~allowed, -torch.inf))
        exponent = q * self._compute_deviation_from_median(truncated, self._truncated, step, k.double().log())
        alpha = exponent.sigmoid().round(decimals=2)
        if ids.device.type == "cpu":
            largest = int(k.max())
            ids = ids[:, :largest]
            allowed = allowed[:, :largest]
        return ids, allowed, alpha

    @staticmethod
    def _compute_deviation_from_median(
        entropy: Tensor, history: Tensor, step: int, log_size: Tensor | float
    ) -> Tensor:
        """Store H_t, and return ACS's arctanh((H_t − med H_<t) / log_size), `[B]`, or 0 at t = 1.

        Args:
            entropy: H_t, `[B]`.
            history: The entropies of all steps, in which H_t is stored, `[B, steps]`.
            step: t − 1.
            log_size: The largest possible entropy: ln|V|, or ln k_t, `[B]`.
        """
        history[:, step] = entropy
        if step == 0:
            return torch.zeros_like(entropy)
        median = average_entropies(history[:, :step].T, "median")
        return compute_clamped_arctanh((entropy - median) / log_size)


def compute_contrastive_scores(
    expert: Tensor, amateur: Tensor, *, alpha: float, amateur_tau: float
) -> Tensor:
    """Return ln p_expert − ln p_amateur for tokens with p_expert ≥ α · max p_expert, and −inf for others.

    A token with p_amateur = 0 also gets −inf, because the difference is not finite. If a model gives no
    probabilities (NaN or infinite logits), all scores of the row are NaN.

    Args:
        expert: The expert's logits, `[B, V]`.
        amateur: The amateur's logits of the same texts and tokens, `[B, V]`.
        alpha: α, above 0 and at most 1.
        amateur_tau: The amateur's temperature: its probabilities are softmax(logits / τ).

    Returns:
        The scores, `[B, V]`, float32.
    """
    expert = expert.float()
    amateur = amateur.float() / amateur_tau
    best = expert.amax(-1, keepdim=True)
    likeliest = amateur.amax(-1, keepdim=True)
    # Large terms are subtracted first, because float32 has few digits.
    difference = (expert - best) - (amateur - likeliest)
    expert_rest = compute_log_normaliser(expert) - best[:, 0]
    amateur_rest = compute_log_normaliser(amateur) - likeliest[:, 0]
    shift = (expert_rest - amateur_rest).float()
    scores = difference - shift[:, None]
    plausible = (expert >= best + math.log(alpha)) & (amateur > -torch.inf)
    scores = scores.masked_fill(~plausible, -torch.inf)
    are_finite = best.isfinite() & likeliest.isfinite()
    return scores.masked_fill(~are_finite, torch.nan)
