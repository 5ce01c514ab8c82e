"""Encoders: loaded without a head and as they are, and refused as clearly as models that write."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertForMaskedLM, BertModel, PreTrainedTokenizerFast

from guard_eval.engines.loading import folder_revision, load, load_encoder
from guard_eval.engines.packed import PackedLinear
from guard_eval.errors import StudyError

pytestmark = pytest.mark.slow


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
    assert not any(isinstance(module, PackedLinear) for module in loaded.model.modules())
    assert (loaded.name, loaded.dtype, loaded.device) == ("mine", "float32", "cpu")
    assert loaded.revision == folder_revision(bert)
    assert load_encoder(str(bert), dtype="bfloat16").dtype == "bfloat16"


def test_it_gives_what_its_whole_model_gives(bert):
    ids = torch.tensor([[5, 6, 7]])
    with torch.no_grad():
        whole = BertForMaskedLM.from_pretrained(bert).eval()(ids, output_hidden_states=True).hidden_states[-1]
        assert torch.equal(load_encoder(str(bert)).model(ids)[0], whole)


def test_an_encoder_does_not_continue_texts(bert):
    with pytest.raises(StudyError, match="is a BertForMaskedLM, which does not continue texts"):
        load(str(bert))


def test_a_model_that_writes_can_be_read_with(gpt2_folder):
    assert type(load_encoder(str(gpt2_folder)).model).__name__ == "GPT2Model"


def refused(folder: object, match: str, **options: str) -> None:
    with pytest.raises(StudyError, match=match) as caught:
        load_encoder(str(folder), **options)
    assert "\n" not in str(caught.value)


def test_what_cannot_be_loaded(bert, tmp_path):
    refused(tmp_path / "nowhere", "there is no such folder")
    refused(bert, "'nonsense' is no device", device="nonsense")
    refused(bert, "'float8' is unknown", dtype="float8")
    (bert / "model.safetensors").write_bytes(b"not a model")
    refused(bert, "cannot load the model in")


def test_weights_that_are_missing(bert):
    path = bert / "model.safetensors"
    weights = load_file(path)
    del weights["bert.encoder.layer.1.output.dense.weight"]
    save_file(weights, path, metadata={"format": "pt"})
    refused(bert, r"lacks 1 of its weights, encoder\.layer\.1\.output\.dense\.weight")


def test_no_tokenizer(bert):
    for path in bert.glob("tokenizer*"):
        path.unlink()
    refused(bert, "no tokenizer")


def test_code_that_comes_with_an_encoder_is_never_run(bert, tmp_path):
    config = json.loads((bert / "config.json").read_text())
    config |= {"model_type": "mine", "auto_map": {"AutoConfig": "mine.Mine", "AutoModel": "mine.Mine"}}
    (bert / "config.json").write_text(json.dumps(config))
    (bert / "mine.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Mine: pass\n")
    refused(bert, "comes with code of its own, which is never run")
    assert not (tmp_path / "ran").exists()
