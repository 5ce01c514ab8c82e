"""Run the strategies in vLLM, as a plug-in of the entry point group `vllm.logits_processors`.

Model runner V2, which GPUs use, gives each request a slot, and at each step names the slot of each row. The
older runner, V1, reports every change of the batch. Both runners pass float32 logits in which banned tokens
(minimum length, bad words, grammars, biases) have −inf, so no strategy chooses a banned token. vLLM's classes
are imported when vLLM asks for `StrategyProcessor`.

All logits except the chosen token's become −inf, so vLLM must take the chosen token.

The state before each of a request's last steps is kept, because vLLM may repeat a step. vLLM removes requests
from the batch when the text has ended, but also when memory runs out (preemption), and does not report the
reason. So removed requests are remembered for some time. If a request comes back, its state is found by
strategy, key and prompt, because these three determine the text.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from guard_eval.generation.decoding.context import Context
from guard_eval.generation.decoding.noise import advance_keys
from guard_eval.generation.decoding.processor import choose_tokens, make_first_state
from guard_eval.generation.engines.vllm import VllmObject
from guard_eval.generation.engines.vllm.request import StrategyRequest, read_strategy_request
from guard_eval.generation.strategies import Guard, LogitStrategy, is_user_defined, list_strategy_steps

PROCESSOR = "guard_eval.generation.engines.vllm.plugin:StrategyProcessor"
"""The value of the entry point or, if that is not installed, of `vllm serve --logits-processors`."""

_SPECULATIVE = (
    "guard-eval: strategies choose one token at a time, but speculative decoding proposes several tokens; "
    "start vLLM without speculative_config, or leave guard_eval out of the requests"
)
_ASYNCHRONOUS = (
    "guard-eval: with asynchronous scheduling, vLLM's older model runner does not show the last token; "
    "start vLLM with --no-async-scheduling, or with VLLM_USE_V2_MODEL_RUNNER=1"
)
KEPT_STEPS = 16
"""The number of last steps whose states are kept, because vLLM may repeat the last steps of a request."""


@dataclass(eq=False)
class Request:
    """A request in the batch.

    Attributes:
        slot: The request's slot in vLLM's memory, or the row in the older runner.
        strategy_request: The request's strategy and key.
        prompt: The prompt's tokens, `[P]`.
        states: The state before each of the last steps, `[S]`, float64, by step.
        outputs: The tokens written so far, if the runner has them as a list.
        line: The request's row in the logits of this step.
        step: The number of tokens written so far.
    """

    slot: int
    strategy_request: StrategyRequest
    prompt: Tensor
    states: dict[int, Tensor]
    outputs: Sequence[int] = ()
    line: int = 0
    step: int = 0


class _Requests(ABC):
    """The requests in vLLM's batch that name a strategy, with the states of their strategies.

    Args:
        vllm_config: vLLM's settings.
        device: The device of the logits.
        running: The largest number of requests in the batch. Twice as many removed requests are remembered.
    """

    def __init__(self, vllm_config: VllmObject, device: torch.device, running: int) -> None:
        self._config = vllm_config
        self._device = device
        self._at: dict[int, Request] = {}  # by slot or row
        self._left: deque[Request] = deque(maxlen=2 * running)

    def is_argmax_invariant(self) -> bool:
        """Return false, so that vLLM also calls this processor for greedy requests."""
        return False

    def _add_to_batch(
        self, index: int, strategy_request: StrategyRequest, prompt: Tensor, written_count: int
    ) -> Request:
        """Add a request to the batch.

        Args:
            index: The slot or row of the request.
            strategy_request: The request's strategy and key.
            prompt: The prompt's token ids, `[P]`.
            written_count: The number of tokens written before, above 0 if vLLM restarts a removed request.

        Raises:
            RuntimeError: The request is restarted, but its state is no longer remembered.
        """
        self._at[index] = Request(
            index,
            strategy_request,
            prompt,
            self._find_request_states(strategy_request, prompt, written_count),
        )
        return self._at[index]

    def _remove_from_batch(self, index: int) -> None:
        """Remove the request at this index from the batch. Remember its states, in case vLLM restarts it."""
        if index in self._at:
            self._left.append(self._at.pop(index))

    @abstractmethod
    def _read_prompts_and_texts(self, requests: Sequence[Request]) -> Tensor:
        """Return each request's prompt with the text so far, `[B, T]`, padded on the left with −1."""

    def _find_request_states(
        self, strategy_request: StrategyRequest, prompt: Tensor, written_count: int
    ) -> dict[int, Tensor]:
        first = torch.tensor(
            make_first_state(strategy_request.strategy), dtype=torch.float64, device=self._device
        )
        if written_count == 0 or not len(first):
            return {written_count: first}
        for earlier in [*self._at.values(), *reversed(self._left)]:
            same = earlier.strategy_request == strategy_request and written_count in earlier.states
            if same and torch.equal(earlier.prompt, prompt):
                return dict(earlier.states)
        raise RuntimeError(
            f"guard-eval: a request for {strategy_request.strategy} was restarted after {written_count} "
            "tokens, and its state is lost (vLLM restarts requests if memory is short); "
            "give vLLM more memory for its cache, or run fewer requests at once (--max-num-seqs)"
        )

    def _choose_next_tokens(self, logits: Tensor, requests: Sequence[Request]) -> Tensor:
        """Choose the next token of each request, and mask all other tokens in its row of `logits` `[B, V]`.

        Returns:
            `logits`, which are changed in place.
        """
        groups: dict[tuple[LogitStrategy, int], list[Request]] = {}
        for request in requests:
            strategy = request.strategy_request.strategy
            groups.setdefault((strategy, _choose_shared_step_number(strategy, request.step)), []).append(
                request
            )
        for (strategy, phase), group in groups.items():
            numbers = [[request.line, request.strategy_request.key, request.step] for request in group]
            lines, keys, steps = copy_to_device(numbers, self._device).T
            texts = self._read_prompts_and_texts(group)
            longest = max(request.step for request in group)
            age = torch.arange(longest, 0, -1, device=self._device)
            written = texts[:, texts.shape[1] - longest :].masked_fill(age > steps[:, None], -1)
            states = torch.stack([request.states[request.step] for request in group])
            context = Context(advance_keys(keys, steps - phase), phase, texts, written, states)
            tokens = choose_tokens(strategy, logits[lines].float(), context)
            for request, state in zip(group, context.state, strict=True):
                request.states[request.step + 1] = state
                request.states.pop(request.step + 1 - KEPT_STEPS, None)
            logits[lines] = -torch.inf
            logits[lines, tokens] = 0
        return logits


def _choose_shared_step_number(strategy: LogitStrategy, step: int) -> int:
    """Return the step number to give to a strategy: the same for requests that can be computed together.

    GUARD's first steps have windows of different lengths. All later steps get the same number. A user's own
    strategy gets the true step, because the strategy may depend on the step.
    """
    if isinstance(strategy, Guard):
        return min(step, strategy.window)
    return step if any(map(is_user_defined, list_strategy_steps(strategy))) else 0


def copy_to_device(values: Sequence[int] | Sequence[Sequence[int]], device: torch.device) -> Tensor:
    """Copy whole numbers to a device as int64. Do not wait for the device to finish its work."""
    on_cpu = torch.tensor(values, pin_memory=device.type == "cuda")
    return on_cpu.to(device, non_blocking=True)


class ProcessorForRunnerV2(_Requests):
    """The logits processor for vLLM's model runner V2."""

    def __init__(self, vllm_config: VllmObject, req_states: VllmObject) -> None:
        super().__init__(vllm_config, req_states.device, running=req_states.max_num_reqs)
        self._states = req_states
        self._speculates = vllm_config.speculative_config is not None
        self._new: dict[int, StrategyRequest] = {}

    def add_request(self, req_idx: int, sampling_params: VllmObject) -> bool:
        """Register a new request in a slot of vLLM. Return whether the request names a strategy.

        Raises:
            RuntimeError: The request names a strategy, but vLLM uses speculative decoding.
        """
        self._remove_from_batch(req_idx)
        self._new.pop(req_idx, None)
        strategy_request = read_strategy_request(sampling_params)
        if strategy_request is None:
            return False
        if self._speculates:
            raise RuntimeError(_SPECULATIVE)
        self._new[req_idx] = strategy_request
        return True

    def apply_staged_writes(self) -> None:
        """Add the new requests to the batch. vLLM calls this function when their tokens are on the device."""
        for slot, strategy_request in self._new.items():
            prompt, filled = self._read_prompt_lengths(slot)
            tokens = self._states.all_token_ids.gpu[slot, :prompt].clone()
            self._add_to_batch(slot, strategy_request, tokens, filled - prompt)
        self._new.clear()

    def apply(self, logits: Tensor, ctx: VllmObject) -> Tensor:  # a LogitsContext
        """Choose tokens for requests with a strategy. Mask all other tokens in `logits` `[B, V]` in place."""
        slots = ctx.idx_mapping_np.tolist()
        at = self._at
        if at.keys().isdisjoint(slots):
            return logits
        if len(slots) != len(logits):
            raise RuntimeError(_SPECULATIVE)
        ready = []
        for line, (slot, length) in enumerate(zip(slots, ctx.seq_lens_upper_bound_np.tolist(), strict=True)):
            prompt, filled = self._read_prompt_lengths(slot)
            # A shorter request has not read the whole prompt yet, so it writes no token.
            if slot in at and length >= filled:
                request = at[slot]
                request.line = line
                request.step = length - prompt
                ready.append(request)
        return self._choose_next_tokens(logits, ready)

    def _read_prompts_and_texts(self, requests: Sequence[Request]) -> Tensor:
        """Read the prompts and texts of requests from vLLM's memory, `[B, T]`, padded on the left with −1."""
        lengths = [len(request.prompt) + request.step for request in requests]
        slots, ends = copy_to_device([[request.slot for request in requests], lengths], self._device)
        columns = ends[:, None] - torch.arange(max(lengths), 0, -1, device=ends.device)
        tokens: Tensor = self._states.all_token_ids.gpu[slots[:, None], columns.clamp(min=0)].long()
        return tokens.masked_fill(columns < 0, -1)

    def _read_prompt_lengths(self, slot: int) -> tuple[int, int]:
        """Return the lengths of a request's prompt alone, and of the prompt with the text written so far."""
        return int(self._states.prompt_len.np[slot]), int(self._states.prefill_len.np[slot])


class ProcessorForRunnerV1(_Requests):
    """The logits processor for vLLM's older model runner, which vLLM uses on a CPU."""

    def __init__(self, vllm_config: VllmObject, device: torch.device) -> None:
        super().__init__(vllm_config, device, running=vllm_config.scheduler_config.max_num_seqs)
        self._asynchronous = bool(vllm_config.scheduler_config.async_scheduling)

    def update_state(self, batch_update: VllmObject) -> None:  # a BatchUpdate, or None
        """Apply vLLM's changes to the batch: first removed requests, then added and moved requests."""
        if batch_update is None:
            return
        at = self._at
        for index in [*batch_update.removed, *(added[0] for added in batch_update.added)]:
            self._remove_from_batch(index)
        for index, parameters, prompt, outputs in batch_update.added:
            if strategy_request := read_strategy_request(parameters):
                if self._asynchronous:
                    raise RuntimeError(_ASYNCHRONOUS)
                tokens = torch.tensor(prompt or [], dtype=torch.long, device=self._device)
                self._add_to_batch(index, strategy_request, tokens, len(outputs)).outputs = outputs
        for index, other, direction in batch_update.moved:
            if direction.name != "SWAP":
                self._remove_from_batch(other)
            moved = {other: at.pop(index, None), index: at.pop(other, None)}
            at.update((row, request) for row, request in moved.items() if request is not None)

    def apply(self, logits: Tensor) -> Tensor:
        """Choose tokens for requests with a strategy. Mask all other tokens in `logits` `[B, V]` in place."""
        for line, request in self._at.items():
            request.line = line
            request.step = len(request.outputs)
        return self._choose_next_tokens(logits, list(self._at.values()))

    def _read_prompts_and_texts(self, requests: Sequence[Request]) -> Tensor:
        """Read the prompts and texts of requests from vLLM's lists, `[B, T]`, padded on the left with −1."""
        texts = [[*request.prompt.tolist(), *request.outputs] for request in requests]
        longest = max(map(len, texts))
        return copy_to_device([[-1] * (longest - len(text)) + text for text in texts], self._device)


def make_processor(
    vllm_config: VllmObject, *arguments: VllmObject
) -> ProcessorForRunnerV1 | ProcessorForRunnerV2:
    """Create the processor for the model runner that calls: V2 passes two arguments, V1 passes three."""
    if len(arguments) == 1:
        return ProcessorForRunnerV2(vllm_config, *arguments)
    return ProcessorForRunnerV1(vllm_config, arguments[0])


def __getattr__(name: str) -> object:
    """Create `StrategyProcessor`, a subclass of both interfaces, when vLLM imports it."""
    if name != "StrategyProcessor":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from vllm.v1.sample.logits_processor import LogitsProcessor as InterfaceV1  # noqa: PLC0415
    from vllm.v1.worker.gpu.sample.logits_processor import LogitsProcessor as InterfaceV2  # noqa: PLC0415

    members = {
        "__module__": __name__,
        "__new__": lambda _class, *arguments: make_processor(*arguments),
        # Over HTTP, a refused request gets status 400.
        "validate_params": staticmethod(read_strategy_request),
    }
    return globals().setdefault(name, type(name, (InterfaceV2, InterfaceV1), members))
