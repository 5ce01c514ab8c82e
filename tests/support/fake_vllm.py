"""Stand-ins for the two interfaces of vLLM 0.32 and 0.33 for logits processors, with runners.

The classes have the same fields as vLLM's classes (`tests/generation/engines/vllm/test_real_vllm.py` compares
them if vLLM is installed). The runners change a batch as vLLM's runners do: requests start, end, are
preempted, resume, and change places. Their "model" is a table.
"""

import random
from dataclasses import dataclass, field
from enum import Enum, auto
from types import SimpleNamespace

import numpy as np
import torch
from torch import Tensor

V = 40


class MoveDirectionality(Enum):
    UNIDIRECTIONAL = auto()
    SWAP = auto()


@dataclass(frozen=True)
class BatchUpdate:
    batch_size: int
    removed: list
    added: list
    moved: list


@dataclass(frozen=True)
class LogitsContext:
    expanded_idx_mapping: Tensor
    idx_mapping: Tensor
    idx_mapping_np: np.ndarray
    expanded_local_pos: Tensor
    input_ids: Tensor
    pos: Tensor
    seq_lens_upper_bound_np: np.ndarray


@dataclass(frozen=True)
class LogitsProcRequestState:
    device: torch.device
    max_num_reqs: int
    vocab_size: int
    all_token_ids: SimpleNamespace
    prompt_len: SimpleNamespace
    prefill_len: SimpleNamespace
    total_len: SimpleNamespace


def parameters(extra_args=None, **changes):
    """Return the fields of `SamplingParams` that a processor reads, with vLLM's defaults."""
    neutral = {"presence_penalty": 0.0, "frequency_penalty": 0.0, "repetition_penalty": 1.0}
    return SimpleNamespace(extra_args=extra_args, **{**neutral, "thinking_token_budget": None, **changes})


def config(running=4, speculative=None, *, asynchronous=False):
    return SimpleNamespace(
        scheduler_config=SimpleNamespace(max_num_seqs=running, async_scheduling=asynchronous),
        model_config=SimpleNamespace(max_model_len=600),
        speculative_config=speculative,
    )


class Model:
    """A model that computes logits from a text's last two tokens and its length."""

    def __init__(self, seed=0):
        random_numbers = torch.Generator().manual_seed(seed)
        self.tables = torch.randn(3, V, V, generator=random_numbers) * 1.5

    def __call__(self, text):
        before = text[-2] if len(text) > 1 else 0
        return self.tables[0, text[-1]] + self.tables[1, before] + self.tables[2, len(text) % V]


@dataclass(eq=False)
class Job:
    """A request with its prompt, its parameters and its written tokens."""

    prompt: list[int]
    parameters: SimpleNamespace
    limit: int
    written: list[int] = field(default_factory=list)
    seen: list[int] = field(default_factory=list)  # the tokens that the processor sees

    @property
    def done(self):
        return len(self.written) >= self.limit


class RunnerV1:
    """The older runner. Its batch is a list, and it reports each change of the list."""

    def __init__(self, processor, model, *, seed):
        self.processor, self.model = processor, model
        self.batch = []
        self.random = random.Random(seed)

    def run(self, jobs, *, at_once, set_back=0.1):
        waiting = list(jobs)
        while waiting or self.batch:
            leaving = [index for index, job in enumerate(self.batch) if job.done]
            for index, job in enumerate(self.batch):
                if index not in leaving and job.written and self.random.random() < set_back:
                    leaving.append(index)
                    waiting.insert(0, job)
            room = at_once - len(self.batch) + len(leaving)
            coming = [waiting.pop(0) for _ in range(min(room, len(waiting), self.random.randint(0, 3)))]
            self._change(sorted(leaving), coming)
            if self.batch:
                self._step()

    def _change(self, removed, coming):
        added, moved, changed = [], [], bool(removed or coming)
        for job in coming:
            job.seen = list(job.written)  # a resumed request gets its written tokens in a new list
            index = removed.pop(0) if removed else len(self.batch)
            self.batch[index : index + 1] = [job]
            added.append((index, job.parameters, job.prompt, job.seen))
        last = len(self.batch) - 1
        while removed:
            while last in removed:
                last -= 1
            if removed[0] >= last:
                break
            empty = removed.pop(0)  # a place that is filled again is not reported as removed
            self.batch[empty] = self.batch[last]
            moved.append((last, empty, MoveDirectionality.UNIDIRECTIONAL))
            last -= 1
        del self.batch[last + 1 :]
        if len(self.batch) > 1 and self.random.random() < 0.3:
            first, other = self.random.sample(range(len(self.batch)), 2)
            self.batch[first], self.batch[other] = self.batch[other], self.batch[first]
            moved.append((first, other, MoveDirectionality.SWAP))
            changed = True
        self.processor.update_state(BatchUpdate(len(self.batch), removed, added, moved) if changed else None)

    def _step(self):
        partial = {job for job in self.batch if self.random.random() < 0.1}  # its prompt is not all read yet
        logits = torch.stack(
            [torch.randn(V) if job in partial else self.model(job.prompt + job.written) for job in self.batch]
        )
        tokens = self.processor.apply(logits).argmax(-1).tolist()
        for job, token in zip(self.batch, tokens, strict=True):
            if job not in partial:
                job.written.append(token)
                job.seen.append(token)


class RunnerV2:
    """The present runner. Every request has a fixed place, and each step names the places of its rows."""

    def __init__(self, processor_of, model, *, seed, at_once):
        cpu = torch.device("cpu")
        self.tokens = torch.zeros(at_once, 200, dtype=torch.int32)
        self.staged = []
        lengths = [SimpleNamespace(np=np.zeros(at_once, dtype=np.int32)) for _ in range(2)]
        self.prompt_len, self.prefill_len = lengths
        self.states = LogitsProcRequestState(
            device=cpu,
            max_num_reqs=at_once,
            vocab_size=V,
            all_token_ids=SimpleNamespace(gpu=self.tokens),
            prompt_len=self.prompt_len,
            prefill_len=self.prefill_len,
            total_len=SimpleNamespace(gpu=torch.zeros(at_once, dtype=torch.int32)),
        )
        self.processor, self.model = processor_of(self.states), model
        self.free = list(range(at_once))
        self.at = {}
        self.random = random.Random(seed)

    def run(self, jobs, *, set_back=0.1):
        waiting = list(jobs)
        while waiting or self.at:
            for index, job in list(self.at.items()):
                back = bool(job.written) and self.random.random() < set_back
                if job.done or back:
                    del self.at[index]
                    self.free.append(index)
                    if not job.done:
                        waiting.insert(0, job)
            for _ in range(min(len(self.free), len(waiting), self.random.randint(0, 3))):
                self._add(waiting.pop(0))
            for index, tokens in self.staged:
                self.tokens[index, : len(tokens)] = torch.tensor(tokens, dtype=torch.int32)
            self.staged.clear()
            self.processor.apply_staged_writes()
            self._step()

    def _add(self, job):
        index = self.free.pop()
        self.prompt_len.np[index] = len(job.prompt)
        self.prefill_len.np[index] = len(job.prompt) + len(job.written)
        self.staged.append((index, job.prompt + job.written))
        self.at[index] = job
        self.processor.add_request(index, job.parameters)

    def _step(self):
        places = [index for index in self.at if self.random.random() < 0.9]
        if not places:
            return
        self.random.shuffle(places)
        rows, lengths = [], []
        for index in places:
            job = self.at[index]
            text = job.prompt + job.written
            # A prompt that is not completely read also has a row, but the row's token is discarded.
            unread = len(text) == self.prefill_len.np[index] and len(text) > 1 and self.random.random() < 0.3
            rows.append(torch.randn(V) if unread else self.model(text))
            lengths.append(len(text) - 1 if unread else len(text))
        mapping = torch.tensor(places)
        context = LogitsContext(
            expanded_idx_mapping=mapping,
            idx_mapping=mapping,
            idx_mapping_np=np.array(places),
            expanded_local_pos=torch.zeros_like(mapping),
            input_ids=torch.zeros_like(mapping),
            pos=torch.tensor(lengths) - 1,
            seq_lens_upper_bound_np=np.array(lengths),
        )
        chosen = self.processor.apply(torch.stack(rows), context).argmax(-1).tolist()
        for index, token, length in zip(places, chosen, lengths, strict=True):
            job = self.at[index]
            if length == len(job.prompt) + len(job.written):
                self.tokens[index, length] = token
                job.written.append(token)
