"""GUARD within transformers' own `generate`, for any model and program that already uses it."""

from __future__ import annotations

import torch
from torch import Tensor
from transformers import LogitsProcessor

from guard_eval.decoding.entropy import log_normaliser
from guard_eval.decoding.guard.step import GuardChooser
from guard_eval.errors import StudyError
from guard_eval.strategies import Guard

_ROOM = 256
"""Steps to make room for at first."""

_NORMALISED = 1e-4
"""How far from 0 the logarithm of a sum of probabilities may be rounded."""


class GuardLogitsProcessor(LogitsProcessor):
    """Let `generate` write by GUARD: one processor for each call.

    >>> from guard_eval.strategies import Guard
    >>> processor = GuardLogitsProcessor(Guard())
    >>> # model.generate(**inputs, logits_processor=LogitsProcessorList([processor]), do_sample=False)

    With `select="argmax"` all scores but the chosen token's become −inf, so that any selection takes it. With
    `select="sample"` the candidates keep their penalised scores: call `generate(..., do_sample=True,
    top_k=0)`, and it draws among them by its own random numbers.

    Args:
        strategy: GUARD, in any formulation.
        pad_token_id: The token that prompts of a batch are filled up with on the left. Only
            `formulation="released"`, which counts the prompts' tokens, needs to know.
        attention_mask: Instead, the prompts' mask, `[B, P]`: 0 is padding.

    Raises:
        StudyError: On a call: it is used for a second text without `reset()`, or with several beams, or a row
            that has not ended has no probabilities; rows that end do so with `pad_token_id`.
    """

    def __init__(
        self, strategy: Guard, *, pad_token_id: int | None = None, attention_mask: Tensor | None = None
    ) -> None:
        self._strategy = strategy
        self._pad_token_id = pad_token_id
        self._attention_mask = attention_mask
        self.reset()

    def reset(self) -> None:
        """Forget the texts so far: the next call begins new ones."""
        self._chooser: GuardChooser | None = None
        self._prompt_length = 0
        self._seen = torch.zeros(0, 0, dtype=torch.long)

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Return the scores that are left; see the class.

        Args:
            input_ids: Prompts and what was generated so far, `[B, P + t]`.
            scores: The model's logits, `[B, V]`.
        """
        chooser = self._chooser
        if chooser is None:
            self._chooser = chooser = self._begin(input_ids, scores)
        else:
            self._check(input_ids)
        self._seen = input_ids
        step = input_ids.shape[1] - self._prompt_length
        self._refuse_broken(input_ids, scores, step)
        chooser.reserve(step + 1)
        made = chooser.step(scores, step, input_ids[:, self._prompt_length :])
        ids, left = made.ids, made.scores
        if self._strategy.select == "argmax":
            ids, left = ids.gather(1, made.best[:, None]), left.gather(1, made.best[:, None])
        return torch.full_like(scores, -torch.inf).scatter(1, ids, left.to(scores.dtype))

    def _refuse_broken(self, input_ids: Tensor, scores: Tensor, step: int) -> None:
        broken = ~scores.amax(-1).isfinite()
        if step and self._pad_token_id is not None:  # `generate` passes on rows that have ended
            broken &= input_ids[:, -1] != self._pad_token_id
        if broken.any():
            rows = ", ".join(str(row + 1) for row in broken.nonzero()[:, 0].tolist())
            raise StudyError(
                f"GuardLogitsProcessor: row {rows} of the batch has no probabilities (NaN, infinite logits) "
                f"at step {step + 1}; load the model in float32, or leave that prompt out"
            )

    def _begin(self, input_ids: Tensor, scores: Tensor) -> GuardChooser:
        rows, self._prompt_length = input_ids.shape
        # Beam search repeats each prompt and passes logarithms of probabilities.
        repeated = rows > 1 and torch.equal(input_ids[0], input_ids[1])
        if repeated and bool((log_normaliser(scores).abs() < _NORMALISED).all()):
            raise StudyError(_BEAMS)
        return GuardChooser(
            self._strategy,
            torch.zeros(rows, dtype=torch.long, device=scores.device),
            _ROOM,
            prompts=self._prompts(input_ids),
        )

    def _prompts(self, input_ids: Tensor) -> Tensor:
        """Return the prompts with −1 for padding."""
        if self._attention_mask is not None:
            if self._attention_mask.shape != input_ids.shape:
                raise StudyError(
                    f"GuardLogitsProcessor: attention_mask has the shape {tuple(self._attention_mask.shape)} "
                    f"and the prompts {tuple(input_ids.shape)}; give the mask that goes with these prompts"
                )
            padding = self._attention_mask.to(input_ids.device) == 0
        elif self._pad_token_id is not None:
            padding = (input_ids == self._pad_token_id).cumprod(-1).bool()  # the run at the left end
        else:
            return input_ids
        return input_ids.masked_fill(padding, -1)

    def _check(self, input_ids: Tensor) -> None:
        seen = self._seen
        if len(input_ids) == len(seen) and input_ids.shape[1] == seen.shape[1] + 1:
            if torch.equal(input_ids[:, :-1], seen):
                return
            if torch.equal(input_ids[:, : self._prompt_length], seen[:, : self._prompt_length]):
                raise StudyError(_BEAMS)
        elif input_ids.shape == seen.shape and torch.equal(input_ids, seen):
            return
        raise StudyError(
            "GuardLogitsProcessor remembers another text: this call does not continue the last one; "
            "make a new processor for each call of generate, or call its reset() before"
        )


_BEAMS = (
    "GuardLogitsProcessor follows one text per row, and several beams change places; "
    "call generate with num_beams=1"
)
