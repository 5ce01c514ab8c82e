"""Contrastive search and ACS with a repeated cache: what they cost where candidates do not pass as a tree.

The cache of B texts is repeated for each of their k candidates, B·k rows of one token pass through the model,
and of the k caches the chosen one is kept. Scores and choices are the package's own, so that a difference in
time is one of the cache and the attention alone. As in the tree only the chosen candidate passes the head.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from guard_eval.decoding.contrastive import (
    AdaptiveProposer,
    FixedProposer,
    Proposal,
    Proposer,
    choose,
    degeneration_penalty,
    unit,
)
from guard_eval.strategies import AdaptiveContrastiveSearch, ContrastiveSearch

Contrastive = ContrastiveSearch | AdaptiveContrastiveSearch


@torch.inference_mode()
def decode_by_repetition(model: Any, prompts: Tensor, strategy: Contrastive, limit: int) -> list[list[int]]:  # noqa: ANN401
    """Return `limit` new tokens for each of `prompts` `[B, P]`, which are all equally long."""
    rows, length = prompts.shape
    head, cache = model.get_output_embeddings(), DynamicCache(config=model.config)
    propose = _proposer(strategy, rows, limit, prompts.device)
    hidden = model.base_model(input_ids=prompts, past_key_values=cache, use_cache=True).last_hidden_state
    context = hidden.new_zeros(rows, length + limit, hidden.shape[-1], dtype=torch.float32)
    context[:, :length] = unit(hidden)
    present = torch.ones(rows, length + limit, dtype=torch.bool, device=prompts.device)
    here = torch.arange(rows, device=prompts.device)
    logits = head(hidden[:, -1]).float()
    written = torch.zeros(rows, limit, dtype=torch.long, device=prompts.device)
    for step in range(limit):
        n = length + step
        proposal = propose(logits, step)
        k = _most(strategy, proposal)
        cache.batch_repeat_interleave(k)
        ids = proposal.ids[:, :k].reshape(-1, 1)
        passed = model.base_model(input_ids=ids, past_key_values=cache, use_cache=True)
        hidden = passed.last_hidden_state.view(rows, k, -1)
        proposal = Proposal(
            proposal.ids[:, :k], proposal.probabilities[:, :k], proposal.allowed[:, :k], proposal.alpha
        )
        index = choose(proposal, degeneration_penalty(unit(hidden), context[:, :n], present[:, :n]))
        cache.batch_select_indices(here * k + index)
        written[:, step] = proposal.ids[here, index]
        context[:, n] = unit(hidden[here, index])
        logits = head(hidden[here, index]).float()
    tokens: list[list[int]] = written.tolist()
    return tokens


def _most(strategy: Contrastive, proposal: Proposal) -> int:
    """Return how many candidates the row with the most considers; ACS's number is read from the device."""
    if isinstance(strategy, ContrastiveSearch):
        return proposal.ids.shape[1]
    return int(proposal.allowed.sum(-1).amax())


def _proposer(strategy: Contrastive, rows: int, limit: int, device: torch.device) -> Proposer:
    if isinstance(strategy, ContrastiveSearch):
        return FixedProposer(strategy)
    return AdaptiveProposer(strategy, rows, limit, device)
