"""Generate texts from prompts: the strategies, the choice of each token, and the engines that run models."""

from typing import NamedTuple

from guard_eval.records import Continuation, Prompt

PlannedText = tuple[Prompt, int]
"""A prompt, and the number of a text to write for this prompt: 1, 2, …."""


class FinishedBatch(NamedTuple):
    """Texts that one batch wrote, all with the same model, strategy and settings.

    Attributes:
        texts: The texts, at least one.
        traces: The values that the strategy adapted, for each text. Empty if traces are not requested or the
            strategy adapts no values.
    """

    texts: list[Continuation]
    traces: list[dict[str, object]]
