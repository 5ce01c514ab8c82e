"""A picture of one text as it was made: its tokens coloured by a number of each, and the numbers as lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from guard_eval.reporting.drawing import Drawing, drawn
from guard_eval.reporting.rendering import render

SHADES = 10
"""Classes of colour, from none to the strongest."""

_MEANINGS = {
    "entropy": "how unsure the model is, in nats",
    "probability": "what the model gives to the token",
    "H": "the entropy that GUARD reads, in nats",
    "H_glob": "the mean entropy up to here, the latest steps counting most, in nats",
    "k": "how many candidates are considered",
    "alpha": "sets the penalty on repetition",
    "q": "how strongly k and alpha answer to a change of the entropy",
    "mu": "the surprise that sets how many candidates mirostat keeps, in bits",
}
"""What numbers mean; those of a user's own strategy are the user's."""


@dataclass(frozen=True, slots=True)
class ShownToken:
    """A token on the page: its text, its numbers in words, and its shade 0 … SHADES − 1."""

    text: str
    numbers: str
    shade: int


def shade(value: float, low: float, high: float) -> int:
    """Return the class of colour of a value between `low` and `high`.

    >>> shade(0, 0, 2), shade(1, 0, 2), shade(2, 0, 2), shade(3, 3, 3)
    (0, 5, 9, 0)
    """
    return 0 if high <= low else min(SHADES - 1, int(SHADES * (value - low) / (high - low)))


def tokens_page(
    texts: Sequence[str],
    numbers: Mapping[str, Sequence[float]],
    *,
    colour: str,
    prompt: str,
    facts: Mapping[str, str],
) -> str:
    """Return the page of one text.

    Args:
        texts: What each token adds to the text; all of it is data.
        numbers: Lists of one number per token, by name; none where a strategy has no steps to show.
        colour: Whose number colours the tokens.
        prompt: What was continued.
        facts: What else a reader must know, by heading.
    """
    chosen = numbers.get(colour, [0.0] * len(texts))
    low, high = min(chosen, default=0.0), max(chosen, default=0.0)
    tokens = [
        ShownToken(
            text=text,
            numbers=", ".join(f"{name} {values[place]:.4g}" for name, values in numbers.items()),
            shade=shade(chosen[place], low, high),
        )
        for place, text in enumerate(texts)
    ]
    return render(
        Path(__file__).parent / "templates" / "tokens.html.j2",
        title="One text, token by token",
        tokens=tokens,
        colour=colour if numbers else "",
        low=f"{low:.4g}",
        high=f"{high:.4g}",
        shades=range(SHADES),
        prompt=prompt,
        facts=list(facts.items()),
        drawings=[_line(name, values) for name, values in numbers.items()],
    )


def _line(name: str, values: Sequence[float]) -> Drawing:
    def draw(axes: Axes) -> None:
        axes.plot(range(1, len(values) + 1), values, color="#b35c00", linewidth=1.2, marker=".", markersize=3)
        axes.set_xlabel("token")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))

    return drawn(
        draw,
        name=f"tokens_{name}",
        heading=f"{name}: {_MEANINGS[name]}" if name in _MEANINGS else f"{name}, token by token",
        description=f"{name} of {len(values)} tokens, from {min(values):.4g} to {max(values):.4g}.",
        height=1.7,
    )
