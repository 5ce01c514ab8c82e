"""GUARD within transformers' `generate`, against the slow oracle fed with the model's own logits."""

import subprocess
import sys

import pytest
import torch
from slow_guard import SLOW
from tiny_models import tiny
from transformers import LogitsProcessorList

from guard_eval.decoding import GuardLogitsProcessor
from guard_eval.errors import StudyError
from guard_eval.strategies import Guard

V, PAD, NEW = 90, 0, 30


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


def one_by_one(model, prompt: list[int], oracle) -> list[int]:
    """Decode with the oracle, every step from the whole text."""
    text = list(prompt)
    with torch.inference_mode():
        for _ in range(NEW):
            logits = model(input_ids=torch.tensor([text])).logits[0, -1]
            text.append(oracle.step(logits.double().tolist()))
    return text[len(prompt) :]


@pytest.mark.parametrize("make", [llama, gpt2])
@pytest.mark.parametrize("formulation", ["equations", "algorithm1", "released"])
@pytest.mark.parametrize("padding", ["pad_token_id", "attention_mask"])
def test_generate_equals_the_oracle_in_batches_of_one_and_left_padded(make, formulation: str, padding: str):
    model = make()
    prompts = [[5, 6, 7, 8, 6], [9, 11], [40, 41, 42]]
    longest = max(map(len, prompts))
    ids = torch.tensor([[PAD] * (longest - len(prompt)) + prompt for prompt in prompts])
    mask = (ids != PAD).long()
    options = {"pad_token_id": PAD} if padding == "pad_token_id" else {"attention_mask": mask}
    together = generate(model, ids, mask, GuardLogitsProcessor(Guard(formulation=formulation), **options))
    for row, prompt in enumerate(prompts):
        expected = one_by_one(model, prompt, SLOW[formulation](prompt=prompt))
        processor = GuardLogitsProcessor(Guard(formulation=formulation))
        alone = generate(model, torch.tensor([prompt]), torch.ones(1, len(prompt)).long(), processor)
        assert alone[0, len(prompt) :].tolist() == expected
        assert together[row, longest:].tolist() == expected


def test_sampling_leaves_the_candidates_with_their_penalised_scores():
    generator = torch.Generator().manual_seed(2)
    processor = GuardLogitsProcessor(Guard(select="sample"))
    oracle = SLOW["equations"]()
    ids = torch.tensor([[4, 5, 6]])
    for _ in range(12):
        logits = torch.randn(1, V, generator=generator) * 3
        left = processor(ids, logits)[0]
        oracle.step(logits[0].double().tolist())
        assert set((left > -torch.inf).nonzero()[:, 0].tolist()) == set(oracle.candidates)
        for token, score in oracle.candidates.items():
            assert left[token].item() == pytest.approx(score, abs=1e-4)
        ids = torch.cat([ids, torch.tensor([[oracle.tokens[-1]]])], 1)


def test_sampling_in_generate():
    ids, mask = torch.tensor([[5, 6], [7, 8]]), torch.ones(2, 2).long()
    processor = GuardLogitsProcessor(Guard(select="sample"))
    torch.manual_seed(0)
    assert generate(llama(), ids, mask, processor, do_sample=True, top_k=0).shape == (2, 2 + NEW)


def test_more_steps_than_there_is_room_for_at_first():
    generator = torch.Generator().manual_seed(2)
    base = torch.randn(V, generator=generator) * 2
    processor, oracle = GuardLogitsProcessor(Guard()), SLOW["equations"]()
    ids = torch.tensor([[4, 5, 6]])
    for _ in range(560):
        logits = base + torch.randn(1, V, generator=generator)
        token = oracle.step(logits[0].double().tolist())
        assert processor(ids, logits).argmax(-1).tolist() == [token]
        ids = torch.cat([ids, torch.tensor([[token]])], 1)


def test_a_call_repeated_gives_the_same_scores():
    processor, ids = GuardLogitsProcessor(Guard()), torch.tensor([[4, 5, 6]])
    logits = torch.randn(1, V, generator=torch.Generator().manual_seed(0))
    assert torch.equal(processor(ids, logits), processor(ids, logits))


@pytest.mark.parametrize("length", [2, 2 + NEW, 50])
def test_a_second_text_without_reset_is_refused(length: int):
    model, processor = llama(), GuardLogitsProcessor(Guard())
    first = generate(model, torch.tensor([[5, 6]]), torch.ones(1, 2).long(), processor)
    ids, mask = torch.full((1, length), 7), torch.ones(1, length).long()
    with pytest.raises(
        StudyError, match=r"make a new processor for each call of generate, or call its reset"
    ):
        generate(model, ids, mask, processor)
    processor.reset()
    again = generate(model, torch.tensor([[5, 6]]), torch.ones(1, 2).long(), processor)
    assert torch.equal(again, first)


@pytest.mark.parametrize("select", ["argmax", "sample"])
@pytest.mark.parametrize("rows", [1, 2])
def test_beams_are_refused(select: str, rows: int):
    ids = torch.tensor([[5, 6, 7], [8, 9, 5]])[:rows]
    processor = GuardLogitsProcessor(Guard(select=select))
    with pytest.raises(StudyError, match="num_beams=1"):
        generate(llama(), ids, torch.ones_like(ids), processor, num_beams=3)


def test_equal_prompts_in_a_batch_are_no_beams():
    ids = torch.tensor([[5, 6, 7], [5, 6, 7]])
    out = generate(llama(), ids, torch.ones_like(ids), GuardLogitsProcessor(Guard()))
    assert torch.equal(out[0], out[1])


def test_a_mask_of_other_prompts_is_refused():
    processor = GuardLogitsProcessor(Guard(formulation="released"), attention_mask=torch.ones(1, 4))
    with pytest.raises(StudyError, match=r"attention_mask has the shape \(1, 4\) and the prompts \(1, 3\)"):
        processor(torch.tensor([[4, 5, 6]]), torch.zeros(1, V))


@pytest.mark.slow
def test_the_package_itself_does_not_import_transformers():
    program = "import sys, guard_eval.decoding.guard.step; sys.exit('transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
