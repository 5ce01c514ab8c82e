"""What is loaded, under which revision, and what cannot be loaded."""

import hashlib
import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModelForCausalLM,
    BertConfig,
    BertForMaskedLM,
    BertModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    T5Config,
)

from guard_eval.engines.loading import (
    SMALL,
    check_amateur,
    folder_revision,
    limit_threads,
    load,
    load_encoder,
)
from guard_eval.errors import StudyError

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(llama_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(llama_folder, tmp_path / "model"))


def test_a_folder_is_loaded(folder):
    loaded = load(str(folder))
    assert loaded.name == str(folder)
    assert load(str(folder), name="bundled").name == "bundled"
    assert (loaded.dtype, loaded.device) == ("float32", "cpu")
    assert not loaded.model.training
    assert loaded.revision == folder_revision(folder)
    assert load(str(folder), dtype="bfloat16").dtype == "bfloat16"


def test_the_revision_by_hand(tmp_path):
    contents = {"config.json": b"{}", "model.safetensors": b"weights", "tokenizer.json": b"[]"}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "README.md").write_bytes(b"does not count")
    (tmp_path / "pytorch_model.bin").write_bytes(b"does not count beside safetensors")
    lines = "".join(f"{name}\0{hashlib.sha256(content).hexdigest()}\n" for name, content in contents.items())
    assert folder_revision(tmp_path) == f"sha256:{hashlib.sha256(lines.encode()).hexdigest()[:16]}"


def test_the_revision_follows_what_can_change_a_text(folder, tmp_path):
    first = folder_revision(folder)
    moved = Path(shutil.copytree(folder, tmp_path / "elsewhere"))
    (moved / "README.md").write_text("a card")
    assert folder_revision(moved) == first
    for name in ("config.json", "tokenizer.json", "model.safetensors", "generation_config.json"):
        path = folder / name
        path.write_bytes(path.read_bytes() + b" ")
        changed = folder_revision(folder)
        assert changed != first
        first = changed


def refused(location: object, match: str, load=load, **options: str) -> None:
    with pytest.raises(StudyError, match=match) as caught:
        load(str(location), **options)
    assert "\n" not in str(caught.value)


def remove(pattern):
    return lambda folder: [path.unlink() for path in folder.glob(pattern)]


def name_tokenizer(kind):
    """Leave no tokenizer but the name of a class, which comes up without words."""

    def spoil(folder):
        remove("tokenizer*")(folder)
        (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": kind}))

    return spoil


def break_weights(folder):
    (folder / "model.safetensors").write_bytes(b"not a model")


class Program:
    """What a pickle runs on being read."""

    def __reduce__(self):
        return pytest.fail, ("the weights were run",)


def weights_of(content):
    def spoil(folder):
        (folder / "model.safetensors").unlink()
        (folder / "pytorch_model.bin").write_bytes(content)

    return spoil


def write(name, content):
    return lambda folder: (folder / name).write_text(content)


def halve_vocabulary(folder):
    path = folder / "config.json"
    path.write_text(path.read_text().replace('"vocab_size": 320', '"vocab_size": 100'))


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (shutil.rmtree, "there is no such folder"),
        (remove("*"), "cannot load the model in"),
        (remove("config.json"), "cannot load the model in .* put a whole model into it"),
        (remove("model.safetensors"), "cannot load the model in .* put a whole model into it"),
        (break_weights, "cannot load the model in"),
        (weights_of(b"junk"), "cannot load the model in .* put a whole model into it"),
        (
            weights_of(pickle.dumps(Program(), protocol=2)),
            "broken, or hold more than weights",
        ),
        (remove("tokenizer*"), "has no tokenizer"),
        (name_tokenizer("BertTokenizer"), "has no tokenizer"),
        (name_tokenizer("T5Tokenizer"), "has no tokenizer"),
        (name_tokenizer("GPT2Tokenizer"), "has no tokenizer"),
        (write("tokenizer_config.json", "[]"), "no tokenizer that can be read: .* put its tokenizer.json"),
        (write("tokenizer.json", "{"), "no tokenizer that can be read: .* put its tokenizer.json"),
        (write("generation_config.json", "{"), "cannot load the model in .*generation_config.json"),
        (write("config.json", "[1]"), "cannot load the model in"),
        (halve_vocabulary, "has 100 tokens and its tokenizer 288"),
    ],
)
def test_a_folder_without_a_whole_model(folder, spoil, says):
    spoil(folder)
    refused(folder, says)


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("device", "nonsense", "'nonsense' is no device"),
        ("device", "mps", "'mps' is no device"),
        ("device", "cuda:99", "'cuda:99', but PyTorch finds [0-9]+ GPUs"),
        ("device_map", "sideways", "cannot load the model in"),
        ("dtype", "float8", "'float8' is unknown; choose from: auto, float32"),
    ],
)
def test_options_that_name_nothing(folder, option, value, says):
    refused(folder, says, **{option: value})


@pytest.mark.parametrize("load", [load, load_encoder])
def test_weights_are_missing(folder, load):
    path = folder / "model.safetensors"
    weights = load_file(path)
    del weights["model.norm.weight"]
    save_file(weights, path, metadata={"format": "pt"})
    refused(folder, r"lacks 1 of its weights, (model\.)?norm\.weight", load)


@pytest.mark.parametrize(
    "config",
    [T5Config(architectures=["T5ForConditionalGeneration"]), BertConfig(architectures=["BertForMaskedLM"])],
    ids=["T5", "BERT"],
)
def test_a_model_that_does_not_continue_texts(tmp_path, config):
    config.save_pretrained(tmp_path)
    refused(tmp_path, f"is a {config.architectures[0]}, which does not continue texts")


@pytest.mark.parametrize("load", [load, load_encoder])
def test_code_that_comes_with_a_model_is_never_run(folder, tmp_path, load):
    config = json.loads((folder / "config.json").read_text())
    config |= {
        "model_type": "mine",
        "auto_map": dict.fromkeys(("AutoConfig", "AutoModel", "AutoModelForCausalLM"), "mine.Mine"),
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "mine.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Mine: pass\n")
    refused(folder, "comes with code of its own, which is never run", load)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("spread", ["auto", {"": "cpu"}], ids=str)
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_map_on_a_machine_without_gpus(folder, spread):
    plain, mapped = load(str(folder)), load(str(folder), device_map=spread)
    assert (mapped.device, mapped.dtype) == ("cpu", "float32")
    ids = torch.tensor([[5, 6, 7]])
    ours, theirs = plain.model(input_ids=ids).logits, mapped.model(input_ids=ids).logits
    assert torch.allclose(ours, theirs, atol=1e-4)  # the mapped model's layers are not packed


def quantised(folder: Path, settings: dict[str, object]) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"quantization_config": settings}))


def test_a_quantised_model_is_left_as_transformers_gives_it(folder, monkeypatch):
    """Its arithmetic is not forced and it is not moved: both are refused by such models."""
    real, options_seen = AutoModelForCausalLM.from_pretrained, []

    def given(source, **options):
        options_seen.append(options)
        with monkeypatch.context() as patch:  # its package is not here, so the weights are plain ones
            patch.delattr(LlamaConfig, "quantization_config")
            return real(source, **options)

    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", given)
    monkeypatch.setattr(LlamaForCausalLM, "to", lambda self, *args, **more: pytest.fail("moved"))
    monkeypatch.setattr(LlamaConfig, "quantization_config", {"quant_method": "gptq"}, raising=False)
    loaded = load(str(folder), device="cpu")
    assert options_seen[0]["dtype"] == "auto"
    assert options_seen[0]["device_map"] == {"": "cpu"}
    assert loaded.dtype == "float32, gptq"


def test_a_quantised_model_whose_package_is_missing(folder):
    quantised(folder, {"quant_method": "bitsandbytes", "load_in_8bit": True})
    refused(folder, "cannot load the model in .*bitsandbytes")


@pytest.fixture
def expert(llama_folder):
    return load(str(llama_folder), name="expert")


def test_an_amateur_with_another_vocabulary(expert, folder):
    tokens = json.loads((folder / "tokenizer.json").read_text())
    vocabulary = tokens["model"]["vocab"]
    a, b = (name for name, number in vocabulary.items() if number in {7, 9})
    vocabulary[a], vocabulary[b] = vocabulary[b], vocabulary[a]
    (folder / "tokenizer.json").write_text(json.dumps(tokens))
    with pytest.raises(StudyError, match=r"'expert' and its amateur .* only one of them has .* as token 7"):
        check_amateur(expert, load(str(folder)))


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=120,
        check=False,
    )


def test_a_hub_model_out_of_reach(tmp_path):
    code = (
        "from guard_eval.engines.loading import load\n"
        "from guard_eval.errors import StudyError\n"
        "try: load('no-such-owner/no-such-model')\n"
        "except StudyError as error: print(error)\n"
    )
    result = python(code, HF_HUB_OFFLINE="1", HF_HOME=str(tmp_path))
    assert result.stdout.startswith("cannot load the model 'no-such-owner/no-such-model' (revision main)"), (
        result.stderr
    )
    assert "download it and name its folder" in result.stdout


def test_a_hub_model_carries_its_commit(llama_folder, tmp_path):
    """Lay a model out as the Hub's cache does, and load it by its id without a network."""
    commit = "0123456789abcdef0123456789abcdef01234567"
    cache = tmp_path / "hub" / "models--me--tiny"
    shutil.copytree(llama_folder, cache / "snapshots" / commit)
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text(commit)
    code = (
        "from guard_eval.engines.loading import load\n"
        "loaded = load('me/tiny')\n"
        "print(loaded.name, loaded.revision, loaded.dtype)\n"
    )
    result = python(code, HF_HUB_OFFLINE="1", HF_HOME=str(tmp_path))
    assert result.stdout.split() == ["me/tiny", commit, "float32"], result.stderr


@pytest.mark.parametrize("package", ["torch", "transformers"])
def test_without_the_extra_the_import_names_it(package):
    code = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "from guard_eval.errors import MissingExtraError\n"
        "try: import guard_eval.engines\n"
        "except MissingExtraError as error: print(error)\n"
    )
    result = python(code)
    assert f"needs the package '{package}'" in result.stdout, result.stderr
    assert "pip install 'guard-eval[generate]'" in result.stdout


def test_the_room_itself_imports_nothing_heavy():
    result = python(
        "import sys, guard_eval.engines; print('torch' in sys.modules, 'transformers' in sys.modules)"
    )
    assert result.stdout.split() == ["False", "False"], result.stderr


@pytest.fixture
def bert(llama_folder, tmp_path) -> Path:
    """Write a masked language model, as published encoders are, which has no pooler."""
    torch.manual_seed(2)
    config = BertConfig(
        vocab_size=320,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=24,
        max_position_embeddings=32,
    )
    BertForMaskedLM(config).save_pretrained(tmp_path)
    PreTrainedTokenizerFast.from_pretrained(llama_folder).save_pretrained(tmp_path)
    return tmp_path


def test_an_encoder_is_loaded_and_not_packed(bert, capfd):
    capfd.readouterr()
    loaded = load_encoder(str(bert), name="mine")
    assert capfd.readouterr() == ("", "")
    assert type(loaded.model) is BertModel
    assert not loaded.model.training
    assert (loaded.name, loaded.dtype, loaded.device) == ("mine", "float32", "cpu")
    assert loaded.revision == folder_revision(bert)
    assert load_encoder(str(bert), dtype="bfloat16").dtype == "bfloat16"


def test_an_encoder_does_not_continue_texts(bert):
    with pytest.raises(StudyError, match="is a BertForMaskedLM, which does not continue texts"):
        load(str(bert))


@pytest.mark.parametrize(
    ("parameters", "set_to", "threads"), [(SMALL - 1, None, 1), (SMALL, None, 2), (1, "2", 2)]
)
def test_a_small_model_has_one_thread_unless_the_user_says_otherwise(
    monkeypatch, parameters, set_to, threads
):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if set_to:
        monkeypatch.setenv("OMP_NUM_THREADS", set_to)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        weights = [SimpleNamespace(numel=lambda: parameters)]
        limit_threads(SimpleNamespace(device=torch.device("cpu"), parameters=lambda: weights))
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
