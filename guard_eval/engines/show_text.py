"""Show one text as it is made, its tokens coloured by a number of each."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from guard_eval import progress
from guard_eval.engines.library import Token, watch
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
    tokens: list[dict[str, Any]] = []

    def paint(token: Token) -> None:
        numbers = {"entropy": token.entropy, "probability": token.probability, **token.values}
        if colour not in numbers:
            raise StudyError(
                f"--colour {colour}: this strategy has no such number; choose from: {', '.join(numbers)}"
            )
        tokens.append({"text": token.text, **numbers})
        progress.write(token.text, _newest_style([shown[colour] for shown in tokens]))

    progress.notice("loading the model")
    text = watch(
        sys.stdin.read() if prompt is None else prompt,
        paint,
        strategy,
        model,
        amateur=amateur,
        device=device,
        seed=seed,
        max_new_tokens=max_new_tokens,
        chat=chat,
    )
    progress.write("\n" if tokens else f"{text.text}\n")
    name, ended = text.recipe.strategy, _ENDED[text.finish]
    lines = ["", f"{name}: {text.new_tokens} tokens in {text.seconds:.1f} s; {ended} ended it"]
    if tokens:
        values = [shown[colour] for shown in tokens]
        lines.append(f"{colour}: from {min(values):.3g} to {max(values):.3g}")
    return ShownText(
        text=text.text,
        strategy=name,
        finish=text.finish,
        seconds=text.seconds,
        tokens=tuple(tokens),
        lines=tuple(lines),
    )


def _newest_style(values: list[float]) -> str:
    """Return the colour of the newest value among those so far; the lowest have none."""
    low, high = min(values), max(values)
    shade = 0 if high <= low else min(_SHADES - 1, int(_SHADES * (values[-1] - low) / (high - low)))
    pale = 255 - round(shade * 160 / (_SHADES - 1))
    return f"black on rgb(255,{pale},{max(0, 2 * pale - 255)})" if shade else ""
