"""What vLLM loads from the entry point group `vllm.logits_processors`, in every process of its own."""

from __future__ import annotations

import functools
from typing import Any

from torch import Tensor

from guard_eval.engines.vllm.adaptors import BatchUpdate, ForRunnerV1, ForRunnerV2
from guard_eval.engines.vllm.request import Parameters, read_request

PROCESSOR = "guard_eval.engines.vllm.plugin:StrategyProcessor"
"""What the entry point names; also for `vllm serve --logits-processors`, where it is not installed."""


class Strategies:
    """Our strategies for the requests that ask for one; other requests are left alone.

    There is one entry point for two interfaces, and which model runner it is that loads it shows only when it
    makes an instance: V2 gives its requests' state, V1 a device and whether to pin memory.
    """

    def __init__(self, vllm_config: Any, *given: Any) -> None:  # noqa: ANN401 (vLLM's classes)
        self._for: Any = (ForRunnerV2 if len(given) == 1 else ForRunnerV1)(vllm_config, given[0])

    @classmethod
    def validate_params(cls, sampling_params: Parameters) -> None:
        """Refuse a request before it is queued; over HTTP it is answered with status 400.

        Raises:
            StudyError: See `request.read_request`.
        """
        read_request(sampling_params)

    def is_argmax_invariant(self) -> bool:
        """Say that greedy requests, too, are to pass through."""
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """See `ForRunnerV1`."""
        self._for.update_state(batch_update)

    def add_request(self, req_idx: int, sampling_params: Parameters) -> bool:
        """See `ForRunnerV2`."""
        return bool(self._for.add_request(req_idx, sampling_params))

    def apply_staged_writes(self) -> None:
        """See `ForRunnerV2`."""
        self._for.apply_staged_writes()

    def apply(self, logits: Tensor, *ctx: Any) -> Tensor:  # noqa: ANN401
        """See either."""
        chosen: Tensor = self._for.apply(logits, *ctx)
        return chosen


def __getattr__(name: str) -> object:
    if name != "StrategyProcessor":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _processor()


@functools.cache
def _processor() -> type:
    """Return `Strategies` as a subclass of both interfaces, which each runner wants to see; it needs vLLM."""
    from vllm.v1.sample.logits_processor import LogitsProcessor as ForV1  # noqa: PLC0415
    from vllm.v1.worker.gpu.sample.logits_processor import LogitsProcessor as ForV2  # noqa: PLC0415

    return type("StrategyProcessor", (Strategies, ForV2, ForV1), {"__module__": __name__})
