"""Strategies within transformers' `generate`, as users' programs call it."""

import re

import pytest
import torch
from refusals import expect_refusal
from slow_guard import SLOW
from tiny_models import tiny
from transformers import LogitsProcessorList

from guard_eval.generation.decoding import StrategyProcessor
from guard_eval.generation.strategies import Guard

V, PAD, NEW = 90, 0, 20


def llama():
    return tiny("llama", vocab_size=V, eos_token_id=None, pad_token_id=PAD, initializer_range=0.6)


def gpt2():
    return tiny("gpt2", vocab_size=V, eos_token_id=None, initializer_range=0.5)


def generate(model, ids, mask, processor, **options):
    with torch.inference_mode():
        return model.generate(
            input_ids=ids,
            attention_mask=mask,
            logits_processor=LogitsProcessorList([processor]),
            pad_token_id=PAD,
            **{"do_sample": False, "max_new_tokens": NEW, **options},
        )


def one_by_one(model, prompt, oracle):
    """Decode with the reference, which reads the whole text at every step."""
    text = list(prompt)
    with torch.inference_mode():
        for _ in range(NEW):
            logits = model(input_ids=torch.tensor([text])).logits[0, -1]
            text.append(oracle.step(logits.double().tolist()))
    return text[len(prompt) :]


@pytest.mark.parametrize("make", [llama, gpt2])
@pytest.mark.parametrize("formulation", ["equations", "algorithm1", "released"])
def test_generate_equals_the_reference_with_padding(make, formulation):
    model = make()
    prompts = [[5, 6, 7, 8, 6], [9, 11], [40, 41, 42]]
    longest = max(map(len, prompts))
    ids = torch.tensor([[PAD] * (longest - len(prompt)) + prompt for prompt in prompts])
    mask = (ids != PAD).long()
    processor = StrategyProcessor(Guard(formulation=formulation), attention_mask=mask)
    together = generate(model, ids, mask, processor)
    for row, prompt in enumerate(prompts):
        expected = one_by_one(model, prompt, SLOW[formulation](prompt=prompt))
        processor = StrategyProcessor(Guard(formulation=formulation))
        alone = generate(model, torch.tensor([prompt]), torch.ones(1, len(prompt)).long(), processor)
        assert alone[0, len(prompt) :].tolist() == expected
        assert together[row, longest:].tolist() == expected


@pytest.mark.parametrize("name", ["top_p(p=0.9)", "dry + min_p", "mirostat", "guard(select=sample)"])
def test_draws_depend_only_on_prompt_and_seed(name):
    ids = torch.tensor([[PAD, PAD, 7, 8], [5, 6, 9, 4], [5, 6, 9, 4]])
    model, mask = llama(), (ids != PAD).long()
    together = generate(model, ids, mask, StrategyProcessor(name, seed=3, attention_mask=mask))[:, 4:]
    alone = generate(model, ids[:1, 2:], mask[:1, 2:], StrategyProcessor(name, seed=3))[:, 2:]
    assert torch.equal(alone, together[:1])
    assert not torch.equal(together[1], together[2])  # the second row is another run of the prompt
    named = StrategyProcessor(name, seed=3, attention_mask=mask, prompt_ids=["a", "b", "c"])
    assert not torch.equal(generate(model, ids, mask, named)[:, 4:], together)
    other = StrategyProcessor(name, seed=4, attention_mask=mask)
    assert not torch.equal(generate(model, ids, mask, other)[:, 4:], together)


@pytest.mark.parametrize("length", [2, 2 + NEW, 50])
def test_processor_refuses_a_second_call_of_generate(length):
    model, processor = llama(), StrategyProcessor("guard")
    generate(model, torch.tensor([[5, 6]]), torch.ones(1, 2).long(), processor)
    ids, mask = torch.full((1, length), 7), torch.ones(1, length).long()
    with expect_refusal(r"make a new StrategyProcessor for each call"):
        generate(model, ids, mask, processor)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: StrategyProcessor("contrastive"), "needs more than the model's logits"),
        (lambda: StrategyProcessor("beam"), "needs more than the model's logits"),
        (lambda: StrategyProcessor(None), "None is not a strategy; write Guard() or 'guard'"),
        (lambda: StrategyProcessor("top_p", seed=1.5), "seed = 1.5 must be a whole number"),
        (lambda: StrategyProcessor("top_p", attention_mask=[[1]]), "attention_mask is of type list; give"),
        (
            lambda: StrategyProcessor("top_p", prompt_ids="ab"),
            "prompt_ids = 'ab' is a single id; give a list",
        ),
        (
            lambda: call(StrategyProcessor("guard", attention_mask=torch.ones(1, 4))),
            "attention_mask, and use num_beams=1: (1, 4) is not (1, 3)",
        ),
        (lambda: call(StrategyProcessor("top_p", prompt_ids=["a", "b"])), "2 ids for 1 prompts"),
        (lambda: call(StrategyProcessor("guard"), torch.nan), "row 1 of the batch has no probabilities"),
    ],
)
def test_processor_names_unsupported_strategies(make, says):
    with expect_refusal(re.escape(says)):
        make()


def call(processor, logit=0.0):
    return processor(torch.tensor([[4, 5, 6]]), torch.full((1, V), logit))
