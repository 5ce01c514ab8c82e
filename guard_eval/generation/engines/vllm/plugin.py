"""What vLLM loads from the entry point group `vllm.logits_processors`: our strategies behind its interfaces.

Model runner V2, which GPUs use, gives each request a slot and names the slots of the rows at each step. The
older runner, V1, reports every change to the batch, and its rows are the batch. Both pass float32 logits to
which bans (minimum length, bad words, grammars, biases) have been applied: what is banned has −inf, and no
strategy chooses it. vLLM itself is imported when it asks for `StrategyProcessor`.

What is chosen is written as logits of which one is left, so that whatever vLLM does next takes that token.

A request keeps its state before each of its last steps, because vLLM may repeat a step. vLLM takes a request
out of the batch when it has ended, but also when memory runs out (preemption), and does not say which. So as
many requests as may run at once are remembered after they left, and one that comes back finds its state by
its strategy, its key and its prompt: these decide what is written.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from guard_eval.generation.decoding.context import Context
from guard_eval.generation.decoding.noise import advance_keys
from guard_eval.generation.decoding.processor import (
    breaker_ids,
    choose,
    first_state,
    needs_breakers,
)
from guard_eval.generation.engines.vllm.request import StrategyRequest, read_request
from guard_eval.generation.strategies import Guard, LogitStrategy, is_own, steps_of

PROCESSOR = "guard_eval.generation.engines.vllm.plugin:StrategyProcessor"
"""What the entry point names; also for `vllm serve --logits-processors`, where it is not installed."""

_SPECULATIVE = (
    "guard-eval: strategies choose one token after the other, and speculative decoding proposes several; "
    "start vLLM without speculative_config, or leave guard_eval out of the requests"
)
_ASYNCHRONOUS = (
    "guard-eval: vLLM's older model runner hides the last token where it schedules asynchronously; "
    "start vLLM with --no-async-scheduling, or with VLLM_USE_V2_MODEL_RUNNER=1"
)
KEPT_STEPS = 16
"""Steps whose states are kept: vLLM discards the last few tokens when it sets a request back."""


@dataclass(eq=False)
class Request:
    """A request in the batch.

    Attributes:
        slot: Its slot among all, which the older runner does not have.
        wanted: Its strategy and key.
        prompt: The prompt's tokens, `[P]`.
        states: The state before each of the last steps, `[S]`, float64, by step.
        outputs: The tokens written so far, where the runner keeps them as a list.
        line: The row of the logits that is the request's at this step.
        step: How many tokens it has written.
    """

    slot: int
    wanted: StrategyRequest
    prompt: Tensor
    states: dict[int, Tensor]
    outputs: Sequence[int] = ()
    line: int = 0
    step: int = 0


class _Requests(ABC):
    """The requests of a worker, by whichever interface they come.

    Args:
        vllm_config: vLLM's settings.
        device: Where the logits are.
        running: How many requests run at once; as many are remembered after they left.
    """

    def __init__(self, vllm_config: Any, device: torch.device, running: int) -> None:  # noqa: ANN401 (vLLM's)
        self._config = vllm_config
        self._device = device
        self._at: dict[int, Request] = {}  # by slot or row
        self._left: deque[Request] = deque(maxlen=2 * running)

    def is_argmax_invariant(self) -> bool:
        """Say that greedy requests, too, are to pass through."""
        return False

    def _begin(self, index: int, wanted: StrategyRequest, prompt: Tensor, written: int) -> Request:
        """Take a request with a prompt `[P]` in; one that comes back has `written` tokens already.

        Raises:
            RuntimeError: It comes back, and its state is no longer in this worker.
        """
        self._at[index] = Request(index, wanted, prompt, self._find_states(wanted, prompt, written))
        return self._at[index]

    def _release(self, index: int) -> None:
        """Take a request, if there is one, out of the batch; its states are kept, for it may come back."""
        if index in self._at:
            self._left.append(self._at.pop(index))

    @abstractmethod
    def _read_texts(self, requests: Sequence[Request]) -> Tensor:
        """Return prompts and texts, `[B, T]`: the last token at the end, −1 before the first."""

    def _find_states(self, wanted: StrategyRequest, prompt: Tensor, written: int) -> dict[int, Tensor]:
        first = torch.tensor(first_state(wanted.strategy), dtype=torch.float64, device=self._device)
        if written == 0 or not len(first):
            return {written: first}
        for earlier in [*self._at.values(), *reversed(self._left)]:
            same = earlier.wanted == wanted and written in earlier.states
            if same and torch.equal(earlier.prompt, prompt):
                return dict(earlier.states)
        raise RuntimeError(
            f"guard-eval: a request for {wanted.strategy} came back after {written} tokens (vLLM sets "
            "requests back where memory is short), and its state is not in this worker; "
            "give vLLM more memory for its cache, or run fewer requests at once (--max-num-seqs)"
        )

    def _choose(self, logits: Tensor, requests: Sequence[Request]) -> Tensor:
        """Leave the chosen token alone in the lines of requests of `logits` `[B, V]`, and return `logits`."""
        groups: dict[tuple[LogitStrategy, int], list[Request]] = {}
        for request in requests:
            strategy = request.wanted.strategy
            groups.setdefault((strategy, _phase(strategy, request.step)), []).append(request)
        for (strategy, phase), group in groups.items():
            numbers = [[request.line, request.wanted.key, request.step] for request in group]
            lines, keys, steps = to_device(numbers, self._device).T
            texts = self._read_texts(group)
            longest = max(request.step for request in group)
            age = torch.arange(longest, 0, -1, device=self._device)
            written = texts[:, texts.shape[1] - longest :].masked_fill(age > steps[:, None], -1)
            states = torch.stack([request.states[request.step] for request in group])
            breakers = self._breakers if needs_breakers(strategy) else keys[:0]
            context = Context(advance_keys(keys, steps - phase), phase, texts, written, states, breakers)
            tokens = choose(strategy, logits[lines].float(), context)
            for request, state in zip(group, context.state, strict=True):
                request.states[request.step + 1] = state
                request.states.pop(request.step + 1 - KEPT_STEPS, None)
            logits[lines] = -torch.inf
            logits[lines, tokens] = 0
        return logits

    @cached_property
    def _breakers(self) -> Tensor:
        """The tokens at which DRY's sequences end, by the tokenizer of vLLM's model."""
        from transformers import AutoTokenizer  # noqa: PLC0415 (few requests ask)

        model = self._config.model_config
        tokenizer = AutoTokenizer.from_pretrained(
            model.tokenizer, revision=model.tokenizer_revision, trust_remote_code=False
        )
        return to_device(breaker_ids(tokenizer), self._device)


def _phase(strategy: LogitStrategy, step: int) -> int:
    """Return the step number that the strategy is given; requests with the same one take a step together.

    GUARD's first steps have windows of different lengths; from then on all steps are alike. A user's own
    strategy may read the number itself.
    """
    if isinstance(strategy, Guard):
        return min(step, strategy.window)
    return step if any(map(is_own, steps_of(strategy))) else 0


def to_device(values: Sequence[int] | Sequence[Sequence[int]], device: torch.device) -> Tensor:
    """Return whole numbers on a device, int64, without waiting for what is under way there."""
    here = torch.tensor(values, pin_memory=device.type == "cuda")
    return here.to(device, non_blocking=True)


class ForRunnerV2(_Requests):
    """Our strategies behind model runner V2's interface."""

    def __init__(self, vllm_config: Any, req_states: Any) -> None:  # noqa: ANN401 (vLLM's)
        super().__init__(vllm_config, req_states.device, running=req_states.max_num_reqs)
        self._states = req_states
        self._speculates = vllm_config.speculative_config is not None
        self._new: dict[int, StrategyRequest] = {}

    def add_request(self, req_idx: int, sampling_params: Any) -> bool:  # noqa: ANN401
        """Note a request that takes a slot, new or come back; return whether it is ours.

        Raises:
            RuntimeError: It is, and vLLM decodes speculatively.
        """
        self._release(req_idx)
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
        for slot, wanted in self._new.items():
            prompt, filled = self._lengths(slot)
            tokens = self._states.all_token_ids.gpu[slot, :prompt].clone()
            self._begin(slot, wanted, tokens, filled - prompt)
        self._new.clear()

    def apply(self, logits: Tensor, ctx: Any) -> Tensor:  # noqa: ANN401 (vLLM's LogitsContext)
        """Choose for the requests of ours; `logits` `[B, V]` are changed in place and returned."""
        slots = ctx.idx_mapping_np.tolist()
        at = self._at
        if at.keys().isdisjoint(slots):
            return logits
        if len(slots) != len(logits):
            raise RuntimeError(_SPECULATIVE)
        ready = []
        for line, (slot, length) in enumerate(zip(slots, ctx.seq_lens_upper_bound_np.tolist(), strict=True)):
            prompt, filled = self._lengths(slot)
            # Before, its prompt is not all read, and nothing is written.
            if slot in at and length >= filled:
                at[slot].line, at[slot].step = line, length - prompt
                ready.append(at[slot])
        return self._choose(logits, ready)

    def _read_texts(self, requests: Sequence[Request]) -> Tensor:
        """Return the tokens of requests from vLLM's own memory; see above."""
        lengths = [len(request.prompt) + request.step for request in requests]
        slots, ends = to_device([[request.slot for request in requests], lengths], self._device)
        columns = ends[:, None] - torch.arange(max(lengths), 0, -1, device=ends.device)
        tokens: Tensor = self._states.all_token_ids.gpu[slots[:, None], columns.clamp(min=0)].long()
        return tokens.masked_fill(columns < 0, -1)

    def _lengths(self, slot: int) -> tuple[int, int]:
        """Return the length of a prompt, and with what was written before the request came (back)."""
        return int(self._states.prompt_len.np[slot]), int(self._states.prefill_len.np[slot])


class ForRunnerV1(_Requests):
    """Our strategies behind the older interface, which a CPU has."""

    def __init__(self, vllm_config: Any, device: torch.device) -> None:  # noqa: ANN401 (vLLM's)
        super().__init__(vllm_config, device, running=vllm_config.scheduler_config.max_num_seqs)
        self._asynchronous = bool(vllm_config.scheduler_config.async_scheduling)

    def update_state(self, batch_update: Any) -> None:  # noqa: ANN401 (vLLM's BatchUpdate, or None)
        """Note the requests that were removed, added and moved, in this order."""
        if batch_update is None:
            return
        at = self._at
        for index in [*batch_update.removed, *(added[0] for added in batch_update.added)]:
            self._release(index)
        for index, parameters, prompt, outputs in batch_update.added:
            if wanted := read_request(parameters):
                if self._asynchronous:
                    raise RuntimeError(_ASYNCHRONOUS)
                tokens = torch.tensor(prompt or [], dtype=torch.long, device=self._device)
                self._begin(index, wanted, tokens, len(outputs)).outputs = outputs
        for index, other, direction in batch_update.moved:
            if direction.name != "SWAP":
                self._release(other)
            moved = {other: at.pop(index, None), index: at.pop(other, None)}
            at.update((row, request) for row, request in moved.items() if request is not None)

    def apply(self, logits: Tensor) -> Tensor:
        """Choose for the requests of ours; `logits` `[B, V]` are changed in place and returned."""
        for line, request in self._at.items():
            request.line, request.step = line, len(request.outputs)
        return self._choose(logits, list(self._at.values()))

    def _read_texts(self, requests: Sequence[Request]) -> Tensor:
        """Return the tokens of requests; see above."""
        texts = [[*request.prompt.tolist(), *request.outputs] for request in requests]
        longest = max(map(len, texts))
        return to_device([[-1] * (longest - len(text)) + text for text in texts], self._device)


def make_processor(vllm_config: Any, *arguments: Any) -> ForRunnerV1 | ForRunnerV2:  # noqa: ANN401 (vLLM's)
    """Return the processor for the runner that asks: V2 gives its requests' state, V1 a device and a flag."""
    if len(arguments) == 1:
        return ForRunnerV2(vllm_config, *arguments)
    return ForRunnerV1(vllm_config, arguments[0])


def __getattr__(name: str) -> object:
    """Make `StrategyProcessor`, a subclass of both interfaces, which each runner wants to see."""
    if name != "StrategyProcessor":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from vllm.v1.sample.logits_processor import LogitsProcessor as InterfaceV1  # noqa: PLC0415
    from vllm.v1.worker.gpu.sample.logits_processor import LogitsProcessor as InterfaceV2  # noqa: PLC0415

    members = {
        "__module__": __name__,
        "__new__": lambda _class, *arguments: make_processor(*arguments),
        "validate_params": staticmethod(read_request),  # HTTP answers a refused request with status 400
    }
    return globals().setdefault(name, type(name, (InterfaceV2, InterfaceV1), members))
