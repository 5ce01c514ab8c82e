"""The fields of continuations, the cut of long prompts, and prompts that are refused."""

import pytest
import torch
from refusals import expect_refusal
from written_texts import make_prompts, write

from guard_eval.generation.engines import decode
from guard_eval.generation.engines.decode import decode_batch
from guard_eval.generation.engines.encoding import decode_continuation, list_end_ids
from guard_eval.generation.engines.loading import load_pretrained
from guard_eval.generation.strategies import parse
from guard_eval.records import Prompt
from guard_eval.study.system_settings import GenerationSettings

pytestmark = pytest.mark.slow

SETTINGS = {"seed": 1, "max_new_tokens": 8, "max_prompt_tokens": 32, "batch_size": 2}
PROMPTS = make_prompts(5)

a_llama = pytest.mark.parametrize("loaded", ["llama"], indirect=True)
a_story = pytest.mark.parametrize("loaded", ["stories260k"], indirect=True)


@a_llama
def test_writer_fills_every_field_of_a_continuation(loaded):
    batches = list(write(loaded, PROMPTS, "top_k(k=5)", **SETTINGS))
    assert [[c.prompt_id for c in batch] for batch in batches] == [["p4", "p3"], ["p2", "p1"], ["p0"]]
    settings = GenerationSettings(max_new_tokens=8, max_prompt_tokens=32)
    made_by = loaded.make_recipe(parse("top_k(k=5)"), settings, 1)
    assert made_by.model == "llama"
    assert made_by.strategy == "top_k(k=5)"
    assert made_by.dtype == "float32"
    for batch in batches:
        for c in batch:
            prompt = PROMPTS[int(c.prompt_id[1])]
            assert c.recipe == made_by
            assert c.id == made_by.make_continuation_id(prompt)
            assert c.dataset == "set"
            assert c.batch == len(batch)
            assert c.prompt_tokens == len(loaded.tokenizer(prompt.text)["input_ids"])
            assert 1 <= c.new_tokens <= 8
            assert c.seconds > 0
            assert c.device == "cpu"
            assert c.versions.startswith(f"torch {torch.__version__}, transformers 5.")


@a_story
def test_static_cache_needs_batches_of_equal_shape(loaded, monkeypatch):
    """Batches have 4, 4 and 2 prompts. The last batch is filled up, and prompts are padded to one length."""
    shapes = []

    def seen(model, batch, strategy, **more):
        shapes.append(tuple(batch.pad_prompts()[0].shape))
        return decode_batch(model, batch, strategy, **more)

    monkeypatch.setattr(decode, "decode_batch", seen)
    limits = {"seed": 1, "max_new_tokens": 6, "max_prompt_tokens": 32}
    prompts = [Prompt(id=f"p{n}", dataset="", text="Once upon a time " * (1 + n % 3)) for n in range(10)]
    texts = {
        static: {
            text.prompt_id: (text.text, text.batch)
            for batch in write(loaded, prompts, "guard", batch_size=4, compile=static, **limits)
            for text in batch
        }
        for static in (False, True)
    }
    assert len(set(shapes[3:])) == 1
    assert texts[True] == texts[False]


@a_llama
def test_a_text_ends_at_the_end_token(loaded, monkeypatch):
    """A token that greedy decoding writes becomes the end token, so the text ends there."""
    new = []
    note = lambda step: new.append(int(step.tokens[0]))  # noqa: E731
    list(write(loaded, PROMPTS[:1], "greedy", on_step=note, **SETTINGS))
    index = next(n for n, token in enumerate(new) if n >= 2 and token not in new[:n])
    monkeypatch.setattr(loaded.model.generation_config, "eos_token_id", [0, new[index]])
    assert list_end_ids(loaded) == sorted({0, new[index]})
    ended = next(write(loaded, PROMPTS[:1], "greedy", **SETTINGS))[0]
    assert (ended.finish, ended.new_tokens) == ("eos", index + 1)
    assert ended.text == loaded.tokenizer.decode(new[: index + 1])


@pytest.mark.parametrize("loaded", ["stories260k", "stories3m", "llama", "gpt2"], indirect=True)
def test_prompt_plus_continuation_is_the_whole_text(loaded):
    """A text is divided at each token, except within a character, into a prompt and a continuation."""
    whole = 'the cat sat on the mat, and Lily said: "naïve café"  twice\nthe end ☕ of it'
    ids = loaded.tokenizer(whole)["input_ids"]
    joined = 0
    for cut in range(1, len(ids)):
        before = loaded.tokenizer.decode(ids[:cut], skip_special_tokens=True)
        if whole.startswith(before):
            assert before + decode_continuation(loaded.tokenizer, ids[:cut], ids[cut:]) == whole
            joined += 1
    assert joined > len(ids) // 2
    start, longer = (loaded.tokenizer(text)["input_ids"] for text in ("the cat", "the cat sat"))
    assert longer[: len(start)] == start
    assert decode_continuation(loaded.tokenizer, start, longer[len(start) :]) == " sat"


@a_llama
def test_prompts_too_long_for_the_model_are_reported(loaded):
    texts = []
    says = r"'p2', 'p3', 'p4': .* reads at most 128 tokens.* is 120; set max_prompt_tokens to 8 or less"
    batches = write(loaded, PROMPTS, "greedy", **{**SETTINGS, "max_new_tokens": 120})
    with expect_refusal(says):
        texts.extend(batches)
    assert {text.prompt_id for batch in texts for text in batch} == {"p0", "p1"}
    with expect_refusal("set max_new_tokens below 128"):
        list(write(loaded, PROMPTS, "greedy", **{**SETTINGS, "max_new_tokens": 500}))
    texts = write(loaded, PROMPTS, "greedy", **{**SETTINGS, "max_new_tokens": 120, "max_prompt_tokens": 8})
    assert next(texts)[0].prompt_tokens == 8


@pytest.mark.parametrize("strategy", ["greedy", "guard", "top_k", "contrastive"])
def test_broken_logits_are_reported_with_prompt_and_step(llama_folder, strategy):
    """One token's embedding is NaN, so logits are NaN as soon as a text contains that token."""
    broken = load_pretrained(str(llama_folder))
    broken.tokenizer.eos_token = broken.model.generation_config.eos_token_id = None
    start = broken.tokenizer("the cat")["input_ids"]
    clean = next(write(broken, PROMPTS[:1], strategy, **SETTINGS))[0]
    assert (list_end_ids(broken), clean.new_tokens, clean.finish) == ([], 8, "length")
    poisoned = next(token for token in broken.tokenizer(" house")["input_ids"] if token not in start)
    with torch.no_grad():
        broken.model.get_input_embeddings().weight[poisoned] = torch.nan
    bad = Prompt(id="bad", dataset="d", text="the cat house")
    with expect_refusal(r"'bad' at step 1;"):
        list(write(broken, [PROMPTS[0], bad], strategy, **SETTINGS))


@a_llama
def test_contrastive_decoding_records_its_amateur(loaded):
    with expect_refusal(r"needs a second, smaller model; name it in model.amateur"):
        next(write(loaded, PROMPTS, "contrastive_decoding", **SETTINGS))
    texts = next(write(loaded, PROMPTS, "contrastive_decoding(beams=2)", amateur=loaded, **SETTINGS))
    assert {(c.recipe.amateur, c.recipe.amateur_revision) for c in texts} == {("llama", loaded.revision)}
    greedy = next(write(loaded, PROMPTS, "greedy", amateur=loaded, **SETTINGS))[0]
    assert (greedy.recipe.amateur, greedy.recipe.amateur_revision) == (None, None)
