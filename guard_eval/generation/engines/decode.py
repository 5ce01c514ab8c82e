"""From a batch of prompts to new tokens: transformers' `generate` with a strategy as its logits processor.

Beam search is `generate`'s own, and contrastive decoding changes the scores in it. Contrastive search and ACS
need the hidden states of all candidates, and have a loop of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from guard_eval.generation.decoding.contrastive import Proposer, choose, contrast
from guard_eval.generation.decoding.processor import DecodedStep, StrategyProcessor
from guard_eval.generation.engines import Model
from guard_eval.generation.engines.batch import Batch, Decoded, StopCriterion, run_generate
from guard_eval.generation.engines.passes import PlainPasses, RowPasses
from guard_eval.generation.engines.probe import TOKENS, Abilities
from guard_eval.generation.strategies import (
    AdaptiveContrastiveSearch,
    BeamSearch,
    ContrastiveDecoding,
    ContrastiveSearch,
    Strategy,
)

Watch = Callable[[DecodedStep], None]
"""Is called after each step."""


@torch.inference_mode()
def decode(
    model: Model,
    batch: Batch,
    strategy: Strategy,
    *,
    amateur: Model = None,
    static: bool = False,
    on_step: Watch | None = None,
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
    ids, mask = batch.padded()
    if isinstance(strategy, ContrastiveSearch | AdaptiveContrastiveSearch):
        return _search_contrastively(model, batch, strategy, on_step)
    broken: list[Tensor] = []
    options: dict[str, Any] = {}
    processor: Callable[[Tensor, Tensor], Tensor]
    if isinstance(strategy, BeamSearch | ContrastiveDecoding):
        score = _Amateur(amateur, strategy, ids, mask) if isinstance(strategy, ContrastiveDecoding) else None
        processor = _BeamProcessor(len(ids), score, broken.append)
        options = {
            "num_beams": strategy.beams,
            "early_stopping": False,
            "length_penalty": getattr(strategy, "length_penalty", 1.0),
            "use_cache": Abilities.of(model).reorders,
        }
    else:
        processor = StrategyProcessor(strategy, tokenizer=batch.tokenizer, attention_mask=mask)
        processor.keys = batch.keys
        processor.on_step = on_step
        processor.on_broken = broken.append
        processor.compiled = static and ids.device.type == "cuda"
    if static:
        options["cache_implementation"] = "static"
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


class _BeamProcessor:
    """Watch the scores of `generate`'s beam search, or change them to contrastive decoding's."""

    def __init__(
        self,
        prompts: int,
        score: Callable[[Tensor, Tensor], Tensor] | None,
        on_broken: Callable[[Tensor], None],
    ) -> None:
        self._prompts = prompts
        self._score = score
        self._on_broken = on_broken

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        if self._score is not None:
            scores = self._score(input_ids, scores)
        best = scores.amax(-1).view(self._prompts, -1)
        broken = (best.isnan() | (best == torch.inf)).any(-1) | (best == -torch.inf).all(-1)
        self._on_broken(broken)
        return scores.masked_fill(broken.repeat_interleave(best.shape[1])[:, None], 0)


class _Amateur:
    """Scores hypotheses by the contrast of an expert and an amateur, which keeps a cache of its own."""

    def __init__(self, model: Model, strategy: ContrastiveDecoding, ids: Tensor, mask: Tensor) -> None:
        self._strategy = strategy
        self._start = ids.shape[1]
        seen = -1 if strategy.amateur_prompt == "last" else 0
        prompts = (rows[:, seen:].repeat_interleave(strategy.beams, 0) for rows in (ids, mask))
        cached = Abilities.of(model).choose_passes(TOKENS) is not PlainPasses
        self._rows = RowPasses(model, *prompts, cached=cached)
        self._written = ids[:, :0]

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        written = input_ids[:, self._start :]
        if written.shape[1]:
            output = self._rows.extend(self._find_parents(written[:, :-1]), written[:, -1:])
        else:
            output = self._rows.read_prompts()
        self._written = written
        amateur = output.logits[:, -1]
        shared = min(scores.shape[1], amateur.shape[1])  # beyond it is padding of the larger embedding
        contrasted = contrast(
            scores[:, :shared],
            amateur[:, :shared],
            alpha=self._strategy.alpha,
            amateur_tau=self._strategy.amateur_tau,
        )
        return pad(contrasted, (0, scores.shape[1] - shared), value=-torch.inf)

    def _find_parents(self, texts: Tensor) -> Tensor:
        """Return the hypothesis before that each text continues, found by its tokens, `[rows]`."""
        beams = self._strategy.beams
        prompts, length = len(texts) // beams, texts.shape[1]
        earlier = self._written.reshape(prompts, 1, beams, length)
        is_parent = (texts.reshape(prompts, beams, 1, length) == earlier).all(-1)
        first = beams * torch.arange(prompts, device=texts.device)
        return (first[:, None] + is_parent.int().argmax(-1)).flatten()


def _search_contrastively(
    model: Model,
    batch: Batch,
    strategy: ContrastiveSearch | AdaptiveContrastiveSearch,
    on_step: Watch | None,
) -> Decoded:
    """Continue a batch by contrastive search or ACS; see `decode`."""
    ids, mask = batch.padded()
    start = ids.shape[1]
    propose = Proposer(strategy, len(ids), batch.limit, ids.device)
    passes = Abilities.of(model).choose_passes(start + batch.limit)(model, ids, mask, batch.limit)
    failures: list[Tensor] = []
    stop = StopCriterion(batch, start) if batch.stop else None
    ends = torch.tensor(batch.ends, dtype=torch.long, device=ids.device)
    absent = torch.tensor(batch.absent, dtype=torch.long, device=ids.device)
    running = torch.ones_like(ids[:, 0], dtype=torch.bool)
    logits = passes.prefill()
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
