"""Make small tokenizers for tests: with whole words, or with bytes and a few merges."""

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

MARKS = ["<s>", "<pad>", "</s>", "<unk>"]
"""The first words of an encoder's vocabulary."""


def words_of(vocabulary):
    """Return a tokenizer for a language model: a token per word. The first token begins and ends texts."""
    first = vocabulary[0]
    tokens = Tokenizer(models.WordLevel({word: i for i, word in enumerate(vocabulary)}, unk_token=first))
    tokens.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=tokens, bos_token=first, eos_token=first)


def marked_words_of(words, **options):
    """Return a tokenizer for an encoder: `MARKS`, then a token per word. <s> and </s> enclose texts."""
    vocabulary = {word: i for i, word in enumerate([*MARKS, *words])}
    tokens = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokens.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokens.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    names = {"cls_token": "<s>", "pad_token": "<pad>", "sep_token": "</s>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(tokenizer_object=tokens, **names, **options)


def bytes_of(texts, vocabulary, **options):
    """Return a byte-level BPE tokenizer with an end-of-text token, but without padding and start tokens."""
    tokens = Tokenizer(models.BPE())
    tokens.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokens.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokens.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokens, eos_token="<|endoftext|>", **options)
