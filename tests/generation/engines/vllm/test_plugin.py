"""Both interfaces equal the slow reference, with runners that change batches as vLLM does."""

import random

import pytest
import torch
from fake_vllm import BatchUpdate, Job, LogitsContext, Model, RunnerV1, RunnerV2, V, config, parameters
from slow_guard import SLOW
from stepping import Follower

from guard_eval.generation.decoding.noise import make_row_key
from guard_eval.generation.engines.vllm.plugin import (
    ProcessorForRunnerV1,
    ProcessorForRunnerV2,
    make_processor,
)
from guard_eval.generation.strategies import parse

CPU = torch.device("cpu")
GUARDS = ["guard", "guard(formulation=algorithm1)", "guard(formulation=released)"]
DRAWN = ["guard(select=sample)", "top_p(p=0.9)", "top_k(k=5)", "temperature(tau=0.8)", "adaptive", "greedy"]
LOOKING_BACK = [
    "mirostat(tau=2, eta=0.5)",
    "dry(multiplier=2, base=1.75, allowed_length=1)",
    "dry(multiplier=2, base=1.75, allowed_length=1)",
    "repetition_penalty(penalty=1.5) + top_p(p=0.9)",
    "no_repeat_ngram(n=2) + mirostat(tau=2, eta=1) + frequency_penalty(penalty=0.5)",
    "every_other + repetition_penalty(penalty=1.5)",
]
OWN = """
from dataclasses import dataclass
from guard_eval.generation.strategies import Penalty, apply_step

@dataclass(frozen=True, kw_only=True)
class EveryOther(Penalty):
    pass

@apply_step.register
def leave_even_tokens_at_even_steps(strategy: EveryOther, logits, context):
    logits[:, 1 - context.step % 2 :: 2] = -float("inf")
    return logits
"""
ROOM = 4


@pytest.fixture(autouse=True)
def _own_strategies(load_own_strategies):
    load_own_strategies(OWN)


def jobs(names):
    numbers = random.Random(1)
    results = []
    for index in range(max(10, 2 * len(names))):  # beside others of the same strategy
        name = str(parse(names[index % len(names)])) if names[index % len(names)] else ""
        extra = {"guard_eval": name, "guard_eval_seed": 3, "guard_eval_prompt_id": f"p{index}"}
        prompt = [numbers.randrange(V) for _ in range(numbers.randint(1, 9))]
        results.append(Job(prompt, parameters(extra if name else None), limit=numbers.randint(1, 30)))
    return results


def alone(job, model):
    """Return the expected text of a request, by the slow reference or by the steps of other engines."""
    extra = job.parameters.extra_args
    if extra is None:
        name, strategy = "", parse("greedy")
    else:
        name, strategy = extra["guard_eval"], parse(extra["guard_eval"])
    text = list(job.prompt)
    if name in GUARDS:
        oracle = SLOW[strategy.formulation](prompt=job.prompt)
        for _ in range(job.limit):
            text.append(oracle.step(model(text).double().tolist()))
    else:
        key = make_row_key(3, extra["guard_eval_prompt_id"], name) if extra else 0
        follower = Follower(strategy, torch.tensor([key]), prompts=torch.tensor([job.prompt]))
        for _ in range(job.limit):
            text.append(int(follower(model(text)[None])))
    return text[len(job.prompt) :]


@pytest.mark.slow
@pytest.mark.parametrize("interface", ["V1", "V2"])
@pytest.mark.parametrize(
    "names",
    [[name] for name in [*GUARDS, *LOOKING_BACK]] + [[*GUARDS, "", *DRAWN, *LOOKING_BACK]],
    ids=" ".join,
)
def test_text_of_a_request_does_not_depend_on_the_batch(names, interface):
    model, all_jobs = Model(), jobs(names)
    if interface == "V1":
        processor = make_processor(config(ROOM), CPU, False)
        assert type(processor) is ProcessorForRunnerV1
        RunnerV1(processor, model, seed=5).run(all_jobs, at_once=ROOM)
    else:
        RunnerV2(lambda states: make_processor(config(ROOM), states), model, seed=6, at_once=ROOM).run(
            all_jobs
        )
    assert [job.written for job in all_jobs] == [alone(job, model) for job in all_jobs]


def test_equal_requests_have_separate_states():
    model = Model()
    all_jobs = [Job([1, 2], parameters({"guard_eval": "guard"}), limit=30) for _ in range(8)]
    RunnerV1(ProcessorForRunnerV1(config(ROOM), CPU), model, seed=2).run(all_jobs, at_once=ROOM, set_back=0.2)
    assert [job.written for job in all_jobs] == [alone(all_jobs[0], model)] * 8


def test_requests_without_a_strategy_keep_their_logits():
    processor = ProcessorForRunnerV1(config(), CPU)
    outputs = []
    added = [(1, parameters({"guard_eval": "guard"}), [1], outputs), (0, parameters(), [2], [])]
    processor.update_state(BatchUpdate(2, [], added, []))
    logits = torch.randn(2, V)
    before = logits.clone()
    after = processor.apply(logits)
    assert torch.equal(after[0], before[0])
    assert (after[1] > -torch.inf).sum() == 1
    processor.update_state(BatchUpdate(1, [1], [], []))
    assert processor.apply(before) is before


def test_restarted_request_without_its_state_is_an_error():
    processor, extra = ProcessorForRunnerV1(config(), CPU), parameters({"guard_eval": "guard"})
    with pytest.raises(RuntimeError, match="was restarted after 3 tokens"):
        processor.update_state(BatchUpdate(1, [], [(0, extra, [1, 2], [5, 6, 7])], []))


def test_speculative_decoding_is_refused_with_a_strategy():
    runner = RunnerV2(
        lambda states: ProcessorForRunnerV2(config(speculative=object()), states), Model(), seed=0, at_once=2
    )
    assert runner.processor.add_request(0, parameters()) is False
    with pytest.raises(RuntimeError, match="speculative"):
        runner.processor.add_request(0, parameters({"guard_eval": "guard"}))


def test_speculative_rows_of_a_request_are_refused():
    runner = RunnerV2(lambda states: ProcessorForRunnerV2(config(), states), Model(), seed=0, at_once=2)
    runner._add(Job([1], parameters({"guard_eval": "guard"}), limit=3))
    runner.processor.apply_staged_writes()
    index = next(iter(runner.at))
    row = torch.tensor([index])
    context = LogitsContext(row, row, row.numpy(), row, row, row, row.numpy() * 0 + 1)
    with pytest.raises(RuntimeError, match="speculative"):
        runner.processor.apply(torch.randn(2, V), context)


def test_runner_v1_refuses_asynchronous_scheduling():
    processor, ours = (
        ProcessorForRunnerV1(config(asynchronous=True), CPU),
        parameters({"guard_eval": "guard"}),
    )
    processor.update_state(BatchUpdate(1, [], [(0, parameters(), [1], [])], []))
    with pytest.raises(RuntimeError, match="--no-async-scheduling"):
        processor.update_state(BatchUpdate(1, [], [(0, ours, [1], [])], []))
