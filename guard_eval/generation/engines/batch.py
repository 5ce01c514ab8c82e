"""The rows that a loop is given, the tokens that it returns, where a text ends, and `generate`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig, LogitsProcessor, StoppingCriteria

from guard_eval.generation.engines.encoding import ends_with_stop


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
        absent: Tokens that are never written, because the tokenizer has no text for them.
        width: Prompts are padded to so many tokens at least.
    """

    prompts: Sequence[Sequence[int]]
    keys: Tensor
    ends: Sequence[int]
    limit: int
    tokenizer: Any = None
    stop: Sequence[str] = ()
    absent: Sequence[int] = ()
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


class StopCriterion(StoppingCriteria):
    """Ends a text at the token that completes a stop string; `start` is the prompts' length."""

    def __init__(self, batch: Batch, start: int) -> None:
        self._batch, self._start = batch, start

    def __call__(self, input_ids: Tensor, scores: Any, **kwargs: Any) -> Tensor:  # noqa: ANN401, ARG002
        """Return which texts have just reached a stop string, `[B]`."""
        tokenizer, stop = self._batch.tokenizer, self._batch.stop
        rows = input_ids[:, self._start :].tolist()
        return torch.tensor([ends_with_stop(tokenizer, row, stop) for row in rows], device=input_ids.device)


def run_generate(
    model: Any,  # noqa: ANN401 (transformers' classes are untyped)
    ids: Tensor,
    mask: Tensor,
    processor: LogitsProcessor,
    *,
    stops: Sequence[StoppingCriteria] = (),
    **options: Any,  # noqa: ANN401 (those of a `GenerationConfig`)
) -> Any:  # noqa: ANN401
    """Continue prompts `[B, P]` by transformers' `generate`, without the model's own settings.

    These would fill in what is not given, such as a repetition penalty.
    """
    config = GenerationConfig(do_sample=False, **options)  # type: ignore[no-untyped-call]
    usual = model.generation_config
    model.generation_config = GenerationConfig()  # type: ignore[no-untyped-call]
    try:
        return model.generate(
            input_ids=ids,
            attention_mask=mask,
            generation_config=config,
            logits_processor=[processor],
            stopping_criteria=list(stops),
        )
    finally:
        model.generation_config = usual
