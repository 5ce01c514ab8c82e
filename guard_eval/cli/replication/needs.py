"""What making a table again takes: tokens, time on a GPU, its memory, requests to a judge. Estimates."""

from __future__ import annotations

import math
from dataclasses import dataclass

from guard_eval.cli.replication.registry import COHERENCE_MODEL, MODELS, Entry
from guard_eval.cli.replication.study_files import settings_of
from guard_eval.strategies import BeamSearch, ContrastiveDecoding, Strategy, parse

STEP_SECONDS = 0.020
"""A step of a 7B model on an H200, bfloat16, run eagerly, for 1 text as for 32 (`benchmarks/RESULTS.md`)."""
BATCH = 32
COSTS = {"contrastive": 1.2, "acs": 1.25}
"""Time of a step over greedy decoding's, in batches of 32 on that GPU; 1 where it is not named."""
SPARE_GB = 4
"""What a GPU holds besides the weights: the cache of keys and values, logits, CUDA itself."""
_SCORER_BILLIONS = 2.7
JUDGE_PROMPT_TOKENS, JUDGE_ANSWER_TOKENS = 1750, 60
"""Of one request: about 7000 bytes with texts of 256 tokens, and the bare JSON of six verdicts."""
_ORDERS = 2


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What an entry takes with the paper's models and numbers of prompts.

    Attributes:
        tokens: Tokens to generate at most.
        gpu_hours: For generating them, one GPU; measuring comes on top.
        memory_gb: Memory of that GPU.
        download_gb: Of the models' weights.
        requests: To a judge.
    """

    tokens: int
    gpu_hours: float
    memory_gb: int
    download_gb: int
    requests: int

    def usd(self, *, input_usd: float, output_usd: float) -> float:
        """Return what the judge costs, given prices per million tokens."""
        each = JUDGE_PROMPT_TOKENS * input_usd + JUDGE_ANSWER_TOKENS * output_usd
        return self.requests * each / 1e6


def needs(entry: Entry) -> Needs:
    """Return what an entry needs; all zero where there is nothing to run."""
    if not entry.study:
        return Needs(tokens=0, gpu_hours=0, memory_gb=0, download_gb=0, requests=0)
    settings = settings_of(entry)
    strategies = [parse(name) for name in settings.generation.strategies]
    if entry.kind == "trace":
        strategies = strategies[:1]
    each = settings.generation.max_new_tokens
    texts = len(entry.models) * sum((entry.prompts or {"": 1}).values())
    rows = BATCH if settings.generation.batch_size == "auto" and texts >= BATCH else 1
    steps = texts * each * sum(map(_cost, strategies)) / rows
    scored = settings.metrics.coherence_model == COHERENCE_MODEL and "coherence" in settings.metrics.compute
    billions = [MODELS[name].billions for name in entry.models] + [_SCORER_BILLIONS] * scored
    return Needs(
        tokens=texts * each * len(strategies),
        gpu_hours=steps * STEP_SECONDS / 3600,
        memory_gb=math.ceil(2 * max(billions)) + SPARE_GB,
        download_gb=math.ceil(2 * sum(billions)),
        requests=entry.pairs * _ORDERS * entry.judged,
    )


def _cost(strategy: Strategy) -> float:
    """Return a strategy's time over greedy decoding's; of beams the most it can be, a text's each."""
    if isinstance(strategy, BeamSearch):
        return strategy.beams
    if isinstance(strategy, ContrastiveDecoding):
        return strategy.beams + 1
    return COSTS.get(str(strategy).partition("(")[0], 1.0)
