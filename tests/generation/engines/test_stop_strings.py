"""A text ends before the first stop string, for any tokens and bytes, in every decoding loop."""

import random
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_tokenizers import bytes_of
from transformers import GPT2Config
from written_texts import make_prompts, write, write_planned

from guard_eval.generation.engines.encoding import (
    EncodedPrompt,
    decode_continuation,
    ends_with_stop_string,
    make_continuation,
)
from guard_eval.generation.engines.loading import LoadedModel
from guard_eval.generation.strategies import parse
from guard_eval.records import Prompt
from guard_eval.study.system_settings import GenerationSettings

pytestmark = pytest.mark.slow

PROMPTS = make_prompts(4)
SETTINGS = {"seed": 1, "max_new_tokens": 24, "max_prompt_tokens": 32}
NAMES = ["greedy", "top_k(k=50)", "guard", "contrastive(k=5, alpha=0.6)", "acs(q=1)"]
BROKEN = "\N{REPLACEMENT CHARACTER}"


def write_texts(loaded, name, batch_size=4, **more):
    batches = write(loaded, PROMPTS, name, **SETTINGS, batch_size=batch_size, **more)
    return {text.prompt_id: text for batch in batches for text in batch}


def pieces(texts, seed=1):
    """Return strings of one to five characters that occur in some of the texts."""
    draw, result = random.Random(seed), set()
    while len(result) < 4:
        text = draw.choice(texts)
        start = draw.randrange(max(1, len(text) - 5))
        piece = text[start : start + draw.randint(1, 5)]
        if piece and BROKEN not in piece:
            result.add(piece)
    return sorted(result)


@pytest.mark.parametrize("loaded", ["llama", "stories260k"], indirect=True)
@pytest.mark.parametrize("name", NAMES)
def test_stop_strings_only_shorten_the_text(loaded, name):
    """Tokens are parts of words and single bytes, so the strings begin and end within tokens."""
    whole = write_texts(loaded, name)
    for size, stop in enumerate(pieces([text.text for text in whole.values()]), start=1):
        for prompt, text in write_texts(loaded, name, size, stop=[stop]).items():
            before, result, _ = whole[prompt].text.partition(stop)
            assert text.text == before
            assert text.finish == ("stop" if result else whole[prompt].finish)
            assert text.new_tokens <= whole[prompt].new_tokens
            assert text.recipe.stop == (stop,)
            assert text.id != whole[prompt].id


@pytest.mark.parametrize("loaded", ["llama"], indirect=True)
def test_a_beam_ends_at_a_stop_string(loaded):
    """A beam with a stop string is finished and scored as with an end token."""
    whole = write_texts(loaded, "beam(beams=3)")
    for stop in pieces([text.text for text in whole.values()]):
        for text in write_texts(loaded, "beam(beams=3)", stop=[stop]).values():
            assert stop not in text.text
            assert text.finish in {"stop", "length", "eos"}


BYTES = bytes_of(["der Bär aß süße 🍓 and the cat sat\n\nthen"] * 3, 290)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.integers(0, 289), min_size=1, max_size=30),
    st.lists(st.text("aä🍓\n the", min_size=1, max_size=4), min_size=1, max_size=2),
)
def test_new_tokens_end_at_the_stop_string(tokens, stops):
    """The result equals a search in the text of every number of tokens."""
    loaded = LoadedModel(
        model=SimpleNamespace(generation_config=None, config=GPT2Config(vocab_size=290)),
        tokenizer=BYTES, name="b", revision="sha256:0", dtype="float32", device="cpu", versions="",
    )  # fmt: skip
    prompt = BYTES("\nthe cat a")["input_ids"]
    tokens = [token for token in tokens if token != BYTES.eos_token_id] or [5]
    texts = [decode_continuation(BYTES, prompt, tokens[:count]) for count in range(1, len(tokens) + 1)]
    count = next((n for n, text in enumerate(texts, 1) if any(stop in text for stop in stops)), None)
    row = EncodedPrompt(Prompt(id="p", dataset="d", text="x"), prompt)
    by = loaded.make_recipe(parse("greedy"), GenerationSettings(stop=stops), 1)
    text = make_continuation(loaded, by, row, tokens, seconds=1.0, batch_size=1)
    assert text.new_tokens == (count or len(tokens))
    assert text.finish == ("length" if count is None else "stop")
    assert not any(stop in text.text for stop in stops)
    assert texts[-1].startswith(text.text)


def test_stop_strings_of_several_tokens_are_found():
    stops, end = ["🍓", "\n\n"], BYTES.eos_token_id
    berry = BYTES("x🍓")["input_ids"]
    ends = [ends_with_stop_string(BYTES, berry[:count], stops) for count in range(1, len(berry) + 1)]
    assert ends.index(True) == len(berry) - 1
    apart = [*BYTES("a\n")["input_ids"], end, end, *BYTES("\n")["input_ids"]]
    assert ends_with_stop_string(BYTES, apart, stops)


@pytest.mark.parametrize("loaded", ["llama"], indirect=True)
@pytest.mark.parametrize("name", ["greedy", "guard", "acs(q=1)", "beam(beams=3)"])
def test_a_stop_string_in_the_prompt_ends_no_text(loaded, name):
    """A string that begins in the prompt and ends in the text does not count."""
    whole = write_texts(loaded, name)["p1"]
    stop = PROMPTS[1].text[-2:] + whole.text[0]
    text = write_texts(loaded, name, stop=["never", stop])["p1"]
    assert text.text == whole.text.partition(stop)[0] != ""


@pytest.mark.parametrize("loaded", ["llama"], indirect=True)
def test_trace_has_one_value_per_token_of_its_text(loaded):
    stop = list(pieces([write_texts(loaded, "guard")["p1"].text]))
    planned = [(prompt, 1) for prompt in PROMPTS]
    (batch,) = write_planned(loaded, planned, "guard", **SETTINGS, stop=stop, batch_size=4, trace=True)
    lengths = {text.id: text.new_tokens for text in batch.texts}
    assert [trace["id"] for trace in batch.traces] == list(lengths)
    series = [
        (trace["id"], len(value))
        for trace in batch.traces
        for value in trace.values()
        if isinstance(value, list)
    ]
    assert {length for _, length in series} != {24}
    assert all(length == lengths[name] for name, length in series)
