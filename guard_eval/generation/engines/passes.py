"""Forward passes of the next tokens of a batch, and of all candidates of contrastive search.

There are three kinds of passes. `probe.py` finds out by trials which kinds a model supports:

- `TreePasses`: the k candidates of a text are k queries at one position. Each candidate sees the text so far
  and itself, and all candidates use one cache.
- `RepeatedPasses`: the cache is repeated for each candidate, which takes k times the memory.
- `PlainPasses`: there is no cache, and each text is read from the beginning at every step.
"""

import inspect
from functools import cached_property

import torch
import transformers
from torch import Tensor
from torch.nn.functional import pad
from transformers import DynamicCache

from guard_eval.generation.decoding.contrastive import compute_degeneration_penalty, normalise_vectors
from guard_eval.generation.engines import Model, Output

_CACHE_NAMES = ("cache", "past_key_values", "cache_params")
"""Names of the cache argument of `forward`: since transformers 5.24, before it, and for Mamba before it."""


def run_model(
    model: Model,
    ids: Tensor,
    mask: Tensor,
    cache: DynamicCache | None = None,
    *,
    logits_to_keep: int = 1,
    **options: object,
) -> Output:
    """Run a model on new tokens `[B, n]`, with only the arguments that the model accepts.

    Args:
        model: A causal language model of transformers.
        ids: The new tokens, `[B, n]`.
        mask: The attention mask of the whole text, `[B, T]`. Positions are computed from the mask.
        cache: The cache of the earlier tokens, which is changed in place, or None for a pass without a cache.
        logits_to_keep: The number of last tokens for which logits are computed.
        options: Further arguments that every model accepts.
    """
    accepted = inspect.signature(model.forward).parameters
    optional = {
        "attention_mask": mask,
        "position_ids": (mask.cumsum(-1) - 1).clamp(min=0)[:, -ids.shape[1] :],
        "logits_to_keep": logits_to_keep,
        "use_cache": cache is not None,
    }
    extras = {name: value for name, value in optional.items() if name in accepted}
    return model(input_ids=ids, **extras, **_make_cache_keyword_argument(model, cache), **options)


def _make_cache_keyword_argument(model: Model, cache: DynamicCache | None) -> dict[str, DynamicCache]:
    """Return the cache as a keyword argument of `forward`, under the name that the model accepts."""
    if cache is None:
        return {}
    accepted = inspect.signature(model.forward).parameters
    for name in _CACHE_NAMES:
        if name in accepted:
            return {name: cache}
    raise TypeError(f"the model accepts no cache in transformers {transformers.__version__}")


def run_with_hidden_states(
    model: Model, ids: Tensor, mask: Tensor, cache: DynamicCache | None = None, *, logits_to_keep: int = 1
) -> tuple[Tensor, Tensor]:
    """Run a model on new tokens as `run_model` does.

    Returns:
        The logits of the last `logits_to_keep` tokens, `[B, logits_to_keep, V]`, and the hidden states of
        the last layer, `[B, n, D]`.
    """
    results: list[Tensor] = []
    hook = model.base_model.register_forward_hook(lambda _model, _inputs, output: results.append(output[0]))
    try:
        output = run_model(model, ids, mask, cache, logits_to_keep=logits_to_keep, output_hidden_states=True)
    finally:
        hook.remove()
    states: Tensor = output.hidden_states[-1]
    if states.dim() != 3:  # Gemma 3n has several streams, which are joined after the last layer
        states = results[-1]
    return output.logits[:, -logits_to_keep:], states


class RowPasses:
    """Forward passes of texts. Each text continues one of the texts of the previous pass.

    Attributes:
        cache: The model's cache of the texts, or None.
    """

    def __init__(self, model: Model, ids: Tensor, mask: Tensor, *, cached: bool) -> None:
        self.cache = DynamicCache(config=model.config) if cached else None
        self._model = model
        self._texts = ids
        self._mask = mask

    def process_prompts(self) -> tuple[Tensor, Tensor]:
        """Read the prompts, and return the last logits `[R, V]` and all hidden states `[R, P, D]`."""
        return self._run_model(self._texts)

    def append_tokens(self, rows: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Append `tokens` `[R, 1]` to the texts at `rows` `[R]`. Return the same as `process_prompts`."""
        self._texts = torch.cat([self._texts[rows], tokens], 1)
        self._mask = pad(self._mask[rows], (0, 1), value=1)
        if self.cache is None:
            return self._run_model(self._texts)
        self.cache.reorder_cache(rows)  # type: ignore[arg-type]  # any integer tensor is accepted
        return self._run_model(tokens)

    def _run_model(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        logits, states = run_with_hidden_states(self._model, tokens, self._mask, self.cache)
        return logits[:, -1], states


class TreePasses:
    """Forward passes of R texts with k candidates each. The candidates of a text share one cache.

    Attributes:
        hidden: The hidden states of the newest candidates, `[R, k, D]`.
    """

    keeps_cache = True

    def __init__(self, model: Model, ids: Tensor, mask: Tensor, limit: int) -> None:
        self.hidden = torch.empty(0)
        self._model = model
        self._rows = RowPasses(model, ids, mask, cached=self.keeps_cache)
        self._length = ids.shape[1]
        self._limit = limit
        self._mask = pad(mask, (0, limit), value=1)
        self._present = self._mask.bool()
        is_padding = ~self._present[:, None, None]
        self._padding_bias = torch.finfo(model.dtype).min * is_padding.to(model.dtype)
        self._context = torch.empty(0)
        self._directions = torch.empty(0)

    @cached_property
    def _cache_argument(self) -> dict[str, DynamicCache]:
        return _make_cache_keyword_argument(self._model.base_model, self._rows.cache)

    def prefill(self) -> Tensor:
        """Read the prompts `[R, P]`, and return the logits after them, `[R, V]`, float32."""
        logits, states = self._rows.process_prompts()
        self._context = pad(normalise_vectors(states), (0, 0, 0, self._limit))
        return logits.float()

    def compute_candidate_penalties(self, ids: Tensor) -> Tensor:
        """Run the candidates `ids` `[R, k]`, and return the degeneration penalty of each, `[R, k]`."""
        self.hidden = self._run_candidates(ids)
        self._directions = normalise_vectors(self.hidden)
        context = self._context[:, : self._length]
        present = self._present[:, : self._length]
        return compute_degeneration_penalty(self._directions, context, present)

    def append_chosen_candidates(self, index: Tensor) -> Tensor:
        """Append the chosen candidates, `index` `[R]`. Return the logits after them, `[R, V]`, float32."""
        rows = torch.arange(len(index), device=index.device)
        logits = self._keep_chosen_candidates(rows, index)
        self._context[:, self._length] = self._directions[rows, index]
        self._length += 1
        return logits.float()

    def _run_candidates(self, ids: Tensor) -> Tensor:
        """Return the candidates' hidden states, `[R, k, D]`. The cache then contains all candidates."""
        rows, k = ids.shape
        text_bias = self._padding_bias[..., : self._length].expand(rows, 1, k, -1)
        lowest = torch.finfo(text_bias.dtype).min
        # Each candidate attends to itself and not to other candidates.
        candidate_bias = torch.full((k, k), lowest, dtype=text_bias.dtype, device=ids.device)
        candidate_bias.fill_diagonal_(0)
        position = self._mask[:, : self._length].sum(-1, keepdim=True)
        output = self._model.base_model(
            input_ids=ids,
            position_ids=position.expand_as(ids),
            attention_mask=torch.cat([text_bias, candidate_bias.expand(rows, 1, k, k)], -1),
            use_cache=True,
            **self._cache_argument,
        )
        return output.last_hidden_state  # type: ignore[no-any-return]

    def _keep_chosen_candidates(self, rows: Tensor, index: Tensor) -> Tensor:
        """Keep only the chosen candidates in the cache, and return the next logits, `[R, V]`."""
        length = self._length
        position = (length + index)[:, None, None, None]
        layers: Output = self._rows.cache.layers if self._rows.cache else []
        for layer in layers:
            for states in (layer.keys, layer.values):
                chosen = states.gather(2, position.expand(-1, states.shape[1], 1, states.shape[3]))
                states[:, :, length : length + 1] = chosen
            layer.keys = layer.keys[:, :, : length + 1]
            layer.values = layer.values[:, :, : length + 1]
        return self._model.get_output_embeddings()(self.hidden[rows, index])  # type: ignore[no-any-return]


class RepeatedPasses(TreePasses):
    """Forward passes in which each candidate's text has a separate cache."""

    def prefill(self) -> Tensor:
        """Read the prompts, and return the logits after them; see `TreePasses.prefill`."""
        self._chosen = torch.arange(len(self._mask), device=self._mask.device)
        return super().prefill()

    def _run_candidates(self, ids: Tensor) -> Tensor:
        rows, k = ids.shape
        logits, states = self._rows.append_tokens(self._chosen.repeat_interleave(k), ids.reshape(-1, 1))
        self._logits = logits.view(rows, k, -1)
        return states[:, -1].view(rows, k, -1)

    def _keep_chosen_candidates(self, rows: Tensor, index: Tensor) -> Tensor:
        self._chosen = rows * self.hidden.shape[1] + index
        logits: Tensor = self._logits[rows, index]
        return logits


class PlainPasses(RepeatedPasses):
    """Forward passes without a cache: each candidate's text is read from the beginning."""

    keeps_cache = False
