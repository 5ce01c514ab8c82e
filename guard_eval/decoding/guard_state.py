"""What GUARD remembers of a batch, indexed by step: doing a step again writes the same values again."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from guard_eval.decoding.entropy import discount_sums

_ENTROPY, _TOTAL, _OVERALL, _K, _LOG_ALPHA, _Q = range(6)
NOTES = 6
"""How many numbers a step leaves behind: H_t, the numerator of H_glob,t, H_glob,t, k_t, ln α_t and q."""


class StepHistory(NamedTuple):
    """What a step finds.

    Attributes:
        entropies: H(X)_i of up to w steps before, `[n, B]`, oldest first.
        total: Σ_i λ^(t−1−i) H(X)_i over all steps before, `[B]`; 0 at the first.
        weights: Σ_i λ^(t−i) over these and the present one, without dimensions.
    """

    entropies: Tensor
    total: Tensor
    weights: Tensor


class GuardState:
    """The numbers of up to `steps` steps of a batch of `rows` texts; more when `reserve` is called."""

    def __init__(self, rows: int, steps: int, decay: float, device: torch.device) -> None:
        self._decay = decay
        # Line t holds step t − 1, so that the line before the first exists, and is zero.
        self._lines = torch.zeros(steps + 1, NOTES, rows, dtype=torch.float64, device=device)
        self._weights = torch.tensor(discount_sums(steps, decay), dtype=torch.float64, device=device)
        self._written = 0

    def past(self, step: int, window: int) -> StepHistory:
        """Return what a step 0, 1, … finds."""
        return StepHistory(
            self._lines[max(1, step + 1 - window) : step + 1, _ENTROPY],
            self._lines[step, _TOTAL],
            self._weights[step],
        )

    def write(self, step: int, notes: Tensor) -> None:
        """Record the `NOTES` of a step, `[NOTES, B]`."""
        self._lines[step + 1] = notes
        self._written = max(self._written, step + 1)

    def keep(self, rows: Tensor) -> None:
        """Go on with these rows `[B']`."""
        self._lines = self._lines[:, :, rows]

    def reserve(self, steps: int) -> None:
        """Make room for as many steps, and as many again, if there is not enough."""
        lines, notes, rows = self._lines.shape
        if steps < lines:
            return
        more = self._lines.new_zeros(2 * steps + 1, notes, rows)
        more[:lines] = self._lines
        self._lines = more
        self._weights = self._weights.new_tensor(discount_sums(2 * steps, self._decay))

    @property
    def trace(self) -> dict[str, Tensor]:
        """The paper's H_t, H_glob,t, k_t, α_t and q of the steps done, `[B, steps]` each."""
        done = self._lines[1 : self._written + 1]
        return {
            "H": done[:, _ENTROPY].T,
            "H_glob": done[:, _OVERALL].T,
            "k": done[:, _K].T,
            "alpha": done[:, _LOG_ALPHA].T.exp(),
            "q": done[:, _Q].T,
        }
