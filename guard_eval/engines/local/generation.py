"""Generation on one machine, with transformers: prompts in, batches of continuations out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from numbers import Integral

import torch

from guard_eval.decoding.chains import needs_breakers
from guard_eval.decoding.noise import row_key
from guard_eval.engines.loading import LoadedModel
from guard_eval.engines.local.batch import Batch, DecodedStep, Generated
from guard_eval.engines.local.batching import BatchSizes, in_batches
from guard_eval.engines.local.decode import check, check_vocabulary, decode
from guard_eval.engines.local.texts import (
    EncodedPrompt,
    breaker_ids,
    check_context,
    encode,
    eos_ids,
    make_continuation,
    name_prompts,
    stops_of,
)
from guard_eval.errors import StudyError
from guard_eval.records import Continuation, Prompt, Recipe, Trace
from guard_eval.strategies import (
    AdaptiveContrastiveSearch,
    BeamSearch,
    ContrastiveDecoding,
    ContrastiveSearch,
    Greedy,
    Strategy,
    signature,
)
from guard_eval.strategies.own import source_of

_SEVERAL_A_ROW = (BeamSearch, ContrastiveDecoding, ContrastiveSearch, AdaptiveContrastiveSearch)
"""Strategies of which one row takes the memory of several; the others take as much as each other."""


def recipe(
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
    compiled: bool = False,
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
        max_prompt_tokens: How many of a prompt's last tokens the model is given; see `texts.encode`.
        batch_size: Rows at once; fewer where memory runs out. `BatchSizes` learns from one call to the next.
        runs: Which of its texts, 1, 2, …, each of `prompts` is to get; the first if left out.
        stop: A text ends before the first of these strings.
        amateur: Contrastive decoding's second model.
        chat: Give the prompts through the model's chat template.
        compiled: See `decode`.
        on_trace: Given the traces of each batch before the batch is handed out; strategies with a state,
            such as GUARD, have any.
        on_step: Given each step of each batch; see `decode`.

    Raises:
        StudyError: A prompt is empty, prompts and limit exceed the model's context, or the strategy needs
            what the model has not (all before the first batch); the model gives no probabilities for some
            prompts (after the last batch; all of them are named), or memory runs out with a single row
            (during the iteration: what was handed out stays good).
    """
    numbers = {"max_new_tokens": max_new_tokens, "max_prompt_tokens": max_prompt_tokens}
    check_numbers(**numbers, batch_size=1 if isinstance(batch_size, BatchSizes) else batch_size)
    if not all(isinstance(one, str) and one for one in stop):
        raise StudyError(f"stop = {list(stop)} must be texts of a character or more")
    made_by = recipe(
        loaded,
        strategy,
        seed=seed,
        max_new_tokens=max_new_tokens,
        max_prompt_tokens=max_prompt_tokens,
        amateur=amateur,
        chat=chat,
        stop=stop,
    )
    job = _Job(
        loaded, amateur, strategy, made_by, traced=on_trace is not None, compiled=compiled, on_step=on_step
    )
    encoded = [
        replace(row, run=run)
        for row, run in zip(
            encode(loaded, prompts, max_prompt_tokens, chat=chat), runs or [1] * len(prompts), strict=True
        )
    ]
    job.check(encoded)
    sizes = batch_size if isinstance(batch_size, BatchSizes) else BatchSizes.capped(batch_size)
    ordered = sorted(encoded, key=lambda row: (-len(row.ids), row.prompt.id, row.run))
    return _batches(job, ordered, sizes, on_trace)


def check_numbers(**settings: object) -> None:
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


@dataclass(frozen=True)
class _Job:
    """One strategy's texts: what does not change from batch to batch."""

    loaded: LoadedModel
    amateur: LoadedModel | None
    strategy: Strategy
    made_by: Recipe
    traced: bool
    compiled: bool
    on_step: Callable[[DecodedStep], None] | None

    def check(self, encoded: Sequence[EncodedPrompt]) -> None:
        if isinstance(self.strategy, ContrastiveDecoding) and self.amateur is None:
            raise StudyError(
                f"{self.strategy} needs a second, smaller model; name it as model.amateur, or give amateur"
            )
        if not encoded:
            return
        check_context(self.loaded, encoded, self.made_by.max_new_tokens)
        if isinstance(self.strategy, ContrastiveDecoding) and self.amateur is not None:
            last = self.strategy.amateur_prompt == "last"
            seen = [replace(row, ids=row.ids[-1:]) for row in encoded] if last else encoded
            check_context(self.amateur, seen, self.made_by.max_new_tokens)
        check_vocabulary(self.loaded.model, self.loaded.name, self.strategy)
        check(self.loaded.model, self.strategy, self.amateur.model if self.amateur else None)

    def run(self, rows: Sequence[EncodedPrompt]) -> tuple[Generated, float]:
        """Return what the model makes of `rows`, and the seconds it took for each."""
        start = time.perf_counter()
        device = self.loaded.model.device
        keys = [row_key(self.made_by.seed, row.prompt.id, self.made_by.strategy, row.run) for row in rows]
        batch = Batch(
            prompts=[row.ids for row in rows],
            keys=torch.tensor(keys, device=device),
            ends=torch.tensor(eos_ids(self.loaded), dtype=torch.long, device=device),
            limit=self.made_by.max_new_tokens,
            breakers=torch.tensor(breaker_ids(self.loaded.tokenizer), device=device)
            if needs_breakers(self.strategy)
            else None,
            stops=stops_of(self.loaded.tokenizer, self.made_by),
        )
        generated = decode(
            self.loaded.model,
            batch,
            self.strategy,
            amateur=self.amateur.model if self.amateur else None,
            trace=self.traced,
            compiled=self.compiled,
            on_step=self.on_step,
        )
        return generated, (time.perf_counter() - start) / len(rows)


def _batches(
    job: _Job,
    ordered: Sequence[EncodedPrompt],
    sizes: BatchSizes,
    on_trace: Callable[[list[Trace]], None] | None,
) -> Iterator[list[Continuation]]:
    limit = job.made_by.max_new_tokens
    kind = signature(job.strategy) if isinstance(job.strategy, _SEVERAL_A_ROW) else "one token a row"
    failed: list[str] = []
    batches = in_batches(ordered, job.run, sizes, kind=kind, length=lambda row: len(row.ids) + limit)
    try:
        for rows, (generated, seconds) in batches:
            made = {
                place: make_continuation(
                    job.loaded,
                    job.made_by,
                    rows[place],
                    generated.tokens[place],
                    seconds=seconds,
                    batch=len(rows),
                )
                for place, step in enumerate(generated.failed_at)
                if step is None
            }
            traces = [
                Trace(
                    id=one.id, prompt_id=one.prompt_id, values=_up_to(one.new_tokens, generated.trace[place])
                )
                for place, one in made.items()
                if generated.trace and generated.trace[place]
            ]
            if on_trace is not None and traces:
                on_trace(traces)
            if made:
                yield list(made.values())
            failed += [
                f"{row.prompt.id!r} at step {step + 1}"
                for row, step in zip(rows, generated.failed_at, strict=True)
                if step is not None
            ]
    except torch.OutOfMemoryError as error:
        raise StudyError(
            f"memory ran out on {job.loaded.device} with a single prompt; "
            "lower generation.max_prompt_tokens, or name a smaller model"
        ) from error
    if failed:
        raise StudyError(
            f"the model {job.loaded.name!r} gave no probabilities (NaN or infinite logits) for "
            f"{name_prompts(failed)}; all other texts are made; try model.dtype = float32, or remove them"
        )


def _up_to(tokens: int, values: Mapping[str, list[float]]) -> dict[str, list[float]]:
    return {name: series[:tokens] for name, series in values.items()}
