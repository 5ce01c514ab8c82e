"""Generation on one machine, with transformers: prompts in, batches of continuations out."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Literal

import torch
from torch import Tensor

from guard_eval import progress
from guard_eval.errors import PromptsError, StudyError
from guard_eval.generation.decoding.noise import row_key
from guard_eval.generation.decoding.processor import DecodedStep
from guard_eval.generation.engines.batch import Batch
from guard_eval.generation.engines.batching import BatchSizes, in_batches
from guard_eval.generation.engines.command import Batches, Work
from guard_eval.generation.engines.decode import decode
from guard_eval.generation.engines.encoding import (
    EncodedPrompt,
    absent_ids,
    control_tokens,
    describe_control,
    encode,
    eos_ids,
    label_prompt,
    make_continuation,
    name_prompts,
    split_by_length,
)
from guard_eval.generation.engines.loading import LoadedModel, check_amateur, load
from guard_eval.generation.engines.probe import Abilities, check
from guard_eval.generation.strategies import ContrastiveDecoding, Greedy, Strategy, parse, signature
from guard_eval.generation.strategies.own import source_of
from guard_eval.records import Continuation, Prompt, Recipe
from guard_eval.study.folder import Study
from guard_eval.texts.continuations import Trace, append_traces


def recipe_of(
    loaded: LoadedModel,
    strategy: Strategy,
    *,
    amateur: LoadedModel | None = None,
    stop: Sequence[str] = (),
    **settings: Any,  # noqa: ANN401 (those of a recipe)
) -> Recipe:
    """Return how continuations are made; the amateur counts for contrastive decoding alone."""
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
    batch_size: int | Literal["auto"] | BatchSizes,
    runs: Sequence[int] | None = None,
    stop: Sequence[str] = (),
    amateur: LoadedModel | None = None,
    static: bool = False,
    on_trace: Callable[[Recipe, list[Trace]], None] | None = None,
    on_step: Callable[[DecodedStep], None] | None = None,
    **settings: Any,  # noqa: ANN401 (those of a recipe)
) -> Iterator[list[Continuation]]:
    """Return an iterator over batches of continuations, one for each prompt, the longest prompts first.

    Args:
        loaded: The model.
        prompts: What to continue.
        strategy: How.
        batch_size: Rows at once, or `auto`; fewer where memory runs out. `BatchSizes` learns between calls.
        runs: Which of its texts, 1, 2, …, each of `prompts` is to get; the first if left out.
        stop: A text ends before the first of these strings.
        amateur: Contrastive decoding's second model.
        static: See `decode`.
        on_trace: Given the recipe and the traces of each batch before the batch is handed out, of strategies
            that adapt.
        on_step: See `decode`.
        settings: `Recipe`'s `seed`, on which draws depend beside the prompt's id, the strategy and the run;
            `max_new_tokens`; `max_prompt_tokens`, a prompt's last tokens that are kept; and `chat`.

    Raises:
        StudyError: A prompt is empty, or the strategy needs what the model has not (before the first batch).
            During the iteration: memory runs out with a single row.
        PromptsError: After the last batch: prompts are too long, or the model gives no probabilities for
            them; all of them are named.
    """
    recipe = recipe_of(loaded, strategy, amateur=amateur, stop=stop, **settings)
    if isinstance(strategy, ContrastiveDecoding) and amateur is None:
        raise StudyError(
            f"{strategy} needs a second, smaller model; name it as model.amateur, or give amateur"
        )
    check(loaded.model, strategy, amateur.model if amateur else None)
    rows = encode(
        loaded, prompts, recipe.max_prompt_tokens, chat=recipe.chat, chat_template=recipe.chat_template
    )
    for line in [] if recipe.chat else describe_control(loaded, rows):
        progress.notice(line)
    rows = [replace(row, run=run) for row, run in zip(rows, runs or [1] * len(rows), strict=True)]
    fitting, problem = split_by_length(loaded, rows, recipe.max_new_tokens)
    ordered = sorted(fitting, key=lambda row: (-len(row.ids), row.prompt.id, row.run))
    if not isinstance(batch_size, BatchSizes):
        batch_size = BatchSizes.choose(batch_size, loaded.model, beams=getattr(strategy, "beams", 1))
    write = _Writer(loaded, strategy, recipe, amateur and amateur.model, on_trace, on_step)
    write.absent = absent_ids(loaded)
    models = [loaded.model, *([amateur.model] if recipe.amateur and amateur else [])]
    if len({len(row.ids) for row in ordered}) > 1 and not all(Abilities.of(each).pads for each in models):
        batch_size = BatchSizes(1)
    elif static and ordered:
        write.width = len(ordered[0].ids)
    return write.write_all(in_batches(ordered, write, batch_size), problem)


@dataclass
class _Writer:
    """Writes batches of prompts by one recipe.

    Attributes:
        width: Tokens of the longest prompt, to which all are padded for a cache of fixed shapes; 0 without.
        most_rows: Rows of the largest batch so far.
        absent: See `Batch`.
        failed: The prompts for which the model gave no probabilities, each with the step.
    """

    loaded: LoadedModel
    strategy: Strategy
    recipe: Recipe
    amateur: Any
    on_trace: Callable[[Recipe, list[Trace]], None] | None
    on_step: Callable[[DecodedStep], None] | None
    width: int = 0
    most_rows: int = 0
    absent: list[int] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def __call__(self, rows: Sequence[EncodedPrompt]) -> list[Continuation]:
        """Return the continuations of prompts, and hand their traces out."""
        loaded, recipe = self.loaded, self.recipe
        began, steps = time.perf_counter(), defaultdict[str, list[Tensor]](list)

        def observe(step: DecodedStep) -> None:
            for name, values in step.adapted.items():
                steps[name].append(values.clone())
            if self.on_step is not None:
                self.on_step(step)

        # A cache of fixed shapes is compiled for each shape, so the last batch is filled up, too.
        filled = [*rows, *[rows[-1]] * (self.most_rows - len(rows))] if self.width else rows
        keys = [row_key(recipe.seed, row.prompt.id, recipe.strategy, row.run) for row in filled]
        batch = Batch(
            prompts=[row.ids for row in filled],
            keys=torch.tensor(keys, device=loaded.model.device),
            ends=eos_ids(loaded, recipe.stop),
            limit=recipe.max_new_tokens,
            tokenizer=loaded.tokenizer,
            stop=[string for string in recipe.stop if string not in control_tokens(loaded.tokenizer)],
            absent=self.absent,
            width=self.width,
        )
        decoded = decode(
            loaded.model,
            batch,
            self.strategy,
            amateur=self.amateur,
            static=self.width > 0,
            on_step=observe if self.on_trace or self.on_step else None,
        )
        self.most_rows = max(self.most_rows, len(rows))
        seconds = (time.perf_counter() - began) / len(rows)
        adapted = {name: torch.stack(values, 1).tolist() for name, values in steps.items()}
        texts, traces = [], []
        for index, (row, new, failure) in enumerate(
            zip(rows, decoded.tokens, decoded.failed_at, strict=False)
        ):
            if failure is not None:
                self.failed.append(f"{label_prompt(row.prompt)} at step {failure + 1}")
                continue
            text = make_continuation(loaded, recipe, row, new, seconds=seconds, batch=len(rows))
            texts.append(text)
            values = {name: series[index][: text.new_tokens] for name, series in adapted.items()}
            traces.append({"id": text.id, "prompt_id": text.prompt_id, **values})
        if self.on_trace is not None and adapted and traces:
            self.on_trace(recipe, traces)
        return texts

    def write_all(
        self, batches: Iterator[tuple[object, list[Continuation]]], problem: str | None
    ) -> Iterator[list[Continuation]]:
        """Yield the texts of each batch, and in the end raise the `problem` of prompts that have none."""
        try:
            yield from (texts for _, texts in batches if texts)
        except torch.OutOfMemoryError as error:
            raise StudyError(
                f"memory ran out on {self.loaded.device} with a single prompt; "
                "lower generation.max_prompt_tokens, or name a smaller model"
            ) from error
        problems = [problem] if problem else []
        if self.failed:
            problems.append(
                f"the model {self.loaded.name!r} gave no probabilities (NaN or infinite logits) for "
                f"{name_prompts(self.failed)}; try model.dtype = float32, or remove them"
            )
        if problems:
            raise PromptsError("; ".join(problems))


@contextmanager
def open_local(work: Work) -> Iterator[Batches]:
    """Load the study's models into this process."""
    progress.notice("loading the model")
    with work.find_models().offline():
        models = StudyModels(work.study)
        check(
            models.loaded.model, Greedy()
        )  # the first steps load code and memory, and would distort tokens/s
        amateur = models.amateur if work.amateur else None
    for model in filter(None, (models.loaded, amateur)):
        progress.notice(str(model))
    work.find({"revision": models.loaded.revision, "dtype": models.loaded.dtype})

    def note(recipe: Recipe, traces: list[Trace]) -> None:
        append_traces(work.study.continuations, recipe, traces, work.shard)

    yield lambda name, texts: models.write(texts, name, on_trace=note if work.trace else None)


class StudyModels:
    """The models of one process, and how many rows they make at once by each strategy, which they learn.

    Args:
        study: The study.
        device: Where the models lie, if not where the study says.
    """

    def __init__(self, study: Study, *, device: str | None = None) -> None:
        model = study.settings.model
        self._study = study
        self._load = partial(load, dtype=model.dtype, device=device or model.device)
        self._sizes: dict[str, BatchSizes] = {}
        location, device_map = study.locate_model(model.name), None if device else model.device_map
        self.loaded = self._load(location, name=model.name, revision=model.revision, device_map=device_map)

    @cached_property
    def amateur(self) -> LoadedModel:
        """The second model of contrastive decoding, loaded when it is first asked for."""
        model = self._study.settings.model
        assert model.amateur is not None
        location = self._study.locate_model(model.amateur)
        amateur = self._load(location, name=model.amateur, revision=model.amateur_revision)
        check_amateur(self.loaded, amateur)
        return amateur

    def write(
        self,
        texts: Sequence[tuple[Prompt, int]],
        strategy: str,
        *,
        on_trace: Callable[[Recipe, list[Trace]], None] | None = None,
    ) -> Iterator[list[Continuation]]:
        """Return an iterator over batches of continuations of prompts and runs; see `generate`."""
        generation, parsed = self._study.settings.generation, parse(strategy)
        sizes = BatchSizes.choose(generation.batch_size, self.loaded.model, beams=getattr(parsed, "beams", 1))
        return generate(
            self.loaded,
            [prompt for prompt, _ in texts],
            parsed,
            runs=[run for _, run in texts],
            batch_size=self._sizes.setdefault(strategy, sizes),
            amateur=self.amateur if self._study.settings.amateur_of(strategy) else None,
            static=generation.compile,
            on_trace=on_trace,
            **recipe_settings(self._study),
        )


def recipe_settings(study: Study) -> dict[str, Any]:
    """Return what a study says of its recipes beside model and strategy."""
    generation = study.settings.generation
    names = {"max_new_tokens", "max_prompt_tokens", "chat", "stop"}
    shared = {"seed": study.settings.seed, "chat_template": generation.template_settings}
    return {**shared, **generation.model_dump(include=names)}
