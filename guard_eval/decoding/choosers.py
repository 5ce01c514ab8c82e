"""From a strategy to what applies it to a batch, where logits are all it looks at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from torch import Tensor

from guard_eval.decoding import sampling
from guard_eval.decoding.guard import GuardChooser
from guard_eval.strategies import AdaptiveDecoding, Greedy, Guard, MinP, Temperature, TopK, TopP, Typical

Sampler = Temperature | TopK | TopP | Typical | MinP | AdaptiveDecoding
LogitStrategy = Greedy | Sampler | Guard


class Chooser(Protocol):
    """Chooses the tokens of a batch, step by step. Doing a step again changes nothing."""

    def __call__(self, logits: Tensor, step: int, history: Tensor) -> Tensor:
        """Return the next tokens, `[B]`.

        Args:
            logits: `[B, V]`.
            step: 0, 1, …; every earlier step must have been done.
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
    compiled: bool = False,
) -> Chooser:
    """Return what chooses for one batch, with a memory of its own.

    Args:
        strategy: What to apply.
        keys: `noise.row_key` of each row, `[B]`, on the device of the logits to come.
        steps: At most so many steps will be asked for.
        prompts: The prompts' tokens, `[B, P]`, with −1 where there is none; GUARD as released counts them.
        compiled: Run GUARD's step through `torch.compile`.

    Raises:
        StudyError: `compiled` where there is no compiler.
    """
    if isinstance(strategy, Guard):
        return GuardChooser(strategy, keys, steps, prompts=prompts, compiled=compiled)
    if isinstance(strategy, Greedy):  # documented to return the first of equals
        return _Memoryless(lambda logits, _, __: logits.argmax(-1), keys)
    kept = _kept(strategy)
    return _Memoryless(lambda logits, keys, step: sampling.draw(*kept(logits), keys, step), keys)


class _Memoryless:
    """Chooses by this step's logits alone; what is drawn depends on the row's key and the step."""

    def __init__(self, choose: Callable[[Tensor, Tensor, int], Tensor], keys: Tensor) -> None:
        self._choose, self._keys = choose, keys
        self.trace: dict[str, Tensor] = {}

    def __call__(self, logits: Tensor, step: int, history: Tensor) -> Tensor:  # noqa: ARG002 (a Chooser)
        return self._choose(logits, self._keys, step)

    def keep(self, rows: Tensor) -> None:
        self._keys = self._keys[rows]


def _kept(strategy: Sampler) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    """Return the function that says which tokens a strategy leaves in."""
    match strategy:
        case Temperature(tau=tau):
            return lambda logits: sampling.temperature(logits, tau)
        case TopK(k=k, temperature=t):
            return lambda logits: sampling.top_k(sampling.tempered(logits, t), k)
        case TopP(p=p, temperature=t):
            return lambda logits: sampling.top_p(sampling.tempered(logits, t), p)
        case Typical(tau=tau, temperature=t):
            return lambda logits: sampling.typical(sampling.tempered(logits, t), tau)
        case MinP(p=p, temperature=t):
            return lambda logits: sampling.min_p(sampling.tempered(logits, t), p)
        case AdaptiveDecoding(epsilon=epsilon):
            return lambda logits: sampling.adaptive(logits, epsilon)
