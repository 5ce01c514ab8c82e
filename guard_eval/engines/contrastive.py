"""The loop of contrastive search and ACS: all candidates of a row go through the model at once, as a tree.

The k candidates are k queries at the same position. A mask lets each see the text so far and itself, so that
one cache serves them all; then the chosen one's keys and values stay in it, and it alone passes through the
head.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from guard_eval.decoding.contrastive import (
    Proposer,
    adaptive_proposer,
    choose,
    degeneration_penalty,
    fixed_proposer,
    unit,
)
from guard_eval.engines.logits import Batch, Generated, Progress
from guard_eval.errors import StudyError
from guard_eval.strategies import AdaptiveContrastiveSearch, ContrastiveSearch

Contrastive = ContrastiveSearch | AdaptiveContrastiveSearch


@torch.inference_mode()
def check_contrastive(model: Any, strategy: Contrastive, tokens: int) -> None:  # noqa: ANN401
    """Make sure that texts of up to `tokens` tokens can be continued as a tree.

    Raises:
        StudyError: The model's attention does not take a mask for each candidate, its window is shorter, or
            it changes the logits after its head.
    """
    why = _obstacle(model, tokens)
    if why:
        raise StudyError(
            f"{strategy} does not run on this {type(model).__name__}: {why}; "
            "leave the strategy out, or name another model"
        )


def _obstacle(model: Any, tokens: int) -> str | None:  # noqa: ANN401
    config = model.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    if "position_ids" not in inspect.signature(model.base_model.forward).parameters:
        return "it takes no positions"
    if not kinds <= {"full_attention", "sliding_attention"}:
        return f"it has layers of the kinds {', '.join(sorted(kinds))}"
    window = getattr(config, "sliding_window", None)
    slides = "sliding_attention" in kinds or not getattr(config, "layer_types", None)
    if slides and window is not None and window < tokens:
        return f"its attention window of {window} tokens is shorter than prompt and continuation, {tokens}"
    if getattr(config, "_attn_implementation", "sdpa") not in {"sdpa", "eager"}:
        return f"its attention is {config._attn_implementation}"  # noqa: SLF001 (there is no public name)
    probe = torch.arange(4, device=model.device)[None] % config.vocab_size
    output = model.base_model(input_ids=probe, use_cache=False)
    head = model.get_output_embeddings()
    if head is None or not torch.allclose(head(output[0]), model(input_ids=probe, use_cache=False).logits):
        return "it changes the logits after its head"
    return None


@torch.inference_mode()
def decode_contrastive(model: Any, batch: Batch, strategy: Contrastive) -> Generated:  # noqa: ANN401
    """Continue a batch; `check_contrastive` must have passed."""
    rows, length = batch.ids.shape
    here = torch.arange(rows, device=batch.ids.device)
    progress, history, present = Progress(batch), batch.history(), batch.whole_mask()
    propose = _proposer(strategy, rows, batch.limit, batch.ids.device)
    cache, positions = DynamicCache(), batch.positions()
    hidden = _hidden(model, batch.ids, positions, cache, batch.mask.long())
    context = torch.zeros(rows, length + batch.limit, hidden.shape[-1], device=hidden.device)
    context[:, :length] = unit(hidden)
    last = hidden[:, -1]
    for step in range(batch.limit):
        n = length + step
        logits = model.get_output_embeddings()(last).float()
        progress.check(logits, step)
        proposal = propose(logits, step)
        positions = (positions[:, -1:] + 1).expand_as(proposal.ids)
        tree = _tree_mask(present[:, :n], proposal.ids.shape[1], model.dtype)
        hidden = _hidden(model, proposal.ids, positions, cache, tree)
        index = choose(proposal, degeneration_penalty(unit(hidden), context[:, :n], present[:, :n]))
        _keep(cache, n, index)
        last = hidden[here, index]
        context[:, n] = unit(last)
        history[:, step] = tokens = proposal.ids[here, index]
        progress.note(tokens)
        if progress.finished(step):
            return Generated(history[:, : step + 1], progress.failed_at)
    return Generated(history, progress.failed_at)


def _proposer(strategy: Contrastive, rows: int, limit: int, device: torch.device) -> Proposer:
    if isinstance(strategy, ContrastiveSearch):
        return fixed_proposer(strategy)
    return adaptive_proposer(strategy, rows, limit, device)


def _hidden(model: Any, ids: Tensor, positions: Tensor, cache: DynamicCache, mask: Tensor) -> Tensor:  # noqa: ANN401
    """Return the last hidden states `[B, n, D]` of `ids` `[B, n]`, and add them to the cache."""
    output = model.base_model(
        input_ids=ids, position_ids=positions, attention_mask=mask, past_key_values=cache, use_cache=True
    )
    hidden: Tensor = output.last_hidden_state
    return hidden


def _tree_mask(present: Tensor, k: int, dtype: torch.dtype) -> Tensor:
    """Return an additive mask `[B, 1, k, n + k]`: a candidate sees what is `present` `[B, n]`, and itself."""
    rows, n = present.shape
    itself = torch.eye(k, dtype=torch.bool, device=present.device).expand(rows, 1, k, k)
    seen = torch.cat([present[:, None, None, :].expand(rows, 1, k, n), itself], dim=-1)
    return torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill(~seen, torch.finfo(dtype).min)


def _keep(cache: DynamicCache, n: int, index: Tensor) -> None:
    """Leave in the cache the first `n` places and, of the candidates after them, each row's `index` `[B]`."""
    here = torch.arange(len(index), device=index.device)
    layers: Any = cache.layers  # `check_contrastive` lets only plain layers through
    for layer in layers:
        for states in (layer.keys, layer.values):
            states[:, :, n] = states[here, :, n + index]
        layer.keys, layer.values = layer.keys[:, :, : n + 1], layer.values[:, :, : n + 1]
