"""Batches of texts: their sizes, the inputs and outputs of decoding, and transformers' `generate`.

The batch size that fits on a GPU is not known beforehand. So batches start small, double while memory
suffices, and halve when memory runs out. Rows that did not fit are tried again, so no row is lost. The
longest rows come first, so a size that fits once also fits later. On a CPU, lack of memory often kills the
process without an error, so batches stay small.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, TypeVar

import torch
from torch import Tensor
from transformers import GenerationConfig

from guard_eval.generation.engines import Model, Output, Tokenizer
from guard_eval.generation.engines.encoding import ends_with_stop_string
from guard_eval.generation.engines.loading import SMALL
from guard_eval.generation.strategies import Strategy
from guard_eval.records import record

Row = TypeVar("Row")
Result = TypeVar("Result")

FIRST_ROWS = 8
SMALL_MODEL_ROWS = 32
"""The batch size for a small model on a CPU, in texts. Larger batches would not be faster on a busy CPU."""


class BatchSizes:
    """The number of texts in the next batch, which adapts to the memory.

    Args:
        rows: The largest number of texts. Default: batches start with 8 texts, and double while memory
            suffices.
    """

    def __init__(self, rows: int | None = None) -> None:
        self.rows = rows or FIRST_ROWS
        self._limit = rows or sys.maxsize

    @classmethod
    def choose_first_size(
        cls, batch_size: int | Literal["auto"], model: Model, strategy: Strategy
    ) -> BatchSizes:
        """Return the sizes for batches of a strategy. `auto` depends on the model and the number of beams."""
        if batch_size != "auto":
            return cls(batch_size)
        if model.device.type != "cpu":
            return cls()
        rows = SMALL_MODEL_ROWS if model.num_parameters() < SMALL else FIRST_ROWS
        return cls(max(1, rows // getattr(strategy, "beams", 1)))

    def double_after_success(self, rows: int) -> None:
        """Double the batch size, up to the limit, after a batch of `rows` texts fitted into memory."""
        self.rows = min(max(2 * rows, self.rows), self._limit)

    def halve_after_failure(self, rows: int) -> None:
        """Halve the batch size and the limit after a batch of `rows` texts did not fit into memory."""
        self._limit = max(1, rows // 2)
        self.rows = self._limit


def process_in_batches(
    rows: Sequence[Row], decode: Callable[[Sequence[Row]], Result], sizes: BatchSizes
) -> Iterator[tuple[Sequence[Row], Result]]:
    """Yield batches of `rows`, each with the result of `decode`.

    Args:
        rows: The rows, the longest first.
        decode: A function that decodes a batch. If memory runs out, the function is called again with fewer
            of these rows.
        sizes: The batch sizes, which are adapted to the memory.

    Raises:
        torch.OutOfMemoryError: A single row does not fit.
    """
    start = 0
    while start < len(rows):
        batch = rows[start : start + sizes.rows]
        try:
            result = decode(batch)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            if len(batch) == 1:
                raise torch.OutOfMemoryError(str(error)) from error
        else:
            sizes.double_after_success(len(batch))
            yield batch, result
            start += len(batch)
            continue
        # This is outside the handler: inside, the error would still keep the batch's tensors in memory.
        gc.collect()
        torch.cuda.empty_cache()
        sizes.halve_after_failure(len(batch))


def find_padding_token(model: Model) -> int:
    """Return the token id that pads prompts: the model's padding token, or 0 if the model has none."""
    return getattr(model.config.get_text_config(), "pad_token_id", None) or 0


def is_out_of_memory(error: Exception) -> bool:
    """Return whether an error means that memory ran out. A CPU's error is recognised by its message."""
    return isinstance(error, torch.OutOfMemoryError) or "DefaultCPUAllocator" in str(error)


@record
class Batch:
    """Prompts that are continued together.

    Attributes:
        prompts: The token ids of each prompt, at least one.
        keys: The random key of each prompt, from `noise.make_row_key`, `[B]`, on the model's device.
        ends: The tokens that end a text.
        limit: The largest number of new tokens.
        tokenizer: The tokenizer, which only stop strings need.
        stop: Strings at which a text ends.
        absent: Tokens that are never written, because the tokenizer has no text for them.
        padding: The token that pads prompts; see `find_padding_token`.
        width: Prompts are padded to at least this number of tokens.
    """

    prompts: Sequence[Sequence[int]]
    keys: Tensor
    ends: Sequence[int]
    limit: int
    tokenizer: Tokenizer = None
    stop: Sequence[str] = ()
    absent: Sequence[int] = ()
    padding: int = 0
    width: int = 0

    def pad_prompts(self) -> tuple[Tensor, Tensor]:
        """Return the prompts' token ids, padded on the left, and the attention mask, `[B, P]` each."""
        longest = max(self.width, *map(len, self.prompts))
        ids = [[self.padding] * (longest - len(prompt)) + list(prompt) for prompt in self.prompts]
        mask = [[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in self.prompts]
        return torch.tensor(ids, device=self.keys.device), torch.tensor(mask, device=self.keys.device)

    def has_reached_stop_string(self, ids: Tensor, scores: object = None, *, start: int) -> Tensor:  # noqa: ARG002
        """Return whether each text has just reached a stop string, `[B]`.

        This is a stopping criterion of transformers.

        Args:
            ids: The prompts with the new tokens, `[B, P + t]`.
            scores: Not used.
            start: The length of the prompts, P.
        """
        rows = ids[:, start:].tolist()
        stopped = [ends_with_stop_string(self.tokenizer, row, self.stop) for row in rows]
        return torch.tensor(stopped, device=ids.device)


@record
class DecodedBatch:
    """The new tokens of a batch, in the order of the prompts.

    Attributes:
        tokens: The new tokens of each prompt, up to its end token or the limit.
        failed_at: The first step 0, 1, … at which the model gave no probabilities for a prompt, or None.
    """

    tokens: list[list[int]]
    failed_at: list[int | None]

    @classmethod
    def cut_at_end_tokens(
        cls, batch: Batch, new_tokens: list[list[int]], failures_by_step: list[Tensor]
    ) -> DecodedBatch:
        """Cut each row after the end token, and find the rows without probabilities.

        Args:
            batch: The batch, which has the end tokens.
            new_tokens: The new tokens of each prompt.
            failures_by_step: For each step, whether the model gave no probabilities for a row, `[B]`.
        """
        decoded = cls(tokens=[], failed_at=[])
        flags = torch.stack(failures_by_step, 1).tolist()  # values are copied from a GPU only once
        for row, row_flags in zip(new_tokens, flags, strict=True):
            end = next((index for index, token in enumerate(row, 1) if token in batch.ends), len(row))
            failures = row_flags[: end + 1]
            decoded.tokens.append(row[:end])
            decoded.failed_at.append(failures.index(True) if True in failures else None)
        return decoded


def generate_with_transformers(
    model: Model,
    ids: Tensor,
    mask: Tensor,
    processor: Callable[[Tensor, Tensor], Tensor],
    *,
    stop_criteria: Sequence[Callable[..., Tensor]] = (),
    **options: object,
) -> Output:
    """Continue prompts `[B, P]` with transformers' `generate`, without the model's own settings.

    A model's settings, such as a repetition penalty, would change the strategy.
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
            stopping_criteria=list(stop_criteria),
        )
    finally:
        model.generation_config = usual
