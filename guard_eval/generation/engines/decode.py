"""Continue a batch of prompts: transformers' `generate` runs with a strategy as the logits processor.

`generate` has a beam search, and contrastive decoding changes the scores of that search. Contrastive search
and ACS need the hidden states of all candidates, so this module has another loop for them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from guard_eval.generation.decoding.contrastive import Proposer, choose_candidate, contrast_models
from guard_eval.generation.decoding.processor import DecodedStep, StrategyProcessor
from guard_eval.generation.engines import Model
from guard_eval.generation.engines.batch import Batch, DecodedBatch, find_padding_token, run_generate
from guard_eval.generation.engines.passes import RowPasses
from guard_eval.generation.engines.probe import Abilities
from guard_eval.generation.strategies import (
    AdaptiveContrastiveSearch,
    BeamSearch,
    ContrastiveDecoding,
    ContrastiveSearch,
    Strategy,
)

Watch = Callable[[DecodedStep], None]
"""A function that `decode_batch` calls after each step of a batch."""


@torch.inference_mode()
def decode_batch(
    model: Model,
    batch: Batch,
    strategy: Strategy,
    *,
    amateur: Model = None,
    static: bool = False,
    on_step: Watch | None = None,
) -> DecodedBatch:
    """Continue a batch of prompts with a strategy.

    Args:
        model: A transformers model for causal language modelling.
        batch: The prompts.
        strategy: The strategy, after `check_abilities` has accepted it.
        amateur: The weaker model of contrastive decoding, with the same vocabulary.
        static: Use a static cache. On a GPU, the model and GUARD's step are also compiled.
        on_step: A function that is called after each step. Strategies with beams do not call it, because
            their texts are known only at the end.
    """
    ids, mask = batch.pad_prompts()
    if isinstance(strategy, ContrastiveSearch | AdaptiveContrastiveSearch):
        return _search_contrastively(model, batch, strategy, (ids, mask), on_step)
    broken: list[Tensor] = []
    abilities = Abilities.for_model(model)
    tokens = ids.shape[1] + batch.limit
    static = static and abilities.can_use_cache(tokens, static=True)
    options: dict[str, Any] = {"use_cache": static or abilities.can_use_cache(tokens)}
    processor: Callable[[Tensor, Tensor], Tensor]
    if isinstance(strategy, BeamSearch | ContrastiveDecoding):
        score = None
        if isinstance(strategy, ContrastiveDecoding):
            score = _AmateurScorer(amateur, strategy, ids, mask, batch.limit)
        processor = partial(_note_broken_prompts, len(ids), score, broken)
        options |= {
            "num_beams": strategy.beams,
            "early_stopping": False,
            "length_penalty": getattr(strategy, "length_penalty", 1.0),
            "use_cache": options["use_cache"] and abilities.can_use_cache_for_beams(tokens),
        }
    else:
        processor = StrategyProcessor(strategy, tokenizer=batch.tokenizer, attention_mask=mask)
        processor.keys = batch.keys
        processor.on_step = on_step
        processor.on_broken = broken.append
        processor.compiled = static and ids.device.type == "cuda"
    if static and options["use_cache"]:  # a beam search may run without a cache
        options["cache_implementation"] = "static"
    rows = run_generate(
        model,
        ids,
        mask,
        processor,
        stops=[partial(batch.find_stopped_texts, start=ids.shape[1])] if batch.stop else (),
        max_new_tokens=batch.limit,
        eos_token_id=list(batch.ends) or None,
        pad_token_id=batch.ends[0] if batch.ends else 0,
        suppress_tokens=list(batch.absent) or None,
        **options,
    )
    return DecodedBatch.cut_rows(batch, rows[:, ids.shape[1] :].tolist(), broken)


def _note_broken_prompts(
    prompts: int,
    score: Callable[[Tensor, Tensor], Tensor] | None,
    failures: list[Tensor],
    input_ids: Tensor,
    scores: Tensor,
) -> Tensor:
    """Find prompts without probabilities in a beam search, add them to `failures`, and return the scores.

    For contrastive decoding, `score` changes the scores first.
    """
    if score is not None:
        scores = score(input_ids, scores)
    best = scores.amax(-1).view(prompts, -1)
    has_bad_beam = (best.isnan() | (best == torch.inf)).any(-1)
    has_no_beam = (best == -torch.inf).all(-1)
    broken = has_bad_beam | has_no_beam
    failures.append(broken)
    return scores.masked_fill(broken.repeat_interleave(best.shape[1])[:, None], 0)


class _AmateurScorer:
    """Score hypotheses by the contrast of an expert and an amateur. The amateur has a separate cache."""

    def __init__(
        self, model: Model, strategy: ContrastiveDecoding, ids: Tensor, mask: Tensor, limit: int
    ) -> None:
        self._strategy = strategy
        self._start = ids.shape[1]
        first = -1 if strategy.amateur_prompt == "last" else 0
        padded = ids.masked_fill(mask == 0, find_padding_token(model))
        prompts = padded[:, first:].repeat_interleave(strategy.beams, 0)
        masks = mask[:, first:].repeat_interleave(strategy.beams, 0)
        cached = Abilities.for_model(model).can_use_cache_as_amateur(prompts.shape[1] + limit)
        self._rows = RowPasses(model, prompts, masks, cached=cached)
        self._written = ids[:, :0]

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        written = input_ids[:, self._start :]
        if written.shape[1]:
            amateur, _ = self._rows.extend(self._find_parent_beams(written[:, :-1]), written[:, -1:])
        else:
            amateur, _ = self._rows.read_prompts()
        self._written = written
        # The further rows of the larger embedding are only padding.
        shared = min(scores.shape[1], amateur.shape[1])
        contrasted = contrast_models(
            scores[:, :shared],
            amateur[:, :shared],
            alpha=self._strategy.alpha,
            amateur_tau=self._strategy.amateur_tau,
        )
        return pad(contrasted, (0, scores.shape[1] - shared), value=-torch.inf)

    def _find_parent_beams(self, texts: Tensor) -> Tensor:
        """Return the index of the earlier hypothesis that each text continues, `[rows]`, by their tokens."""
        beams = self._strategy.beams
        prompts = len(texts) // beams
        length = texts.shape[1]
        earlier = self._written.reshape(prompts, 1, beams, length)
        is_parent = (texts.reshape(prompts, beams, 1, length) == earlier).all(-1)
        first = beams * torch.arange(prompts, device=texts.device)
        return (first[:, None] + is_parent.int().argmax(-1)).flatten()


def _search_contrastively(
    model: Model,
    batch: Batch,
    strategy: ContrastiveSearch | AdaptiveContrastiveSearch,
    padded: tuple[Tensor, Tensor],
    on_step: Watch | None,
) -> DecodedBatch:
    """Continue a batch with contrastive search or ACS; see `decode_batch`. `padded` is ids and mask."""
    ids, mask = padded
    start = ids.shape[1]
    propose = Proposer(strategy, len(ids), batch.limit, ids.device)
    passes_class = Abilities.for_model(model).choose_passes(start + batch.limit)
    passes = passes_class(model, ids, mask, batch.limit)
    failures: list[Tensor] = []
    ends = torch.tensor(batch.ends, dtype=torch.long, device=ids.device)
    absent = torch.tensor(batch.absent, dtype=torch.long, device=ids.device)
    running = torch.ones_like(ids[:, 0], dtype=torch.bool)
    logits = passes.prefill()
    for step in range(batch.limit):
        if batch.absent:
            logits = logits.index_fill(-1, absent, -torch.inf)
        broken = ~logits.amax(-1).isfinite()
        proposal = propose(logits.masked_fill(broken[:, None], 0), step)
        penalty = passes.try_candidates(proposal.ids)
        # A hidden state may be NaN even if the logits before it are finite.
        broken |= (~penalty.isfinite() & proposal.allowed).any(-1)
        failures.append(broken)
        index = choose_candidate(proposal, penalty.nan_to_num())
        tokens = proposal.ids.gather(1, index[:, None])
        if on_step:
            adapts = isinstance(strategy, AdaptiveContrastiveSearch)
            adapted = {"k": proposal.allowed.sum(-1), "alpha": proposal.alpha} if adapts else {}
            on_step(DecodedStep(logits, tokens[:, 0], adapted))
        ids = torch.cat([ids, tokens], 1)
        running &= ~((tokens == ends).any(-1) | broken)
        if batch.stop:
            running &= ~batch.find_stopped_texts(ids, start=start)
        if step + 1 == batch.limit or not running.any():
            break
        logits = passes.append_candidates(index)
    return DecodedBatch.cut_rows(batch, ids[:, start:].tolist(), failures)
