"""From a batch of prompts to new tokens: transformers' `generate` with a strategy as its logits processor.

Beam search is `generate`'s own, and contrastive decoding changes the scores in it. Contrastive search needs
hidden states and has a loop of its own (`contrastive.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, LogitsProcessor

from guard_eval.generation.decoding.contrastive import contrast
from guard_eval.generation.decoding.processor import DecodedStep, StrategyProcessor
from guard_eval.generation.engines.batch import Batch, Decoded, StopCriterion, run_generate
from guard_eval.generation.engines.contrastive import contrastive_search
from guard_eval.generation.engines.passes import PlainPasses, forward, reorder
from guard_eval.generation.engines.probe import TOKENS, Abilities
from guard_eval.generation.strategies import (
    AdaptiveContrastiveSearch,
    BeamSearch,
    ContrastiveDecoding,
    ContrastiveSearch,
    Strategy,
)


class _BeamProcessor(LogitsProcessor):
    """Watch the scores of `generate`'s beam search, or change them to contrastive decoding's."""

    def __init__(self, prompts: int, score: Callable[[Tensor, Tensor], Tensor] | None) -> None:
        self._prompts, self._score = prompts, score
        self.broken: list[Tensor] = []

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        if self._score is not None:
            scores = self._score(input_ids, scores)
        best = scores.amax(-1).view(self._prompts, -1)
        broken = (best.isnan() | (best == torch.inf)).any(-1) | (best == -torch.inf).all(-1)
        self.broken.append(broken)
        return scores.masked_fill(broken.repeat_interleave(best.shape[1])[:, None], 0)


class _Amateur:
    """Scores hypotheses by the contrast of an expert and an amateur, which keeps a cache of its own."""

    def __init__(self, model: Any, strategy: ContrastiveDecoding, ids: Tensor, mask: Tensor) -> None:  # noqa: ANN401
        last = strategy.amateur_prompt == "last"
        self._model, self._strategy = model, strategy
        self._start = ids.shape[1]
        self._prompts, self._mask = (ids[:, -1:], mask[:, -1:]) if last else (ids, mask)
        plain = Abilities.of(model).choose_passes(TOKENS) is PlainPasses
        self._cache = None if plain else DynamicCache(config=model.config)
        self._written: Tensor | None = None

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        written = input_ids[:, self._start :]
        prompts = self._prompts.repeat_interleave(len(written) // len(self._prompts), 0)
        mask = self._mask.repeat_interleave(len(written) // len(self._prompts), 0)
        mask = torch.nn.functional.pad(mask, (0, written.shape[1]), value=1)
        new = torch.cat([prompts, written], 1)
        if self._cache is not None and self._written is not None:
            reorder(self._cache, self._parents(written[:, :-1], self._written))
            new = written[:, -1:]
        self._written = written
        amateur = forward(self._model, new, mask, self._cache).logits[:, -1]
        shared = min(scores.shape[1], amateur.shape[1])  # beyond it is padding of the larger embedding
        contrasted = contrast(
            scores[:, :shared],
            amateur[:, :shared],
            alpha=self._strategy.alpha,
            amateur_tau=self._strategy.amateur_tau,
        )
        return torch.nn.functional.pad(contrasted, (0, scores.shape[1] - shared), value=-torch.inf)

    def _parents(self, texts: Tensor, before: Tensor) -> Tensor:
        """Return the row of `before` that each hypothesis continues, found by its tokens, `[rows]`."""
        prompts = len(self._prompts)
        beams = len(texts) // prompts
        grouped, earlier = (rows.reshape(prompts, beams, rows.shape[1]) for rows in (texts, before))
        same = (grouped[:, :, None] == earlier[:, None]).all(-1)
        first = torch.arange(prompts, device=texts.device)[:, None] * beams
        return (first + same.int().argmax(-1)).flatten()


@torch.inference_mode()
def decode(
    model: Any,  # noqa: ANN401 (transformers' classes are untyped)
    batch: Batch,
    strategy: Strategy,
    *,
    amateur: Any = None,  # noqa: ANN401
    static: bool = False,
    on_step: Callable[[DecodedStep], None] | None = None,
) -> Decoded:
    """Continue a batch of token ids by a strategy.

    Args:
        model: A transformers model for causal language modelling.
        batch: The prompts.
        strategy: What to apply; `check` must have passed.
        amateur: The weaker model of contrastive decoding, with the same tokens.
        static: Use a cache of fixed shapes; on a GPU the model and GUARD's step are then compiled.
        on_step: Called after each step, but never by a strategy with beams, whose texts are known in the end.
    """
    if isinstance(strategy, ContrastiveSearch | AdaptiveContrastiveSearch):
        return contrastive_search(model, batch, strategy, on_step)
    ids, mask = batch.padded()
    options: dict[str, Any] = {"cache_implementation": "static"} if static else {}
    processor: StrategyProcessor | _BeamProcessor
    if isinstance(strategy, BeamSearch | ContrastiveDecoding):
        score = _Amateur(amateur, strategy, ids, mask) if isinstance(strategy, ContrastiveDecoding) else None
        processor = _BeamProcessor(len(ids), score)
        broken = processor.broken
        options |= {"num_beams": strategy.beams, "early_stopping": False}
        if not Abilities.of(model).reorders:
            options = {**options, "use_cache": False}
        options["length_penalty"] = getattr(strategy, "length_penalty", 1.0)
    else:
        processor = StrategyProcessor(strategy, tokenizer=batch.tokenizer, attention_mask=mask)
        processor.keys, processor.on_step = batch.keys, on_step
        processor.compiled = static and ids.device.type == "cuda"
        broken = []
        processor.on_broken = broken.append
    rows = run_generate(
        model,
        ids,
        mask,
        processor,
        stops=[StopCriterion(batch, ids.shape[1])] if batch.stop else (),
        max_new_tokens=batch.limit,
        eos_token_id=list(batch.ends) or None,
        pad_token_id=batch.pad,
        suppress_tokens=list(batch.absent) or None,
        **options,
    )
    return Decoded.of(batch, rows[:, ids.shape[1] :].tolist(), broken)
