"""From a strategy to the loop that runs it."""

from __future__ import annotations

from typing import Any

from guard_eval.decoding.choosers import LogitStrategy
from guard_eval.engines.local.batch import Batch, Generated
from guard_eval.engines.local.beam import decode_beams
from guard_eval.engines.local.contrastive import decode_contrastive
from guard_eval.engines.local.logits import decode_logits
from guard_eval.engines.local.padded import check_cache
from guard_eval.strategies import (
    AdaptiveContrastiveSearch,
    BeamSearch,
    ContrastiveDecoding,
    ContrastiveSearch,
    Strategy,
)


def check(model: Any, strategy: Strategy, amateur: Any = None) -> None:  # noqa: ANN401 (transformers' classes)
    """Make sure that a model, and contrastive decoding's amateur, can run a strategy.

    Raises:
        StudyError: It cannot; the message says why.
    """
    for each in (model, amateur) if isinstance(strategy, ContrastiveDecoding) and amateur else (model,):
        check_cache(each, strategy, branches=not isinstance(strategy, LogitStrategy))


def decode(
    model: Any,  # noqa: ANN401
    batch: Batch,
    strategy: Strategy,
    *,
    amateur: Any = None,  # noqa: ANN401
    trace: bool = False,
    compiled: bool = False,
) -> Generated:
    """Continue a batch of token ids by a strategy.

    Args:
        model: A transformers model for causal language modelling. Packed (`packed.pack`), a float32 model on
            a CPU gives each row the same tokens in any batch.
        batch: The prompts.
        strategy: What to apply; `check` must have passed.
        amateur: The weaker model of contrastive decoding, with the same tokens.
        trace: Return GUARD's H_t, H_glob,t, k_t, α_t and q too.
        compiled: Run GUARD's step through `torch.compile`.
    """
    if isinstance(strategy, ContrastiveSearch | AdaptiveContrastiveSearch):
        return decode_contrastive(model, batch, strategy)
    if isinstance(strategy, BeamSearch | ContrastiveDecoding):
        return decode_beams(model, batch, strategy, amateur)
    return decode_logits(model, batch, strategy, trace=trace, compiled=compiled)
