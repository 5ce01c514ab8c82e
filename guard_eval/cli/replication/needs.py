"""What making a table again takes (estimates), what this machine has, and so whether it can be made here."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

from guard_eval.cli.replication.paper import COHERENCE_MODEL, MODELS, Entry
from guard_eval.cli.replication.studies import settings_of
from guard_eval.strategies import BeamSearch, ContrastiveDecoding, Strategy, parse
from guard_eval.study.judge_settings import Judge
from judge.preview import REASONING_TOKENS
from judge.price import find_price
from judge.server import resolve_server

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
        judge_usd: What these are expected to cost; None without a judge or its price.
    """

    tokens: int = 0
    gpu_hours: float = 0
    memory_gb: int = 0
    download_gb: int = 0
    requests: int = 0
    judge_usd: float | None = None


def needs(entry: Entry) -> Needs:
    """Return what an entry needs; all zero where there is nothing to run."""
    if not entry.study:
        return Needs()
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
    requests = entry.pairs * _ORDERS * entry.judged
    return Needs(
        tokens=texts * each * len(strategies),
        gpu_hours=steps * STEP_SECONDS / 3600,
        memory_gb=math.ceil(2 * max(billions)) + SPARE_GB,
        download_gb=math.ceil(2 * sum(billions)),
        requests=requests,
        judge_usd=_usd(settings.judge[0], requests) if requests else None,
    )


def _usd(judge: Judge, requests: int) -> float | None:
    """Return what so many requests are expected to cost, in US dollars; None where the price is unknown."""
    known = find_price(resolve_server(judge))
    answer = JUDGE_ANSWER_TOKENS + REASONING_TOKENS * judge.is_reasoning
    return None if known is None else requests * known.usd(JUDGE_PROMPT_TOKENS, answer)


def _cost(strategy: Strategy) -> float:
    """Return a strategy's time over greedy decoding's; of beams the most it can be, a text's each."""
    if isinstance(strategy, BeamSearch):
        return strategy.beams
    if isinstance(strategy, ContrastiveDecoding):
        return strategy.beams + 1
    return COSTS.get(str(strategy).partition("(")[0], 1.0)


_DEVICES = ("/dev/nvidia0", "/dev/kfd", "/dev/dxg")
"""What a machine with a GPU of NVIDIA, of AMD, or seen from Windows has; torch is imported only then."""
_GB = 1e9
_FEW = 10_000
"""Tokens that a 7B model makes on a CPU within hours."""
_FLOAT32, _SPARE_RAM_GB = 4, 2
"""Bytes of a parameter there, and what else is in memory."""


class Machine:
    """What this machine has, found out once."""

    @cached_property
    def torch(self) -> bool:
        """Say whether PyTorch and transformers are installed."""
        return find_spec("torch") is not None and find_spec("transformers") is not None

    @cached_property
    def gpu_gb(self) -> float:
        """Return the memory of the largest GPU that PyTorch can use, in GB; 0 without one."""
        if not self.torch or not any(Path(device).exists() for device in _DEVICES):
            return 0.0
        import torch  # noqa: PLC0415 (an extra, and seconds to load)

        if not torch.cuda.is_available():
            return 0.0
        devices = range(torch.cuda.device_count())
        return max(torch.cuda.get_device_properties(n).total_memory / _GB for n in devices)

    @cached_property
    def ram_gb(self) -> float:
        """Return the memory of the machine, in GB; 0 where the system does not say."""
        try:
            return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / _GB
        except (AttributeError, ValueError, OSError):
            return 0.0

    def has(self, hub: str) -> bool:
        """Say whether a model's configuration and weights lie in the Hugging Face cache."""
        if find_spec("huggingface_hub") is None:
            return False
        from huggingface_hub import try_to_load_from_cache  # noqa: PLC0415 (an extra)

        names = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin")
        return any(isinstance(try_to_load_from_cache(hub, name), str) for name in names)

    def verdict(self, entry: Entry, needed: Needs) -> str:
        """Say in a few words whether the entry can be run here with the paper's models, and why not."""
        if not entry.study:
            return "nothing to run"
        if not self.torch:
            return "no: pip install 'guard-eval[generate,metrics]'"
        if not self.gpu_gb:
            ram_gb = _FLOAT32 * MODELS[entry.models[0]].billions + _SPARE_RAM_GB
            slowly = needed.tokens <= _FEW and self.ram_gb >= ram_gb
            return "yes, slowly: no GPU" if slowly else "no: needs a GPU"
        if self.gpu_gb < needed.memory_gb:
            return f"no: its GPU has {self.gpu_gb:.0f} GB"
        absent = [name for name in entry.models if not self.has(MODELS[name].hub)]
        if absent and os.environ.get("HF_HUB_OFFLINE") == "1":
            return f"no: offline, without {absent[0]}"
        after = " (+ people)" if entry.people else " (+ judge)" if entry.judged else ""
        return f"yes, downloads{after}" if absent else f"yes{after}"

    @property
    def words(self) -> str:
        """Return what was found, in words."""
        gpu = f"a GPU of {self.gpu_gb:.0f} GB" if self.gpu_gb else "no GPU"
        return f"PyTorch, {gpu}" if self.torch else "PyTorch is not installed"
