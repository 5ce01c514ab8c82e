"""The loop of the strategies that need one row of logits alone."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from guard_eval.decoding.choosers import Chooser, LogitStrategy, chooser
from guard_eval.engines.local.batch import Batch, Generated, Rows
from guard_eval.engines.local.session import open_session


@torch.inference_mode()
def decode_logits(
    model: Any,  # noqa: ANN401 (transformers' classes are untyped)
    batch: Batch,
    strategy: LogitStrategy,
    *,
    trace: bool = False,
    compiled: bool = False,
) -> Generated:
    """Continue a batch with any of transformers' causal language models."""
    session = open_session(model, batch.prompts, batch.limit)
    prompts = _prompt_tokens(batch)
    choose = chooser(strategy, batch.keys, batch.limit, prompts=prompts, compiled=compiled)
    rows, traces = Rows(batch), Traces(batch) if trace else None
    logits = session.prefill()
    for step in range(batch.limit):
        rows.check(logits, step)
        tokens = choose(logits, step, rows.history)
        rows.write(tokens, step)
        going = rows.leave(step)
        if going is not None:
            if traces:
                traces.keep(choose, going)
            if not len(going):
                break
            session.keep(going)
            choose.keep(going)
            tokens = tokens[going]
        if step + 1 < batch.limit:
            logits = session.step(tokens)
    else:
        if traces:
            traces.keep(choose, None)
    written, failed_at = rows.finished()
    return Generated(tokens=written, failed_at=failed_at, trace=traces.rows(written) if traces else [])


class Traces:
    """What a chooser noted of each row, gathered when the row leaves."""

    def __init__(self, batch: Batch) -> None:
        self._here = list(range(len(batch.prompts)))
        self._rows: list[dict[str, list[float]]] = [{} for _ in batch.prompts]

    def keep(self, choose: Chooser, going: Tensor | None) -> None:
        """Record the rows that do not go on; all of them where `going` is None."""
        stay = set() if going is None else set(going.tolist())
        values = {name: kept.tolist() for name, kept in choose.trace.items()}
        for place, row in enumerate(self._here):
            if place not in stay:
                self._rows[row] = {name: kept[place] for name, kept in values.items()}
        self._here = [row for place, row in enumerate(self._here) if place in stay]

    def rows(self, written: list[list[int]]) -> list[dict[str, list[float]]]:
        """Return each row's values, one for each token it wrote."""
        return [
            {name: values[: len(tokens)] for name, values in row.items()}
            for row, tokens in zip(self._rows, written, strict=True)
        ]


def _prompt_tokens(batch: Batch) -> Tensor:
    """Return the prompts' tokens `[B, P]`, with −1 where a row is shorter."""
    longest = max(map(len, batch.prompts))
    rows = [list(prompt) + [-1] * (longest - len(prompt)) for prompt in batch.prompts]
    return torch.tensor(rows, device=batch.keys.device)
