"""The loop of contrastive search and ACS, which need the hidden states of all candidates.

The candidates pass as a tree where the model's attention allows: k queries at one place, each seeing the text
so far and itself, so that one cache serves them all. Where it does not (a sliding window shorter than the
text, a model that changes the logits after its head), the cache is repeated for each candidate, which costs k
times its memory.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers import DynamicCache

from guard_eval.decoding.contrastive import Proposer, choose, degeneration_penalty, unit
from guard_eval.decoding.processor import DecodedStep
from guard_eval.engines.decode import Batch, Decoded, StopCriterion, forward
from guard_eval.strategies import AdaptiveContrastiveSearch, ContrastiveSearch


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
    passes = (_Tree if can_branch(model, start + batch.limit) else _Repeated)(model, mask, batch.limit)
    failures: list[Tensor] = []
    stop = StopCriterion(batch, start) if batch.stop else None
    ends = torch.tensor(batch.ends, dtype=torch.long, device=device)
    running = torch.ones(len(ids), dtype=torch.bool, device=device)
    logits = passes.prefill(ids)
    for step in range(batch.limit):
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


class _Tree:
    """The forward passes of a batch of R rows with k candidates each, which share the cache of their row."""

    def __init__(self, model: Any, mask: Tensor, limit: int) -> None:  # noqa: ANN401
        self._model, self._length, self._limit = model, mask.shape[1], limit
        self._mask = pad(mask, (0, limit), value=1)
        self._present = self._mask.bool()
        self._absent = torch.finfo(model.dtype).min * (self._mask == 0)[:, None, None].to(model.dtype)
        self._positions = (mask.cumsum(-1) - 1).clamp(min=0)
        self._cache = DynamicCache(config=model.config)
        self._context = self._hidden = self._directions = self._logits = torch.empty(0)

    def prefill(self, ids: Tensor) -> Tensor:
        """Read the prompts `[R, P]`; return the logits after them, `[R, V]`, float32."""
        mask = self._mask[:, : self._length]
        output = forward(self._model, ids, mask, self._positions, self._cache, output_hidden_states=True)
        self._positions = self._positions[:, -1:] + 1
        self._context = pad(unit(output.hidden_states[-1]), (0, 0, 0, self._limit))
        return output.logits[:, -1].float()  # type: ignore[no-any-return]

    def try_candidates(self, ids: Tensor) -> Tensor:
        """Return the largest cosine of each candidate's hidden state with the text's; `[R, k]` both."""
        self._hidden = self._pass(ids)
        self._directions = unit(self._hidden)
        context, present = self._context[:, : self._length], self._present[:, : self._length]
        return degeneration_penalty(self._directions, context, present)

    def take(self, index: Tensor) -> Tensor:
        """Append the candidates `index`, `[R]`; return the logits after them, `[R, V]`, float32."""
        rows = torch.arange(len(index), device=index.device)
        hidden = self._hidden[rows, index]
        logits = self._keep(rows, index, hidden)
        self._context[:, self._length] = self._directions[rows, index]
        self._length += 1
        self._positions = self._positions + 1
        return logits.float()

    def _pass(self, ids: Tensor) -> Tensor:
        """Return the candidates' hidden states, `[R, k, D]`; the cache then holds all of them."""
        rows, k = ids.shape
        absent = self._absent[..., : self._length].expand(rows, 1, k, -1)
        others = torch.full((k, k), torch.finfo(absent.dtype).min, dtype=absent.dtype, device=ids.device)
        output = self._model.base_model(
            input_ids=ids,
            position_ids=self._positions.expand_as(ids),
            attention_mask=torch.cat([absent, others.fill_diagonal_(0).expand(rows, 1, k, k)], -1),
            past_key_values=self._cache,
            use_cache=True,
        )
        return output.last_hidden_state  # type: ignore[no-any-return]

    def _keep(self, rows: Tensor, index: Tensor, hidden: Tensor) -> Tensor:  # noqa: ARG002
        """Keep the chosen candidates alone in the cache, and return the logits after them, `[R, V]`."""
        length = self._length
        position = (length + index)[:, None, None, None]
        layers: Any = self._cache.layers
        for layer in layers:
            for states in (layer.keys, layer.values):
                chosen = states.gather(2, position.expand(-1, states.shape[1], 1, states.shape[3]))
                states[:, :, length : length + 1] = chosen
            layer.keys, layer.values = layer.keys[:, :, : length + 1], layer.values[:, :, : length + 1]
        return self._model.get_output_embeddings()(hidden)  # type: ignore[no-any-return]


class _Repeated(_Tree):
    """The forward passes with a cache for each candidate."""

    def _pass(self, ids: Tensor) -> Tensor:
        rows, k = ids.shape
        self._cache.batch_repeat_interleave(k)
        output = forward(
            self._model,
            ids.reshape(-1, 1),
            self._mask[:, : self._length + 1].repeat_interleave(k, 0),
            self._positions.repeat_interleave(k, 0),
            self._cache,
            output_hidden_states=True,
        )
        self._logits = output.logits.view(rows, k, -1)
        return output.hidden_states[-1].view(rows, k, -1)  # type: ignore[no-any-return]

    def _keep(self, rows: Tensor, index: Tensor, hidden: Tensor) -> Tensor:  # noqa: ARG002
        self._cache.batch_select_indices(rows * self._hidden.shape[1] + index)
        return self._logits[rows, index]


_PLAIN_HEADS: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()
"""Whether a model's logits are those of its head."""


@torch.inference_mode()
def can_branch(model: Any, tokens: int) -> bool:  # noqa: ANN401
    """Return whether texts of up to `tokens` tokens can be continued as a tree.

    The model must take positions, look at the whole text at each layer, mask as it is told, and compute its
    logits by its head alone.
    """
    config = model.config.get_text_config()
    kinds = getattr(config, "layer_types", None)
    window = None if kinds else getattr(config, "sliding_window", None)
    if "sliding_attention" in (kinds or ()) or (window is not None and window < tokens):
        return False
    takes_positions = "position_ids" in inspect.signature(model.base_model.forward).parameters
    if not takes_positions or getattr(config, "_attn_implementation", "sdpa") not in {"sdpa", "eager"}:
        return False
    if model not in _PLAIN_HEADS:
        probe = torch.arange(4, device=model.device)[None] % config.vocab_size
        states, head = model.base_model(input_ids=probe, use_cache=False)[0], model.get_output_embeddings()
        logits = model(input_ids=probe, use_cache=False).logits
        _PLAIN_HEADS[model] = head is not None and torch.allclose(head(states), logits)
    return _PLAIN_HEADS[model]
