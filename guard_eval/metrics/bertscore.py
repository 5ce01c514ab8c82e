"""BERTScore: how well the words of a continuation match its reference's, as an encoder sees them.

Zhang et al. (2020), "BERTScore: Evaluating Text Generation with BERT"; the paper's Appendix D. The numbers
are those of the authors' package bert-score 0.3.13, without inverse document frequencies and without
rescaling.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from transformers import GPT2Tokenizer, RobertaTokenizer

from guard_eval.errors import StudyError
from guard_eval.metrics.batches import pad_rows
from guard_eval.metrics.cache import ScoreCache, compute_once
from guard_eval.metrics.groups import Group
from guard_eval.metrics.models import ScoringModels
from guard_eval.metrics.outcomes import Outcome, mean_outcome
from guard_eval.records import content_id
from guard_eval.study.settings import MetricSettings

if TYPE_CHECKING:
    from torch import Tensor

LAYERS = {
    "roberta-large": 17,
    "roberta-base": 10,
    "distilroberta-base": 5,
    "bert-base-uncased": 9,
    "bert-large-uncased": 18,
    "bert-base-multilingual-cased": 9,
    "distilbert-base-uncased": 5,
    "xlm-roberta-base": 9,
    "xlm-roberta-large": 17,
    "albert-base-v2": 9,
    "deberta-large-mnli": 18,
    "deberta-xlarge-mnli": 40,
    "bart-large": 10,
}
"""The layer of a model that correlates best with people, as the metric's authors measured it."""


def default_layer(name: str) -> int:
    """Return the layer that the metric's authors chose for a model, by the last part of its name.

    Raises:
        StudyError: The model is not in `LAYERS`.
    """
    layer = LAYERS.get(name.rstrip("/").rsplit("/", 1)[-1])
    if layer is None:
        raise StudyError(
            f"no layer of the model {name!r} is known to be best for BERTScore; set metrics.bertscore_layer, "
            "or take a model such as roberta-large"
        )
    return layer


def token_limit(model: Any, tokenizer: Any) -> int:  # noqa: ANN401 (transformers' classes are untyped)
    """Return how many tokens of a text an encoder reads, the special ones included."""
    limit = int(getattr(model.config.get_text_config(), "max_position_embeddings", None) or 1 << 20)
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, torch.nn.Embedding):
            # RoBERTa and its kin count positions from the one after the padding's.
            used = 0 if module.padding_idx is None else module.padding_idx + 1
            limit = min(limit, module.num_embeddings - used)
    return min(limit, int(tokenizer.model_max_length))


@torch.inference_mode()
def bertscore(
    model: Any,  # noqa: ANN401
    tokenizer: Any,  # noqa: ANN401
    texts: Sequence[str],
    references: Sequence[str],
    *,
    layer: int,
    batch_size: int = 32,
) -> list[tuple[float, float, float] | None]:
    """Return precision, recall and F1 of each text against its reference, from -1 to 1.

    Each token is matched with the most similar token of the other side, by the cosine of their hidden states.
    The marks at a text's ends can be matched but do not count.

    Args:
        model: An encoder of transformers, or a model with one.
        tokenizer: Its tokenizer.
        texts: What is scored.
        references: One for each text.
        layer: Whose output represents a token; 0 is the embeddings.
        batch_size: Pairs in a forward pass.

    Returns:
        One triple for each text; None where the text or the reference has no word.

    Raises:
        StudyError: The model has no such layer.
    """
    encoder = model.get_encoder() if model.config.is_encoder_decoder else model
    limit = token_limit(encoder, tokenizer)
    sides = [[_ids(tokenizer, text, limit) for text in side] for side in (texts, references)]
    scores: list[tuple[float, float, float] | None] = [None] * len(texts)
    pairs = list(zip(*sides, strict=True))
    order = [index for index, pair in enumerate(pairs) if all(any(counts) for _, counts in pair)]
    order.sort(key=lambda index: max(len(ids) for ids, _ in pairs[index]))
    for start in range(0, len(order), batch_size):
        batch = order[start : start + batch_size]
        x, x_real, x_counts = _embed(encoder, [sides[0][index] for index in batch], layer)
        y, y_real, y_counts = _embed(encoder, [sides[1][index] for index in batch], layer)
        similarity = (x @ y.transpose(1, 2)).masked_fill(~(x_real[:, :, None] & y_real[:, None]), 0)
        precision = (similarity.amax(2) * x_counts).sum(1) / x_counts.sum(1)
        recall = (similarity.amax(1) * y_counts).sum(1) / y_counts.sum(1)
        total = precision + recall
        f1 = torch.where(total == 0, 0.0, 2 * precision * recall / total)
        for index, values in zip(batch, torch.stack([precision, recall, f1], 1).tolist(), strict=True):
            scores[index] = tuple(values)
    return scores


def _ids(tokenizer: Any, text: str, limit: int) -> tuple[list[int], list[bool]]:  # noqa: ANN401
    """Return the tokens of a text, and which of them count: all but the marks at its ends."""
    # These two kinds tokenise a first word as one within a text only if a space is before it.
    start = " " if isinstance(tokenizer, GPT2Tokenizer | RobertaTokenizer) else ""
    ids = tokenizer(start + text.strip(), verbose=False)["input_ids"]
    if len(ids) > limit:  # the mark at the end stays
        ids = ids[: limit - 1] + (ids[-1:] if ids[-1] == tokenizer.sep_token_id else ids[limit - 1 : limit])
    return ids, [token not in {tokenizer.cls_token_id, tokenizer.sep_token_id} for token in ids]


def _embed(
    encoder: Any,  # noqa: ANN401
    rows: Sequence[tuple[list[int], list[bool]]],
    layer: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return unit vectors `[n, tokens, d]`, which tokens are real, and which count, `[n, tokens]` each."""
    # Any token pads: padding is masked. RoBERTa counts positions by what is not its own padding token.
    ids, real = pad_rows([row for row, _ in rows], encoder, encoder.config.pad_token_id or 0)
    counts, _ = pad_rows([row for _, row in rows], encoder)
    states = encoder(input_ids=ids, attention_mask=real.long(), output_hidden_states=True).hidden_states
    if not 0 <= layer < len(states):
        raise StudyError(
            f"BERTScore's layer {layer}: the model has {len(states) - 1} layers; set metrics.bertscore_layer "
            f"from 0 to {len(states) - 1}"
        )
    return torch.nn.functional.normalize(states[layer].float(), dim=-1), real, counts.bool()


def bertscore_outcomes(
    groups: Sequence[Group], settings: MetricSettings, models: ScoringModels, cache: ScoreCache
) -> dict[tuple[str, str, int], list[Outcome]]:
    """Return BERTScore's F1 of each strategy against the references."""
    encoder = models.encoder(settings.bertscore_model)
    layer = settings.bertscore_layer or default_layer(settings.bertscore_model)
    pairs = {
        (text.text, text.reference) for group in groups for text in group.texts if text.reference is not None
    }

    def compute(batch: Sequence[tuple[str, str]]) -> list[tuple[float | None, bool]]:
        model, tokenizer = encoder.loaded.model, encoder.loaded.tokenizer
        limit = token_limit(model, tokenizer)
        scores = bertscore(model, tokenizer, *zip(*batch, strict=True), layer=layer)
        cut = [any(len(_ids(tokenizer, text, 1 << 30)[0]) > limit for text in pair) for pair in batch]
        return [(score and score[2], long) for score, long in zip(scores, cut, strict=True)]

    ordered = sorted(pairs, key=lambda pair: (max(map(len, pair)), pair))
    keys = {pair: content_id("bertscore", 2, encoder.identity, layer, *pair) for pair in ordered}
    scores = compute_once("BERTScore", keys, compute, cache)
    signature = f"bertscore|model:{encoder.name}|layer:{layer}|idf:no|rescaled:no|F1|"
    signature += f"revision:{encoder.short_revision}|{encoder.dtype}"
    return {group.key: [_outcome(group, scores, signature)] for group in groups}


def _outcome(group: Group, scores: dict[tuple[str, str], Any], signature: str) -> Outcome:
    stored = [
        (None, False) if text.reference is None else scores[text.text, text.reference] for text in group.texts
    ]
    missing = sum(text.reference is None for text in group.texts)
    values = [100.0 * f1 if f1 is not None and math.isfinite(f1) else None for f1, _ in stored]
    counts = {
        "without a reference": missing,
        "cut to the encoder's length": sum(cut for _, cut in stored),
        "not a finite number": sum(f1 is not None and not math.isfinite(f1) for f1, _ in stored),
    }
    return mean_outcome(
        "bertscore",
        group,
        values,
        signature=signature,
        counts=counts,
        note="no text has a reference" if missing == len(group.texts) else "",
    )
