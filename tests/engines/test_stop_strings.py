"""A text ends before the first stop string, of whatever tokens and bytes, the same in every loop."""

import random
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_tokenizers import bytes_of
from transformers import ByT5Tokenizer

from guard_eval.engines.custom import generate as custom
from guard_eval.engines.local.batch import Rows
from guard_eval.engines.local.generation import generate, recipe
from guard_eval.engines.local.texts import EncodedPrompt, StopStrings, continuation_text, make_continuation
from guard_eval.engines.vllm import generation as vllm
from guard_eval.errors import StudyError
from guard_eval.records import Prompt
from guard_eval.strategies import parse

pytestmark = pytest.mark.slow

PROMPTS = [Prompt(id=f"p{n}", dataset="set", text="the cat sat" + " on the mat" * n) for n in range(4)]
SETTINGS = {"seed": 1, "max_new_tokens": 40, "max_prompt_tokens": 32}
NAMES = ["greedy", "top_k(k=50)", "guard", "contrastive(k=5, alpha=0.6)", "acs(q=1)"]
BROKEN = "\N{REPLACEMENT CHARACTER}"


def made(loaded, name, batch_size=4, **more):
    batches = generate(loaded, PROMPTS, parse(name), **SETTINGS, batch_size=batch_size, **more)
    return {one.prompt_id: one for batch in batches for one in batch}


def pieces(texts, seed=1):
    """Return strings that occur in some of the texts, of one to five characters."""
    draw, found = random.Random(seed), set()
    while len(found) < 4:
        text = draw.choice(texts)
        start = draw.randrange(max(1, len(text) - 5))
        piece = text[start : start + draw.randint(1, 5)]
        if piece and BROKEN not in piece:
            found.add(piece)
    return sorted(found)


@pytest.mark.parametrize("loaded", ["llama", "gpt2", "stories260k"], indirect=True)
@pytest.mark.parametrize("name", NAMES)
def test_texts_are_those_without_stop_strings_cut_before_them(loaded, name):
    """Tokens are words' parts and single bytes, so the strings begin and end within them."""
    whole = made(loaded, name)
    for size, stop in enumerate(pieces([one.text for one in whole.values()]), start=1):
        for prompt, one in made(loaded, name, size, stop=[stop]).items():
            before, found, _ = whole[prompt].text.partition(stop)
            assert one.text == before
            assert one.finish == ("stop" if found else whole[prompt].finish)
            assert one.new_tokens <= whole[prompt].new_tokens
            assert one.recipe.stop == (stop,)
            assert one.id != whole[prompt].id


@pytest.mark.parametrize("loaded", ["llama"], indirect=True)
def test_rows_leave_when_they_are_done(loaded, monkeypatch):
    steps = []
    write = Rows.write
    monkeypatch.setattr(Rows, "write", lambda *given: steps.append(1) or write(*given))
    whole = made(loaded, "greedy", 1)
    assert len(steps) == sum(one.new_tokens for one in whole.values()) == 160
    stop = sorted({one.text[0] for one in whole.values()} - {BROKEN})
    steps.clear()
    stopped = made(loaded, "greedy", 1, stop=stop)
    assert "" in {one.text for one in stopped.values()}
    assert {one.finish for one in stopped.values() if not one.text} == {"stop"}
    assert len(steps) == sum(one.new_tokens for one in stopped.values()) < 130


@pytest.mark.parametrize("loaded", ["llama"], indirect=True)
def test_a_hypothesis_of_a_beam_ends_at_a_stop_string(loaded):
    """As with an end token its score is then its sum over its length; no text goes on beyond the string."""
    whole = made(loaded, "beam(beams=3)")
    for stop in pieces([one.text for one in whole.values()]):
        for one in made(loaded, "beam(beams=3)", stop=[stop]).values():
            assert stop not in one.text
            assert one.finish in {"stop", "length", "eos"}


BYTES = bytes_of(["der Bär aß süße 🍓 and the cat sat\n\nthen"] * 3, 290)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.integers(0, 289), max_size=30),
    st.lists(st.text("aä🍓\n the", min_size=1, max_size=4), min_size=1, max_size=2),
    st.integers(0, 5),
)
def test_the_shortest_text_with_a_stop_string_is_found(tokens, stops, start):
    """Against reading every beginning of the text from its start."""
    before = "\nthe cat a"
    prompt = BYTES(before)["input_ids"]
    texts = [continuation_text(BYTES, prompt, tokens[:count]) for count in range(len(tokens) + 1)]
    # In the whole text, but not in the prompt alone: the first characters may be the prompt's last.
    has = [
        any((before + text).find(stop, max(0, len(before) + 1 - len(stop))) >= 0 for stop in stops)
        for text in texts
    ]
    expected = next((count for count in range(start + 1, len(texts)) if has[count]), None)
    if start == 0 or not any(has[: start + 1]):
        assert StopStrings(BYTES, stops).find(prompt, tokens, start) == expected


def test_a_character_of_several_tokens_and_special_tokens_between():
    new = BYTES("x🍓")["input_ids"]
    end = BYTES.eos_token_id
    assert len(BYTES("🍓")["input_ids"]) == 1 or len(new) > 2
    assert StopStrings(BYTES, ["🍓"]).find([], new) == len(new)
    parts = BYTES("a\n")["input_ids"] + [end] * 40 + BYTES("\nb")["input_ids"]
    found = StopStrings(BYTES, ["\n\n"]).find([], parts)
    assert found is not None
    assert continuation_text(BYTES, [], parts[:found]).endswith("\n\n")


def test_tokens_that_the_tokenizer_has_not_have_no_text():
    """A model's vocabulary may be longer; between the halves of a stop string such tokens hide it not."""
    spare = [600] * 40
    parts = BYTES("a\n")["input_ids"] + spare + BYTES("\nb")["input_ids"]
    found = StopStrings(BYTES, ["\n\n"]).find([], parts)
    assert continuation_text(BYTES, [], parts[:found]) == "a\n\n"
    in_python = ByT5Tokenizer()  # its own way of decoding fails on them
    assert continuation_text(in_python, in_python("a").input_ids[:1], [*spare, 101]) == "b"


@pytest.mark.parametrize("loaded", ["llama"], indirect=True)
def test_vllm_is_cut_where_the_own_loop_is(loaded, monkeypatch):
    """An engine that hands out what it has, three tokens at a time, and goes on if it is not stopped."""
    whole = made(loaded, "greedy")
    begun = PROMPTS[0].text[-2:] + whole["p0"].text[0]
    stop = [*pieces([one.text for one in whole.values()]), begun]
    rows = [EncodedPrompt(prompt, loaded.tokenizer(prompt.text)["input_ids"]) for prompt in PROMPTS]
    aborted, running = [], {}

    class Engine:
        vllm_config = SimpleNamespace(scheduler_config=SimpleNamespace(max_num_seqs=2))
        renderer = SimpleNamespace(render_cmpl=lambda prompts: prompts)

        def add_request(self, name, prompt, _parameters):
            ids = torch.tensor([prompt["prompt_token_ids"]])
            output = custom(loaded.model, ids, strategy="greedy", max_new_tokens=40)
            running[name] = [output[0, ids.shape[1] :].tolist(), 0]

        def abort_request(self, names):
            aborted.extend(names)
            for name in names:
                del running[name]

        def step(self):
            for name, state in list(running.items()):
                state[1] += 3
                done = state[1] >= len(state[0])
                if done:
                    del running[name]
                yield SimpleNamespace(
                    request_id=name, finished=done, outputs=[SimpleNamespace(token_ids=state[0][: state[1]])]
                )

    monkeypatch.setattr(vllm, "_parameters", lambda *_: None)
    by = recipe(loaded, parse("greedy"), seed=1, max_new_tokens=40, max_prompt_tokens=32, stop=stop)
    batches = vllm.generate(vllm.Served(loaded, Engine()), rows, parse("greedy"), by)
    found = {one.prompt_id: (one.text, one.new_tokens, one.finish) for batch in batches for one in batch}
    expected = made(loaded, "greedy", stop=stop)
    assert found == {name: (one.text, one.new_tokens, one.finish) for name, one in expected.items()}
    assert found["p0"][0] == ""
    assert aborted


@pytest.mark.parametrize("loaded", ["llama"], indirect=True)
def test_generate_ends_with_the_token_that_completes_the_string(loaded):
    ids = torch.tensor([loaded.tokenizer(PROMPTS[1].text)["input_ids"]])
    whole = custom(loaded.model, ids, strategy="guard", max_new_tokens=40)[0, ids.shape[1] :].tolist()
    text = continuation_text(loaded.tokenizer, ids[0].tolist(), whole)
    stop = pieces([text])[0]
    cut = custom(
        loaded.model, ids, strategy="guard", max_new_tokens=40, stop_strings=stop, tokenizer=loaded.tokenizer
    )[0, ids.shape[1] :].tolist()
    assert cut == whole[: len(cut)]
    assert stop in continuation_text(loaded.tokenizer, ids[0].tolist(), cut)
    assert stop not in continuation_text(loaded.tokenizer, ids[0].tolist(), cut[:-1])
    with pytest.raises(StudyError, match="pass tokenizer="):
        custom(loaded.model, ids, stop_strings=stop)
    for strategy in ("guard", "dry(breakers=standard)"):
        with pytest.raises(StudyError, match=r"tokenizer = 'gpt2' is of type str; pass the tokenizer itself"):
            custom(loaded.model, ids, strategy=strategy, stop_strings=stop, tokenizer="gpt2")
    with pytest.raises(StudyError, match="texts of a character or more"):
        custom(loaded.model, ids, stop_strings=[""], tokenizer=loaded.tokenizer)


@pytest.mark.parametrize("loaded", ["llama"], indirect=True)
def test_a_string_that_begins_in_the_prompt_is_found_as_transformers_finds_it(loaded):
    """The reader of prompt and continuation sees it; the answer of a chat is a text by itself."""
    text, ids = PROMPTS[1].text, torch.tensor([loaded.tokenizer(PROMPTS[1].text)["input_ids"]])
    whole = made(loaded, "greedy")["p1"].text
    stop = text[-2:] + whole[0]
    theirs = loaded.model.generate(
        ids, do_sample=False, max_new_tokens=40, stop_strings=[stop], tokenizer=loaded.tokenizer
    )
    ours = custom(
        loaded.model, ids, strategy="greedy", max_new_tokens=40, stop_strings=stop, tokenizer=loaded.tokenizer
    )
    assert ours.tolist() == theirs.tolist()
    for name in ("greedy", "guard", "acs(q=1)"):
        stop = text[-2:] + made(loaded, name)["p1"].text[0]
        one = made(loaded, name, stop=["never", stop])["p1"]
        assert (one.text, one.finish) == ("", "stop")
    new = ours[0, ids.shape[1] :].tolist()
    assert StopStrings(loaded.tokenizer, [text[-2:]]).find(ids[0].tolist(), new) is None
    assert StopStrings(loaded.tokenizer, [stop], chat=True).find(ids[0].tolist(), new) is None


@pytest.mark.parametrize("loaded", ["llama"], indirect=True)
def test_a_trace_ends_with_its_text(loaded):
    traces = []
    stop = pieces([made(loaded, "guard")["p1"].text])
    texts = made(loaded, "guard", stop=stop, on_trace=traces.extend)
    lengths = {one.id: one.new_tokens for one in texts.values()}
    assert {len(series) for one in traces for series in one.values.values()} != {40}
    assert all(len(series) == lengths[one.id] for one in traces for series in one.values.values())


@pytest.mark.parametrize("loaded", ["llama"], indirect=True)
def test_what_comes_after_changes_nothing(loaded):
    """An engine that went on for a while after the string gives the same continuation."""
    row = EncodedPrompt(PROMPTS[0], loaded.tokenizer(PROMPTS[0].text)["input_ids"])
    by = recipe(loaded, parse("greedy"), seed=1, max_new_tokens=40, max_prompt_tokens=32, stop=["cat"])
    new = loaded.tokenizer(" a dog and a cat ran")["input_ids"]
    cut = StopStrings(loaded.tokenizer, ["cat"]).find(row.ids, new)
    long, short = (
        make_continuation(loaded, by, row, each, seconds=1.0, batch=1) for each in (new, new[:cut])
    )
    assert long == short
    assert (long.text, long.finish) == (" a dog and a ", "stop")


@pytest.mark.parametrize("loaded", ["llama"], indirect=True)
def test_an_empty_stop_string_is_refused_and_makes_no_empty_texts(loaded):
    with pytest.raises(StudyError, match=r"stop = \['.', ''\] must be texts"):
        made(loaded, "greedy", stop=[".", ""])
