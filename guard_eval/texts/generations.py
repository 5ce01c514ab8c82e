"""The input of metrics: a text with its prompt and its reference, from a study or from a file."""

from typing import Literal

from guard_eval.records import Continuation, Prompt, record

Finish = Literal["eos", "length", "stop"]
"""Why a text ended."""

HUMAN = "human"
"""The strategy of references: how people continued the prompts."""


@record
class Generation:
    """A continuation as metrics see it. Unknown values are None.

    Attributes:
        prompt_id: The prompt's id. Two strategies are compared prompt by prompt.
        dataset: The prompt's dataset.
        strategy: The text's system: a strategy's signature, or a name from the study or the file.
        text: The continuation without the prompt.
        prompt: The prompt's text.
        reference: A human's continuation of the prompt.
        tokens: The length in tokens of the model that wrote the text, with the end-of-text token.
        finish: Why the text ended: `eos` (the model ended it), `length` (the limit), `stop` (a stop string).
        seconds: Wall time of the text's batch, divided by the number of rows of the batch.
        batch: Number of rows of the text's batch.
        device: The device that generated the text.
        run: The number of the text among the texts by this strategy for the prompt.
        flaws: Replaced or missing parts of the text, such as `not UTF-8`. Every score is shown with the
            number of flawed texts.
        id: A hash of the text with its prompt, or of the recipe that generated the text; "" outside studies.
    """

    prompt_id: str
    dataset: str
    strategy: str
    text: str
    prompt: str | None = None
    reference: str | None = None
    tokens: int | None = None
    finish: Finish | None = None
    seconds: float | None = None
    batch: int | None = None
    device: str | None = None
    run: int = 1
    flaws: tuple[str, ...] = ()
    id: str = ""

    @property
    def ended(self) -> bool | None:
        """Return whether the model ended the text itself, or None if this is unknown."""
        return None if self.finish is None else self.finish == "eos"


def make_generation(continuation: Continuation, prompt: Prompt, system: str = "") -> Generation:
    """Return a continuation and its prompt as a `Generation`, with the system's name if there is one."""
    return Generation(
        id=continuation.id,
        prompt_id=prompt.id,
        dataset=prompt.dataset,
        strategy=system or continuation.recipe.strategy,
        text=continuation.text,
        prompt=prompt.text,
        reference=prompt.reference,
        tokens=continuation.new_tokens,
        finish=continuation.finish,
        seconds=continuation.seconds,
        batch=continuation.batch,
        device=continuation.device,
        run=continuation.run,
    )
