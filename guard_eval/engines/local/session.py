"""The forward passes of a batch, behind the few calls that every decoding loop is made of.

`rows.py` is the exact way, for float32 on a CPU: no padding, every row's attention by itself. `padded.py` is
the way of all other models and devices. The loops are the same for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from torch import Tensor

from guard_eval.engines.local import padded, rows


class Session(Protocol):
    """Texts under way. R rows of them; V tokens in the vocabulary; k candidates."""

    def prefill(self) -> Tensor:
        """Read the prompts; return the logits after them, `[R, V]`, float32. The first call, made once."""

    def step(self, tokens: Tensor) -> Tensor:
        """Append a token to each row, `[R]`; return the logits after it, `[R, V]`, float32."""

    def fork(self, ids: Tensor, allowed: Tensor) -> Tensor:
        """Return the degeneration penalty of candidates, `[R, k]`.

        It is the largest cosine of their hidden state with those of the text so far.

        Args:
            ids: `[R, k]`.
            allowed: Which of them a row considers, `[R, k]`, the first few of each; the others' penalty means
                nothing.
        """

    def commit(self, index: Tensor) -> Tensor:
        """Append the candidate `index`, `[R]`, of the last `fork`; return the logits after it, `[R, V]`."""

    def keep(self, rows: Tensor) -> None:
        """Go on with these rows, `[R']`, in this order; one that is named twice goes on twice."""


def open_session(
    model: Any,  # noqa: ANN401 (transformers' classes are untyped)
    prompts: Sequence[Sequence[int]],
    limit: int,
    *,
    candidates: int = 0,
    copies: int = 1,
) -> Session:
    """Return the session in which `prompts` get up to `limit` new tokens each.

    `candidates` is how many `fork` will be asked for at most, 0 where it will not be called; `copies` how
    many rows a prompt may come to have by `keep`.
    """
    kind = rows.RowSession if rows.supports(model) else padded.PaddedSession
    return kind(model, prompts, limit, candidates=candidates, copies=copies)
