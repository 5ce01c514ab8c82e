"""The loop of contrastive search and ACS, which need the hidden states of all candidates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from guard_eval.generation.decoding.contrastive import Proposer, choose
from guard_eval.generation.decoding.processor import DecodedStep
from guard_eval.generation.engines.batch import Batch, Decoded, StopCriterion
from guard_eval.generation.engines.probe import Abilities
from guard_eval.generation.strategies import AdaptiveContrastiveSearch, ContrastiveSearch


@torch.inference_mode()
def contrastive_search(
    model: Any,  # noqa: ANN401 (transformers' classes are untyped)
    batch: Batch,
    strategy: ContrastiveSearch | AdaptiveContrastiveSearch,
    on_step: Callable[[DecodedStep], None] | None = None,
) -> Decoded:
    """Continue a batch by contrastive search or ACS; see `decode`."""
    ids, mask = batch.padded()
    start, device = ids.shape[1], ids.device
    propose = Proposer(strategy, len(ids), batch.limit, device)
    passes = Abilities.of(model).choose_passes(start + batch.limit)(model, mask, batch.limit)
    failures: list[Tensor] = []
    stop = StopCriterion(batch, start) if batch.stop else None
    ends = torch.tensor(batch.ends, dtype=torch.long, device=device)
    running = torch.ones(len(ids), dtype=torch.bool, device=device)
    absent = torch.tensor(batch.absent, dtype=torch.long, device=device)
    logits = passes.prefill(ids)
    for step in range(batch.limit):
        logits = logits.index_fill(-1, absent, -torch.inf)
        broken = ~logits.amax(-1).isfinite()
        proposal = propose(logits.masked_fill(broken[:, None], 0), step)
        penalty = passes.try_candidates(proposal.ids)
        # A hidden state may be no number where the logits before it are.
        broken |= (~penalty.isfinite() & proposal.allowed).any(-1)
        failures.append(broken)
        index = choose(proposal, penalty.nan_to_num())
        tokens = proposal.ids.gather(1, index[:, None])
        if on_step:
            adapts = isinstance(strategy, AdaptiveContrastiveSearch)
            adapted = {"k": proposal.allowed.sum(-1), "alpha": proposal.alpha} if adapts else {}
            on_step(DecodedStep(logits, tokens[:, 0], adapted))
        ids = torch.cat([ids, tokens], 1)
        running &= ~((tokens == ends).any(-1) | broken)
        if stop is not None:
            running &= ~stop(ids, logits)
        if step + 1 == batch.limit or not running.any():
            break
        logits = passes.take(index)
    return Decoded.of(batch, ids[:, start:].tolist(), failures)
