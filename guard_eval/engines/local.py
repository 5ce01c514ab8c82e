"""Generation on one machine, with transformers: prompts in, batches of continuations out."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import torch

from guard_eval.decoding.noise import row_key
from guard_eval.engines.contrastive import check_contrastive, decode_contrastive
from guard_eval.engines.loading import LoadedModel
from guard_eval.engines.logits import Batch, Generated, decode_logits
from guard_eval.engines.texts import EncodedPrompt, continuation_text, encode, eos_ids, left_padded, pad_id
from guard_eval.errors import StudyError
from guard_eval.records import Continuation, Prompt, Recipe
from guard_eval.strategies import AdaptiveContrastiveSearch, ContrastiveSearch, Greedy, Strategy, signature


def recipe(
    loaded: LoadedModel, strategy: Strategy, *, seed: int, max_new_tokens: int, max_prompt_tokens: int
) -> Recipe:
    """Return how `generate` makes continuations: its `continuation_id` tells which are there already."""
    return Recipe(
        model=loaded.name,
        revision=loaded.revision,
        strategy=signature(strategy),
        seed=seed,
        max_new_tokens=max_new_tokens,
        max_prompt_tokens=max_prompt_tokens,
        dtype=loaded.dtype,
    )


def generate(
    loaded: LoadedModel,
    prompts: Sequence[Prompt],
    strategy: Strategy,
    *,
    seed: int,
    max_new_tokens: int,
    max_prompt_tokens: int,
    batch_size: int,
) -> Iterator[list[Continuation]]:
    """Return an iterator over batches of continuations, one for each prompt, the longest prompts first.

    In float32 a prompt's tokens do not depend on the batch it is in, up to the rounding of matrix products:
    two scores that lie within about 1e-5 of each other may change places with the batch.

    Raises:
        StudyError: A prompt is empty, prompts and limit exceed the model's context, or the strategy needs
            what the model has not (all before the first batch); the model gives no probabilities, or memory
            runs out (during the iteration: batches that were given stay good).
    """
    for setting, value in {"max_new_tokens": max_new_tokens, "batch_size": batch_size}.items():
        if value < 1:
            raise StudyError(f"{setting} = {value} is out of range; it must be at least 1")
    made_by = recipe(
        loaded, strategy, seed=seed, max_new_tokens=max_new_tokens, max_prompt_tokens=max_prompt_tokens
    )
    encoded = encode(loaded, prompts, max_prompt_tokens)
    _check_context(loaded, encoded, max_new_tokens)
    if encoded and isinstance(strategy, ContrastiveSearch | AdaptiveContrastiveSearch):
        check_contrastive(loaded.model, strategy, max(len(row.ids) for row in encoded) + max_new_tokens)
    ordered = sorted(encoded, key=lambda row: (-len(row.ids), row.prompt.id))
    starts = range(0, len(ordered), batch_size)
    return (_batch(loaded, ordered[start : start + batch_size], strategy, made_by) for start in starts)


def warm_up(loaded: LoadedModel) -> None:
    """Run two steps and forget them: the first ones load code and memory, which is nobody's tokens/s."""
    prompt = Prompt(id="warm-up", dataset="", text="Once")
    for _ in generate(
        loaded, [prompt], Greedy(), seed=0, max_new_tokens=2, max_prompt_tokens=2, batch_size=1
    ):
        pass


def _check_context(loaded: LoadedModel, encoded: Sequence[EncodedPrompt], max_new_tokens: int) -> None:
    context = getattr(loaded.model.config.get_text_config(), "max_position_embeddings", None)
    if context is None or not encoded:
        return
    longest = max(encoded, key=lambda row: len(row.ids))
    if len(longest.ids) + max_new_tokens > context:
        raise StudyError(
            f"the prompt {longest.prompt.id!r} has {len(longest.ids)} tokens, and with max_new_tokens = "
            f"{max_new_tokens} more it exceeds the {context} that the model {loaded.name!r} can hold; "
            + _shorter(context - max_new_tokens, context)
        )


def _shorter(room: int, context: int) -> str:
    if room > 0:
        return f"set max_prompt_tokens to {room} or less, or lower max_new_tokens"
    return f"set max_new_tokens below {context}"


def _batch(
    loaded: LoadedModel, rows: Sequence[EncodedPrompt], strategy: Strategy, made_by: Recipe
) -> list[Continuation]:
    start = time.perf_counter()
    generated = _decode(loaded, rows, strategy, made_by)
    tokens, failed = generated.tokens.tolist(), generated.failed_at.tolist()
    seconds = (time.perf_counter() - start) / len(rows)
    for row, step in zip(rows, failed, strict=True):
        if step < made_by.max_new_tokens:
            raise StudyError(
                f"the model {loaded.name!r} gave no probabilities (NaN or infinite logits) for the prompt "
                f"{row.prompt.id!r} at step {step + 1}; try model.dtype = float32, or remove the prompt"
            )
    ends = set(eos_ids(loaded))
    return [
        _continuation(loaded, row, _until_end(new, ends), ends, made_by, seconds=seconds, batch=len(rows))
        for row, new in zip(rows, tokens, strict=True)
    ]


def _decode(
    loaded: LoadedModel, rows: Sequence[EncodedPrompt], strategy: Strategy, made_by: Recipe
) -> Generated:
    device = loaded.model.device
    ids, mask = left_padded([row.ids for row in rows], pad_id(loaded), device)
    keys = [row_key(made_by.seed, row.prompt.id, made_by.strategy) for row in rows]
    batch = Batch(
        ids=ids,
        mask=mask,
        keys=torch.tensor(keys, device=device),
        ends=torch.tensor(eos_ids(loaded), dtype=torch.long, device=device),
        limit=made_by.max_new_tokens,
    )
    try:
        if isinstance(strategy, ContrastiveSearch | AdaptiveContrastiveSearch):
            return decode_contrastive(loaded.model, batch, strategy)
        return decode_logits(loaded.model, batch, strategy)
    except torch.OutOfMemoryError as error:
        raise StudyError(
            f"memory ran out on {loaded.device} with {len(rows)} prompts of up to {ids.shape[1]} tokens; "
            "lower generation.batch_size"
        ) from error


def _until_end(new: list[int], ends: set[int]) -> list[int]:
    end = next((place for place, token in enumerate(new) if token in ends), len(new) - 1)
    return new[: end + 1]


def _continuation(
    loaded: LoadedModel,
    row: EncodedPrompt,
    new: list[int],
    ends: set[int],
    made_by: Recipe,
    *,
    seconds: float,
    batch: int,
) -> Continuation:
    return Continuation(
        id=made_by.continuation_id(row.prompt),
        prompt_id=row.prompt.id,
        dataset=row.prompt.dataset,
        recipe=made_by,
        text=continuation_text(loaded.tokenizer, row.ids, new),
        prompt_tokens=len(row.ids),
        new_tokens=len(new),
        finish="eos" if new[-1] in ends else "length",
        seconds=seconds,
        batch=batch,
        device=loaded.device,
        versions=loaded.versions,
    )
