"""`model.generate(custom_generate=…)` writes what the engine writes, left-padded or alone."""

import pytest
import torch
from tiny_models import tiny
from transformers import BertModel, GenerationConfig, T5ForConditionalGeneration

from guard_eval.engines.custom import HUB_FOLDER, generate
from guard_eval.engines.local.batch import Batch
from guard_eval.engines.local.decode import decode
from guard_eval.errors import StudyError
from guard_eval.strategies import Guard, parse

pytestmark = pytest.mark.slow

PROMPTS = [[5, 9, 200, 31], [7], [12, 13, 14, 15, 16, 17]]


@pytest.fixture(autouse=True)
def _modules_cache(tmp_path, monkeypatch):
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path))


def padded() -> dict[str, torch.Tensor]:
    longest = max(map(len, PROMPTS))
    ids = torch.tensor([[3] * (longest - len(p)) + p for p in PROMPTS])
    mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in PROMPTS])
    return {"input_ids": ids, "attention_mask": mask}


@pytest.mark.parametrize(
    "strategy", ["guard", "guard(formulation=released)", "contrastive(k=5)", "acs", "beam(beams=3)"]
)
@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_it_writes_what_the_engine_writes(kind, strategy):
    model = tiny(kind)
    model.generation_config.eos_token_id = [0, 201]
    settings = {"custom_generate": str(HUB_FOLDER), "trust_remote_code": True, "strategy": strategy}
    output = model.generate(**padded(), **settings, max_new_tokens=15, pad_token_id=9)
    batch = Batch(prompts=PROMPTS, keys=torch.zeros(3).long(), ends=torch.tensor([0, 201]), limit=15)
    expected = decode(tiny(kind), batch, parse(strategy)).tokens
    longest = max(map(len, expected))
    assert output[:, : padded()["input_ids"].shape[1]].equal(padded()["input_ids"])
    assert output[:, padded()["input_ids"].shape[1] :].tolist() == [
        tokens + [9] * (longest - len(tokens)) for tokens in expected
    ]
    alone = model.generate(torch.tensor(PROMPTS[:1]), **settings, max_new_tokens=15)
    assert alone[0, len(PROMPTS[0]) :].tolist() == expected[0]


def test_a_seed_changes_a_sample_and_a_neighbour_does_not():
    model = tiny("llama")
    settings = {"custom_generate": str(HUB_FOLDER), "trust_remote_code": True, "strategy": "top_k(k=20)"}
    first = model.generate(**padded(), **settings, max_new_tokens=15)
    assert model.generate(**padded(), **settings, max_new_tokens=15).equal(first)
    assert not model.generate(**padded(), **settings, max_new_tokens=15, seed=5).equal(first)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"strategy": "gaurd"}, "did you mean 'guard'"),
        ({"seed": "a"}, "seed = 'a' must be a whole number"),
        ({"generation_config": {"max_new_tokens": 3}}, "generation_config = .* must be a GenerationConfig"),
        ({"num_beams": 4}, "num_beams = 4 has no effect"),
        ({"strategy": "contrastive_decoding"}, "needs a second model"),
    ],
)
def test_what_it_refuses(arguments, message):
    settings = {"custom_generate": str(HUB_FOLDER), "trust_remote_code": True, **arguments}
    with pytest.raises(StudyError, match=message):
        tiny("llama").generate(torch.tensor(PROMPTS[:1]), **settings)


@pytest.mark.parametrize("kind", [T5ForConditionalGeneration, BertModel])
def test_models_that_do_not_continue_texts_are_refused(kind):
    sizes = {"num_layers": 1, "num_hidden_layers": 1, "num_attention_heads": 2, "hidden_size": 8}
    model = kind(kind.config_class(vocab_size=64, **sizes))
    with pytest.raises(StudyError, match=f"the model is a {kind.__name__}, which does not continue texts"):
        generate(model, torch.tensor([[1, 2]]))


def call(**arguments):
    settings = {"custom_generate": str(HUB_FOLDER), "trust_remote_code": True, "strategy": "greedy"}
    return tiny("llama").generate(torch.tensor(PROMPTS[:1]), **{**settings, **arguments})


HONOURED = {"max_new_tokens": 3, "eos_token_id": 5, "pad_token_id": 4}
IDLE = {
    "use_cache": False,
    "bos_token_id": 1,
    "decoder_start_token_id": 1,
    "disable_compile": True,
    "transformers_version": "5",
    "_from_model_config": True,
}
OTHERS = sorted(
    vars(GenerationConfig()).keys() - HONOURED.keys() - IDLE.keys() - {"num_return_sequences", "stop_strings"}
)
"""Whatever a later transformers adds to its configuration is one of them."""


def test_arguments_that_change_no_text_pass():
    assert vars(GenerationConfig()).keys() >= HONOURED.keys() | IDLE.keys()
    plain = call(max_new_tokens=3)
    for name, value in IDLE.items():
        assert call(max_new_tokens=3, **({} if name == "_from_model_config" else {name: value})).equal(plain)


@pytest.mark.parametrize("value", [True, 2, 0.5, "static"])
@pytest.mark.parametrize("name", OTHERS)
def test_a_field_that_asks_for_something_is_refused_by_name_wherever_it_stands(name, value):
    """A boolean is no 1 to a field of numbers, and a number no True to a field of booleans."""
    ids = torch.tensor(PROMPTS[:1])
    with pytest.raises(StudyError, match=f"^{name} = .* has no effect on custom_generate"):
        generate(None, ids, **{name: value})
    config = GenerationConfig(max_new_tokens=3)
    setattr(config, name, value)
    with pytest.raises(StudyError, match=f"generation_config.{name} = "):
        generate(None, ids, generation_config=config)


def test_values_that_ask_for_nothing_pass():
    """transformers' own: what `generate` takes where nothing is given, but for its top_k of sampling."""
    neutral = {**GenerationConfig._get_default_generation_params(), "top_k": 0, "num_return_sequences": 1}
    off = {
        name: value
        for name, value in neutral.items()
        if name in OTHERS
        and name not in {"max_length", "num_assistant_tokens"}
        and not name.startswith(("assistant", "num_assistant", "target"))
    }
    assert len(off) > 15
    assert call(max_new_tokens=3, **off).equal(call(max_new_tokens=3))
    assert call(generation_config=GenerationConfig(max_new_tokens=3, **off)).equal(call(max_new_tokens=3))
    assert call(max_new_tokens=3, token_type_ids=torch.zeros(1, 4).long()).shape == (1, 7)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"logits_processor": [print]}, "logits_processor = "),
        ({"token_type_ids": torch.ones(1, 4).long()}, r"token_type_ids = a tensor \(1, 4\)"),
        ({"max_new_tokens": 0}, "max_new_tokens = 0 must be"),
        ({"max_new_tokens": True}, "max_new_tokens = True must be"),
        ({"temprature": 0.7}, "temprature = 0.7 has no effect"),
        ({"attention_mask": torch.zeros(1, 4).long()}, "prompt 1 of the batch has no token, only padding"),
        ({"attention_mask": torch.ones(1, 3).long()}, r"shape \(1, 4\) and attention_mask \(1, 3\)"),
        ({"max_new_tokens": 10**6}, "has 4 tokens, and with max_new_tokens = 1000000 more it exceeds the"),
        (
            {"strategy": "beam(beams=100000)"},
            "chooses among 100000 tokens, and the model 'LlamaForCausalLM' has",
        ),
        ({"strategy": "contrastive(k=100000)"}, "chooses among 100000 tokens"),
        ({"strategy": None}, "cannot read the strategy 'None'"),
        ({"attention_mask": [[1, 1, 1, 1]]}, "attention_mask is of type list"),
        ({"stop_strings": 5}, "stop_strings = 5 must be texts"),
        *(
            ({name: value}, f"{name} = .* must be the id of a token")
            for name in ("eos_token_id", "pad_token_id")
            for value in ("x", "3", [3, "x"], [[3]], (3, 4), 3.0, True, torch.tensor([[3]]))
        ),
    ],
)
def test_other_arguments_are_refused_by_name(arguments, says):
    with pytest.raises(StudyError, match=says):
        call(**arguments)


def test_what_is_honoured_counts_from_a_configuration():
    config = GenerationConfig(max_new_tokens=3, pad_token_id=4)
    assert call(generation_config=config).shape == (1, 7)
    assert call(generation_config=config, max_new_tokens=2).shape == (1, 6)


def test_ends_are_a_token_or_several_and_a_strategy_is_a_value_or_its_name():
    plain = call(max_new_tokens=6, strategy="guard", min_new_tokens=0)
    assert call(max_new_tokens=6, strategy=Guard()).equal(plain)
    second = int(plain[0, 5])
    for ends in (second, [second, 319], torch.tensor(second), torch.tensor([319, second])):
        assert call(max_new_tokens=6, strategy="guard", eos_token_id=ends).equal(plain[:, :6])


def test_several_texts_a_prompt_stand_one_below_the_other():
    """The first is the one that a prompt gets alone; the others are its own in any batch."""
    model = tiny("llama")
    settings = {"custom_generate": str(HUB_FOLDER), "trust_remote_code": True, "strategy": "top_k(k=20)"}
    one = model.generate(**padded(), **settings, max_new_tokens=15)
    three = model.generate(**padded(), **settings, max_new_tokens=15, num_return_sequences=3)
    assert len(three) == 9
    assert three[::3, : one.shape[1]].equal(one[:, : three.shape[1]])
    assert len({tuple(row) for row in three.tolist()}) == 9
    alone = model.generate(
        torch.tensor(PROMPTS[:1]),
        **settings,
        max_new_tokens=15,
        num_return_sequences=3,
    )
    assert alone[:, len(PROMPTS[0]) :].equal(three[:3, 6:])


@pytest.mark.parametrize(
    ("strategy", "number", "says"),
    [
        ("greedy", 2, "greedy draws nothing"),
        ("guard", 2, "draws nothing"),
        ("beam(beams=3)", 3, "draws nothing"),
        ("top_k(k=1)", 2, "draws nothing"),
        ("top_k(k=5)", 0, "num_return_sequences = 0"),
        ("top_k(k=5)", True, "num_return_sequences = True"),
    ],
)
def test_the_same_text_again_is_refused(strategy, number, says):
    with pytest.raises(StudyError, match=says):
        generate(tiny("llama"), torch.tensor([[5, 9]]), strategy=strategy, num_return_sequences=number)


@pytest.mark.parametrize("ids", [[[5, -1]], [[5, 10**6]], [[5.0, 6.0]], [[True, True]]])
def test_tokens_that_the_model_has_not_are_refused(ids):
    with pytest.raises(StudyError, match="input_ids must be whole numbers from 0 to"):
        generate(tiny("llama"), torch.tensor(ids), strategy="greedy")


def test_no_prompts_are_refused():
    with pytest.raises(StudyError, match=r"the shape \(0, 3\)"):
        generate(tiny("llama"), torch.zeros(0, 3).long(), strategy="greedy")


def test_without_a_length_a_text_ends_where_the_models_context_does():
    model = tiny("llama")  # 128 tokens, fewer than the usual 256 new ones
    model.generation_config.eos_token_id = None
    assert generate(model, torch.tensor([[5, 6, 7]]), strategy="greedy").shape == (1, 128)
