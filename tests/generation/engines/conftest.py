"""Models for the tests of engines: two real models if they are available, and two random models."""

from pathlib import Path

import pytest
from small_tokenizers import bytes_of
from tiny_models import VOCABULARY, tiny

from guard_eval.generation.engines.loading import load_pretrained

SHARED = Path(__file__).parents[3].parent / "shared" / "models"


def save_random(kind, folder):
    """Write a random model and its tokenizer."""
    tiny(kind).save_pretrained(folder)
    text = "the cat sat on the mat and the dog ran to the old red house"
    bytes_of([text] * 3, VOCABULARY).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def llama_folder(tmp_path_factory):
    return save_random("llama", tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="session")
def gpt2_folder(tmp_path_factory):
    return save_random("gpt2", tmp_path_factory.mktemp("gpt2"))


@pytest.fixture(scope="session")
def loaded(request, llama_folder, gpt2_folder):
    """Load the model that `@pytest.mark.parametrize("loaded", [...], indirect=True)` names."""
    if request.param in {"llama", "gpt2"}:
        return load_pretrained(
            str(llama_folder if request.param == "llama" else gpt2_folder), name=request.param
        )
    if not (SHARED / request.param).is_dir():
        pytest.skip(f"{SHARED / request.param} is not available")
    return load_pretrained(str(SHARED / request.param), name=request.param)
