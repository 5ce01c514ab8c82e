"""Length and speed of generation, from what was measured while it ran."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from guard_eval.records import Continuation


@dataclass(frozen=True, kw_only=True)
class Speed:
    """How long continuations are and how fast they were made.

    Attributes:
        tokens: Mean length in tokens, the end-of-text token included.
        tokens_per_second: All tokens over all wall time; it depends on batch and device.
        seconds_per_text: Wall time over texts.
        ended: Share of texts that the model ended itself.
        batch: Rows per batch, the largest.
        device: Where they were made, if it was one device.
    """

    tokens: float
    tokens_per_second: float
    seconds_per_text: float
    ended: float
    batch: int
    device: str


def speed(continuations: Sequence[Continuation]) -> Speed:
    """Return length and speed of at least one continuation."""
    tokens = sum(c.new_tokens for c in continuations)
    seconds = sum(c.seconds for c in continuations)
    return Speed(
        tokens=tokens / len(continuations),
        tokens_per_second=tokens / seconds if seconds else float("inf"),
        seconds_per_text=seconds / len(continuations),
        ended=sum(c.finish == "eos" for c in continuations) / len(continuations),
        batch=max(c.batch for c in continuations),
        device=", ".join(sorted({c.device for c in continuations})),
    )
