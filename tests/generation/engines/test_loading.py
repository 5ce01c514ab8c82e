"""Models are loaded with their revisions, and incomplete or unsuitable models are refused."""

import hashlib
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import get_args

import pytest
import torch
from refusals import expect_refusal
from safetensors.torch import load_file, save_file
from transformers import BertConfig, T5Config
from written_texts import collect_notices

from guard_eval.generation.engines.loading import (
    ModelFiles,
    check_shared_vocabulary,
    hash_model_folder,
    load_pretrained,
)
from guard_eval.study.system_settings import Spread

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(llama_folder, tmp_path):
    return Path(shutil.copytree(llama_folder, tmp_path / "model"))


def test_load_pretrained_reads_a_folder(folder):
    loaded = load_pretrained(str(folder))
    assert loaded.name == str(folder)
    assert load_pretrained(str(folder), name="bundled").name == "bundled"
    assert (loaded.dtype, loaded.device) == ("float32", "cpu")
    assert not loaded.model.training
    assert loaded.revision == hash_model_folder(folder)
    assert load_pretrained(str(folder), dtype="bfloat16").dtype == "bfloat16"


def test_revision_of_a_folder_equals_a_hash_by_hand(tmp_path):
    contents = {"config.json": b"{}", "model.safetensors": b"weights", "tokenizer.json": b"[]"}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "README.md").write_bytes(b"does not count")
    (tmp_path / "pytorch_model.bin").write_bytes(b"does not count beside safetensors")
    lines = "".join(f"{name}\0{hashlib.sha256(content).hexdigest()}\n" for name, content in contents.items())
    assert hash_model_folder(tmp_path) == f"sha256:{hashlib.sha256(lines.encode()).hexdigest()[:16]}"


def refused(location, match, load=load_pretrained, **options):
    with expect_refusal(match) as caught:
        load(str(location), **options)
    assert "\n" not in str(caught.value)


class Program:
    """An object whose pickle runs a program when the pickle is read."""

    def __reduce__(self):
        return pytest.fail, ("the weights were run",)


def name_tokenizer(kind):
    """Keep only the name of the tokenizer's class, with which transformers loads an empty vocabulary."""
    return {"tokenizer*": None, "tokenizer_config.json": json.dumps({"tokenizer_class": kind}).encode()}


def give_pickle(content):
    return {"model.safetensors": None, "pytorch_model.bin": content}


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"*": None}, "cannot load the model in"),
        ({"config.json": None}, "cannot load the model in .* put all files of a model"),
        ({"model.safetensors": None}, "cannot load the model in .* put all files of a model"),
        ({"model.safetensors": b"not a model"}, "cannot load the model in"),
        (give_pickle(b"junk"), "cannot load the model in .* put all files of a model"),
        (give_pickle(pickle.dumps(Program(), protocol=2)), "broken, or contain code"),
        ({"adapter_config.json": b"{}"}, "contains only an adapter"),
        ({"tokenizer*": None}, "cannot load the tokenizer"),
        (name_tokenizer("BertTokenizer"), "cannot load the tokenizer"),
        (name_tokenizer("T5Tokenizer"), "cannot load the tokenizer"),
        (name_tokenizer("GPT2Tokenizer"), "cannot load the tokenizer"),
        ({"tokenizer_config.json": b"[]"}, "cannot load the tokenizer in .* put all files of a model"),
        ({"tokenizer.json": b"{"}, "cannot load the tokenizer in .* put all files of a model"),
        ({"tokenizer_config.json": b'{"model_max_length": "long"}'}, "cannot load the tokenizer"),
        ({"generation_config.json": b"{"}, "cannot load the model in .*generation_config.json"),
        ({"config.json": b"[1]"}, "cannot load the model in"),
    ],
)
def test_an_incomplete_folder_is_refused(folder, files, says):
    """Files of a model are removed (None) or replaced."""
    for pattern, content in files.items():
        for path in folder.glob(pattern):
            path.unlink()
        if content is not None:
            (folder / pattern).write_bytes(content)
    refused(folder, says)


def test_unknown_folders_and_quantisations_are_refused(folder):
    change_config(folder, quantization_config={"quant_method": "mine"})
    refused(folder, "is quantised by 'mine', which .* does not know")
    refused(folder / "none", "does not exist; correct the name")


def change_config(folder, name="config.json", **settings):
    path = folder / name
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("device", "nonsense", "'nonsense', but PyTorch finds"),
        ("device", "mps", "'mps', but PyTorch finds .*; write one of: auto, cpu"),
        ("device", "cuda:99", "'cuda:99', but PyTorch finds [0-9]+ GPUs"),
        ("device_map", "sideways", "cannot load the model in"),
        ("dtype", "float8", "'float8' is unknown; choose from: auto, float32"),
    ],
)
def test_unknown_devices_and_types_are_refused(folder, option, value, says):
    refused(folder, says, **{option: value})


@pytest.mark.parametrize("load", [load_pretrained, partial(load_pretrained, kind="AutoModel")])
def test_missing_weights_are_refused(folder, load):
    path = folder / "model.safetensors"
    weights = load_file(path)
    norm = weights.pop("model.norm.weight")
    save_file(weights, path, metadata={"format": "pt"})
    says = r"lacks 1 of its weights, or they have other shapes .* such as (model\.)?norm\.weight"
    refused(folder, says, load)
    save_file({**weights, "model.norm.weight": norm[1:].clone()}, path, metadata={"format": "pt"})
    refused(folder, says, load)


def test_weights_without_use_are_reported(folder):
    path = folder / "model.safetensors"
    masks = {"model.layers.0.self_attn.masked_bias": torch.ones(1)}  # as in published files of GPT-2
    save_file(load_file(path) | masks, path, metadata={"format": "pt"})
    with collect_notices() as notices:
        load_pretrained(str(folder))
    assert notices == []
    change_config(folder, num_hidden_layers=2)
    with collect_notices() as notices:
        load_pretrained(str(folder))
    assert re.search(r"does not use 9 weights of the model .*, such as model\.layers\.2\.", notices[0])


@pytest.mark.parametrize(
    "config",
    [T5Config(architectures=["T5ForConditionalGeneration"]), BertConfig(architectures=["BertForMaskedLM"])],
    ids=["T5", "BERT"],
)
def test_a_model_that_is_not_causal_is_refused(tmp_path, config):
    config.save_pretrained(tmp_path)
    refused(tmp_path, f"is a {config.architectures[0]}, which does not continue texts")


@pytest.mark.parametrize(
    ("kind", "whole_model", "is_causal"),
    [
        ("qwen3_5", "Qwen3_5ForConditionalGeneration", True),  # transformers loads its language model
        ("llama4", "Llama4ForConditionalGeneration", True),
        ("bart", "BartForConditionalGeneration", False),  # its decoder writes nothing without the encoder
        ("llava", "LlavaForConditionalGeneration", False),
    ],
)
def test_multimodal_models_with_a_language_model_are_accepted(tmp_path, kind, whole_model, is_causal):
    settings = {"model_type": kind, "architectures": [whole_model]}
    (tmp_path / "config.json").write_text(json.dumps(settings))
    files = ModelFiles.open(str(tmp_path), "main")
    if is_causal:
        files.refuse_noncausal_model()
    else:
        refused(tmp_path, "does not continue texts")


@pytest.mark.parametrize("load", [load_pretrained, partial(load_pretrained, kind="AutoModel")])
def test_code_in_a_model_is_never_run(folder, tmp_path, load):
    classes = dict.fromkeys(("AutoConfig", "AutoModel", "AutoModelForCausalLM"), "mine.Mine")
    change_config(folder, model_type="mine", auto_map=classes)
    (folder / "mine.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Mine: pass\n")
    refused(folder, "comes with its own code, which is never run; name a model that", load)
    change_config(folder, model_type="llama", auto_map={})
    classes = {"AutoTokenizer": ["mine.Mine", None]}
    change_config(folder, "tokenizer_config.json", tokenizer_class="Mine", auto_map=classes)
    refused(folder, "the tokenizer .* comes with its own code, which is never run; name a model that", load)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("code", ["kernels-community/vllm-flash-attn3", {"": "kernels-community/vllm"}])
@pytest.mark.parametrize("key", ["attn_implementation", "_attn_implementation", "_experts_implementation"])
def test_code_on_the_hub_is_refused(folder, key, code):
    change_config(folder, **{key: code})
    refused(folder, "which is never run; remove _")


@pytest.mark.parametrize("spread", [*get_args(Spread), {"": "cpu"}], ids=str)
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_map_works_without_gpus(folder, spread):
    plain, mapped = load_pretrained(str(folder)), load_pretrained(str(folder), device_map=spread)
    assert (mapped.device, mapped.dtype) == ("cpu", "float32")
    ids = torch.tensor([[5, 6, 7]])
    ours, theirs = plain.model(input_ids=ids).logits, mapped.model(input_ids=ids).logits
    assert torch.allclose(ours, theirs, atol=1e-4)  # the mapped model's layers are not packed


def test_dtype_auto_keeps_a_quantised_model_quantised(folder):
    """A quantised model cannot be loaded without the quantisation's package."""
    change_config(folder, quantization_config={"quant_method": "bitsandbytes", "load_in_8bit": True})
    files = ModelFiles.open(str(folder), "main")
    assert files.choose_dtype("auto", "cpu") == "auto"
    assert files.predict_dtype("auto", "cpu") == "float32, bitsandbytes"
    refused(folder, "cannot load the model in .*bitsandbytes")


@pytest.fixture
def expert(llama_folder):
    return load_pretrained(str(llama_folder), name="expert")


def test_an_amateur_with_another_vocabulary_is_refused(expert, folder):
    tokens = json.loads((folder / "tokenizer.json").read_text())
    vocabulary = tokens["model"]["vocab"]
    a, b = (name for name, number in vocabulary.items() if number in {7, 9})
    vocabulary[a], vocabulary[b] = vocabulary[b], vocabulary[a]
    (folder / "tokenizer.json").write_text(json.dumps(tokens))
    with expect_refusal(r"'expert' and its amateur .* only one of them has .* as token 7"):
        check_shared_vocabulary(expert, load_pretrained(str(folder)))


def python(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=120,
        check=False,
    )


def test_a_hub_model_has_its_commit_as_revision(llama_folder, tmp_path):
    """Store a model as in the Hub's cache, and load it by its id without a network."""
    commit = "0123456789abcdef0123456789abcdef01234567"
    cache = tmp_path / "hub" / "models--me--tiny"
    shutil.copytree(llama_folder, cache / "snapshots" / commit)
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text(commit)
    code = (
        "from guard_eval.generation.engines.loading import load_pretrained\n"
        "loaded = load_pretrained('me/tiny')\n"
        "print(loaded.name, loaded.revision, loaded.dtype)\n"
    )
    result = python(code, HF_HUB_OFFLINE="1", HF_HOME=str(tmp_path))
    assert result.stdout.split() == ["me/tiny", commit, "float32"], result.stderr


def test_importing_generate_does_not_import_study_settings():
    result = python("import sys\nfrom guard_eval import generate\nprint(*sys.modules)")
    assert "guard_eval.generation.engines.decode" in result.stdout.split(), result.stderr
    assert not {"guard_eval.study.settings", "guard_eval.texts.continuations"} & set(result.stdout.split())


@pytest.mark.parametrize("package", ["torch", "transformers"])
def test_import_without_torch_names_the_extra(package):
    code = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "from guard_eval.errors import MissingExtraError\n"
        "try: import guard_eval.generation.engines\n"
        "except MissingExtraError as error: print(error)\n"
    )
    result = python(code)
    assert f"needs the package '{package}'" in result.stdout, result.stderr
    assert re.search(r"run: pip install -e '.+\[generate\]'", result.stdout)


@pytest.mark.parametrize(("setting", "expected"), [(None, "PASSIVE"), ("ACTIVE", "ACTIVE")])
def test_waiting_threads_do_not_keep_cores_busy(setting, expected, monkeypatch):
    """The variable is set before PyTorch is loaded and reads it. A user's own setting stays.

    The import loads no heavy library.
    """
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    result = python(
        "import os, sys, guard_eval.generation.engines\n"
        "print(os.environ['OMP_WAIT_POLICY'], 'torch' in sys.modules, 'transformers' in sys.modules)",
        **{"OMP_WAIT_POLICY": setting} if setting else {},
    )
    assert result.stdout.split() == [expected, "False", "False"], result.stderr
