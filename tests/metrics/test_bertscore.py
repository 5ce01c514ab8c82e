"""BERTScore equals the package of its authors, on small random encoders."""

import json

import pytest
import torch
from refusals import expect_refusal
from small_tokenizers import MARKS, marked_words_of
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import (
    AutoModel,
    AutoTokenizer,
    BertConfig,
    BertModel,
    RobertaConfig,
    RobertaModel,
    RobertaTokenizer,
)

from guard_eval.metrics.scorers.bertscore import compute_bertscores, find_default_layer

pytestmark = pytest.mark.slow

VOCABULARY = "the a cat dog sat ran on to mat house old red and it said"
WORDS = [*MARKS, *VOCABULARY.split()]
SIZES = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 24, "initializer_range": 0.4}
TEXTS = ["the cat sat on the mat", "a dog ran", "it said the old red house and the mat", "dog"]
REFERENCES = ["a cat sat on the old mat", "the dog ran to the house", "and it sat", "the cat sat on the mat"]


def word_level(limit=None):
    return marked_words_of(WORDS[len(MARKS) :], **({} if limit is None else {"model_max_length": limit}))


def byte_level(**options):
    tokens = Tokenizer(models.BPE())
    tokens.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    trainer = trainers.BpeTrainer(
        vocab_size=330,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokens.train_from_iterator([*TEXTS, *REFERENCES] * 3, trainer)
    merges = [tuple(pair) for pair in json.loads(tokens.to_str())["model"]["merges"]]
    return RobertaTokenizer(vocab=tokens.get_vocab(), merges=merges, **options)


@pytest.fixture(scope="module")
def bert():
    torch.manual_seed(4)
    config = BertConfig(
        vocab_size=len(WORDS), num_hidden_layers=3, max_position_embeddings=24, pad_token_id=1, **SIZES
    )
    return BertModel(config).eval()


@pytest.fixture(scope="module")
def roberta():
    torch.manual_seed(4)
    config = RobertaConfig(vocab_size=330, num_hidden_layers=3, max_position_embeddings=26, **SIZES)
    return RobertaModel(config).eval()


@pytest.fixture(scope="module")
def folders(bert, roberta, tmp_path_factory):
    encoders = {
        "bert": (bert, word_level(limit=24)),
        "roberta": (roberta, byte_level(add_prefix_space=True, model_max_length=24)),
    }
    folder = tmp_path_factory.mktemp("encoders")
    for kind, parts in encoders.items():
        for layer in parts:
            layer.save_pretrained(folder / kind)
    return folder


def score_texts(model, tokenizer, texts=TEXTS, references=REFERENCES, **options):
    pairs = list(zip(texts, references, strict=True))
    return torch.tensor([f1 for f1, _ in compute_bertscores(model, tokenizer, pairs, **options)])


LONG = (["the cat " * 40, "a dog", "the cat " * 11], ["a dog ran", "it said " * 40, "the cat " * 11])


@pytest.mark.parametrize("layer", [0, 3])
@pytest.mark.parametrize("kind", ["bert", "roberta"])
@pytest.mark.parametrize(("texts", "references"), [(TEXTS, REFERENCES), LONG])
def test_bertscore_equals_the_authors_scores(folders, kind, layer, texts, references):
    """Also compare texts that are too long, and tokenizers without a limit or without a first space."""
    score = pytest.importorskip("bert_score", reason="bert-score is not installed").score
    folder = str(folders / kind)
    *_, expected = score(texts, references, model_type=folder, num_layers=layer, device="cpu", batch_size=3)
    plain = word_level() if kind == "bert" else byte_level()
    for tokenizer in (AutoTokenizer.from_pretrained(folder), plain):
        scores = score_texts(
            AutoModel.from_pretrained(folder).eval(), tokenizer, texts, references, layer=layer
        )
        torch.testing.assert_close(scores, expected, rtol=0, atol=1e-6)
    assert expected.std() > 0.01  # the encoder distinguishes the texts


@pytest.mark.parametrize("nothing", ["", "  \n\t", "</s>", "<s> </s>"])
def test_texts_without_a_word_have_no_bertscore(bert, nothing, capfd):
    pairs = [("the cat", nothing), (nothing, "the cat"), (nothing, nothing), ("a dog", "a cat")]
    *none, (last, _) = compute_bertscores(bert, word_level(), pairs, layer=3)
    assert none == [(None, False)] * 3
    [(alone, _)] = compute_bertscores(bert, word_level(), [("a dog", "a cat")], layer=3)
    assert last == pytest.approx(alone, abs=1e-6)
    assert capfd.readouterr() == ("", "")


def test_bertscore_refuses_missing_layers(bert):
    for layer in (-1, 4):
        with expect_refusal(f"layer {layer}, because the model has 3 layers; .* from 0 to 3"):
            score_texts(bert, word_level(), layer=layer)


def test_default_layer_equals_the_authors_table():
    """Table 8 of Zhang et al. has roberta-large at 17."""
    for name in ("roberta-large", "FacebookAI/roberta-large", "/models/roberta-large/"):
        assert find_default_layer(name) == 17
    for name in ("./mine", "xlm-roberta-large"):
        with expect_refusal(rf"the model '{name}' .* not known; set metrics\.bertscore_layer"):
            find_default_layer(name)
    theirs = pytest.importorskip("bert_score.utils", reason="bert-score is not installed").model2layers
    assert theirs["roberta-large"] == 17
