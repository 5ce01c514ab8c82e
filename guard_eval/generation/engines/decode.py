"""Write texts with a model and a strategy, batch by batch, with transformers' `generate`.

A strategy is a processor of the logits of `generate`, which also has a beam search. Contrastive decoding
changes the scores of the beam search. Contrastive search and ACS need the hidden states of all candidates,
so this module writes their texts in a separate loop.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

import torch
from torch import Tensor
from torch.nn.functional import pad

from guard_eval.errors import StudyError, get_first_line
from guard_eval.generation import FinishedBatch, PlannedText
from guard_eval.generation.decoding.contrastive import Proposer, choose_candidate, compute_contrastive_scores
from guard_eval.generation.decoding.noise import make_row_key
from guard_eval.generation.decoding.processor import DecodedStep, StrategyProcessor
from guard_eval.generation.engines import Model
from guard_eval.generation.engines.batch import (
    Batch,
    BatchSizes,
    DecodedBatch,
    find_padding_token,
    generate_with_transformers,
    is_out_of_memory,
    process_in_batches,
)
from guard_eval.generation.engines.encoding import (
    EncodedPrompt,
    encode_prompts_that_fit,
    join_prompt_names,
    label_prompt,
    list_control_tokens,
    list_end_ids,
    list_ids_without_text,
    make_continuation,
)
from guard_eval.generation.engines.loading import LoadedModel
from guard_eval.generation.engines.passes import RowPasses
from guard_eval.generation.engines.probe import Abilities, check_model_can_run_strategy
from guard_eval.generation.strategies import (
    AdaptiveContrastiveSearch,
    BeamSearch,
    ContrastiveDecoding,
    ContrastiveSearch,
    Strategy,
)
from guard_eval.study.system_settings import GenerationSettings

Watch = Callable[[DecodedStep], None]
"""A function that `decode_batch` calls after each step of a batch."""


@torch.inference_mode()
def decode_batch(
    model: Model,
    batch: Batch,
    strategy: Strategy,
    *,
    amateur: Model = None,
    static_cache: bool = False,
    on_step: Watch | None = None,
) -> DecodedBatch:
    """Continue a batch of prompts with a strategy.

    Args:
        model: A transformers model for causal language modelling.
        batch: The prompts.
        strategy: The strategy, after `check_model_can_run_strategy` has accepted it.
        amateur: The weaker model of contrastive decoding, with the same vocabulary.
        static_cache: Use a static cache. On a GPU, the model and GUARD's step are also compiled.
        on_step: A function that is called after each step. Strategies with beams do not call it, because
            their texts are known only at the end.
    """
    if isinstance(strategy, ContrastiveSearch | AdaptiveContrastiveSearch):
        return _run_contrastive_search(model, batch, strategy, on_step)
    ids, mask = batch.pad_prompts()
    broken: list[Tensor] = []
    abilities = Abilities.for_model(model)
    tokens = ids.shape[1] + batch.limit
    static_cache = static_cache and abilities.can_use_static_cache(tokens)
    use_cache = static_cache or abilities.can_use_cache(tokens)
    options: dict[str, object] = {}
    processor: Callable[[Tensor, Tensor], Tensor]
    if isinstance(strategy, BeamSearch | ContrastiveDecoding):
        score = None
        if isinstance(strategy, ContrastiveDecoding):
            score = _AmateurScorer(amateur, strategy, ids, mask, batch.limit)
        processor = partial(_record_failed_beam_prompts, len(ids), score, broken)
        use_cache = use_cache and abilities.can_reorder_cache(tokens)
        options = {
            "num_beams": strategy.beams,
            "early_stopping": False,
            "length_penalty": getattr(strategy, "length_penalty", 1.0),
        }
    else:
        processor = StrategyProcessor(strategy, attention_mask=mask)
        processor.keys = batch.keys
        processor.on_step = on_step
        processor.on_broken = broken.append
        processor.compiled = static_cache and ids.device.type == "cuda"
    if static_cache and use_cache:  # a beam search may run without a cache
        options["cache_implementation"] = "static"
    rows = generate_with_transformers(
        model,
        ids,
        mask,
        processor,
        stop_criteria=[partial(batch.has_reached_stop_string, start=ids.shape[1])] if batch.stop else (),
        use_cache=use_cache,
        max_new_tokens=batch.limit,
        eos_token_id=list(batch.ends) or None,
        pad_token_id=batch.ends[0] if batch.ends else 0,
        suppress_tokens=list(batch.absent) or None,
        **options,
    )
    return DecodedBatch.cut_at_end_tokens(batch, rows[:, ids.shape[1] :].tolist(), broken)


def _record_failed_beam_prompts(
    prompt_count: int,
    change_scores: Callable[[Tensor, Tensor], Tensor] | None,
    failures: list[Tensor],
    input_ids: Tensor,
    scores: Tensor,
) -> Tensor:
    """Add to `failures` which prompts of a beam search have no valid scores. Return scores without NaN.

    For contrastive decoding, the function `change_scores` changes the scores first.
    """
    if change_scores is not None:
        scores = change_scores(input_ids, scores)
    best = scores.amax(-1).view(prompt_count, -1)
    has_bad_beam = (best.isnan() | (best == torch.inf)).any(-1)
    has_no_beam = (best == -torch.inf).all(-1)
    broken = has_bad_beam | has_no_beam
    failures.append(broken)
    return scores.masked_fill(broken.repeat_interleave(best.shape[1])[:, None], 0)


class _AmateurScorer:
    """A processor that changes an expert's scores in a beam search to ln p_expert − ln p_amateur."""

    def __init__(
        self, model: Model, strategy: ContrastiveDecoding, ids: Tensor, mask: Tensor, limit: int
    ) -> None:
        self._strategy = strategy
        self._start = ids.shape[1]
        first = -1 if strategy.amateur_prompt == "last" else 0
        padded = ids.masked_fill(mask == 0, find_padding_token(model))
        prompts = padded[:, first:].repeat_interleave(strategy.beams, 0)
        masks = mask[:, first:].repeat_interleave(strategy.beams, 0)
        cached = Abilities.for_model(model).can_reorder_cache(prompts.shape[1] + limit)
        self._rows = RowPasses(model, prompts, masks, cached=cached)
        self._written = ids[:, :0]

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        written = input_ids[:, self._start :]
        if written.shape[1]:
            amateur, _ = self._rows.append_tokens(self._find_parent_beams(written[:, :-1]), written[:, -1:])
        else:
            amateur, _ = self._rows.process_prompts()
        self._written = written
        # The further rows of the larger embedding are only padding.
        shared = min(scores.shape[1], amateur.shape[1])
        contrasted = compute_contrastive_scores(
            scores[:, :shared],
            amateur[:, :shared],
            alpha=self._strategy.alpha,
            amateur_tau=self._strategy.amateur_tau,
        )
        return pad(contrasted, (0, scores.shape[1] - shared), value=-torch.inf)

    def _find_parent_beams(self, texts: Tensor) -> Tensor:
        """Return the index of the previous step's beam that each text continues, `[rows]`."""
        beams = self._strategy.beams
        prompts = len(texts) // beams
        length = texts.shape[1]
        earlier = self._written.reshape(prompts, 1, beams, length)
        is_parent = (texts.reshape(prompts, beams, 1, length) == earlier).all(-1)
        first = beams * torch.arange(prompts, device=texts.device)
        return (first[:, None] + is_parent.int().argmax(-1)).flatten()


def _run_contrastive_search(
    model: Model,
    batch: Batch,
    strategy: ContrastiveSearch | AdaptiveContrastiveSearch,
    on_step: Watch | None,
) -> DecodedBatch:
    """Continue a batch with contrastive search or ACS."""
    ids, mask = batch.pad_prompts()
    start = ids.shape[1]
    propose = Proposer(strategy, len(ids), batch.limit, ids.device)
    passes_class = Abilities.for_model(model).find_fastest_pass_class(start + batch.limit)
    passes = passes_class(model, ids, mask, batch.limit)
    failures: list[Tensor] = []
    ends = torch.tensor(batch.ends, dtype=torch.long, device=ids.device)
    absent = torch.tensor(batch.absent, dtype=torch.long, device=ids.device)
    running = torch.ones_like(ids[:, 0], dtype=torch.bool)
    logits = passes.prefill()
    for step in range(batch.limit):
        if batch.absent:
            logits = logits.index_fill(-1, absent, -torch.inf)
        broken = ~logits.amax(-1).isfinite()
        proposal = propose(logits.masked_fill(broken[:, None], 0), step)
        penalty = passes.compute_candidate_penalties(proposal.ids)
        # A hidden state may be NaN even if the logits before it are finite.
        broken |= (~penalty.isfinite() & proposal.allowed).any(-1)
        failures.append(broken)
        index = choose_candidate(proposal, penalty.nan_to_num())
        tokens = proposal.ids.gather(1, index[:, None])
        if on_step:
            adapts = isinstance(strategy, AdaptiveContrastiveSearch)
            adapted = {"k": proposal.allowed.sum(-1), "alpha": proposal.alpha} if adapts else {}
            on_step(DecodedStep(logits, tokens[:, 0], adapted))
        ids = torch.cat([ids, tokens], 1)
        running &= ~((tokens == ends).any(-1) | broken)
        if batch.stop:
            running &= ~batch.has_reached_stop_string(ids, start=start)
        if step + 1 == batch.limit or not running.any():
            break
        logits = passes.append_chosen_candidates(index)
    return DecodedBatch.cut_at_end_tokens(batch, ids[:, start:].tolist(), failures)


@dataclass(kw_only=True)
class Writer:
    """A writer of texts. All its texts have the same model, strategy and settings.

    Attributes:
        loaded: The model.
        strategy: The strategy.
        settings: The settings of `[generation]`.
        seed: The seed of all random draws.
        amateur: The second model of contrastive decoding. Other strategies ignore this model.
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
        """Compute the values that are the same for all batches."""
        if not isinstance(self.strategy, ContrastiveDecoding):
            self.amateur = None
        self._models = [loaded.model for loaded in (self.loaded, self.amateur) if loaded is not None]
        self._recipe = self.loaded.make_recipe(self.strategy, self.settings, self.seed, amateur=self.amateur)
        control = list_control_tokens(self.loaded.tokenizer)
        self._new_batch = partial(
            Batch,
            ends=list_end_ids(self.loaded, self._recipe.stop),
            limit=self._recipe.max_new_tokens,
            tokenizer=self.loaded.tokenizer,
            stop=[string for string in self._recipe.stop if string not in control],
            absent=list_ids_without_text(self.loaded),
            padding=find_padding_token(self.loaded.model),
        )
        self._width = 0  # for a static cache, prompts are padded to this number of tokens
        self._largest_batch = 0
        self._failed: list[str] = []
        self._errors: dict[str, list[str]] = {}

    def generate_batches(self, texts: Sequence[PlannedText]) -> Iterator[FinishedBatch]:
        """Yield finished batches of texts, the longest prompts first.

        Raises:
            StudyError: Before the first batch: a prompt is empty, or the model cannot run the strategy.
                Later: memory runs out with a single text. After the last batch: prompts are too long, or the
                model fails or gives no probabilities for some prompts. The message names all these prompts.
        """
        if isinstance(self.strategy, ContrastiveDecoding) and self.amateur is None:
            raise StudyError(
                f"{self.strategy} needs a second, smaller model; name it in model.amateur, or as amateur"
            )
        check_model_can_run_strategy(self._models[0], self.strategy, *self._models[1:])
        rows, problem = encode_prompts_that_fit(self.loaded, texts, self._recipe)
        abilities = [Abilities.for_model(model) for model in self._models]
        single = [label_prompt(row.prompt) for row in rows if len(row.ids) == 1]
        if single and not all(ability.forgets_earlier_texts for ability in abilities):
            raise StudyError(
                f"{join_prompt_names(single)}: this {type(self.loaded.model).__name__} confuses a prompt of "
                "one token with the text that the model read before; make the prompt longer, or remove it"
            )
        sizes = BatchSizes.choose_first_size(self.settings.batch_size, self.loaded.model, self.strategy)
        self._width = len(rows[0].ids) if self.settings.compile and rows else 0
        need_padding = len({len(row.ids) for row in rows}) > 1
        longest = len(rows[0].ids) + self._recipe.max_new_tokens if rows else 0
        if need_padding and not all(ability.can_pad_prompts(longest) for ability in abilities):
            sizes = BatchSizes(1)
            self._width = 0
        try:
            for _, batch in process_in_batches(rows, self._generate_batch, sizes):
                if batch.texts:
                    yield batch
        except torch.OutOfMemoryError as error:
            raise StudyError(
                f"memory ran out on {self.loaded.device} with a single prompt; "
                "lower generation.max_prompt_tokens, or name a smaller model"
            ) from error
        problems = [problem] if problem else []
        if self._failed:
            problems.append(
                f"the model {self.loaded.name!r} gave no probabilities (NaN or infinite logits) for "
                f"{join_prompt_names(self._failed)}; try model.dtype = float32, or remove these prompts"
            )
        problems += [
            f"{type(self.loaded.model).__name__} fails with {self.strategy} for {join_prompt_names(names)} "
            f"({reason}); lower max_prompt_tokens or max_new_tokens, or name another model"
            for reason, names in self._errors.items()
        ]
        if problems:
            raise StudyError("; ".join(problems))

    def _generate_batch(self, rows: Sequence[EncodedPrompt]) -> FinishedBatch:
        """Generate one text per prompt, or no text if the model's probabilities are invalid."""
        began = time.perf_counter()
        steps: list[dict[str, list[float]]] = []
        callback_errors: list[Exception] = []

        def collect_step(step: DecodedStep) -> None:
            if self.trace:
                steps.append({name: values.tolist() for name, values in step.adapted.items()})
            elif self.on_step:
                try:
                    self.on_step(step)
                except Exception as error:
                    callback_errors.append(error)
                    raise

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
                static_cache=self._width > 0,
                on_step=collect_step if self.trace or self.on_step else None,
            )
        except Exception as error:  # another library's model may raise anything
            if error in callback_errors or isinstance(error, StudyError) or is_out_of_memory(error):
                raise
            if len(rows) == 1:
                reason = f"{type(error).__name__}: {get_first_line(error)}"
                self._errors.setdefault(reason, []).append(label_prompt(rows[0].prompt))
                return FinishedBatch([], [])
            texts, traces = zip(*(self._generate_batch([row]) for row in rows), strict=True)
            return FinishedBatch([*chain(*texts)], [*chain(*traces)])  # the model may fail for a single row
        seconds = (time.perf_counter() - began) / len(rows)
        return self._make_finished_batch(rows, decoded, steps, seconds)

    def _make_finished_batch(
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
                self.loaded, self._recipe, row, decoded.tokens[index], seconds=seconds, batch_size=len(rows)
            )
            batch.texts.append(text)
            if steps and steps[0]:
                written = steps[: text.new_tokens]
                series = {name: [step[name][index] for step in written] for name in steps[0]}
                batch.traces.append({"id": text.id, "prompt_id": text.prompt_id, **series})
        return batch
