"""Write planned texts on one machine with transformers, batch by batch."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial

import torch

from guard_eval import progress
from guard_eval.errors import StudyError, first_line
from guard_eval.generation.decoding.noise import make_row_key
from guard_eval.generation.decoding.processor import DecodedStep
from guard_eval.generation.engines.batch import (
    Batch,
    BatchSizes,
    DecodedBatch,
    find_padding_token,
    is_out_of_memory,
    process_in_batches,
)
from guard_eval.generation.engines.decode import Watch, decode_batch
from guard_eval.generation.engines.encoding import (
    EncodedPrompt,
    describe_prompts,
    encode_planned_texts,
    label_prompt,
    list_control_tokens,
    list_end_ids,
    list_ids_without_text,
    make_continuation,
)
from guard_eval.generation.engines.loading import LoadedModel, check_shared_vocabulary, load_pretrained
from guard_eval.generation.engines.probe import Abilities, check_abilities
from guard_eval.generation.plan import Engine, FinishedBatch, GenerationPlan, PlannedText
from guard_eval.generation.strategies import ContrastiveDecoding, Greedy, Strategy, parse
from guard_eval.study.folder import Study
from guard_eval.study.settings import GenerationSettings
from guard_eval.texts.continuations import locate_run_folder


@contextmanager
def open_local(plan: GenerationPlan) -> Iterator[Engine]:
    """Load the study's model in this process."""
    progress.notice("loading the model")
    with plan.find_models().stay_offline():
        models = StudyModels(plan.study, trace=plan.trace)
        # The first steps load code and allocate memory. Otherwise, the first batch would seem too slow.
        check_abilities(models.loaded.model, Greedy())
        progress.notice(str(models.loaded))
        yield Engine(models.loaded.revision_and_dtype, models.write)


class StudyModels:
    """A study's models in one process, with a writer for each strategy.

    Args:
        study: The study.
        device: The models' device. Default: the study's.
        trace: Whether batches also have the values that strategies adapt.
    """

    def __init__(self, study: Study, *, device: str | None = None, trace: bool = False) -> None:
        model = study.settings.model
        self._study = study
        self._trace = trace
        self._load = partial(load_pretrained, dtype=model.dtype, device=device or model.one_device)
        self._writers: dict[str, Writer] = {}
        self.loaded = self._load(
            study.locate_model(model.name),
            name=model.name,
            revision=model.revision,
            device_map=None if device else model.device_map,
        )
        recipe = self.loaded.make_recipe(Greedy(), study.settings.generation, study.settings.seed)
        self._abilities = Abilities.for_model(self.loaded.model)
        self._probe = locate_run_folder(study.continuations, recipe) / "probe.json"
        self._abilities.load(self._probe, f"{self.loaded.versions}, {self.loaded.device}")

    @cached_property
    def amateur(self) -> LoadedModel:
        """The second model of contrastive decoding. It is loaded at the first use."""
        model = self._study.settings.model
        name = model.amateur_name or ""
        amateur = self._load(self._study.locate_model(name), name=name, revision=model.amateur_revision)
        check_shared_vocabulary(self.loaded, amateur)
        progress.notice(str(amateur))
        return amateur

    def write(self, strategy: str, texts: Sequence[PlannedText]) -> Iterator[FinishedBatch]:
        """Yield finished batches of planned texts; see `Writer.write`. Save the results of trials."""
        settings = self._study.settings
        if strategy not in self._writers:
            self._writers[strategy] = Writer(
                loaded=self.loaded,
                strategy=parse(strategy),
                settings=settings.generation,
                seed=settings.seed,
                amateur=self.amateur if settings.find_amateur(strategy) else None,
                trace=self._trace,
            )
        yield from self._writers[strategy].write(texts)
        if self._probe.parent.is_dir():
            self._abilities.save(self._probe)


@dataclass(kw_only=True)
class Writer:
    """A writer of texts with one model, one strategy and the same settings.

    Attributes:
        loaded: The model.
        strategy: The strategy.
        settings: The settings of `[generation]`.
        seed: The seed of all random draws.
        amateur: The second model of contrastive decoding. Other strategies do not use it.
        trace: Whether batches also have the values that the strategy adapts.
        on_step: See `decode_batch`. `on_step` is not called if `trace` is true.
    """

    loaded: LoadedModel
    strategy: Strategy
    settings: GenerationSettings
    seed: int
    amateur: LoadedModel | None = None
    trace: bool = False
    on_step: Watch | None = None

    def __post_init__(self) -> None:
        """Choose the first batch size. Calls of `write` adapt the size to the memory."""
        if not isinstance(self.strategy, ContrastiveDecoding):
            self.amateur = None
        self._models = [loaded.model for loaded in (self.loaded, self.amateur) if loaded is not None]
        self._recipe = self.loaded.make_recipe(self.strategy, self.settings, self.seed, amateur=self.amateur)
        self._sizes = BatchSizes.choose(self.settings.batch_size, self.loaded.model, self.strategy)
        tokenizer = self.loaded.tokenizer
        stop = self._recipe.stop
        control = list_control_tokens(tokenizer)
        self._new_batch = partial(
            Batch,
            ends=list_end_ids(self.loaded, stop),
            limit=self._recipe.max_new_tokens,
            tokenizer=tokenizer,
            stop=[string for string in stop if string not in control],
            absent=list_ids_without_text(self.loaded),
            padding=find_padding_token(self.loaded.model),
        )
        self._width = 0  # for a static cache, prompts are padded to this number of tokens
        self._largest_batch = 0
        self._failed: list[str] = []
        self._errors: dict[str, list[str]] = {}

    def write(self, texts: Sequence[PlannedText]) -> Iterator[FinishedBatch]:
        """Yield finished batches of texts, the longest prompts first.

        Raises:
            StudyError: Before the first batch: a prompt is empty, or the model cannot run the strategy.
                Later: memory runs out with a single row. After the last batch: prompts are too long, or the
                model fails or gives no probabilities for some prompts. The message names all of them.
        """
        if isinstance(self.strategy, ContrastiveDecoding) and self.amateur is None:
            raise StudyError(
                f"{self.strategy} needs a second, smaller model; name it as model.amateur, or give amateur"
            )
        check_abilities(self._models[0], self.strategy, *self._models[1:])
        rows, problem = encode_planned_texts(self.loaded, texts, self._recipe)
        single = [label_prompt(row.prompt) for row in rows if len(row.ids) == 1]
        if single and not all(Abilities.for_model(model).forgets_earlier_texts for model in self._models):
            raise StudyError(
                f"{describe_prompts(single)}: this {type(self.loaded.model).__name__} mixes a prompt of one "
                "token with the text that it read before; make the prompt longer, or remove it"
            )
        self._failed.clear()
        self._errors.clear()
        sizes = self._sizes
        self._width = len(rows[0].ids) if self.settings.compile and rows else 0
        need_padding = len({len(row.ids) for row in rows}) > 1
        if need_padding and not all(
            Abilities.for_model(model).can_pad(len(rows[0].ids)) for model in self._models
        ):
            sizes = BatchSizes(1)
            self._width = 0
        try:
            yield from (
                batch for _, batch in process_in_batches(rows, self._write_batch, sizes) if batch.texts
            )
        except torch.OutOfMemoryError as error:
            raise StudyError(
                f"memory ran out on {self.loaded.device} with a single prompt; "
                "lower generation.max_prompt_tokens, or name a smaller model"
            ) from error
        problems = [problem] if problem else []
        if self._failed:
            problems.append(
                f"the model {self.loaded.name!r} gave no probabilities (NaN or infinite logits) for "
                f"{describe_prompts(self._failed)}; try model.dtype = float32, or remove them"
            )
        problems += [
            f"{type(self.loaded.model).__name__} fails with {self.strategy} for {describe_prompts(names)} "
            f"({reason}); lower max_prompt_tokens or max_new_tokens, or name another model"
            for reason, names in self._errors.items()
        ]
        if problems:
            raise StudyError("; ".join(problems))

    def _write_batch(self, rows: Sequence[EncodedPrompt]) -> FinishedBatch:
        """Generate one text per prompt, or no text if the model's probabilities are invalid."""
        began = time.perf_counter()
        steps: list[dict[str, list[float]]] = []

        def record(step: DecodedStep) -> None:
            steps.append({name: values.tolist() for name, values in step.adapted.items()})

        filled = list(rows)
        if self._width:
            # A model with a static cache is compiled for each shape, so a smaller batch gets further rows.
            filled += [rows[-1]] * (self._largest_batch - len(rows))
        self._largest_batch = max(self._largest_batch, len(rows))
        recipe = self._recipe
        model = self.loaded.model
        keys = [make_row_key(recipe.seed, row.prompt.id, recipe.strategy, row.run) for row in filled]
        batch = self._new_batch(
            prompts=[row.ids for row in filled],
            keys=torch.tensor(keys, device=model.device),
            width=self._width,
        )
        try:
            decoded = decode_batch(
                model,
                batch,
                self.strategy,
                amateur=self.amateur and self.amateur.model,
                static=self._width > 0,
                on_step=record if self.trace else self.on_step,
            )
        except Exception as error:  # another library's model may raise anything
            if isinstance(error, StudyError) or is_out_of_memory(error):
                raise
            if len(rows) == 1:
                reason = f"{type(error).__name__}: {first_line(error)}"
                self._errors.setdefault(reason, []).append(label_prompt(rows[0].prompt))
                return FinishedBatch([], [])
            single = [self._write_batch([row]) for row in rows]  # the model may fail for a single row
            return FinishedBatch(
                [text for finished in single for text in finished.texts],
                [trace for finished in single for trace in finished.traces],
            )
        seconds = (time.perf_counter() - began) / len(rows)
        return self._finish_batch(rows, decoded, steps, seconds)

    def _finish_batch(
        self,
        rows: Sequence[EncodedPrompt],
        decoded: DecodedBatch,
        steps: Sequence[dict[str, list[float]]],
        seconds: float,
    ) -> FinishedBatch:
        batch = FinishedBatch([], [])
        for index, row in enumerate(rows):
            failure = decoded.failed_at[index]
            if failure is not None:
                self._failed.append(f"{label_prompt(row.prompt)} at step {failure + 1}")
                continue
            text = make_continuation(
                self.loaded, self._recipe, row, decoded.tokens[index], seconds=seconds, batch=len(rows)
            )
            batch.texts.append(text)
            if steps and steps[0]:
                written = steps[: text.new_tokens]
                series = {name: [step[name][index] for step in written] for name in steps[0]}
                batch.traces.append({"id": text.id, "prompt_id": text.prompt_id, **series})
        return batch
