"""BERTScore: how well the words of a continuation match its reference's in an encoder's eyes.

Zhang et al. (2020), "BERTScore: Evaluating Text Generation with BERT"; the paper's Appendix D. The package
`bert_score` does the arithmetic. Two of its habits do not work with transformers 5 and are put right here:
it asks the tokenizer how long a text may be, which tokenizers need not record, and for GPT-2's and RoBERTa's
kind it asks for a space before the first word, which has no effect any more.
"""

from __future__ import annotations

import copy
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from tokenizers import pre_tokenizers
from transformers import GPT2Tokenizer, RobertaTokenizer

from guard_eval.engines.lazy import LazyModel
from guard_eval.engines.loading import LoadedModel
from guard_eval.errors import MissingExtraError, StudyError
from guard_eval.metrics.cache import Found, Models, Progress, ScoreCache, read_once
from guard_eval.metrics.groups import Group, nonzero
from guard_eval.metrics.outcomes import Outcome, ratio_of
from guard_eval.records import content_id
from guard_eval.study.settings import MetricSettings

_UNLIMITED = 1 << 20
_STACKS = ("layer", "block", "encoder.layer", "encoder.block", "transformer.layer", "layers")
"""Where architectures keep their layers, as XLNet, T5's encoder, BERT, T5, DistilBERT and BART do."""


def signature(name: str, layers: int) -> str:
    """Return the definition of F1 with its settings.

    >>> signature("roberta-large", 17)
    'bertscore|model:roberta-large|layer:17|idf:no|rescaled:no|F1'
    """
    return f"bertscore|model:{name}|layer:{layers}|idf:no|rescaled:no|F1"


def default_layers(name: str) -> int:
    """Return the layer that the metric's authors chose for a model, by its name or the last part of it.

    Raises:
        MissingExtraError: bert-score is not installed.
        StudyError: They chose none.
    """
    layers: dict[str, int] = _library().model2layers
    for candidate in (name, name.rstrip("/").rsplit("/", 1)[-1]):
        if candidate in layers:
            return layers[candidate]
    raise StudyError(
        f"BERTScore's authors chose no layer for the model {name!r}; choose a layer, "
        "or take a model for which they did, such as roberta-large"
    )


def keep_layers(model: Any, layers: int) -> Any:  # noqa: ANN401 (transformers' classes are untyped)
    """Return an encoder whose output is that of its layer number `layers`; the model itself is cut.

    Raises:
        StudyError: It has fewer layers, or it is of an unknown architecture.
    """
    if hasattr(model, "encoder") and hasattr(model, "decoder"):
        model = model.encoder
    if hasattr(model, "n_layers"):  # XLM
        _check_layers(layers, model.n_layers)
        model.n_layers = layers
        return model
    if hasattr(getattr(model, "encoder", None), "albert_layer_groups"):  # its layers share their weights
        _check_layers(layers, model.encoder.config.num_hidden_layers)
        model.encoder.config.num_hidden_layers = layers
        return model
    for path in _STACKS:
        owner_name, _, name = path.rpartition(".")
        owner = getattr(model, owner_name, None) if owner_name else model
        stack = getattr(owner, name, None)
        if isinstance(stack, torch.nn.ModuleList):
            _check_layers(layers, len(stack))
            setattr(owner, name, stack[:layers])
            return model
    raise StudyError(
        f"BERTScore finds no layers in a {type(model).__name__}; "
        "take an encoder such as RoBERTa, BERT or DeBERTa"
    )


def token_limit(model: Any, tokenizer: Any) -> int:  # noqa: ANN401
    """Return how many tokens of a text an encoder reads, the special ones included."""
    limit = int(getattr(model.config, "max_position_embeddings", None) or _UNLIMITED)
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, torch.nn.Embedding):
            # RoBERTa and its kin count positions from the one after the padding's.
            used = 0 if module.padding_idx is None else module.padding_idx + 1
            limit = min(limit, module.num_embeddings - used)
    return min(limit, int(tokenizer.model_max_length))


def count_truncated(model: Any, tokenizer: Any, texts: Sequence[str]) -> int:  # noqa: ANN401
    """Return how many texts are longer than the encoder reads; BERTScore takes their beginning."""
    limit, ours = token_limit(model, tokenizer), _prepared(model, tokenizer)
    return sum(len(ours(text.strip(), verbose=False)["input_ids"]) > limit for text in texts)


def bertscore(
    model: Any,  # noqa: ANN401
    tokenizer: Any,  # noqa: ANN401
    texts: Sequence[str],
    references: Sequence[str],
    *,
    batch_size: int = 64,
) -> list[tuple[float, float, float] | None]:
    """Return precision, recall and F1 of each text against its reference, from -1 to 1.

    Args:
        model: An encoder of transformers, already cut by `keep_layers`.
        tokenizer: Its tokenizer; it is left as it is.
        texts: What is scored.
        references: One per text.
        batch_size: Texts and references together per forward pass.

    Returns:
        One triple per text; None where the text or the reference has no word.

    Raises:
        MissingExtraError: bert-score is not installed.
        StudyError: The tokenizer has no token to pad with.
    """
    library, ours = _library(), _prepared(model, tokenizer)
    pairs = list(zip(texts, references, strict=True))
    special = {ours.cls_token_id: 0.0, ours.sep_token_id: 0.0}
    scored = [i for i, pair in enumerate(pairs) if all(_has_words(ours, text, special) for text in pair)]
    scored.sort(key=lambda i: (max(map(len, pairs[i])), i))
    results: list[tuple[float, float, float] | None] = [None] * len(pairs)
    # The library sorts by length what it is given, ties in no fixed order. Half a batch of pairs makes one
    # batch of texts and references whatever their order, so that results do not depend on it.
    step = max(1, batch_size // 2)
    for start in range(0, len(scored), step):
        chosen = scored[start : start + step]
        rows = library.bert_cos_score_idf(
            model,
            [pairs[i][1] for i in chosen],
            [pairs[i][0] for i in chosen],
            ours,
            defaultdict(lambda: 1.0, special),
            batch_size=max(batch_size, 2),
            device=next(model.parameters()).device,
        )
        for i, (precision, recall, f1) in zip(chosen, rows.tolist(), strict=True):
            results[i] = (precision, recall, f1)
    return results


def _check_layers(wanted: int, available: int) -> None:
    if not 0 <= wanted <= available:
        raise StudyError(
            f"BERTScore's layer {wanted}: the model has {available} layers; choose from 0 to {available}"
        )


def _prepared(model: Any, tokenizer: Any) -> Any:  # noqa: ANN401
    """Return a copy of a tokenizer that does what `bert_score` expects of one."""
    ours = copy.deepcopy(tokenizer)
    ours.model_max_length = token_limit(model, tokenizer)
    if ours.pad_token_id is None:
        filler = ours.eos_token or ours.unk_token
        if filler is None:
            raise StudyError(
                "the encoder's tokenizer has no token to pad with, nor one for the end or the unknown; "
                "take another encoder for BERTScore, such as roberta-large"
            )
        ours.pad_token = filler  # which one does not matter: padding is masked
    if isinstance(ours, GPT2Tokenizer | RobertaTokenizer):
        before = ours.backend_tokenizer.pre_tokenizer
        if isinstance(before, pre_tokenizers.ByteLevel):
            before.add_prefix_space = True
            ours.backend_tokenizer.pre_tokenizer = before
    return ours


def _has_words(tokenizer: Any, text: str, special: dict[int, float]) -> bool:  # noqa: ANN401
    """Return whether a text has a token that counts: a word, and no special token spelled out."""
    words = tokenizer(text.strip(), add_special_tokens=False, verbose=False)["input_ids"]
    return any(token not in special for token in words)


def _library() -> Any:  # noqa: ANN401 (untyped)
    if find_spec("bert_score") is None:
        raise MissingExtraError("metrics", "bert-score")
    from bert_score import utils  # type: ignore[import-untyped]  # noqa: PLC0415 (an extra, and slow to load)

    return utils


def bertscore_outcomes(
    groups: Sequence[Group], settings: MetricSettings, models: Models, cache: ScoreCache, progress: Progress
) -> Found:
    """Return BERTScore's F1 of each strategy against the references."""
    reader = models.encoder(settings.bertscore_model)
    layer = settings.bertscore_layer or default_layers(settings.bertscore_model)
    pairs = {
        (text.text, text.reference) for group in groups for text in group.texts if text.reference is not None
    }
    scores = _bertscores(pairs, reader, layer, cache, progress)
    return {group.key: [_bertscore(group, scores, reader, layer)] for group in groups}


def _bertscores(
    pairs: Iterable[tuple[str, str]], reader: LazyModel, layer: int, cache: ScoreCache, progress: Progress
) -> dict[tuple[str, str], tuple[float | None, bool]]:
    """Return F1 of each pair, None if it has none, and whether text or reference had to be cut."""
    return read_once(
        {pair: content_id("bertscore", 1, reader.identity, layer, *pair) for pair in sorted(pairs)},
        partial(_scored, layer),
        model=reader,
        cache=cache,
        pack=lambda one: json.dumps(one).encode(),
        unpack=lambda value: tuple(json.loads(value)),
        progress=partial(progress, "BERTScore"),
    )


def _scored(
    layer: int, loaded: LoadedModel, pairs: Sequence[tuple[str, str]]
) -> list[tuple[float | None, bool]]:
    encoder = keep_layers(loaded.model, layer)
    texts, references = zip(*pairs, strict=True)
    made = bertscore(encoder, loaded.tokenizer, texts, references)
    long = [count_truncated(encoder, loaded.tokenizer, pair) > 0 for pair in pairs]
    return [(one and one[2], cut) for one, cut in zip(made, long, strict=True)]


def _bertscore(
    group: Group,
    scores: Mapping[tuple[str, str], tuple[float | None, bool]],
    reader: LazyModel,
    layer: int,
) -> Outcome:
    found = [
        (None, False) if text.reference is None else scores[text.text, text.reference] for text in group.texts
    ]
    rows = np.array([(0, 0) if f1 is None else (f1, 1) for f1, _ in found], dtype=float)
    missing = sum(text.reference is None for text in group.texts)
    counts = group.counts | nonzero(
        {"without a reference": missing, "cut to the encoder's length": sum(cut for _, cut in found)}
    )
    return ratio_of(
        "bertscore",
        group.summed(rows),
        n=int(rows[:, 1].sum()),
        counts=counts,
        signature=f"{signature(reader.name, layer)}|revision:{reader.short_revision}|{reader.dtype}",
        note="no text has a reference" if missing == len(group.texts) else "",
        scale=100.0,
    )
