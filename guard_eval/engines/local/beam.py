"""Beam search, by likelihood or by the contrast of an expert and an amateur.

As transformers runs it by default: a hypothesis ends with an end token, a stop string, or the limit; its
score is its sum over its length to the power of the length penalty; a prompt is done when no running
hypothesis can, at its present length, beat the worst of its ended ones. Of equal scores the earlier beam
wins, then the smaller token id.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from guard_eval.decoding.candidates import top_candidates
from guard_eval.decoding.expert_amateur import contrast
from guard_eval.engines.local.batch import Batch, Generated, Rows, until_end
from guard_eval.engines.local.session import Session, open_session
from guard_eval.strategies import BeamSearch, ContrastiveDecoding


class _Scored:
    """Sessions side by side, whose logits become scores of hypotheses, `[R, V]`; otherwise as a `Session`."""

    def __init__(self, score: Callable[..., Tensor], *sessions: Session) -> None:
        self._score, self._sessions = score, sessions

    def prefill(self) -> Tensor:
        return self._score(*(one.prefill() for one in self._sessions))

    def step(self, tokens: Tensor) -> Tensor:
        return self._score(*(one.step(tokens) for one in self._sessions))

    def keep(self, rows: Tensor) -> None:
        for one in self._sessions:
            one.keep(rows)


class _Beams:
    """The hypotheses of P prompts, B running and up to B ended ones each."""

    def __init__(self, batch: Batch, beams: int, length_penalty: float = 1.0) -> None:
        device, prompts = batch.keys.device, len(batch.prompts)
        self.beams, self._length_penalty = beams, length_penalty
        self._batch = batch
        self._best: list[list[int]] = [[] for _ in batch.prompts]
        self._index = torch.arange(prompts, device=device)
        self._open = torch.ones(prompts, dtype=torch.bool, device=device)
        self.failed_at = torch.full((prompts,), batch.limit, device=device)
        self._scores = torch.full((prompts, beams), -torch.inf, dtype=torch.float64, device=device)
        self._scores[:, 0] = 0  # all hypotheses are the prompt at first, and one of them is enough
        self._tokens = torch.zeros(prompts, beams, batch.limit, dtype=torch.long, device=device)
        self._ended_scores = torch.full_like(self._scores, -torch.inf)
        self._ended = torch.zeros_like(self._tokens)

    def advance(self, scores: Tensor, step: int) -> tuple[Tensor, Tensor]:
        """Extend the hypotheses; return which row `[P · B]` each new one comes from, and its last token.

        Args:
            scores: Of each next token for each running hypothesis, `[P · B, V]`.
            step: 0, 1, ….
        """
        self._check(scores, step)
        wide = min(max(2, len(self._batch.ends) + 1) * self.beams, scores.shape[1])
        values, ids = (t.view(-1, self.beams, wide) for t in top_candidates(scores.float(), wide))
        sums, order = (
            (self._scores[:, :, None] + values).flatten(1).sort(dim=-1, descending=True, stable=True)
        )
        sums, order = sums[:, :wide], order[:, :wide]
        parents, tokens = order // wide, ids.flatten(1).gather(1, order)
        written = self._tokens.gather(1, parents[:, :, None].expand(-1, -1, self._batch.limit)).clone()
        written[:, :, step] = tokens
        ended = torch.isin(tokens, self._batch.ends) | (step + 1 == self._batch.limit)
        ended |= self._stopped(written, step)
        self._collect(sums, written, ended, step)
        running, place = sums.masked_fill(ended, -torch.inf).sort(dim=-1, descending=True, stable=True)
        place = place[:, : self.beams]
        self._scores = running[:, : self.beams]
        self._tokens = written.gather(1, place[:, :, None].expand(-1, -1, self._batch.limit))
        first = torch.arange(len(place), device=place.device)[:, None] * self.beams
        return (first + parents.gather(1, place)).flatten(), tokens.gather(1, place).flatten()

    def _stopped(self, written: Tensor, step: int) -> Tensor:
        """Return which hypotheses `[P, n]` come to a stop string at a step."""
        stops, rows = self._batch.stops, written[:, :, : step + 1]
        if stops is None:
            return torch.zeros_like(rows[:, :, 0], dtype=torch.bool)
        prompts = [list(self._batch.prompts[index]) for index in self._index.tolist()]
        found = [
            [stops.find(prompt, tokens, step) is not None for tokens in hypotheses]
            for prompt, hypotheses in zip(prompts, rows.tolist(), strict=True)
        ]
        return torch.tensor(found, device=written.device)

    def _collect(self, sums: Tensor, written: Tensor, ended: Tensor, step: int) -> None:
        """Take what has ended among the best B into the ended hypotheses, and close prompts that are done."""
        rank = torch.arange(sums.shape[1], device=sums.device)
        length = (step + 1) ** self._length_penalty
        counted = ended & (rank < self.beams) & self._open[:, None]
        scores = torch.cat([self._ended_scores, (sums / length).masked_fill(~counted, -torch.inf)], dim=1)
        scores, order = scores.sort(dim=-1, descending=True, stable=True)
        order = order[:, : self.beams, None].expand(-1, -1, self._batch.limit)
        self._ended_scores = scores[:, : self.beams]
        self._ended = torch.cat([self._ended, written], dim=1).gather(1, order)
        best_running = sums.masked_fill(ended, -torch.inf).amax(-1) / length
        self._open = self._open & (best_running > self._ended_scores[:, -1])

    def _check(self, scores: Tensor, step: int) -> None:
        """Close the prompts of which a running hypothesis has a NaN or +inf, or none has a next token."""
        best = scores.amax(-1).view(-1, self.beams)
        runs = self._scores > -torch.inf
        broken = (runs & (best.isnan() | (best == torch.inf))).any(-1)
        bad = (broken | ~(runs & best.isfinite()).any(-1)) & self._open
        failed = self.failed_at[self._index]
        self.failed_at[self._index] = torch.where(bad, failed.clamp(max=step), failed)
        self._open = self._open & ~bad

    def leave(self, step: int) -> Tensor | None:
        """Return which prompts `[P']` go on after a step, where some are done; None where not."""
        if self._open.device.type != "cpu" and (step + 1) % Rows.STRIDE:
            return None
        going = self._open.nonzero()[:, 0]
        if len(going) == len(self._open):
            return None
        self.collect()
        self._open, self._index = self._open[going], self._index[going]
        self._scores, self._tokens = self._scores[going], self._tokens[going]
        self._ended_scores, self._ended = self._ended_scores[going], self._ended[going]
        return going

    def collect(self) -> list[list[int]]:
        """Return each prompt's best ended hypothesis so far, up to its end."""
        ends = set(self._batch.ends.tolist())
        for prompt, tokens in zip(self._index.tolist(), self._ended[:, 0].tolist(), strict=True):
            self._best[prompt] = until_end(tokens, ends)
        return self._best


@torch.inference_mode()
def decode_beams(
    model: Any,  # noqa: ANN401 (transformers' classes are untyped)
    batch: Batch,
    strategy: BeamSearch | ContrastiveDecoding,
    amateur: Any = None,  # noqa: ANN401
) -> Generated:
    """Continue a batch with the best hypothesis found for each prompt."""
    scorer = _scorer(model, batch, strategy, amateur)
    power = strategy.length_penalty if isinstance(strategy, BeamSearch) else 1.0
    beams = _Beams(batch, strategy.beams, power)
    scores = scorer.prefill()
    start = torch.arange(len(batch.prompts), device=scores.device).repeat_interleave(strategy.beams)
    scorer.keep(start)
    scores = scores[start]
    for step in range(batch.limit):
        rows, tokens = beams.advance(scores, step)
        going = beams.leave(step)
        if going is not None:
            if not len(going):
                break
            rows, tokens = (t.view(-1, strategy.beams)[going].flatten() for t in (rows, tokens))
        if step + 1 == batch.limit:
            break
        scorer.keep(rows)
        scores = scorer.step(tokens)
    failed = [None if step == batch.limit else step for step in beams.failed_at.tolist()]
    return Generated(tokens=beams.collect(), failed_at=failed)


def _scorer(model: Any, batch: Batch, strategy: BeamSearch | ContrastiveDecoding, amateur: Any) -> _Scored:  # noqa: ANN401
    expert = open_session(model, batch.prompts, batch.limit, copies=strategy.beams)
    if isinstance(strategy, BeamSearch):
        return _Scored(lambda logits: logits.log_softmax(-1), expert)
    assert amateur is not None
    seen = [prompt[-1:] for prompt in batch.prompts] if strategy.amateur_prompt == "last" else batch.prompts

    def score(expert: Tensor, amateur: Tensor) -> Tensor:
        shared = min(expert.shape[1], amateur.shape[1])  # beyond it is padding of the larger embedding
        alpha, tau = strategy.alpha, strategy.amateur_tau
        return contrast(expert[:, :shared], amateur[:, :shared], alpha=alpha, amateur_tau=tau)

    return _Scored(score, expert, open_session(amateur, seen, batch.limit, copies=strategy.beams))
