"""Write planned texts on one machine with transformers, batch by batch."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial

import torch

from guard_eval import progress
from guard_eval.errors import StudyError
from guard_eval.generation.decoding.noise import row_key
from guard_eval.generation.decoding.processor import DecodedStep
from guard_eval.generation.engines import Model
from guard_eval.generation.engines.batch import Batch, BatchSizes, Decoded, in_batches
from guard_eval.generation.engines.decode import Watch, decode
from guard_eval.generation.engines.encoding import (
    EncodedPrompt,
    absent_ids,
    control_tokens,
    encode_texts,
    eos_ids,
    label_prompt,
    make_continuation,
    name_prompts,
)
from guard_eval.generation.engines.loading import LoadedModel, check_amateur, load
from guard_eval.generation.engines.probe import Abilities, check
from guard_eval.generation.plan import Engine, FinishedBatch, GenerationPlan, PlannedText
from guard_eval.generation.strategies import ContrastiveDecoding, Greedy, Strategy, parse
from guard_eval.records import Recipe
from guard_eval.study.folder import Study
from guard_eval.texts.continuations import run_folder


@contextmanager
def open_local(plan: GenerationPlan) -> Iterator[Engine]:
    """Load the study's model into this process."""
    progress.notice("loading the model")
    with plan.find_models().offline():
        models = StudyModels(plan.study)
        # The first steps load code and memory, which would make the first batch look slower than it is.
        check(models.loaded.model, Greedy())
        progress.notice(str(models.loaded))
        yield Engine(models.loaded.facts, partial(models.write, trace=plan.trace))


class StudyModels:
    """A study's models in one process, and the batch size of each strategy.

    Args:
        study: The study.
        device: The models' device. Default: the study's.
    """

    def __init__(self, study: Study, *, device: str | None = None) -> None:
        model = study.settings.model
        self._settings = study.settings
        self._locate = study.locate_model
        self._load = partial(load, dtype=model.dtype, device=device or model.one_device)
        self._sizes: dict[str, BatchSizes] = {}
        self.loaded = self._load(
            study.locate_model(model.name),
            name=model.name,
            revision=model.revision,
            device_map=None if device else model.device_map,
        )
        recipe = self.loaded.recipe(Greedy(), study.settings.generation, study.settings.seed)
        self._abilities = Abilities.of(self.loaded.model)
        self._probe = run_folder(study.continuations, recipe) / "probe.json"
        self._abilities.load(self._probe, f"{self.loaded.versions}, {self.loaded.device}")

    @cached_property
    def amateur(self) -> LoadedModel:
        """The second model of contrastive decoding, loaded when it is first used."""
        model = self._settings.model
        name = model.amateur_name or ""
        amateur = self._load(self._locate(name), name=name, revision=model.amateur_revision)
        check_amateur(self.loaded, amateur)
        progress.notice(str(amateur))
        return amateur

    def write(
        self, strategy: str, texts: Sequence[PlannedText], *, trace: bool = False
    ) -> Iterator[FinishedBatch]:
        """Yield finished batches of planned texts; see `write_batches`. Store the results of trials."""
        generation = self._settings.generation
        parsed = parse(strategy)
        if strategy not in self._sizes:
            self._sizes[strategy] = BatchSizes.choose(generation.batch_size, self.loaded.model, parsed)
        amateur = self.amateur if self._settings.amateur_of(strategy) else None
        yield from write_batches(
            self.loaded,
            texts,
            parsed,
            self.loaded.recipe(parsed, generation, self._settings.seed, amateur=amateur),
            self._sizes[strategy],
            amateur=amateur,
            static=generation.compile,
            trace=trace,
        )
        if self._probe.parent.is_dir():
            self._abilities.save(self._probe)


def write_batches(
    loaded: LoadedModel,
    texts: Sequence[PlannedText],
    strategy: Strategy,
    recipe: Recipe,
    sizes: BatchSizes,
    *,
    amateur: LoadedModel | None = None,
    static: bool = False,
    trace: bool = False,
    on_step: Watch | None = None,
) -> Iterator[FinishedBatch]:
    """Yield finished batches of texts, those with the longest prompts first.

    Args:
        loaded: The model.
        texts: The prompts to continue, each with the number of its text.
        strategy: The strategy.
        recipe: The strategy's `loaded.recipe`.
        sizes: The batch sizes, which are adapted to the memory. They are kept between calls.
        amateur: The second model of contrastive decoding.
        static: See `decode`.
        trace: Whether to return the values that the strategy adapts.
        on_step: See `decode`. It is not called if `trace` is true.

    Raises:
        StudyError: Before the first batch: a prompt is empty, or the model cannot run the strategy. Later:
            memory runs out with a single row. After the last batch: prompts are too long, or the model gives
            no probabilities for them; all of them are named.
    """
    if not isinstance(strategy, ContrastiveDecoding):
        amateur = None
    elif amateur is None:
        raise StudyError(
            f"{strategy} needs a second, smaller model; name it as model.amateur, or give amateur"
        )
    models = [loaded_model.model for loaded_model in (loaded, amateur) if loaded_model is not None]
    check(models[0], strategy, *models[1:])
    rows, problem = encode_texts(loaded, texts, recipe)
    need_padding = len({len(row.ids) for row in rows}) > 1
    if need_padding and not all(Abilities.of(model).pads for model in models):
        sizes = BatchSizes(1)
        static = False
    width = len(rows[0].ids) if static and rows else 0
    writer = _Writer(loaded, strategy, recipe, amateur and amateur.model, trace, on_step, width)
    try:
        yield from (batch for _, batch in in_batches(rows, writer, sizes) if batch.texts)
    except torch.OutOfMemoryError as error:
        raise StudyError(
            f"memory ran out on {loaded.device} with a single prompt; "
            "lower generation.max_prompt_tokens, or name a smaller model"
        ) from error
    problems = [problem] if problem else []
    if writer.failed:
        problems.append(
            f"the model {loaded.name!r} gave no probabilities (NaN or infinite logits) for "
            f"{name_prompts(writer.failed)}; try model.dtype = float32, or remove them"
        )
    if problems:
        raise StudyError("; ".join(problems))


@dataclass
class _Writer:
    """Writes batches of prompts by one recipe.

    Attributes:
        amateur: The second model of contrastive decoding.
        width: The number of tokens to which prompts are padded for a static cache. It is 0 without one.
        largest_batch: The number of rows in the largest batch so far.
        failed: The prompts for which the model gave no probabilities, each with the step.
    """

    loaded: LoadedModel
    strategy: Strategy
    recipe: Recipe
    amateur: Model
    trace: bool
    on_step: Watch | None
    width: int
    largest_batch: int = 0
    failed: list[str] = field(default_factory=list)

    @cached_property
    def _new_batch(self) -> partial[Batch]:
        """Makes a batch of prompts and keys, with the values that all batches share."""
        tokenizer = self.loaded.tokenizer
        control = control_tokens(tokenizer)
        return partial(
            Batch,
            ends=eos_ids(self.loaded, self.recipe.stop),
            limit=self.recipe.max_new_tokens,
            tokenizer=tokenizer,
            stop=[string for string in self.recipe.stop if string not in control],
            absent=absent_ids(self.loaded),
            width=self.width,
        )

    def __call__(self, rows: Sequence[EncodedPrompt]) -> FinishedBatch:
        """Write the texts of prompts. Prompts for which the model gives no probabilities have no text."""
        began = time.perf_counter()
        steps: list[dict[str, list[float]]] = []

        def record(step: DecodedStep) -> None:
            steps.append({name: values.tolist() for name, values in step.adapted.items()})

        filled = list(rows)
        if self.width:
            # A model with a static cache is compiled for each shape, so a smaller batch is filled up.
            filled += [rows[-1]] * (self.largest_batch - len(rows))
        self.largest_batch = max(self.largest_batch, len(rows))
        recipe = self.recipe
        model = self.loaded.model
        keys = [row_key(recipe.seed, row.prompt.id, recipe.strategy, row.run) for row in filled]
        prompts = [row.ids for row in filled]
        decoded = decode(
            model,
            self._new_batch(prompts=prompts, keys=torch.tensor(keys, device=model.device)),
            self.strategy,
            amateur=self.amateur,
            static=self.width > 0,
            on_step=record if self.trace else self.on_step,
        )
        seconds = (time.perf_counter() - began) / len(rows)
        return self._finish(rows, decoded, steps, seconds)

    def _finish(
        self,
        rows: Sequence[EncodedPrompt],
        decoded: Decoded,
        steps: Sequence[dict[str, list[float]]],
        seconds: float,
    ) -> FinishedBatch:
        batch = FinishedBatch([], [])
        for index, row in enumerate(rows):
            failure = decoded.failed_at[index]
            if failure is not None:
                self.failed.append(f"{label_prompt(row.prompt)} at step {failure + 1}")
                continue
            text = make_continuation(
                self.loaded, self.recipe, row, decoded.tokens[index], seconds=seconds, batch=len(rows)
            )
            batch.texts.append(text)
            if steps and steps[0]:
                written = steps[: text.new_tokens]
                series = {name: [step[name][index] for step in written] for name in steps[0]}
                batch.traces.append({"id": text.id, "prompt_id": text.prompt_id, **series})
        return batch
