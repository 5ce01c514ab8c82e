"""What goes into a decoding loop and what comes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from guard_eval.engines.local.texts import StopStrings


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Prompts to be continued together.

    Attributes:
        prompts: The token ids of each, none empty.
        keys: `noise.row_key` of each, `[B]`, on the model's device.
        ends: Tokens that end a text, `[E]`, on the same device.
        limit: How many new tokens at most.
        breakers: Tokens that end a sequence, `[n]`, for strategies that ask for them.
        stops: Finds strings at which a text is done; the text is cut there when the tokens are decoded.
    """

    prompts: Sequence[Sequence[int]]
    keys: Tensor
    ends: Tensor
    limit: int
    breakers: Tensor | None = None
    stops: StopStrings | None = None


@dataclass(frozen=True, kw_only=True)
class Generated:
    """What a loop made, in the order of the batch.

    Attributes:
        tokens: The new tokens of each prompt, up to its end token or the limit.
        failed_at: The step 0, 1, … whose logits were no distribution, or None.
        trace: For each prompt the values by which the strategy adapted, one per token, by name.
    """

    tokens: list[list[int]]
    failed_at: list[int | None]
    trace: list[dict[str, list[float]]] = field(default_factory=list)


class DecodedStep(NamedTuple):
    """What a loop has just done, for who watches it.

    Attributes:
        logits: What the model gave, `[R, V]`.
        tokens: What was chosen, `[R]`.
        adapted: By what the strategy adapted, `[R]` each, by name; none if it does not adapt.
    """

    logits: Tensor
    tokens: Tensor
    adapted: dict[str, Tensor]


class Rows:
    """Which rows of a batch still run, and what each has written: kept on the device, read now and then.

    Steps are numbers 0, 1, …, or tensors without dimensions that hold one: then nothing is read by the host.

    Reading makes a GPU wait for the host, so on a GPU it is done every few steps only; what a row wrote after
    its end is cut off when the batch is done.
    """

    STRIDE = 16

    def __init__(self, batch: Batch) -> None:
        device, rows = batch.keys.device, len(batch.prompts)
        self.history = torch.zeros(rows, batch.limit, dtype=torch.long, device=device)
        self._written = torch.zeros_like(self.history)
        self._batch = batch
        self._index = torch.arange(rows, device=device)
        self._running = torch.ones(rows, dtype=torch.bool, device=device)
        self._failed_at = torch.full((rows,), batch.limit, device=device)
        self._cpu = device.type == "cpu"
        self._searched = 0

    def check(self, logits: Tensor, step: int | Tensor) -> Tensor:
        """Stop the rows whose logits `[R, V]` hold a NaN or have no finite greatest; return them with zeros.

        A row that has failed stays for a moment, and what is computed of it must be no error.
        """
        bad = ~(logits.amax(-1).abs() < torch.inf)
        if self._cpu and not bad.any():
            return logits
        self.fail(bad, step)
        return logits.masked_fill(bad[:, None], 0)

    def fail(self, bad: Tensor, step: int | Tensor) -> None:
        """Stop the rows that are `bad`, `[R]`, at a step."""
        if self._cpu and not bad.any():
            return
        bad = bad & self._running
        failed = self._failed_at[self._index]
        self._failed_at[self._index] = torch.where(bad, failed.clamp(max=step), failed)
        self._running &= ~bad

    def write(self, tokens: Tensor, step: int | Tensor) -> None:
        """Append the tokens `[R]` of a step, and stop the rows that they end."""
        if isinstance(step, Tensor):
            self.history.index_copy_(1, step[None], tokens[:, None])
        else:
            self.history[:, step] = tokens
        self._running &= ~(tokens[:, None] == self._batch.ends).any(-1)

    def ended(self, step: int) -> bool:
        """Return whether no row goes on after a step; looked up every `STRIDE` steps, false in between."""
        if (step + 1) % self.STRIDE:
            return False
        self._stop(step)
        return not bool(self._running.any())

    def leave(self, step: int) -> Tensor | None:
        """Return which rows `[R']` go on after a step, where some should leave the batch; None where not.

        Empty: all have ended. A GPU's rows leave together, when they are at least half of what is left.
        """
        if not self._cpu and (step + 1) % self.STRIDE:
            return None
        self._stop(step)
        going = self._running.nonzero()[:, 0]
        if len(going) == len(self._running) or (not self._cpu and 2 * len(going) > len(self._running) > 1):
            return None if len(going) else going
        self._written[self._index] = self.history
        self.history, self._running = self.history[going], self._running[going]
        self._index = self._index[going]
        return going

    def _stop(self, step: int) -> None:
        """Stop the rows whose text has come to a stop string since it was last searched."""
        stops = self._batch.stops
        if stops is None:
            return
        texts = zip(
            self._index.tolist(), self.history[:, : step + 1].tolist(), self._running.tolist(), strict=True
        )
        done = [
            runs and stops.find(list(self._batch.prompts[row]), tokens, self._searched) is not None
            for row, tokens, runs in texts
        ]
        self._running &= ~torch.tensor(done, device=self._running.device)
        self._searched = step + 1

    def finished(self) -> tuple[list[list[int]], list[int | None]]:
        """Return each row's tokens up to its end, and where it failed."""
        self._written[self._index] = self.history
        ends = set(self._batch.ends.tolist())
        tokens = [until_end(row, ends) for row in self._written.tolist()]
        failed = [None if step == self._batch.limit else step for step in self._failed_at.tolist()]
        return tokens, failed


def until_end(row: list[int], ends: set[int]) -> list[int]:
    """Return the tokens up to the first that ends a text, that one included."""
    end = next((place for place, token in enumerate(row) if token in ends), len(row) - 1)
    return row[: end + 1]


def prompt_tokens(batch: Batch) -> Tensor:
    """Return the prompts' tokens `[B, P]`, with −1 before those that are shorter."""
    longest = max(map(len, batch.prompts))
    rows = [[-1] * (longest - len(prompt)) + list(prompt) for prompt in batch.prompts]
    return torch.tensor(rows, device=batch.keys.device)
