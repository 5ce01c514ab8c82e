"""Forward passes of any causal language model: rows padded on the left, one cache, transformers' attention.

The candidates of contrastive search pass as a tree where the model's attention allows: k queries at one
place, each seeing the text so far and itself, so that one cache serves them all. Where it does not (a sliding
window shorter than the text, a model that changes the logits after its head), the cache is repeated for each
candidate, which costs k times its memory.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from guard_eval.decoding.contrastive import degeneration_penalty, unit
from guard_eval.errors import StudyError

_TAKEN_BACK = {"full_attention", "sliding_attention", "chunked_attention"}
"""Kinds of layers whose memory of a text can be cut, repeated and reordered."""


class PaddedSession:
    """A `Session` on any device, in any arithmetic."""

    def __init__(
        self,
        model: Any,  # noqa: ANN401 (transformers' classes are untyped)
        prompts: Sequence[Sequence[int]],
        limit: int,
        *,
        candidates: int = 0,
        copies: int = 1,  # noqa: ARG002 (its cache grows by itself)
    ) -> None:
        device = model.device
        self._model = model
        self._ids, mask = _left_padded(prompts, device)
        self._length = self._ids.shape[1]
        self._limit = limit
        # Without a padded row no mask is given: transformers would read it back at every step to find out.
        self._whole = len({len(prompt) for prompt in prompts}) == 1
        self._present = torch.nn.functional.pad(mask, (0, limit), value=True)
        self._positions = (mask.cumsum(-1) - 1).clamp(min=0)
        self._cache = DynamicCache(config=model.config)
        self._accepted = inspect.signature(model.forward).parameters
        self._tree = bool(candidates) and obstacle_to_tree(model, self._length + limit) is None
        self._contrast = bool(candidates)
        self._context = torch.empty(0)
        self._forked = torch.empty(0)

    def prefill(self) -> Tensor:
        """See `Session`."""
        hidden, logits = self._forward(self._ids, self._positions)
        self._positions = self._positions[:, -1:] + 1
        if self._contrast:
            rows, length, width = hidden.shape
            self._context = hidden.new_zeros(rows, length + self._limit, width, dtype=torch.float32)
            self._context[:, :length] = unit(hidden)
        return logits[:, -1].float()

    def step(self, tokens: Tensor) -> Tensor:
        """See `Session`."""
        self._length += 1
        _, logits = self._forward(tokens[:, None], self._positions)
        self._positions = self._positions + 1
        return logits[:, -1].float()

    def fork(self, ids: Tensor, allowed: Tensor) -> Tensor:  # noqa: ARG002 (rows of a tree are equally wide)
        """See `Session`."""
        self._forked, self._fork_logits = self._as_tree(ids) if self._tree else self._repeated(ids)
        return degeneration_penalty(
            unit(self._forked), self._context[:, : self._length], self._present[:, : self._length]
        )

    def commit(self, index: Tensor) -> Tensor:
        """See `Session`."""
        here = torch.arange(len(index), device=index.device)
        hidden = self._forked[here, index]
        if self._tree:
            _keep_candidate(self._cache, self._length, index)
            logits = self._model.get_output_embeddings()(hidden)
        else:
            self._cache.batch_select_indices(here * self._forked.shape[1] + index)
            logits = self._fork_logits[here, index]
        self._context[:, self._length] = unit(hidden)
        self._length += 1
        self._positions = self._positions + 1
        return logits.float()  # type: ignore[no-any-return]

    def keep(self, rows: Tensor) -> None:
        """See `Session`."""
        self._cache.batch_select_indices(rows)
        self._present, self._positions = self._present[rows], self._positions[rows]
        if self._contrast:
            self._context = self._context[rows]

    def _forward(self, ids: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Add tokens `[R, n]` to the cache; return hidden states, if needed, and the last one's logits."""
        optional = {
            "attention_mask": None if self._whole else self._present[:, : self._length].long(),
            "position_ids": positions,
            "logits_to_keep": 1,
            "output_hidden_states": self._contrast or None,
        }
        given = {name: value for name, value in optional.items() if name in self._accepted or name[0] == "o"}
        given = {name: value for name, value in given.items() if value is not None}
        output = self._model(input_ids=ids, past_key_values=self._cache, use_cache=True, **given)
        hidden = output.hidden_states[-1] if self._contrast else torch.empty(0)
        return hidden, output.logits

    def _as_tree(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        rows, k = ids.shape
        itself = torch.eye(k, dtype=torch.bool, device=ids.device).expand(rows, 1, k, k)
        present = self._present[:, None, None, : self._length].expand(rows, 1, k, -1)
        seen = torch.cat([present, itself], dim=-1)
        dtype = self._model.dtype
        mask = torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill(
            ~seen, torch.finfo(dtype).min
        )
        output = self._model.base_model(
            input_ids=ids,
            position_ids=self._positions.expand_as(ids),
            attention_mask=mask,
            past_key_values=self._cache,
            use_cache=True,
        )
        return output.last_hidden_state, torch.empty(0)

    def _repeated(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        rows, k = ids.shape
        self._cache.batch_repeat_interleave(k)
        present = self._present[:, : self._length + 1].repeat_interleave(k, 0)
        optional = {
            "attention_mask": None if self._whole else present.long(),
            "position_ids": self._positions.repeat_interleave(k, 0),
        }
        given = {name: value for name, value in optional.items() if name in self._accepted}
        output = self._model(
            input_ids=ids.reshape(-1, 1),
            past_key_values=self._cache,
            use_cache=True,
            output_hidden_states=True,
            **given,
        )
        return output.hidden_states[-1].view(rows, k, -1), output.logits.view(rows, k, -1)


def _left_padded(prompts: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Return token ids and their mask (true where there is a token), `[R, P]` each."""
    longest = max(map(len, prompts))
    ids = [[0] * (longest - len(prompt)) + list(prompt) for prompt in prompts]
    mask = [[False] * (longest - len(prompt)) + [True] * len(prompt) for prompt in prompts]
    return torch.tensor(ids, device=device), torch.tensor(mask, device=device)


def _keep_candidate(cache: DynamicCache, n: int, index: Tensor) -> None:
    """Leave in the cache the first `n` places and, of the candidates after them, each row's `index` `[R]`."""
    place = (n + index)[:, None, None, None]
    layers: Any = cache.layers  # `obstacle_to_tree` lets only plain layers through
    for layer in layers:
        for states in (layer.keys, layer.values):
            states[:, :, n : n + 1] = states.gather(2, place.expand(-1, states.shape[1], 1, states.shape[3]))
        layer.keys, layer.values = layer.keys[:, :, : n + 1], layer.values[:, :, : n + 1]


def check_cache(model: Any, strategy: object, *, branches: bool) -> None:  # noqa: ANN401
    """Make sure that a model remembers a text, in a way that can branch if it `branches` (candidates, beams).

    Raises:
        StudyError: It has no cache of keys and values, or beside it a running state.
    """
    kinds = set(getattr(model.config.get_text_config(), "layer_types", None) or ["full_attention"])
    if "past_key_values" not in inspect.signature(model.forward).parameters:
        why = "it keeps no cache of keys and values"
    elif branches and not kinds <= _TAKEN_BACK:
        why = "it keeps a running state, which cannot be taken back"
    else:
        return
    raise StudyError(
        f"{strategy} does not run on this {type(model).__name__}: {why}; "
        "leave the strategy out, or name another model"
    )


@torch.inference_mode()
def obstacle_to_tree(model: Any, tokens: int) -> str | None:  # noqa: ANN401
    """Return why texts of up to `tokens` tokens cannot be continued as a tree; None where they can."""
    config = model.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    if "position_ids" not in inspect.signature(model.base_model.forward).parameters:
        return "it takes no positions"
    window = getattr(config, "sliding_window", None)
    slides = "sliding_attention" in kinds or not getattr(config, "layer_types", None)
    if slides and window is not None and window < tokens:
        return f"its attention window of {window} tokens is shorter than prompt and continuation, {tokens}"
    if "sliding_attention" in kinds:
        return "its cache slides"
    if getattr(config, "_attn_implementation", "sdpa") not in {"sdpa", "eager"}:
        return f"its attention is {config._attn_implementation}"  # noqa: SLF001 (there is no public name)
    probe = torch.arange(4, device=model.device)[None] % config.vocab_size
    output = model.base_model(input_ids=probe, use_cache=False)
    head = model.get_output_embeddings()
    if head is None or not torch.allclose(head(output[0]), model(input_ids=probe, use_cache=False).logits):
        return "it changes the logits after its head"
    return None
