"""Tokenizers that add tokens to prompts, have unused tokens or unusual settings work as well."""

import json
import re
import shutil
from dataclasses import replace

import pytest
import torch
from refusals import expect_refusal
from tokenizers import Tokenizer, processors
from tokenizers.models import WordLevel, WordPiece
from tokenizers.pre_tokenizers import Whitespace
from transformers import (
    BertTokenizer,
    ByT5Tokenizer,
    CanineTokenizer,
    PerceiverTokenizer,
    PreTrainedTokenizerFast,
    T5Tokenizer,
)
from written_texts import collect_notices, write

from guard_eval.generation.engines.encoding import (
    encode_prompts,
    list_control_tokens,
    list_end_ids,
    list_ids_without_text,
    list_stop_ids,
)
from guard_eval.generation.engines.loading import load_pretrained
from guard_eval.records import Prompt

pytestmark = pytest.mark.slow

PROMPTS = [Prompt(id="p", dataset="set", text="the cat sat")]
LIMITS = {"seed": 1, "max_new_tokens": 12, "max_prompt_tokens": 32, "batch_size": 2}
BROKEN = "\N{REPLACEMENT CHARACTER}"


@pytest.fixture
def folder(llama_folder, tmp_path):
    return shutil.copytree(llama_folder, tmp_path / "model")


def write_texts(loaded, strategy="greedy", prompts=PROMPTS, **options):
    batches = write(loaded, prompts, strategy, **{**LIMITS, **options})
    return [text for batch in batches for text in batch]


def test_begin_token_stays_and_end_token_is_removed(folder):
    """The tokenizer adds a token before and after each prompt. Only the token before the prompt is kept."""
    loaded = load_pretrained(str(folder))
    plain = encode_prompts(loaded, PROMPTS, 32)[0].ids
    tokenizer = loaded.tokenizer
    tokenizer.add_special_tokens({"cls_token": "<first>", "sep_token": "<last>"})
    first, last = tokenizer.convert_tokens_to_ids(["<first>", "<last>"])
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<first> $A <last>", special_tokens=[("<first>", first), ("<last>", last)]
    )
    assert encode_prompts(loaded, PROMPTS, 32)[0].ids == [first, *plain]
    assert encode_prompts(loaded, PROMPTS, 3)[0].ids == [first, *plain[-2:]]
    assert encode_prompts(loaded, [Prompt(id="e", dataset="d", text="")], 3)[0].ids == [first]


def test_a_tokenizer_needs_no_latin_letters(folder):
    """A word-level tokenizer of bases, as for DNA."""
    bases = Tokenizer(WordLevel({"<eos>": 0, "ACG": 1, "GGT": 2, "T": 3}, unk_token="T"))
    bases.pre_tokenizer = Whitespace()
    for path in folder.glob("tokenizer*"):
        path.unlink()
    PreTrainedTokenizerFast(tokenizer_object=bases, eos_token="<eos>").save_pretrained(folder)
    (text,) = write_texts(load_pretrained(str(folder)), prompts=[Prompt(id="p", dataset="d", text="ACG GGT")])
    assert set(text.text.split()) <= {"ACG", "GGT", "T"}


def test_prompts_that_a_tokenizer_cannot_encode_are_named(folder):
    """BERT's tokenizer without a token for unknown words knows only letters of the model's vocabulary."""
    loaded = load_pretrained(str(folder))
    loaded.tokenizer.backend_tokenizer.model = WordPiece({"a": 0}, unk_token="<none>")
    prompts = [*PROMPTS, Prompt(id="q", dataset="set", text="a")]
    with expect_refusal(r"the prompt 'p': refused by the model's tokenizer: .*; remove the"):
        encode_prompts(loaded, prompts, 8)


def test_tokenizer_may_have_unused_extra_tokens(folder):
    """The tokenizer gets more tokens than the model's 320, as in fine-tuned models with a padding token."""
    tokenizer = load_pretrained(str(folder)).tokenizer
    tokenizer.add_tokens([f"<extra{number}>" for number in range(40)])
    tokenizer.save_pretrained(folder)
    enlarged = load_pretrained(str(folder))
    assert len(enlarged.tokenizer) > 320
    assert write_texts(enlarged)
    spelled = Prompt(id="bad", dataset="d", text="the <extra39>")
    with expect_refusal(r"'bad': has '<extra39>', which is token 327 .* 320 tok"):
        write_texts(enlarged, prompts=[spelled])


@pytest.mark.parametrize(
    "name", ["temperature(tau=5)", "contrastive(k=30, alpha=0.6)", "beam(beams=3)", "greedy"]
)
def test_tokens_without_text_are_never_written(folder, name):
    """The model has 320 tokens and its tokenizer 288. The last rows of the model become likely."""
    loaded = load_pretrained(str(folder))
    size = len(loaded.tokenizer)
    loaded.model.get_output_embeddings().weight.data[size:] *= 9
    steps = []
    options = {} if name.startswith("beam") else {"on_step": steps.append}
    (text,) = write_texts(loaded, name, **options)
    assert text.new_tokens == 12 or text.finish == "eos"
    assert all(int(step.tokens.max()) < size for step in steps)
    assert len(loaded.tokenizer(text.text)["input_ids"]) > 0


def test_an_incomplete_character_is_left_out(folder):
    """The text of n tokens is the beginning of the text of more tokens, wherever a character is cut."""
    loaded = load_pretrained(str(folder))
    whole = write_texts(loaded, "temperature(tau=3)", max_new_tokens=30)[0].text
    for limit in range(1, 30):
        text = write_texts(loaded, "temperature(tau=3)", max_new_tokens=limit)[0].text
        assert not text.endswith(BROKEN)
        assert whole.startswith(text)


def test_a_stop_string_that_is_a_control_token_ends_the_text(folder):
    loaded = load_pretrained(str(folder))
    tokens = []
    write_texts(loaded, on_step=lambda step: tokens.append(int(step.tokens[0])))
    token = loaded.tokenizer.convert_ids_to_tokens(tokens[5])
    loaded.tokenizer.add_special_tokens({"additional_special_tokens": [token]})
    assert list_control_tokens(loaded.tokenizer)[token] == tokens[5]
    (text,) = write_texts(loaded, stop=[token])
    assert (text.finish, text.new_tokens) == ("stop", tokens.index(tokens[5]) + 1)
    with expect_refusal(r"can never match, because the control token"):
        write_texts(loaded, stop=[f"{token}\n"])


@pytest.mark.parametrize(("value", "ends"), [(-1, [0]), ([7, -1], [0, 7]), (10_000, [0]), (None, [0])])
def test_an_end_token_unknown_to_the_model_is_ignored(folder, value, ends):
    loaded = load_pretrained(str(folder))
    loaded.model.generation_config.eos_token_id = value
    assert list_end_ids(loaded) == ends
    assert write_texts(loaded)


@pytest.mark.parametrize("value", ["</s>", "2", "", 2.0, True, [[2]], [True], {"a": 1}], ids=repr)
def test_an_end_token_must_be_a_number(folder, value):
    loaded = load_pretrained(str(folder))
    loaded.model.generation_config.eos_token_id = value
    number = re.escape(repr(value[0] if isinstance(value, list) else value))
    with expect_refusal(rf"eos_token_id = {number} in its generation_config.json is not a token"):
        write_texts(loaded)


def test_end_token_unknown_to_the_tokenizer_ends_a_text(folder):
    """The model has 320 tokens and its tokenizer 288. A likely end token is unknown to the tokenizer."""
    loaded = load_pretrained(str(folder))
    loaded.model.generation_config.eos_token_id = 310
    assert 310 not in list_ids_without_text(loaded)
    assert 311 in list_ids_without_text(loaded)
    with torch.no_grad():
        loaded.model.get_output_embeddings().weight[310] *= 9
    (text,) = write_texts(loaded, "temperature(tau=3)", max_new_tokens=80)
    assert text.finish == "eos"


def byte_tokens(kind):
    """Return a tokenizer of bytes, which adds an end token, or a start token and an end token."""
    return {"byt5": ByT5Tokenizer, "canine": CanineTokenizer, "perceiver": PerceiverTokenizer}[kind]()


def sentence_pieces():
    pieces = ["<pad>", "</s>", "<unk>", "▁", "▁the", "▁cat", "▁sat", "▁a", "a"]
    return T5Tokenizer(vocab=[(piece, -1.0) for piece in pieces])


def words():
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "a"]
    return BertTokenizer(vocab={name: number for number, name in enumerate(names)})


@pytest.mark.parametrize(
    ("tokenizer", "before", "after"),
    [
        (byte_tokens("byt5"), 0, 1),
        (byte_tokens("canine"), 1, 1),
        (byte_tokens("perceiver"), 1, 1),
        (sentence_pieces(), 0, 1),
        (words(), 1, 1),
    ],
    ids=["byt5", "canine", "perceiver", "t5", "bert"],
)
def test_only_automatic_tokens_before_a_prompt_are_kept(folder, tokenizer, before, after):
    """Tokens before a prompt stay, and tokens after it are removed."""
    loaded = replace(load_pretrained(str(folder)), tokenizer=tokenizer)
    loaded.model.config.vocab_size = 60_000
    whole = tokenizer("the cat sat")["input_ids"]
    text = tokenizer("the cat sat", add_special_tokens=False)["input_ids"]
    assert whole == whole[:before] + text + whole[len(whole) - after :]
    assert encode_prompts(loaded, PROMPTS, 32)[0].ids == whole[: len(whole) - after]


def test_control_token_in_a_prompt_is_reported(folder):
    prompts = [*PROMPTS, Prompt(id="odd", dataset="d", text="the <|endoftext|> cat")]
    with collect_notices() as notices:
        write_texts(load_pretrained(str(folder)), prompts=prompts)
    assert notices == ["the prompt 'odd': the model reads <|endoftext|> as a control token, not as text"]


TEMPLATE = (
    "{{ messages[0].content }}:{% if enable_thinking is defined and enable_thinking is false %} no{% endif %}"
)


def test_chat_template_gets_its_settings(folder):
    loaded = load_pretrained(str(folder))
    loaded.tokenizer.chat_template = TEMPLATE

    def ids(settings):
        return encode_prompts(loaded, PROMPTS, 32, chat=True, chat_template=json.dumps(settings))[0].ids

    assert loaded.tokenizer.decode(ids({})) == "the cat sat:"
    assert loaded.tokenizer.decode(ids({"enable_thinking": False})) == "the cat sat: no"
    for name in ("enable_thnking", "chat_template", "tokenize"):
        with expect_refusal(rf"the template of .* does not use '{name}'"):
            ids({name: False})
    (text,) = write_texts(loaded, chat=True, chat_template={"enable_thinking": False})
    assert text.recipe.chat_template == '{"enable_thinking": false}'
    assert text.id != write_texts(loaded, chat=True)[0].id


@pytest.mark.parametrize("kind", ["byt5", "perceiver", "canine"])
def test_control_tokens_of_python_tokenizers_are_found(kind):
    """ByT5 ends a text with a token that is not among its added tokens."""
    tokenizer = byte_tokens(kind)
    assert set(tokenizer.all_special_tokens) <= set(list_control_tokens(tokenizer))
    assert list_stop_ids(tokenizer, [tokenizer.eos_token]) == [tokenizer.eos_token_id]
