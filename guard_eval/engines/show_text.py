"""Show one text as it is made, its tokens coloured by a number of each."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from guard_eval import progress
from guard_eval.engines.library import Token, load_model, watch
from guard_eval.errors import StudyError
from guard_eval.results import Result

_SHADES = 10
"""Colours from none to the strongest."""
_ENDED = {"eos": "the model", "length": "the length limit", "stop": "a stop string"}


@dataclass(frozen=True, kw_only=True)
class ShownText(Result):
    """One text with the numbers of each of its tokens.

    Attributes:
        text: The continuation.
        strategy: The strategy's signature.
        finish: What ended it: `eos`, `length` or `stop`.
        seconds: How long it took.
        tokens: For each token its text, entropy (nats), probability, and what the strategy adapts. A strategy
            with beams has none.
    """

    text: str
    strategy: str
    finish: str
    seconds: float
    tokens: tuple[dict[str, str | float], ...]


def show_text(
    model: str,
    prompt: str | None = None,
    /,
    *,
    strategy: str = "guard",
    amateur: str | None = None,
    colour: str = "entropy",
    max_new_tokens: int = 128,
    seed: int = 0,
    chat: bool = False,
    device: str = "auto",
) -> ShownText:
    """Show one text as it is made, its tokens coloured by how unsure the model is.

    On a terminal, the higher a token's number among those so far, the stronger its colour. A strategy with
    beams shows its text at the end, without colours. With --json, every number of every token is printed.

    Args:
        model: A Hugging Face id, a folder, or 'bundled'.
        prompt: The text to continue; without one, standard input is read.
        strategy: Any strategy, such as 'top_p(p=0.9)' or 'dry + min_p'.
        amateur: The second model of contrastive decoding.
        colour: The number that colours the tokens: entropy, probability, or what the strategy adapts, such
            as k, alpha, q and H_glob of GUARD.
        max_new_tokens: The length limit.
        seed: The seed of what is drawn.
        chat: Give the prompt through the model's chat template.
        device: auto, cpu, cuda or cuda:1.

    Raises:
        StudyError: The model, the strategy or the colour does not exist.
    """
    if prompt is None:
        prompt = sys.stdin.read() if sys.stdin else ""
    progress.notice("loading the model")
    loaded = load_model(model, device=device)
    painter = _Painter(colour)
    options = {} if amateur is None else {"amateur": amateur}
    continuation = watch(
        prompt,
        painter,
        strategy,
        loaded,
        seed=seed,
        max_new_tokens=max_new_tokens,
        chat=chat,
        **options,  # type: ignore[arg-type]
    )
    if not painter.tokens:
        progress.write(continuation.text)
    progress.write("\n")
    count = continuation.new_tokens
    lines = [
        (
            f"{continuation.recipe.strategy}: {count} token{'' if count == 1 else 's'} in "
            f"{continuation.seconds:.1f} s; {_ENDED[continuation.finish]} ended it"
        )
    ]
    if painter.values:
        unit = " nats" if colour == "entropy" else ""
        lines.append(f"{colour}: from {min(painter.values):.3g} to {max(painter.values):.3g}{unit}")
    return ShownText(
        text=continuation.text,
        strategy=continuation.recipe.strategy,
        finish=continuation.finish,
        seconds=continuation.seconds,
        tokens=tuple(painter.tokens),
        lines=("", *lines),
    )


class _Painter:
    """Shows tokens as they come, and keeps their numbers."""

    def __init__(self, colour: str) -> None:
        self.colour = colour
        self.tokens: list[dict[str, str | float]] = []
        self.values: list[float] = []

    def __call__(self, token: Token) -> None:
        numbers = {"entropy": token.entropy, "probability": token.probability, **token.values}
        if self.colour not in numbers:
            raise StudyError(
                f"--colour {self.colour}: this strategy has no such number; choose from: {', '.join(numbers)}"
            )
        self.tokens.append({"text": token.text, **numbers})
        self.values.append(numbers[self.colour])
        progress.write(token.text, self._style())

    def _style(self) -> str:
        """Return the colour of the newest value among those so far; the lowest have none."""
        low, high, value = min(self.values), max(self.values), self.values[-1]
        shade = 0 if high <= low else min(_SHADES - 1, int(_SHADES * (value - low) / (high - low)))
        pale = 255 - round(shade * 160 / (_SHADES - 1))
        return f"black on rgb(255,{pale},{max(0, 2 * pale - 255)})" if shade else ""
