"""From a batch of prompts to new tokens: transformers' `generate` with a strategy as its logits processor.

Beam search is `generate`'s own, and contrastive decoding changes the scores in it. Contrastive search needs
hidden states and has a loop of its own (`contrastive.py`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, GenerationConfig, LogitsProcessor, StoppingCriteria

from guard_eval.decoding.contrastive import contrast
from guard_eval.decoding.processor import DecodedStep, StrategyProcessor
from guard_eval.engines.encoding import ends_with_stop
from guard_eval.errors import StudyError
from guard_eval.strategies import (
    AdaptiveContrastiveSearch,
    BeamSearch,
    ContrastiveDecoding,
    ContrastiveSearch,
    LogitStrategy,
    Strategy,
)


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Prompts to be continued together.

    Attributes:
        prompts: The token ids of each, none empty.
        keys: `noise.row_key` of each, `[B]`, on the model's device.
        ends: Tokens that end a text.
        limit: The largest number of new tokens.
        tokenizer: Finds DRY's breakers, and stop strings.
        stop: Strings at which a text ends.
        width: Prompts are padded to so many tokens at least.
    """

    prompts: Sequence[Sequence[int]]
    keys: Tensor
    ends: Sequence[int]
    limit: int
    tokenizer: Any = None
    stop: Sequence[str] = ()
    width: int = 0

    def padded(self) -> tuple[Tensor, Tensor]:
        """Return the prompts' ids, padded on the left, and their mask, `[B, P]` each."""
        longest = max(self.width, *map(len, self.prompts))
        ids = [[self.pad] * (longest - len(prompt)) + list(prompt) for prompt in self.prompts]
        mask = [[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in self.prompts]
        return torch.tensor(ids, device=self.keys.device), torch.tensor(mask, device=self.keys.device)

    @property
    def pad(self) -> int:
        """Return the token that fills up rows."""
        return self.ends[0] if self.ends else 0


@dataclass(frozen=True, kw_only=True)
class Decoded:
    """New tokens, in the order of the batch.

    Attributes:
        tokens: The new tokens of each prompt, up to its end token or the limit.
        failed_at: The step 0, 1, … at which the model gave no probabilities, or None.
    """

    tokens: list[list[int]]
    failed_at: list[int | None]

    @classmethod
    def of(cls, batch: Batch, rows: list[list[int]], broken: Sequence[Tensor]) -> Decoded:
        """Return the tokens of `rows` up to their ends; `broken`, `[B]` for each step, have none to give."""
        ends = ([n for n, token in enumerate(row, 1) if token in batch.ends] for row in rows)
        tokens = [row[: end[0]] if end else row for row, end in zip(rows, ends, strict=True)]
        steps = torch.stack([*broken], 1).tolist()  # nothing is read back from a GPU before the end
        flags = (row[: len(text) + 1] for row, text in zip(steps, tokens, strict=True))
        return cls(tokens=tokens, failed_at=[row.index(True) if True in row else None for row in flags])


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
        self._cache = DynamicCache(config=model.config)
        self._written: Tensor | None = None

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        written = input_ids[:, self._start :]
        if self._written is None:
            beams = len(written) // len(self._prompts)
            new = self._prompts.repeat_interleave(beams, 0)
            self._mask = self._mask.repeat_interleave(beams, 0)
        else:
            self._cache.batch_select_indices(self._parents(written[:, :-1], self._written))
            new = written[:, -1:]
            self._mask = torch.nn.functional.pad(self._mask, (0, 1), value=1)
        self._written = written
        positions = (self._mask.cumsum(-1) - 1).clamp(min=0)[:, -new.shape[1] :]
        amateur = forward(self._model, new, self._mask, positions, self._cache).logits[:, -1]
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


class StopCriterion(StoppingCriteria):
    """Ends a text at the token that completes a stop string; `start` is the prompts' length."""

    def __init__(self, batch: Batch, start: int) -> None:
        self._batch, self._start = batch, start

    def __call__(self, input_ids: Tensor, scores: Any, **kwargs: Any) -> Tensor:  # noqa: ANN401, ARG002
        """Return which texts have just reached a stop string, `[B]`."""
        tokenizer, stop = self._batch.tokenizer, self._batch.stop
        rows = input_ids[:, self._start :].tolist()
        return torch.tensor([ends_with_stop(tokenizer, row, stop) for row in rows], device=input_ids.device)


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
        static: Use a cache of fixed shapes, which transformers compiles on a GPU.
        on_step: Called after each step, but never by a strategy with beams, whose texts are known in the end.
    """
    if isinstance(strategy, ContrastiveSearch | AdaptiveContrastiveSearch):
        from guard_eval.engines.contrastive import contrastive_search  # noqa: PLC0415 (it imports this module)

        return contrastive_search(model, batch, strategy, on_step)
    ids, mask = batch.padded()
    options: dict[str, Any] = {"cache_implementation": "static"} if static else {}
    processor: StrategyProcessor | _BeamProcessor
    if isinstance(strategy, BeamSearch | ContrastiveDecoding):
        score = _Amateur(amateur, strategy, ids, mask) if isinstance(strategy, ContrastiveDecoding) else None
        processor = _BeamProcessor(len(ids), score)
        broken = processor.broken
        options |= {"num_beams": strategy.beams, "early_stopping": False}
        options["length_penalty"] = getattr(strategy, "length_penalty", 1.0)
    else:
        processor = StrategyProcessor(strategy, tokenizer=batch.tokenizer, attention_mask=mask)
        processor.keys, processor.on_step = batch.keys, on_step
        broken = []
        processor.on_broken = broken.append
    stops = [StopCriterion(batch, ids.shape[1])] if batch.stop else []
    config = GenerationConfig(  # type: ignore[no-untyped-call]
        max_new_tokens=batch.limit,
        do_sample=False,
        eos_token_id=list(batch.ends) or None,
        pad_token_id=batch.pad,
        **options,
    )
    usual, model.generation_config = model.generation_config, GenerationConfig()  # type: ignore[no-untyped-call]
    try:  # the model's own settings would fill in what is not given, such as a repetition penalty
        rows = model.generate(
            input_ids=ids,
            attention_mask=mask,
            generation_config=config,
            logits_processor=[processor],
            stopping_criteria=stops,
        )
    finally:
        model.generation_config = usual
    return Decoded.of(batch, rows[:, ids.shape[1] :].tolist(), broken)


def forward(model: Any, ids: Tensor, mask: Tensor, positions: Tensor, cache: Any, **options: Any) -> Any:  # noqa: ANN401
    """Run a model on new tokens `[B, n]`, without arguments that it does not take."""
    accepted = inspect.signature(model.forward).parameters
    optional = {"attention_mask": mask, "position_ids": positions, "logits_to_keep": 1}
    extras = {name: value for name, value in optional.items() if name in accepted}
    return model(input_ids=ids, past_key_values=cache, use_cache=True, **extras, **options)


REVERSIBLE_LAYERS = {"full_attention", "sliding_attention", "chunked_attention"}
"""Kinds of layers whose memory of a text can be cut, repeated and reordered."""


def check(model: Any, strategy: Strategy, amateur: Any = None) -> None:  # noqa: ANN401
    """Make sure that a model, and contrastive decoding's amateur, can run a strategy.

    Raises:
        StudyError: They cannot; the message says why.
    """
    if isinstance(strategy, LogitStrategy):
        return
    for each in (model, amateur) if isinstance(strategy, ContrastiveDecoding) and amateur else (model,):
        kinds = set(getattr(each.config.get_text_config(), "layer_types", None) or ["full_attention"])
        if "past_key_values" not in inspect.signature(each.forward).parameters:
            why = "it keeps no cache of keys and values"
        elif not kinds <= REVERSIBLE_LAYERS:
            why = "it keeps a running state, which cannot be taken back"
        else:
            continue
        raise StudyError(
            f"{strategy} does not run on this {type(each).__name__}: {why}; "
            "leave the strategy out, or name another model"
        )
