"""Tokens as the model's own tokenizer and chat template have them, counted by hand: a token a word."""

import json

import pytest

from guard_eval.store import Showing
from guard_eval.study.settings import Judge
from judge.pricing import tokens
from judge.pricing.estimate import estimate
from judge.pricing.tokens import counter
from judge.prompts.prompt import prompt_of

tokenizers = pytest.importorskip("tokenizers")

TEMPLATE = (
    "{{ bos_token }}{% for message in messages %} [{{ message.role }}] {{ message['content'] }}{% endfor %}"
    "{% if add_generation_prompt %} [assistant]{% endif %}"
)


@pytest.fixture
def model(tmp_path):
    """Write a tokenizer of words, which adds marks of its own and cuts texts by default."""

    def write(folder="model", *, template=TEMPLATE, in_file=False):
        made = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[UNK]": 0, "<s>": 1}, unk_token="[UNK]"))
        made.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
        made.post_processor = tokenizers.processors.TemplateProcessing(
            single="<s> $A", special_tokens=[("<s>", 1)]
        )
        made.enable_truncation(5)
        made.enable_padding(length=8)
        place = tmp_path / folder
        place.mkdir(parents=True)
        made.save(str(place / "tokenizer.json"))
        settings = {"bos_token": {"content": "<s>"}}
        if in_file:
            (place / "chat_template.jinja").write_text(template)
        elif template is not None:
            settings["chat_template"] = template
        (place / "tokenizer_config.json").write_text(json.dumps(settings))
        return place

    return write


ASKED = [{"role": "system", "content": "you are a judge"}, {"role": "user", "content": "compare these two"}]
TOKENS = 1 + (1 + 4) + (1 + 3) + 1  # <s>; [system] and 4 words; [user] and 3; [assistant]


@pytest.mark.parametrize("in_file", [False, True])
def test_a_prompt_is_counted_as_its_template_has_it(model, tmp_path, in_file):
    place = model(in_file=in_file)
    assert counter("model", folder=tmp_path, environ={}).count([ASKED, ASKED[1:]]) == [TOKENS, 6]
    assert counter(str(place), environ={}).count([ASKED]) == [TOKENS]


def test_a_model_in_the_hubs_cache_is_found_by_its_name(model, tmp_path):
    model("hub/models--org--name/snapshots/abc")
    refs = tmp_path / "hub/models--org--name/refs"
    refs.mkdir()
    (refs / "main").write_text("abc")
    for environ in ({"HF_HUB_CACHE": str(tmp_path / "hub")}, {"HF_HOME": str(tmp_path)}):
        assert counter("org/name", folder=tmp_path, environ=environ).count([ASKED]) == [TOKENS]
    assert counter("org/other", environ={"HF_HOME": str(tmp_path)}) is None


def test_without_a_template_or_with_a_broken_one_there_is_the_bound_alone(model, tmp_path):
    model("none", template=None)
    model("broken", template="{% for")
    (model("damaged") / "tokenizer.json").write_text("{}")
    for name in ("none", "broken", "damaged", "missing"):
        found = counter(name, folder=tmp_path, environ={})
        assert found is None or found.count([ASKED]) is None
    model("refusing", template="{{ raise_exception('no system message, please') }}")
    assert counter("refusing", folder=tmp_path, environ={}).count([ASKED]) is None


@pytest.mark.parametrize(
    "template",
    [
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{{ 'x' * 10 ** 11 }}",
    ],
)
def test_a_template_cannot_hold_a_preview_up_or_fill_the_memory(model, tmp_path, monkeypatch, template):
    monkeypatch.setattr(tokens, "SECONDS", 0.5)
    model(template=template)
    assert counter("model", folder=tmp_path, environ={}).count([ASKED]) is None


def test_a_template_cannot_reach_what_is_outside_it(model, tmp_path):
    model(template="{{ messages.__class__.__mro__[1].__subclasses__() }}")
    assert counter("model", folder=tmp_path, environ={}).count([ASKED]) is None


def test_an_estimate_is_exact_where_the_tokens_can_be_counted(model, tmp_path, blind):
    model()
    judge = Judge(
        model="model", criteria=["fluency"], usd_per_million_input_tokens=3, usd_per_million_output_tokens=12
    )
    left = [Showing(blind=blind("one two"), sample=0), Showing(blind=blind("x"), sample=0)]
    found = estimate(judge, left, seed=1, counter=counter("model", folder=tmp_path, environ={}))
    words = 0
    for each in left:
        words += 2 + sum(1 + len(one["content"].split()) for one in prompt_of(judge).messages(each.blind, 1))
    assert (found.exact, found.input_tokens) == (True, words)
    assert found.worst_usd == pytest.approx(3 * (words * 3 + 2 * 512 * 12) / 1e6)
    assert found.expected_usd == pytest.approx((words * 3 + 2 * (8 + 4) * 12) / 1e6)
