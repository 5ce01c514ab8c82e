"""What vLLM loads from the entry point group `vllm.logits_processors`: our strategies behind its interfaces.

Model runner V2 names a request by its place among all requests and says on each call which of them the rows
belong to. The older runner, V1, reports every change to the batch, and its rows are the batch. Both pass
float32 logits to which bans (minimum length, bad words, grammars, biases) have been applied: what is
banned has −inf, and no strategy chooses it. vLLM itself is imported when it asks for `StrategyProcessor`.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

from guard_eval.decoding.processor import breaker_ids
from guard_eval.engines.vllm.memory import Request, Requests, Row
from guard_eval.engines.vllm.request import Parameters, StrategyRequest, read_request

PROCESSOR = "guard_eval.engines.vllm.plugin:StrategyProcessor"
"""What the entry point names; also for `vllm serve --logits-processors`, where it is not installed."""


class ForRunnerV1:
    """Our strategies behind the older interface."""

    def __init__(self, vllm_config: Any, device: torch.device) -> None:  # noqa: ANN401 (vLLM's)
        self._requests = Requests(
            device,
            running=vllm_config.scheduler_config.max_num_seqs,
            length=vllm_config.model_config.max_model_len,
            breakers=functools.partial(_breakers, vllm_config),
        )
        self._device = device
        self._at: dict[int, tuple[Request, list[int]]] = {}

    def update_state(self, batch_update: Any) -> None:  # noqa: ANN401 (vLLM's BatchUpdate, or None)
        """Take note of what changed in the batch: requests removed, added and moved, in this order."""
        if batch_update is None:
            return
        for request, outputs in self._at.values():
            request.done = len(outputs)
        for index in batch_update.removed:
            self._leave(index)
        for index, parameters, prompt, outputs in batch_update.added:
            self._leave(index)  # a new request may take the place of one that has ended
            wanted = read_request(parameters)
            if wanted is not None:
                self._at[index] = self._begin(wanted, prompt or [], outputs), outputs
        for item, other, direction in batch_update.moved:
            first, second = self._at.pop(item, None), self._at.pop(other, None)
            if first is not None:
                self._at[other] = first
            if second is not None and direction.name == "SWAP":
                self._at[item] = second
            elif second is not None:
                self._requests.leave(second[0])

    def apply(self, logits: Tensor) -> Tensor:
        """Choose for the requests of ours; `logits` `[B, V]` are changed in place and returned."""
        if not self._at:
            return logits
        # With asynchronous scheduling the last tokens written stand as −1 in the list; their number is right.
        rows = [Row(index, request, len(outputs)) for index, (request, outputs) in self._at.items()]
        return self._requests.choose(logits, rows)

    def _begin(self, wanted: StrategyRequest, prompt: list[int], outputs: list[int]) -> Request:
        written = torch.tensor(outputs, dtype=torch.int32, device=self._device)
        return self._requests.begin(
            wanted, torch.tensor(prompt, dtype=torch.int32, device=self._device), written
        )

    def _leave(self, index: int) -> None:
        request, _ = self._at.pop(index, (None, None))
        self._requests.leave(request)


class ForRunnerV2:
    """Our strategies behind runner V2's interface."""

    def __init__(self, vllm_config: Any, req_states: Any) -> None:  # noqa: ANN401 (vLLM's)
        self._states = req_states
        self._speculates = vllm_config.speculative_config is not None
        self._requests = Requests(
            req_states.device,
            running=req_states.max_num_reqs,
            length=vllm_config.model_config.max_model_len,
            breakers=functools.partial(_breakers, vllm_config),
        )
        self._new: dict[int, StrategyRequest] = {}
        self._at: dict[int, Request] = {}

    def add_request(self, req_idx: int, sampling_params: Parameters) -> bool:
        """Take note of a request, new or come back, in the place of another; return whether it is ours.

        Raises:
            RuntimeError: It is, and vLLM decodes speculatively.
        """
        self._requests.leave(self._at.pop(req_idx, None))
        self._new.pop(req_idx, None)
        wanted = read_request(sampling_params)
        if wanted is None:
            return False
        if self._speculates:
            raise RuntimeError(_SPECULATIVE)
        self._new[req_idx] = wanted
        return True

    def apply_staged_writes(self) -> None:
        """Begin what is new: only now are its tokens on the device."""
        for index, wanted in self._new.items():
            prompt, filled = self._lengths(index)
            tokens = self._states.all_token_ids.gpu[index, :filled]
            self._at[index] = self._requests.begin(wanted, tokens[:prompt], tokens[prompt:])
        self._new.clear()

    def apply(self, logits: Tensor, ctx: Any) -> Tensor:  # noqa: ANN401 (vLLM's LogitsContext)
        """Choose for the requests of ours; `logits` `[B, V]` are changed in place and returned."""
        places = ctx.idx_mapping_np.tolist()
        if self._at.keys().isdisjoint(places):
            return logits
        if len(places) != len(logits):
            raise RuntimeError(_SPECULATIVE)
        rows = []
        for row, (index, length) in enumerate(zip(places, ctx.seq_lens_upper_bound_np.tolist(), strict=True)):
            prompt, filled = self._lengths(index)
            # Before, its prompt is not all read, and nothing is written.
            if index in self._at and length >= filled:
                rows.append(Row(row, self._at[index], length - prompt))
        return self._requests.choose(logits, rows)

    def _lengths(self, index: int) -> tuple[int, int]:
        """Return the length of a request's prompt, and with what was written before it came (back)."""
        return int(self._states.prompt_len.np[index]), int(self._states.prefill_len.np[index])


def _breakers(vllm_config: Any) -> list[int]:  # noqa: ANN401 (vLLM's)
    """Return the tokens that end a sequence, by the tokenizer of vLLM's model."""
    from transformers import AutoTokenizer  # noqa: PLC0415 (few requests ask)

    model = vllm_config.model_config
    tokenizer = AutoTokenizer.from_pretrained(
        model.tokenizer, revision=model.tokenizer_revision, trust_remote_code=False
    )
    return breaker_ids(tokenizer)


_SPECULATIVE = (
    "guard-eval: strategies choose one token after the other, and speculative decoding proposes several; "
    "start vLLM without speculative_config, or leave guard_eval out of the requests"
)


class Strategies:
    """Our strategies for the requests that ask for one; other requests are left alone.

    There is one entry point for two interfaces, and which model runner it is that loads it shows only when it
    makes an instance: V2 gives its requests' state, V1 a device and whether to pin memory.
    """

    def __init__(self, vllm_config: Any, *arguments: Any) -> None:  # noqa: ANN401 (vLLM's classes)
        self._for: Any = (ForRunnerV2 if len(arguments) == 1 else ForRunnerV1)(vllm_config, arguments[0])

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

    def update_state(self, batch_update: Any) -> None:  # noqa: ANN401 (vLLM's BatchUpdate, or None)
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
