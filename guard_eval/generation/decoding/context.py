"""The input of a strategy besides the logits: the texts so far, random keys and the state."""

from dataclasses import dataclass

from torch import Tensor


@dataclass
class Context:
    """The history of B texts at a step. −1 marks a position without a token.

    Attributes:
        keys: The random key of each text, from `noise.make_row_key`, `[B]`, int64.
        step: The number of tokens written before: 0, 1, …. Random draws depend on the key and the step.
        tokens: The token ids of the prompt and the text so far, `[B, P + t]`, padded on the left.
        written: The token ids of the text so far, without the prompt, `[B, t]`.
        state: The numbers that the strategy remembers from the previous step, `[B, S]`, float64.
        compiled: Whether PyTorch may compile the step.
    """

    keys: Tensor
    step: int
    tokens: Tensor
    written: Tensor
    state: Tensor
    compiled: bool = False
