"""Batches of texts: how many rows they have, what a loop is given and returns, and transformers' `generate`.

What fits on a GPU is not known beforehand, so batches start small, double while it goes well, and halve when
memory runs out; the rows that did not fit are tried again, so none is lost. The longest rows come first, so
what fitted once fits again. On a CPU memory does not run out with an error but with the process's end, so
batches stay small.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor
from transformers import GenerationConfig, StoppingCriteria

from guard_eval.generation.engines import Model, Tokenizer
from guard_eval.generation.engines.encoding import ends_with_stop
from guard_eval.generation.engines.loading import SMALL
from guard_eval.generation.strategies import Strategy

Row = TypeVar("Row")
Result = TypeVar("Result")

FIRST_ROWS = 8
SMALL_MODEL_ROWS = 32
"""Rows of a small model on a CPU; more gain nothing, since its arithmetic is busy by then."""


class BatchSizes:
    """How many rows to try next.

    Args:
        rows: Never more than these; without, 8 that double while it goes well.
    """

    def __init__(self, rows: int | None = None) -> None:
        self.rows = rows or FIRST_ROWS
        self._most = rows

    @classmethod
    def choose(cls, batch_size: int | Literal["auto"], model: Model, strategy: Strategy) -> BatchSizes:
        """Choose the first batch size for a model, and a strategy that may have beams."""
        if batch_size != "auto":
            return cls(batch_size)
        if model.device.type != "cpu":
            return cls()
        rows = SMALL_MODEL_ROWS if model.num_parameters() < SMALL else FIRST_ROWS
        return cls(max(1, rows // getattr(strategy, "beams", 1)))

    def succeed(self, rows: int) -> None:
        """Double `rows` for the next batch, unless so many were too many."""
        self.rows = max(2 * rows, self.rows)
        if self._most is not None:
            self.rows = min(self.rows, self._most)

    def fail(self, rows: int) -> None:
        """Halve `rows` that did not fit, for good."""
        self.rows = self._most = max(1, rows // 2)


def in_batches(
    rows: Sequence[Row], decode: Callable[[Sequence[Row]], Result], sizes: BatchSizes
) -> Iterator[tuple[Sequence[Row], Result]]:
    """Yield batches of `rows` with what `decode` returns for each.

    Args:
        rows: The longest first.
        decode: May run out of memory; it is then called again with fewer of the same rows.
        sizes: What fits into memory; it learns.

    Raises:
        torch.OutOfMemoryError: A single row does not fit.
    """
    start = 0
    while start < len(rows):
        batch = rows[start : start + sizes.rows]
        try:
            result = decode(batch)
        except RuntimeError as error:  # on a CPU a lack of memory has no class of its own
            if not isinstance(error, torch.OutOfMemoryError) and "DefaultCPUAllocator" not in str(error):
                raise
            if len(batch) == 1:
                raise torch.OutOfMemoryError(str(error)) from error
        else:
            sizes.succeed(len(batch))
            yield batch, result
            start += len(batch)
            continue
        # Only now, when the error and the tensors that its frames held are released.
        gc.collect()
        torch.cuda.empty_cache()
        sizes.fail(len(batch))


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
    tokenizer: Tokenizer = None
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
    model: Model,
    ids: Tensor,
    mask: Tensor,
    processor: Callable[[Tensor, Tensor], Tensor],
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
