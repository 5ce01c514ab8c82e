"""From a strategy to the loop that runs it, and the loops that keep one text a row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from guard_eval.decoding.choosers import Chooser, LogitStrategy, chooser
from guard_eval.decoding.contrastive import K_MIN, K_RANGE, Proposer, choose
from guard_eval.engines.local.batch import Batch, DecodedStep, Generated, Rows, prompt_tokens
from guard_eval.engines.local.beam import decode_beams
from guard_eval.engines.local.padded import check_cache
from guard_eval.engines.local.session import open_session
from guard_eval.engines.local.static import decode_static, supports
from guard_eval.errors import StudyError
from guard_eval.strategies import (
    AdaptiveContrastiveSearch,
    BeamSearch,
    Chain,
    ContrastiveDecoding,
    ContrastiveSearch,
    Guard,
    Strategy,
    TopK,
)


def check(model: Any, strategy: Strategy, amateur: Any = None) -> None:  # noqa: ANN401 (transformers' classes)
    """Make sure that a model, and contrastive decoding's amateur, can run a strategy.

    Raises:
        StudyError: It cannot; the message says why.
    """
    for each in (model, amateur) if isinstance(strategy, ContrastiveDecoding) and amateur else (model,):
        check_cache(each, strategy, branches=not isinstance(strategy, LogitStrategy))


def check_vocabulary(model: Any, name: str, strategy: Strategy) -> None:  # noqa: ANN401
    """Make sure that the model called `name` has as many tokens as the strategy chooses among.

    Raises:
        StudyError: It does not.
    """
    size = model.config.get_text_config().vocab_size
    wanted = _candidates(strategy)
    if wanted > size:
        raise StudyError(
            f"{strategy} chooses among {wanted} tokens, and the model {name!r} has {size}; "
            "choose fewer, or leave the strategy out"
        )


def _candidates(strategy: Strategy) -> int:
    if isinstance(strategy, Guard | AdaptiveContrastiveSearch):
        return K_MIN + K_RANGE
    if isinstance(strategy, Chain):
        return max(map(_candidates, strategy.steps))
    if isinstance(strategy, BeamSearch | ContrastiveDecoding):
        return strategy.beams
    return strategy.k if isinstance(strategy, TopK | ContrastiveSearch) else 1


def decode(
    model: Any,  # noqa: ANN401
    batch: Batch,
    strategy: Strategy,
    *,
    amateur: Any = None,  # noqa: ANN401
    trace: bool = False,
    compiled: bool = False,
    static: bool | None = None,
    on_step: Callable[[DecodedStep], None] | None = None,
) -> Generated:
    """Continue a batch of token ids by a strategy.

    Args:
        model: A transformers model for causal language modelling. Packed (`packed.pack`), a float32 model on
            a CPU gives each row the same tokens in any batch.
        batch: The prompts.
        strategy: What to apply; `check` must have passed.
        amateur: The weaker model of contrastive decoding, with the same tokens.
        trace: Return GUARD's H_t, H_glob,t, k_t, α_t and q too.
        compiled: On a CPU, make GUARD's step by one compiled function; on a GPU, decode in fixed shapes.
        static: Decode in fixed shapes (`static.py`), where model and strategy can; if left out, with
            `compiled` on a GPU.
        on_step: Called after each step, which then run one by one; never by a strategy with beams, whose
            texts are known in the end.
    """
    if isinstance(strategy, BeamSearch | ContrastiveDecoding):
        return decode_beams(model, batch, strategy, amateur)
    # Not by default: no GPU has run it yet.
    wanted = compiled and model.device.type == "cuda" if static is None else static
    if wanted and on_step is None and supports(model, strategy):
        return decode_static(model, batch, strategy, trace=trace)
    if isinstance(strategy, ContrastiveSearch | AdaptiveContrastiveSearch):
        return decode_contrastive(model, batch, strategy, on_step)
    return decode_logits(model, batch, strategy, trace=trace, compiled=compiled, on_step=on_step)


@torch.inference_mode()
def decode_logits(
    model: Any,  # noqa: ANN401
    batch: Batch,
    strategy: LogitStrategy,
    *,
    trace: bool = False,
    compiled: bool = False,
    on_step: Callable[[DecodedStep], None] | None = None,
) -> Generated:
    """Continue a batch with any of transformers' causal language models."""
    session = open_session(model, batch.prompts, batch.limit)
    prompts = prompt_tokens(batch)
    chooses = chooser(
        strategy, batch.keys, batch.limit, prompts=prompts, breakers=batch.breakers, compiled=compiled
    )
    rows, traces = Rows(batch), Traces(batch) if trace else None
    logits = session.prefill()
    for step in range(batch.limit):
        tokens = chooses(rows.check(logits, step), step, rows.history)
        rows.write(tokens, step)
        if on_step:
            on_step(DecodedStep(logits, tokens, {name: kept[:, -1] for name, kept in chooses.trace.items()}))
        going = rows.leave(step)
        if going is not None:
            if traces:
                traces.keep(chooses, going)
            if not len(going):
                break
            session.keep(going)
            chooses.keep(going)
            tokens = tokens[going]
        if step + 1 < batch.limit:
            logits = session.step(tokens)
    else:
        if traces:
            traces.keep(chooses, None)
    written, failed_at = rows.finished()
    return Generated(tokens=written, failed_at=failed_at, trace=traces.rows(written) if traces else [])


class Traces:
    """What a chooser noted of each row, gathered when the row leaves."""

    def __init__(self, batch: Batch) -> None:
        self._here = list(range(len(batch.prompts)))
        self._rows: list[dict[str, list[float]]] = [{} for _ in batch.prompts]

    def keep(self, chooses: Chooser, going: Tensor | None) -> None:
        """Record the rows that do not go on; all of them where `going` is None."""
        stay = set() if going is None else set(going.tolist())
        values = {name: kept.tolist() for name, kept in chooses.trace.items()}
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


@torch.inference_mode()
def decode_contrastive(
    model: Any,  # noqa: ANN401
    batch: Batch,
    strategy: ContrastiveSearch | AdaptiveContrastiveSearch,
    on_step: Callable[[DecodedStep], None] | None = None,
) -> Generated:
    """Continue a batch, all of a row's candidates in one pass."""
    propose = Proposer(strategy, len(batch.prompts), batch.limit, batch.keys.device)
    session, rows = open_session(model, batch.prompts, batch.limit, candidates=propose.most), Rows(batch)
    logits = session.prefill()
    for step in range(batch.limit):
        proposal = propose(rows.check(logits, step), step)
        penalty = session.fork(proposal.ids, proposal.allowed)
        # A hidden state may be no number where the logits before it are.
        rows.fail((~penalty.isfinite() & proposal.allowed).any(-1), step)
        index = choose(proposal, penalty)
        tokens = proposal.ids.gather(1, index[:, None])[:, 0]
        rows.write(tokens, step)
        if on_step:
            adapted = {"k": proposal.allowed.sum(-1), "alpha": proposal.alpha}
            on_step(
                DecodedStep(
                    logits, tokens, adapted if isinstance(strategy, AdaptiveContrastiveSearch) else {}
                )
            )
        if step + 1 == batch.limit:
            break
        logits = session.commit(index)
        going = rows.leave(step)
        if going is not None:
            if not len(going):
                break
            session.keep(going)
            propose.keep(going)
            logits = logits[going]
    written, failed_at = rows.finished()
    return Generated(tokens=written, failed_at=failed_at)
