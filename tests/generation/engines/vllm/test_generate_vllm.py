"""`guard-eval generate --engine vllm`: refusals before loading, and a study if vLLM is installed."""

import hashlib
import importlib.util
import json
from contextlib import contextmanager
from dataclasses import replace

import pytest
from command_line import make_command, run_process
from factories import continuation, text_file
from factories import recipe as made_with
from read_files import write_json_lines
from refusals import expect_refusal

from guard_eval.errors import StudyError
from guard_eval.generation import command as generation_command
from guard_eval.generation.command import generate_texts
from guard_eval.generation.plan import Engine
from guard_eval.records import Prompt
from guard_eval.study.folder import Study
from guard_eval.texts.continuations import append_continuations, read_continuations
from guard_eval.texts.current import find_generated_texts

pytestmark = pytest.mark.slow


def study(folder, strategies, model="", generation=""):
    folder.mkdir()
    prompts = [{"id": f"p{n}", "dataset": "d", "prompt": "Once upon a time"} for n in range(3)]
    write_json_lines(folder / "prompts.jsonl", prompts)
    (folder / "study.toml").write_text(
        f"""
name = "s"
seed = 1
[model]
name = "bundled"
{model}
[generation]
strategies = {json.dumps(strategies)}
max_new_tokens = 8
max_prompt_tokens = 8
{generation}
[pairs]
compare = [{json.dumps(strategies[:2])}]
per_dataset = 1
"""
    )
    return Study.open(folder)


def run(vllm_study, *, dry_run=False):
    generate_texts(vllm_study, engine="vllm", dry_run=dry_run)


@pytest.mark.parametrize("dry_run", [True, False])
def test_vllm_refusal_proposes_the_local_engine(tmp_path, dry_run):
    vllm_study = study(tmp_path / "s", ["acs", "contrastive(k=5, alpha=0.6)", "beam"])
    with pytest.raises(StudyError) as refused:
        run(vllm_study, dry_run=dry_run)
    message = str(refused.value)
    assert message.startswith("vLLM cannot run acs(q=1); contrastive(k=5, alpha=0.6); beam(beams=5), ")
    assert f"guard-eval generate {vllm_study.folder} --strategy 'acs(q=1)'" in message
    assert "--strategy 'beam(beams=5)'" in message


def test_vllm_writes_the_strategies_that_it_can_run(tmp_path, monkeypatch):
    vllm_study = study(tmp_path / "s", ["guard", "acs", "greedy"])
    lines = generate_texts(vllm_study, engine="vllm", dry_run=True).lines
    assert any(line.startswith("vLLM cannot run acs(q=1), because") for line in lines)
    assert any(line.startswith("would make 6 continuations") for line in lines)
    requested = []

    @contextmanager
    def open_engine(plan):
        yield Engine(plan.facts, lambda name, _texts: iter(requested.append(name) or []))

    monkeypatch.setattr(generation_command, "resolve_name", lambda _name: open_engine)
    with expect_refusal(r"^acs\(q=1\): vLLM cannot run acs\(q=1\), "):
        run(vllm_study)
    assert requested == ["guard", "greedy"]


def test_vllm_texts_have_ids_of_their_own(tmp_path):
    vllm_study = study(tmp_path / "s", ["guard", "greedy"])
    local = made_with(model="bundled", strategy="guard")
    served = replace(local, engine="vllm")
    prompt = Prompt(id="p0", dataset="d", text="Once upon a time")
    by_hand = b'["p0","Once upon a time","bundled","r","guard",1,8,8,"float32",{"engine":"vllm"}]'
    assert served.make_continuation_id(prompt) == hashlib.sha256(by_hand).hexdigest()[:16]
    append_continuations(vllm_study.continuations_folder, [continuation(prompt=prompt, made_by=served)])
    assert json.loads(text_file(vllm_study.folder, "guard").read_text())["engine"] == "vllm"
    result = find_generated_texts(vllm_study, ["guard"], [prompt])["guard"]
    assert result["p0", 1].recipe == served


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ('device = "cuda:1"', "CUDA_VISIBLE_DEVICES"),
        ('device = { "model.embed_tokens" = 0 }', "device = auto or balanced"),
    ],
)
def test_vllm_refuses_unsupported_device_settings(tmp_path, model, message):
    with expect_refusal(message):
        run(study(tmp_path / "s", ["guard", "greedy"], model))


@pytest.mark.skipif(importlib.util.find_spec("vllm") is not None, reason="vLLM is installed")
def test_missing_vllm_names_the_extra(tmp_path):
    with expect_refusal(r"pip install -e '.*\[vllm\]'"):
        run(study(tmp_path / "s", ["guard", "greedy"]))


@pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="needs vLLM: make test-vllm")
@pytest.mark.timeout(600)
def test_vllm_writes_the_texts_of_transformers(tmp_path):
    """The whole command in another process: half of the prompts, then all, then nothing."""
    names = ["greedy", "guard", "top_p(p=0.9)"]
    by = {}
    for engine in ("local", "vllm"):
        vllm_study = study(tmp_path / engine, names)
        arguments = ["generate", vllm_study.folder, "--engine", engine]
        parts = (["--shard", "1/2"], ["--shard", "2/2"]) if engine == "vllm" else ([],)
        for piece in parts:
            ran = run_process(make_command(*arguments, *piece), VLLM_CPU_KVCACHE_SPACE="1")
            assert ran.code == 0, ran
        before = {path.name: path.read_bytes() for path in vllm_study.continuations_folder.glob("*/*.jsonl")}
        ran = run_process(make_command(*arguments), VLLM_CPU_KVCACHE_SPACE="1")
        assert ran.code == 0, ran
        after = {path.name: path.read_bytes() for path in vllm_study.continuations_folder.glob("*/*.jsonl")}
        assert after == before
        texts = [
            (text.recipe.strategy, text.prompt_id, text.text, text.new_tokens, text.finish)
            for path in vllm_study.continuations_folder.glob("*/*.jsonl")
            for text in read_continuations(path)
        ]
        by[engine] = sorted(texts)
    assert len(by["local"]) == 9
    assert by["vllm"] == by["local"]
