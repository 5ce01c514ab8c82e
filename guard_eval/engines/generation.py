"""Generation on one machine, with transformers: prompts in, batches of continuations out."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any

import torch
from torch import Tensor

from guard_eval.decoding.noise import row_key
from guard_eval.decoding.processor import DecodedStep
from guard_eval.engines.batching import BatchSizes, in_batches
from guard_eval.engines.decode import Batch, check, decode
from guard_eval.engines.encoding import (
    EncodedPrompt,
    encode,
    eos_ids,
    label_prompt,
    make_continuation,
    name_prompts,
    split_by_length,
)
from guard_eval.engines.loading import LoadedModel
from guard_eval.errors import PromptsError, StudyError
from guard_eval.records import Continuation, Prompt, Recipe, Trace
from guard_eval.strategies import ContrastiveDecoding, Greedy, Strategy, signature
from guard_eval.strategies.own import source_of


def recipe_of(
    loaded: LoadedModel,
    strategy: Strategy,
    *,
    amateur: LoadedModel | None = None,
    stop: Sequence[str] = (),
    **settings: Any,  # noqa: ANN401 (those of a recipe)
) -> Recipe:
    """Return how continuations are made.

    Args:
        loaded: The model.
        strategy: How it decodes.
        amateur: The second model, which counts for contrastive decoding alone.
        stop: Strings before which a text ends.
        settings: `Recipe`'s seed, limits, chat, and the engine, if it is not transformers.
    """
    second = amateur if isinstance(strategy, ContrastiveDecoding) else None
    return Recipe(
        model=loaded.name,
        revision=loaded.revision,
        strategy=signature(strategy),
        dtype=loaded.dtype,
        amateur=second.name if second else None,
        amateur_revision=second.revision if second else None,
        source=source_of(strategy),
        stop=tuple(stop),
        **settings,
    )


def generate(
    loaded: LoadedModel,
    prompts: Sequence[Prompt],
    strategy: Strategy,
    *,
    batch_size: int | BatchSizes,
    runs: Sequence[int] | None = None,
    stop: Sequence[str] = (),
    amateur: LoadedModel | None = None,
    static: bool = False,
    on_trace: Callable[[list[Trace]], None] | None = None,
    on_step: Callable[[DecodedStep], None] | None = None,
    **settings: Any,  # noqa: ANN401 (those of a recipe)
) -> Iterator[list[Continuation]]:
    """Return an iterator over batches of continuations, one for each prompt, the longest prompts first.

    Args:
        loaded: The model.
        prompts: What to continue.
        strategy: How.
        batch_size: Rows at once; fewer where memory runs out. `BatchSizes` learns from one call to the next.
        runs: Which of its texts, 1, 2, …, each of `prompts` is to get; the first if left out.
        stop: A text ends before the first of these strings.
        amateur: Contrastive decoding's second model.
        static: See `decode`.
        on_trace: Given the traces of each batch before the batch is handed out, of strategies that adapt.
        on_step: Given each step of each batch; see `decode`.
        settings: `Recipe`'s `seed`, on which draws depend beside the prompt's id, the strategy and the run;
            `max_new_tokens`; `max_prompt_tokens`, a prompt's last tokens that are kept; and `chat`.

    Raises:
        StudyError: A prompt is empty, or the strategy needs what the model has not (before the first batch).
            During the iteration: memory runs out with a single row.
        PromptsError: After the last batch: prompts are too long, or the model gives no probabilities for
            them; all of them are named.
    """
    recipe = recipe_of(loaded, strategy, amateur=amateur, stop=stop, **settings)
    check_numbers(max_new_tokens=recipe.max_new_tokens, max_prompt_tokens=recipe.max_prompt_tokens)
    if not all(isinstance(text, str) and text for text in recipe.stop):
        raise StudyError(f"stop = {list(recipe.stop)} must be texts of a character or more")
    if isinstance(strategy, ContrastiveDecoding) and amateur is None:
        raise StudyError(
            f"{strategy} needs a second, smaller model; name it as model.amateur, or give amateur"
        )
    check(loaded.model, strategy, amateur.model if amateur else None)
    rows = encode(loaded, prompts, recipe.max_prompt_tokens, chat=recipe.chat)
    rows = [replace(row, run=run) for row, run in zip(rows, runs or [1] * len(rows), strict=True)]
    fitting, problem = split_by_length(loaded, rows, recipe.max_new_tokens)
    ordered = sorted(fitting, key=lambda row: (-len(row.ids), row.prompt.id, row.run))
    sizes = (
        batch_size if isinstance(batch_size, BatchSizes) else BatchSizes(first=batch_size, most=batch_size)
    )
    width = len(ordered[0].ids) if ordered else 0
    writer = _Writer(loaded, strategy, recipe, amateur and amateur.model, static * width, on_trace, on_step)
    return _write(writer, in_batches(ordered, writer.write, sizes), problem)


def _write(
    writer: _Writer,
    batches: Iterator[tuple[Sequence[EncodedPrompt], list[Continuation]]],
    problem: str | None,
) -> Iterator[list[Continuation]]:
    """Yield the texts of each batch, and in the end raise the `problem` of prompts that have none."""
    try:
        yield from (texts for _, texts in batches if texts)
    except torch.OutOfMemoryError as error:
        raise StudyError(
            f"memory ran out on {writer.loaded.device} with a single prompt; "
            "lower generation.max_prompt_tokens, or name a smaller model"
        ) from error
    problems = [problem] if problem else []
    if writer.failed:
        problems.append(
            f"the model {writer.loaded.name!r} gave no probabilities (NaN or infinite logits) for "
            f"{name_prompts(writer.failed)}; try model.dtype = float32, or remove them"
        )
    if problems:
        raise PromptsError("; ".join(problems) + "; all other texts are made")


@dataclass
class _Writer:
    """Writes batches of prompts by one recipe.

    Attributes:
        width: Tokens of the longest prompt, to which all are padded for a cache of fixed shapes; 0 without.
        failed: The prompts for which the model gave no probabilities, each with the step.
    """

    loaded: LoadedModel
    strategy: Strategy
    recipe: Recipe
    amateur: Any
    width: int
    on_trace: Callable[[list[Trace]], None] | None
    on_step: Callable[[DecodedStep], None] | None
    failed: list[str] = field(default_factory=list)
    _most_rows: int = 0

    def write(self, rows: Sequence[EncodedPrompt]) -> list[Continuation]:
        """Return the continuations of prompts, and hand their traces out."""
        began, steps = time.perf_counter(), defaultdict[str, list[Tensor]](list)

        def observe(step: DecodedStep) -> None:
            for name, values in step.adapted.items() if self.on_trace else ():
                steps[name].append(values.clone())
            if self.on_step is not None:
                self.on_step(step)

        # A cache of fixed shapes is compiled for each shape, so the last batch is filled up, too.
        filler = [rows[-1]] * (self._most_rows - len(rows)) if self.width else []
        decoded = decode(
            self.loaded.model,
            self._batch([*rows, *filler]),
            self.strategy,
            amateur=self.amateur,
            static=self.width > 0,
            on_step=observe if self.on_trace or self.on_step else None,
        )
        self._most_rows = max(self._most_rows, len(rows))
        seconds = (time.perf_counter() - began) / len(rows)
        adapted = {name: torch.stack(values, 1).tolist() for name, values in steps.items()}
        texts, traces = [], []
        for index, row in enumerate(rows):
            failure = decoded.failed_at[index]
            if failure is not None:
                self.failed.append(f"{label_prompt(row.prompt)} at step {failure + 1}")
                continue
            text = make_continuation(
                self.loaded, self.recipe, row, decoded.tokens[index], seconds=seconds, batch=len(rows)
            )
            texts.append(text)
            if adapted:
                values = {name: series[index][: text.new_tokens] for name, series in adapted.items()}
                traces.append(Trace(id=text.id, prompt_id=text.prompt_id, values=values))
        if self.on_trace is not None and traces:
            self.on_trace(traces)
        return texts

    def _batch(self, rows: Sequence[EncodedPrompt]) -> Batch:
        recipe = self.recipe
        keys = [row_key(recipe.seed, row.prompt.id, recipe.strategy, row.run) for row in rows]
        return Batch(
            prompts=[row.ids for row in rows],
            keys=torch.tensor(keys, device=self.loaded.model.device),
            ends=eos_ids(self.loaded),
            limit=recipe.max_new_tokens,
            tokenizer=self.loaded.tokenizer,
            stop=recipe.stop,
            width=self.width,
        )


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
    limits: dict[str, Any] = {"seed": 0, "max_new_tokens": 2, "max_prompt_tokens": 2}
    with suppress(StudyError):  # what is wrong with the model is reported for one of the user's prompts
        list(generate(loaded, [prompt], Greedy(), batch_size=1, **limits))
