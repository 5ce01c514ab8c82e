"""BERTScore: the similarity of a continuation and its reference, by the hidden states of an encoder.

Sources: Zhang et al. (2020), "BERTScore: Evaluating Text Generation with BERT"; the paper's Appendix D. The
numbers are equal to those of the authors' package bert-score 0.3.13, without inverse document frequencies and
without rescaling.
"""

import math
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor
from transformers import GPT2Tokenizer, RobertaTokenizer

from guard_eval.errors import StudyError
from guard_eval.generation.engines import Model, Tokenizer
from guard_eval.metrics.outcomes import Group, Outcome, make_outcome_from_text_values
from guard_eval.metrics.scorers.batches import compute_values_in_batches, pad_rows
from guard_eval.metrics.scoring_models import MetricTools

BEST_LAYER_OF_ROBERTA_LARGE = 17
"""The layer that agrees best with people, as measured by the metric's authors."""


def find_default_layer(model_name: str) -> int:
    """Return the layer that the metric's authors chose for roberta-large, the usual model.

    Raises:
        StudyError: The model is another one.
    """
    if model_name.rstrip("/").rsplit("/", 1)[-1] == "roberta-large":
        return BEST_LAYER_OF_ROBERTA_LARGE
    raise StudyError(
        f"the best layer of the model {model_name!r} for BERTScore is not known; set "
        "metrics.bertscore_layer, or use roberta-large"
    )


def find_token_limit(model: Model, tokenizer: Tokenizer) -> int:
    """Return the largest number of tokens that an encoder can read, including special tokens."""
    limits = [getattr(model.config.get_text_config(), "max_position_embeddings", None)]
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and module.padding_idx is not None:
            # RoBERTa and similar models count positions from the position after the padding's.
            limits.append(module.num_embeddings - module.padding_idx - 1)
    return int(min(filter(None, [*limits, tokenizer.model_max_length])))


def compute_bertscores(
    model: Model,
    tokenizer: Tokenizer,
    pairs: Sequence[Sequence[str]],
    *,
    layer: int,
    batch_size: int = 32,
) -> list[tuple[float | None, bool]]:
    """Return the F1 of each text and its reference, from −1 to 1, and whether the text or reference was cut.

    Each token is matched with the most similar token of the other text, by the cosine of the hidden states.
    The special tokens at a text's ends can be matched but do not count. F1 is None if the text or the
    reference has no word.

    Args:
        model: An encoder of transformers.
        tokenizer: The model's tokenizer.
        pairs: Pairs of a text and its reference.
        layer: The layer whose output represents a token. Layer 0 is the embeddings.
        batch_size: The number of pairs in a forward pass.

    Raises:
        StudyError: The model has no such layer.
    """
    limit = find_token_limit(model, tokenizer)
    encoded = [_encode_texts(tokenizer, pair) for pair in pairs]
    cut_pairs = [[_cut_to_token_limit(row, limit) for row in pair] for pair in encoded]
    match = partial(_compute_pair_f1, model, tokenizer, layer)
    scores = compute_values_in_batches(
        cut_pairs, lambda pair: max(map(len, pair)), match, max_rows=batch_size
    )
    return [
        (score, pair != cut_pair) for score, pair, cut_pair in zip(scores, encoded, cut_pairs, strict=True)
    ]


def _cut_to_token_limit(row: list[int], limit: int) -> list[int]:
    """Cut a text to `limit` tokens, but keep the special token at the end."""
    return row if len(row) <= limit else [*row[: limit - 1], row[-1]]


def _encode_texts(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    """Return the token ids of each text, with the special tokens at both ends."""
    # These two tokenizers encode the first word like other words only if it follows a space.
    start = " " if isinstance(tokenizer, GPT2Tokenizer | RobertaTokenizer) else ""
    rows: list[list[int]] = tokenizer([start + text.strip() for text in texts], verbose=False)["input_ids"]
    return rows


@torch.inference_mode()
def _compute_pair_f1(
    model: Model, tokenizer: Tokenizer, layer: int, pairs: Sequence[Sequence[list[int]]]
) -> list[float | None]:
    """Return the F1 of each pair of token ids. A pair has the tokens of a text and of its reference."""
    texts, references = zip(*pairs, strict=True)
    x, x_real, x_counts = _embed_tokens(model, tokenizer, layer, texts)
    y, y_real, y_counts = _embed_tokens(model, tokenizer, layer, references)
    are_real = x_real[:, :, None] & y_real[:, None]
    similarity = (x @ y.transpose(1, 2)).masked_fill(~are_real, 0)
    # A token's similarity is the similarity of its best match. The mean is over the tokens that count.
    best_for_x = similarity.amax(2) * x_counts
    best_for_y = similarity.amax(1) * y_counts
    precision = best_for_x.sum(1) / x_counts.sum(1)
    recall = best_for_y.sum(1) / y_counts.sum(1)
    total = precision + recall
    f1 = torch.where(total == 0, 0.0, 2 * precision * recall / total)
    have_words = x_counts.any(1) & y_counts.any(1)
    scored_pairs = zip(f1.tolist(), have_words.tolist(), strict=True)
    return [score if has_words else None for score, has_words in scored_pairs]


def _embed_tokens(
    model: Model, tokenizer: Tokenizer, layer: int, rows: Sequence[list[int]]
) -> tuple[Tensor, Tensor, Tensor]:
    """Return a unit vector for each token, `[n, tokens, d]`, and two masks, `[n, tokens]`.

    The first mask is false for padding. The second mask is also false for special tokens, which do not count.
    """
    ids, real = pad_rows(rows, model, tokenizer.pad_token_id)
    states = model(input_ids=ids, attention_mask=real.long(), output_hidden_states=True).hidden_states
    last = len(states) - 1
    if not 0 <= layer <= last:
        raise StudyError(
            f"BERTScore cannot use layer {layer}, because the model has {last} layers; set "
            f"metrics.bertscore_layer from 0 to {last}"
        )
    is_special = (ids == tokenizer.cls_token_id) | (ids == tokenizer.sep_token_id)
    vectors = torch.nn.functional.normalize(states[layer].float(), dim=-1)
    return vectors, real, real & ~is_special


def yield_outcomes(
    groups: Sequence[Group],
    _: Sequence[str],
    tools: MetricTools,
) -> Iterator[Outcome]:
    """Yield BERTScore's F1 of each strategy against the references."""
    settings = tools.settings
    encoder = tools.models.open(settings.bertscore_model, kind="AutoModel")
    layer = settings.bertscore_layer or find_default_layer(settings.bertscore_model)
    texts = [text for group in groups for text in group.texts]
    pairs = [(text.text, text.reference) for text in texts if text.reference is not None]
    stored = tools.read_or_compute_values(
        ["bertscore", layer], encoder, pairs, partial(compute_bertscores, layer=layer)
    )
    signature = f"bertscore|{encoder.signature}|layer:{layer}|idf:no|rescaled:no|F1"
    for group in groups:
        scores = [stored.get((text.text, text.reference or ""), (None, False)) for text in group.texts]
        values = np.array([math.nan if f1 is None else 100.0 * f1 for f1, _ in scores])
        missing = sum(text.reference is None for text in group.texts)
        unscored = sum(f1 is None for f1, _ in scores)
        counts = {
            "without a reference": missing,
            "cut to the encoder's length": sum(is_cut for _, is_cut in scores),
            "not a finite number": int((~np.isfinite(values)).sum()) - unscored,
        }
        note = "no text has a reference" if missing == len(scores) else ""
        yield make_outcome_from_text_values(
            "bertscore", group, values, signature=signature, counts=counts, note=note
        )
