"""A study whose systems are of several local models: one plan for each."""

import json

import pytest

from guard_eval.study import Study
from guard_eval.texts.prompts import read_prompts
from guard_eval.texts.systems import find_texts

pytestmark = pytest.mark.slow

STUDY = """
name = "s"
seed = 3
[model]
name = "bundled"
dtype = "float32"
[generation]
strategies = ["greedy"]
runs = 2
max_new_tokens = 6
[[system]]
name = "half, drawn"
model = {name = "bundled", dtype = "bfloat16"}
strategy = "top_k(k=5)"
[[system]]
name = "half"
model = {name = "bundled", dtype = "bfloat16"}
strategy = "greedy"
[[system]]
name = "drawn"
strategy = "top_k(k=5)"
[metrics]
compute = ["length"]
[pairs]
compare = [["greedy", "half"], ["drawn", "half, drawn"]]
"""
NAMES = ["greedy", "half, drawn", "half", "drawn"]


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "s"
    folder.mkdir()
    (folder / "study.toml").write_text(STUDY)
    (folder / "prompts.jsonl").write_text('{"prompt": "Once there was a cat"}\n{"prompt": "The dog ran"}\n')
    return folder


def test_each_model_writes_for_its_own_systems(run, folder):
    ran = run("generate", "s", "--json")
    result = json.loads(ran.out)
    assert result["written"] == {"greedy": 2, "drawn": 4, "half, drawn": 4, "half": 2}
    assert len(list((folder / "continuations").glob("*/recipe.json"))) == 2
    study = Study.open(folder)
    texts = find_texts(study, study.settings.systems, read_prompts(study.prompts_path))
    assert {name: len(by_prompt) for name, by_prompt in texts.items()} == dict(
        zip(NAMES, (2, 4, 2, 4), strict=True)
    )
    assert {text.strategy for text in texts["half, drawn"].values()} == {"half, drawn"}
    assert "12 of 12" in run("status", "s").out
    assert json.loads(run("generate", "s", "--json").out)["written"] == {}
    scores = json.loads(run("measure", "s", "--json").out)["scores"]
    assert {row["strategy"] for row in scores} == set(NAMES)
    assert "4 pairs, 4 new" in run("pair", "s").out


def test_generate_can_write_one_named_system(run, folder):
    assert json.loads(run("generate", "s", "--strategy", "half", "--json").out)["written"] == {"half": 2}
    ran = run("status", "s")
    assert "2 of 12: greedy lacks 2, half, drawn lacks 4, drawn lacks 4" in ran.out
    message = run("pair", "s").refused()
    assert "4 of 4" not in message
    assert "run: guard-eval generate s" in message
    assert (
        "choose from: greedy, half, drawn, half, drawn"
        in run("generate", "s", "--strategy", "guard").refused()
    )


def test_model_with_auto_and_another_dtype_is_refused(run, folder):
    path = folder / "study.toml"
    path.write_text(path.read_text().replace('dtype = "float32"\n', ""))
    message = run("generate", "s").refused()
    assert "the model bundled has dtype auto and another dtype" in message
