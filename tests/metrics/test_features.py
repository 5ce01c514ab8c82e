"""Features of texts equal the features of the package mauve-text, and long texts are cut."""

import numpy as np
import pytest
import torch
from small_tokenizers import bytes_of
from tiny_models import VOCABULARY, tiny
from tokenizers import processors

from guard_eval.metrics.scorers.batches import compute_values_in_batches
from guard_eval.metrics.scorers.mauve import compute_text_features, cut_to_first_tokens

TEXTS = [
    "the cat sat on the mat",
    "a",
    "and the dog ran to the old red house , it 's said .",
    "the dog the dog the dog the dog",
    " red",
]


@pytest.fixture(scope="module")
def tokenizer():
    return bytes_of(TEXTS * 3, VOCABULARY)


@pytest.mark.filterwarnings("ignore:`past_key_values` is deprecated:FutureWarning")  # mauve-text passes it
@pytest.mark.parametrize("batch_size", [1, 2, 16])
def test_features_equal_those_of_mauve_text(tokenizer, batch_size):
    utils = pytest.importorskip("mauve.utils", reason="mauve-text is not installed")
    ids, model = [tokenizer.encode(text, return_tensors="pt") for text in TEXTS], tiny("gpt2")
    expected = utils.featurize_tokens_from_model(model.base_model, ids, 1).numpy()
    *features, none = compute_text_features(model, tokenizer, [*TEXTS, None], batch_size=batch_size)
    assert (features[0].dtype, none) == (np.float32, None)
    np.testing.assert_allclose(features, expected, rtol=0, atol=1e-5)


def test_features_of_long_texts_are_cut_to_the_context(tokenizer):
    long = " ".join(TEXTS * 20)
    cut = cut_to_first_tokens(tokenizer, long, 128)  # tiny GPT-2's context
    both = compute_text_features(tiny("gpt2"), tokenizer, [long, cut])
    np.testing.assert_allclose(both[0], both[1], rtol=0, atol=1e-5)
    assert cut_to_first_tokens(tokenizer, TEXTS[0], 128) is None


def test_features_use_the_usual_special_tokens(tokenizer):
    marked = bytes_of(TEXTS * 3, VOCABULARY)
    marked.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="$A <|endoftext|>", special_tokens=[("<|endoftext|>", 0)]
    )
    spelled = compute_text_features(tiny("gpt2"), tokenizer, ["the cat<|endoftext|>"])
    np.testing.assert_array_equal(compute_text_features(tiny("gpt2"), marked, ["the cat"]), spelled)
    assert cut_to_first_tokens(marked, "the cat", len(tokenizer("the cat")["input_ids"])) == "the cat"


def test_batches_shrink_if_memory_runs_out():
    sizes, longest = [], []

    def sum_rows(rows):
        sizes.append(len(rows))
        longest.append(max(map(len, rows)))
        if len(rows) > 2:
            raise torch.OutOfMemoryError
        return [sum(row) for row in rows]

    rows = [[1], [2, 2, 2], None, [3, 3], [4], [5]]
    assert compute_values_in_batches(rows, len, sum_rows, max_rows=5) == [1, 6, None, 6, 4, 5]
    assert sizes == [5, 2, 2, 1]
    assert longest == [3, 3, 1, 1]  # the longest rows come first, so that memory runs out early
