"""Features against mauve-text's own, and texts cut to their first tokens."""

import numpy as np
import pytest
from small_tokenizers import bytes_of
from tiny_models import VOCABULARY, tiny
from tokenizers import processors

from guard_eval.errors import StudyError
from guard_eval.metrics.mauve import first_tokens, hidden_features

TEXTS = [
    "the cat sat on the mat",
    "a",
    "and the dog ran to the old red house , it 's said .",
    "the dog the dog the dog the dog",
    " red",
]


def byte_level(**more):
    return bytes_of(TEXTS * 3, VOCABULARY, **more)


@pytest.fixture(scope="module")
def tokenizer():
    return byte_level()


@pytest.fixture(scope="module")
def model():
    return tiny("gpt2")


@pytest.mark.parametrize("batch_size", [1, 2, 16])
def test_the_features_of_mauve_text(model, tokenizer, batch_size):
    utils = pytest.importorskip("mauve.utils", reason="mauve-text is not installed")
    ids = [tokenizer.encode(text, return_tensors="pt") for text in TEXTS]
    expected = utils.featurize_tokens_from_model(model.base_model, ids, 1).numpy()
    features = hidden_features(model, tokenizer, TEXTS, batch_size=batch_size)
    assert features.dtype == np.float32
    np.testing.assert_allclose(features, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", ["gpt2", "llama", "opt", "mistral"])
def test_a_batch_equals_one_by_one(kind, tokenizer):
    model = tiny(kind)
    alone = np.vstack([hidden_features(model, tokenizer, [text]) for text in TEXTS])
    np.testing.assert_allclose(hidden_features(model, tokenizer, TEXTS), alone, rtol=0, atol=1e-5)


def test_never_more_than_the_context(model, tokenizer):
    long = " ".join(TEXTS * 20)
    cut, count = first_tokens(tokenizer, long, 128)  # tiny GPT-2's context
    assert count == 128
    both = hidden_features(model, tokenizer, [long, cut])
    np.testing.assert_allclose(both[0], both[1], rtol=0, atol=1e-5)


def test_special_tokens_as_the_tokenizer_adds_them(model):
    plain, marked = byte_level(), byte_level()
    marked.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="$A <|endoftext|>", special_tokens=[("<|endoftext|>", 0)]
    )
    spelled = hidden_features(model, plain, ["the cat<|endoftext|>"])
    np.testing.assert_array_equal(hidden_features(model, marked, ["the cat"]), spelled)
    assert first_tokens(marked, "the cat", 50)[0] == "the cat"


def test_a_text_without_a_token(model, tokenizer):
    with pytest.raises(StudyError, match=r"text 1 of 2 \(''\) has no token.*leave empty texts out"):
        hidden_features(model, tokenizer, ["a", ""])
