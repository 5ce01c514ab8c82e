"""Generation on one machine, with transformers: prompts in, batches of continuations out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from numbers import Integral
from typing import Any

import torch

from guard_eval.decoding.noise import row_key
from guard_eval.decoding.processor import DecodedStep
from guard_eval.decoding.steps import LogitStrategy
from guard_eval.engines.batching import BatchSizes, in_batches
from guard_eval.engines.decode import Batch, Decoded, check, check_vocabulary, decode
from guard_eval.engines.encoding import (
    EncodedPrompt,
    context_length,
    encode,
    eos_ids,
    make_continuation,
    name_prompts,
    too_long,
)
from guard_eval.engines.loading import LoadedModel
from guard_eval.errors import StudyError
from guard_eval.records import Continuation, Prompt, Recipe, Trace
from guard_eval.strategies import ContrastiveDecoding, Greedy, Strategy, signature
from guard_eval.strategies.own import source_of


def recipe_of(
    loaded: LoadedModel,
    strategy: Strategy,
    *,
    seed: int,
    max_new_tokens: int,
    max_prompt_tokens: int,
    amateur: LoadedModel | None = None,
    chat: bool = False,
    engine: str | None = None,
    stop: Sequence[str] = (),
) -> Recipe:
    """Return how continuations are made; `engine` names what runs the model, if not transformers."""
    second = amateur if isinstance(strategy, ContrastiveDecoding) else None
    return Recipe(
        model=loaded.name,
        revision=loaded.revision,
        strategy=signature(strategy),
        seed=seed,
        max_new_tokens=max_new_tokens,
        max_prompt_tokens=max_prompt_tokens,
        dtype=loaded.dtype,
        amateur=second.name if second else None,
        amateur_revision=second.revision if second else None,
        chat=chat,
        engine=engine,
        source=source_of(strategy),
        stop=tuple(stop),
    )


def generate(
    loaded: LoadedModel,
    prompts: Sequence[Prompt],
    strategy: Strategy,
    *,
    seed: int,
    max_new_tokens: int,
    max_prompt_tokens: int,
    batch_size: int | BatchSizes,
    runs: Sequence[int] | None = None,
    stop: Sequence[str] = (),
    amateur: LoadedModel | None = None,
    chat: bool = False,
    static: bool = False,
    on_trace: Callable[[list[Trace]], None] | None = None,
    on_step: Callable[[DecodedStep], None] | None = None,
) -> Iterator[list[Continuation]]:
    """Return an iterator over batches of continuations, one for each prompt, the longest prompts first.

    Args:
        loaded: The model.
        prompts: What to continue.
        strategy: How.
        seed: The study's; what is drawn depends on it, the prompt's id, the strategy and the run alone.
        max_new_tokens: The length limit, in tokens.
        max_prompt_tokens: How many of a prompt's last tokens the model is given; see `encoding.encode`.
        batch_size: Rows at once; fewer where memory runs out. `BatchSizes` learns from one call to the next.
        runs: Which of its texts, 1, 2, …, each of `prompts` is to get; the first if left out.
        stop: A text ends before the first of these strings.
        amateur: Contrastive decoding's second model.
        chat: Give the prompts through the model's chat template.
        static: See `decode`.
        on_trace: Given the traces of each batch before the batch is handed out, of strategies that adapt.
        on_step: Given each step of each batch; see `decode`.

    Raises:
        StudyError: A prompt is empty, or the strategy needs what the model has not (before the first batch).
            After the last batch: prompts are too long, or the model gives no probabilities for them; all of
            them are named. During the iteration: memory runs out with a single row.
    """
    check_numbers(
        max_new_tokens=max_new_tokens,
        max_prompt_tokens=max_prompt_tokens,
        batch_size=1 if isinstance(batch_size, BatchSizes) else batch_size,
    )
    if not all(isinstance(text, str) and text for text in stop):
        raise StudyError(f"stop = {list(stop)} must be texts of a character or more")
    if isinstance(strategy, ContrastiveDecoding) and amateur is None:
        raise StudyError(
            f"{strategy} needs a second, smaller model; name it as model.amateur, or give amateur"
        )
    recipe = recipe_of(
        loaded,
        strategy,
        seed=seed,
        max_new_tokens=max_new_tokens,
        max_prompt_tokens=max_prompt_tokens,
        amateur=amateur,
        chat=chat,
        stop=stop,
    )
    rows = encode(loaded, prompts, max_prompt_tokens, chat=chat)
    rows = [replace(row, run=run) for row, run in zip(rows, runs or [1] * len(rows), strict=True)]
    check_vocabulary(loaded.model, loaded.name, strategy)
    check(loaded.model, strategy, amateur.model if amateur else None)
    sizes = batch_size if isinstance(batch_size, BatchSizes) else BatchSizes.capped(batch_size)
    room = context_length(loaded) - max_new_tokens
    ordered = sorted(
        (row for row in rows if len(row.ids) <= room),
        key=lambda row: (-len(row.ids), row.prompt.id, row.run),
    )
    shape = [1, len(ordered[0].ids) if ordered and static else 0]

    def run(batch: Sequence[EncodedPrompt]) -> tuple[Decoded, float]:
        began = time.perf_counter()
        # A cache of fixed shapes is compiled for each shape, so the last batch is filled up, too.
        filler = [batch[-1]] * (shape[0] - len(batch)) if static else []
        decoded = decode(
            loaded.model,
            _batch(loaded, [*batch, *filler], recipe, width=shape[1]),
            strategy,
            amateur=amateur.model if amateur else None,
            trace=on_trace is not None,
            static=static,
            on_step=on_step,
        )
        shape[0] = max(shape[0], len(batch))
        return decoded, (time.perf_counter() - began) / len(batch)

    # Strategies that follow one text a row need the same memory; the others need more, each its own amount.
    kind = "one text a row" if isinstance(strategy, LogitStrategy) else recipe.strategy
    batches = in_batches(ordered, run, sizes, kind=kind)
    return _continuations(loaded, recipe, batches, on_trace, too_long(loaded, rows, max_new_tokens))


def _batch(loaded: LoadedModel, rows: Sequence[EncodedPrompt], recipe: Recipe, width: int) -> Batch:
    keys = [row_key(recipe.seed, row.prompt.id, recipe.strategy, row.run) for row in rows]
    return Batch(
        prompts=[row.ids for row in rows],
        keys=torch.tensor(keys, device=loaded.model.device),
        ends=eos_ids(loaded),
        limit=recipe.max_new_tokens,
        tokenizer=loaded.tokenizer,
        stop=recipe.stop,
        width=width,
    )


def _continuations(
    loaded: LoadedModel,
    recipe: Recipe,
    batches: Iterator[tuple[Sequence[EncodedPrompt], tuple[Decoded, float]]],
    on_trace: Callable[[list[Trace]], None] | None,
    problem: str | None,
) -> Iterator[list[Continuation]]:
    """Yield the texts of each batch, and in the end raise the `problem` of prompts that have none."""
    failed: list[str] = []
    try:
        for batch, (decoded, seconds) in batches:
            texts, traces = [], []
            for index, row in enumerate(batch):
                failure = decoded.failed_at[index]
                if failure is not None:
                    failed.append(f"{row.prompt.id!r} at step {failure + 1}")
                    continue
                text = make_continuation(
                    loaded, recipe, row, decoded.tokens[index], seconds=seconds, batch=len(batch)
                )
                texts.append(text)
                if decoded.trace:
                    values = {
                        name: series[: text.new_tokens] for name, series in decoded.trace[index].items()
                    }
                    traces.append(Trace(id=text.id, prompt_id=text.prompt_id, values=values))
            if on_trace is not None and traces:
                on_trace(traces)
            if texts:
                yield texts
    except torch.OutOfMemoryError as error:
        raise StudyError(
            f"memory ran out on {loaded.device} with a single prompt; "
            "lower generation.max_prompt_tokens, or name a smaller model"
        ) from error
    problems = [problem]
    if failed:
        problems.append(
            f"the model {loaded.name!r} gave no probabilities (NaN or infinite logits) for "
            f"{name_prompts(failed)}; try model.dtype = float32, or remove them"
        )
    if any(problems):
        raise StudyError("; ".join(filter(None, problems)) + "; all other texts are made")


def check_numbers(**settings: Any) -> None:  # noqa: ANN401 (what a user gave)
    """Make sure that each of the settings is a whole number of at least 1.

    Raises:
        StudyError: One is not.
    """
    for name, value in settings.items():
        if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
            raise StudyError(f"{name} = {value!r} is out of range; it must be at least 1, a whole number")


def warm_up(loaded: LoadedModel) -> None:
    """Run two steps and forget them: the first ones load code and memory, and would distort tokens/s."""
    prompt = Prompt(id="warm-up", dataset="", text="Once")
    with suppress(StudyError):  # what is wrong with the model is reported for one of the user's prompts
        for _ in generate(
            loaded, [prompt], Greedy(), seed=0, max_new_tokens=2, max_prompt_tokens=2, batch_size=1
        ):
            pass
