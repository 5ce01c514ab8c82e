"""Prompts of chat models are written into the chat template, which is never cut."""

import json
import random
import resource
from dataclasses import replace

import pytest
from refusals import expect_refusal
from written_texts import write

from guard_eval.generation.engines import encoding
from guard_eval.generation.engines.encoding import encode_prompts
from guard_eval.generation.engines.loading import load_pretrained
from guard_eval.records import Prompt

TEMPLATE = (
    "{% for m in messages %}<|endoftext|>{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)
PROMPT = Prompt(id="p", dataset="d", text="the cat sat on the mat and the dog ran")


@pytest.fixture
def chat(llama_folder):
    loaded = load_pretrained(str(llama_folder), name="talker")
    loaded.tokenizer.chat_template = TEMPLATE
    return loaded


def read_by_model(loaded, prompt, limit):
    return loaded.tokenizer.decode(encode_prompts(loaded, [prompt], limit, chat=True)[0].ids)


def test_chat_sends_the_prompt_as_the_users_message(chat):
    assert read_by_model(chat, PROMPT, 64) == f"<|endoftext|>user: {PROMPT.text}\nassistant:"


def test_long_chat_prompt_is_cut_without_its_template(chat):
    tokens = chat.tokenizer(PROMPT.text, add_special_tokens=False)["input_ids"]
    for limit in range(1, len(tokens) + 2):
        end = chat.tokenizer.decode(tokens[-limit:])
        assert read_by_model(chat, PROMPT, limit) == f"<|endoftext|>user: {end}\nassistant:"


def test_text_cut_within_a_character_keeps_the_character(chat):
    """A byte-level tokenizer has three tokens for ☕, one for each byte."""
    cup = Prompt(id="c", dataset="d", text="the ☕")
    assert len(chat.tokenizer("☕")["input_ids"]) == 3
    assert read_by_model(chat, cup, 1) == "<|endoftext|>user: ☕\nassistant:"


def test_chat_reads_control_tokens_in_a_prompt_as_text(chat):
    end = chat.tokenizer.eos_token_id
    ids = encode_prompts(chat, [Prompt(id="x", dataset="d", text="the <|endoftext|> cat")], 64, chat=True)[
        0
    ].ids
    assert ids[0] == end
    assert end not in ids[1:]


def test_chat_setting_changes_the_recipe_and_the_text(chat):
    settings = {"seed": 1, "max_new_tokens": 8, "max_prompt_tokens": 32, "batch_size": 1}
    plain, talked = (next(write(chat, [PROMPT], "greedy", **settings, chat=c))[0] for c in (False, True))
    assert (plain.recipe.chat, talked.recipe.chat) == (False, True)
    assert plain.id != talked.id
    assert talked.prompt_tokens > plain.prompt_tokens


def test_chat_template_ignores_date_and_randomness(chat):
    chat.tokenizer.chat_template = (
        "{{ strftime_now('%d %b %Y') }} {{ range(999) | random }} {{ messages[0].content }}"
    )
    first = read_by_model(chat, PROMPT, 64)
    random.seed(5)
    assert read_by_model(chat, PROMPT, 64) == first
    assert random.random() == random.Random(5).random()
    assert first.startswith("01 Jan 2025 ")


def test_chat_template_may_refuse_texts_that_are_longer_than_all_prompts(chat):
    limit = "{% if messages[0].content | length > " + str(len(PROMPT.text)) + " %}"
    chat.tokenizer.chat_template = limit + "{{ raise_exception('long') }}{% endif %}{{ messages[0].content }}"
    assert encode_prompts(chat, [PROMPT], 8, chat=True)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{% for part in messages[0].content %}{{ part.text }}{% endfor %}assistant:", PROMPT.text),
        ("You are a helpful assistant. User asks:", "helpful"),
    ],
)
def test_chat_template_without_the_prompt_is_refused(chat, template, text):
    chat.tokenizer.chat_template = template
    with expect_refusal("template of 'talker' leaves the prompt out; set"):
        encode_prompts(chat, [replace(PROMPT, text=text)], 64, chat=True)


@pytest.mark.parametrize("change", ["upper", "tojson", "replace('<think>', '')"])
def test_chat_template_may_change_the_prompt(chat, change):
    chat.tokenizer.chat_template = f"{{{{ messages[0].content | {change} }}}}"
    assert encode_prompts(chat, [replace(PROMPT, text='<think>"cat')], 64, chat=True)


@pytest.mark.parametrize("name", ["return_tensors", "padding", "add_generation_prompt", "tokenize"])
def test_options_of_transformers_are_not_template_settings(chat, name):
    chat.tokenizer.chat_template = f"{{# {name} #}}{TEMPLATE}"
    with expect_refusal(f"template of 'talker' does not use '{name}'; remove {name}"):
        encode_prompts(chat, [PROMPT], 64, chat=True, chat_template=json.dumps({name: "max_length"}))


def test_chat_with_a_model_without_template_is_refused(llama_folder):
    with expect_refusal(r"the model 'plain' has none; leave chat out"):
        encode_prompts(load_pretrained(str(llama_folder), name="plain"), [PROMPT], 8, chat=True)


def test_prompt_refused_by_a_chat_template_is_reported(chat):
    chat.tokenizer.chat_template = "{{ raise_exception('only pictures here') }}"
    other = replace(PROMPT, id="q")
    with expect_refusal(r"the prompts 'p', 'q': refused by .*: only pictures here; set gen"):
        encode_prompts(chat, [PROMPT, other], 8, chat=True)


def test_all_empty_prompts_are_reported(llama_folder):
    loaded = load_pretrained(str(llama_folder), name="plain")
    prompts = [replace(PROMPT, id=f"p{n}", text="" if n % 2 else "the cat") for n in range(50)]
    with expect_refusal(r"the prompts 'p1', 'p3', .*, 'p39' and 5 more: empty, and the model"):
        encode_prompts(loaded, prompts, 8)
    with expect_refusal("the prompt 'p1': empty"):
        encode_prompts(loaded, prompts[:3], 8)


@pytest.mark.timeout(60)
def test_endless_chat_template_is_stopped(chat, monkeypatch):
    monkeypatch.setattr(encoding, "_TEMPLATE_SECONDS", 0.2)
    loop, end = "{% for n in range(100000) %}", "{% endfor %}"
    chat.tokenizer.chat_template = loop * 5 + end * 5
    with expect_refusal(r"'p': the chat template of 'talker' takes too long; set generation.chat"):
        encode_prompts(chat, [PROMPT] * 1000, 8, chat=True)
    monkeypatch.setattr(encoding, "_TEMPLATE_SECONDS", 100)
    chat.tokenizer.chat_template = "{{ messages[0].content }}"
    assert encode_prompts(chat, [PROMPT], 8, chat=True)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "text", ["'a' * 10 ** 12", "'a' * 10 ** 7", "'a'.center(10 ** 10)", "'a' * 3 * 2 ** 29"]
)
def test_chat_template_that_multiplies_text_is_stopped(chat, monkeypatch, text):
    limit = resource.getrlimit(resource.RLIMIT_AS)
    own_template = chat.tokenizer.chat_template
    chat.tokenizer.chat_template = f"{{{{ {text} }}}}"
    with expect_refusal("'p': the chat template of 'talker' writes too much text; set gen"):
        encode_prompts(chat, [PROMPT] * 1000, 8, chat=True)
    assert resource.getrlimit(resource.RLIMIT_AS) == limit
    chat.tokenizer.chat_template = own_template
    monkeypatch.setattr(encoding, "_TEMPLATE_CHARACTERS", 1000)
    assert encode_prompts(chat, [replace(PROMPT, text="the cat " * 500)], 10_000, chat=True)


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("{{ 'a' + 1 }}", "TypeError: can only concatenate str"),
        ("{{ 1 / 0 }}", "ZeroDivisionError: division by zero; set generation.chat = false"),
        ("{% for n in range(10 ** 9) %}{% endfor %}", "OverflowError"),
        ("{{ '' }}", "the model's chat template returns no tokens; set generation.chat = false"),
    ],
)
def test_exception_in_a_chat_template_is_reported(chat, template, says):
    chat.tokenizer.chat_template = template
    with expect_refusal(f"the prompt 'p': .*{says}"):
        encode_prompts(chat, [PROMPT], 8, chat=True)
