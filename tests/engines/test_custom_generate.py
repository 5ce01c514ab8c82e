"""`model.generate(custom_generate=…)` writes what the engine writes, left-padded or alone."""

import pytest
import torch
from tiny_models import tiny

from guard_eval.engines.batch import Batch
from guard_eval.engines.custom import HUB_FOLDER
from guard_eval.engines.decode import decode
from guard_eval.errors import StudyError
from guard_eval.strategies import parse

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
        ({"num_beams": 4}, "num_beams = 4 has no effect"),
        ({"strategy": "contrastive_decoding"}, "needs a second model"),
    ],
)
def test_what_it_refuses(arguments, message):
    settings = {"custom_generate": str(HUB_FOLDER), "trust_remote_code": True, **arguments}
    with pytest.raises(StudyError, match=message):
        tiny("llama").generate(torch.tensor(PROMPTS[:1]), **settings)
