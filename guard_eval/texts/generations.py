"""What metrics are taken of: a text with its prompt and its reference, from a study or from a file."""

from __future__ import annotations

from dataclasses import dataclass

from guard_eval.records import Continuation, Prompt

HUMAN = "human"
"""The strategy of references: how people continued the prompts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Generation:
    """A continuation as the metrics see it; what is not known of it is None.

    Attributes:
        prompt_id: Which prompt it continues; two strategies are compared prompt by prompt.
        dataset: The prompt's dataset.
        strategy: The strategy's signature, or whatever the file calls its method.
        text: The continuation alone.
        prompt: The prompt's text.
        reference: How a human continued it.
        tokens: Its length in tokens of the model that wrote it, the end-of-text token included.
        ended: Whether the model ended it itself.
        seconds: Wall time of the batch it was made in, divided by the batch's rows.
        batch: How many rows were in that batch.
        device: Where it was made.
        run: Which of the prompt's texts by the strategy it is.
        flaws: What was replaced or is missing in it, such as `not UTF-8`; counted beside every score.
    """

    prompt_id: str
    dataset: str
    strategy: str
    text: str
    prompt: str | None = None
    reference: str | None = None
    tokens: int | None = None
    ended: bool | None = None
    seconds: float | None = None
    batch: int | None = None
    device: str | None = None
    run: int = 1
    flaws: tuple[str, ...] = ()


def generation_of(continuation: Continuation, prompt: Prompt) -> Generation:
    """Return what the metrics see of a continuation of `prompt`."""
    return Generation(
        prompt_id=prompt.id,
        dataset=prompt.dataset,
        strategy=continuation.recipe.strategy,
        text=continuation.text,
        prompt=prompt.text,
        reference=prompt.reference,
        tokens=continuation.new_tokens,
        ended=continuation.finish == "eos",
        seconds=continuation.seconds,
        batch=continuation.batch,
        device=continuation.device,
        run=continuation.run,
    )
