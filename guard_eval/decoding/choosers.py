"""From a strategy to what applies it to a batch, where logits are all it looks at."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from guard_eval.decoding.candidates import likeliest
from guard_eval.decoding.chains import Seen, Stepwise, choose, initial_state, remembers, state_names
from guard_eval.decoding.guard.step import GuardChooser
from guard_eval.strategies import Greedy, Guard

LogitStrategy = Greedy | Stepwise | Guard


class Chooser(Protocol):
    """Chooses the tokens of a batch, step by step. Doing a step again changes nothing."""

    fixed_from: int
    """From this step on, a step may also be given as a tensor: it then does the same in shapes that stay."""

    def __call__(self, logits: Tensor, step: int | Tensor, history: Tensor) -> Tensor:
        """Return the next tokens, `[B]`.

        Args:
            logits: `[B, V]`.
            step: 0, 1, …, or a tensor without dimensions that holds it; earlier steps must have been done.
            history: Tokens generated so far, `[B, T]` or longer than `step`; the rest is not looked at.
        """

    def keep(self, rows: Tensor) -> None:
        """Go on with these rows `[B']`, int64, of the batch as it is now."""

    @property
    def trace(self) -> dict[str, Tensor]:
        """The values by which the strategy adapted, by name, `[B, steps done]` each."""


def chooser(
    strategy: LogitStrategy,
    keys: Tensor,
    steps: int,
    *,
    prompts: Tensor | None = None,
    breakers: Tensor | None = None,
    compiled: bool = False,
) -> Chooser:
    """Return what chooses for one batch, with a memory of its own.

    Args:
        strategy: What to apply.
        keys: `noise.row_key` of each row, `[B]`, on the device of the logits to come.
        steps: At most so many steps will be asked for.
        prompts: The prompts' tokens, `[B, P]`, with −1 before those that are shorter; GUARD as released and
            penalties look at them.
        breakers: The model's tokens that end a sequence, `[n]`, for strategies that ask for them.
        compiled: On a CPU, make GUARD's step by one compiled function.

    Raises:
        MissingExtraError: `compiled` where numba is not installed.
    """
    if isinstance(strategy, Guard):
        if compiled and keys.device.type == "cpu":
            from guard_eval.decoding.guard.fused import FusedGuardChooser  # noqa: PLC0415 (numba is optional)

            return FusedGuardChooser(strategy, keys, steps, prompts=prompts)
        return GuardChooser(strategy, keys, steps, prompts=prompts)
    if isinstance(strategy, Greedy):
        return _Greedy()
    return _StepwiseChooser(strategy, keys, steps, prompts=prompts, breakers=breakers)


class _Greedy:
    """Takes the likeliest token; of equals the first."""

    fixed_from = 0

    def __init__(self) -> None:
        self.trace: dict[str, Tensor] = {}

    def __call__(self, logits: Tensor, step: int | Tensor, history: Tensor) -> Tensor:  # noqa: ARG002
        return likeliest(logits)

    def keep(self, rows: Tensor) -> None:
        """Hold nothing of any row."""


class _StepwiseChooser:
    """Runs `chains.choose` for one batch, with the prompts, the rows' keys and the state of each step."""

    fixed_from = 0

    def __init__(
        self, strategy: Stepwise, keys: Tensor, steps: int, *, prompts: Tensor | None, breakers: Tensor | None
    ) -> None:
        self._strategy, self._keys, self._breakers = strategy, keys, breakers
        first = torch.tensor(initial_state(strategy), dtype=torch.float64, device=keys.device)
        self._remembers = remembers(strategy)
        self._prompts = keys[:, None][:, :0] if prompts is None else prompts
        # Line t is what step t finds: a step that is done again finds it again.
        self._states = first.expand(steps + 1 if len(first) else 1, len(keys), -1).clone()
        self._done = 0

    def __call__(self, logits: Tensor, step: int | Tensor, history: Tensor) -> Tensor:
        stateful = bool(self._states.shape[2])
        if isinstance(step, Tensor):
            line = step[None] if stateful else torch.zeros_like(step)[None]
            state = self._states.index_select(0, line)[0]
        else:
            state = self._states[step if stateful else 0]
        written = _written(history, step) if self._remembers else history[:, :0]
        tokens = (
            _written(torch.cat([self._prompts, history], 1), step + self._prompts.shape[1])
            if self._remembers
            else written
        )
        seen = Seen(tokens, written, self._keys, step, state, self._breakers)
        made = choose(self._strategy, logits, seen)
        if stateful and isinstance(step, Tensor):
            self._states.index_copy_(0, step[None] + 1, made.state[None])
            self._done = len(self._states) - 1  # only the device knows how many
        elif stateful:
            self._states[step + 1] = made.state
            self._done = int(step) + 1
        return made.tokens

    def keep(self, rows: Tensor) -> None:
        self._keys, self._prompts = self._keys[rows], self._prompts[rows]
        self._states = self._states[:, rows]

    @property
    def trace(self) -> dict[str, Tensor]:
        """The state that each step found, `[B, steps]` each: mirostat's μ, or one's own numbers."""
        found = self._states[: self._done].transpose(0, 1)
        return {name: found[..., place] for place, name in enumerate(state_names(self._strategy))}


def _written(tokens: Tensor, count: int | Tensor) -> Tensor:
    """Return the first `count` of `tokens` `[B, T]`; of a tensor's count all, −1 before them: `[B, T]`."""
    if not isinstance(count, Tensor):
        return tokens[:, :count]
    places = torch.arange(tokens.shape[1], device=tokens.device) + count - tokens.shape[1]
    return tokens.index_select(1, places.clamp(min=0)).masked_fill(places < 0, -1)
