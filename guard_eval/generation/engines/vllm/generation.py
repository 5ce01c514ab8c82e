"""Write a study's texts with vLLM, chunk by chunk."""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib.metadata import entry_points
from importlib.util import find_spec

import torch
import transformers

from guard_eval import progress
from guard_eval.errors import MissingExtraError, StudyError, get_first_line
from guard_eval.generation import FinishedBatch, PlannedText
from guard_eval.generation.engines.encoding import (
    EncodedPrompt,
    encode_prompts_that_fit,
    list_end_ids,
    make_continuation,
)
from guard_eval.generation.engines.loading import LoadedModel, ModelFiles
from guard_eval.generation.engines.vllm import VllmObject
from guard_eval.generation.engines.vllm.plugin import PROCESSOR
from guard_eval.generation.engines.vllm.request import make_extra_args
from guard_eval.generation.plan import Engine, GenerationPlan
from guard_eval.generation.strategies import Greedy, parse
from guard_eval.records import Recipe
from guard_eval.study.folder import Study

ENGINE = "vllm"
"""The name of this engine in a `Recipe`."""
CHUNK_BATCHES = 4
"""The number of full batches in a chunk. If the process is killed, at most one chunk is lost."""
_ENVIRONMENT = {
    "VLLM_LOGGING_LEVEL": "ERROR",  # messages at the start fill a screen
    "VLLM_NO_USAGE_STATS": "1",  # vLLM would send a report about this machine
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # an error in another process would not be seen
}
"""Environment variables of vLLM that are set, unless the user has set them."""


@contextmanager
def open_vllm_engine(plan: GenerationPlan) -> Iterator[Engine]:
    """Start vLLM with a study's model.

    Raises:
        StudyError: vLLM cannot run the model.
        MissingExtraError: vLLM is not installed.
    """
    study = plan.study
    model = study.settings.model
    generation = study.settings.generation
    if isinstance(model.device, dict) or model.device not in {"auto", "balanced"}:
        raise StudyError(
            f"model.device = {model.device!r} does not work with vLLM, which uses one GPU or spreads the "
            "model evenly over all GPUs; set model.device = auto or balanced, and choose GPUs by "
            "CUDA_VISIBLE_DEVICES"
        )
    if find_spec("vllm") is None:
        raise MissingExtraError("vllm", "vllm")
    location = study.locate_model(model.name)
    described = open_model_without_weights(
        location, name=model.name, revision=model.revision, dtype=model.dtype
    )
    texts = [text for texts in plan.missing_texts.values() for text in texts]
    rows, _ = encode_prompts_that_fit(
        described, texts, described.make_recipe(Greedy(), generation, study.settings.seed)
    )
    progress.show_notice("loading the model")
    llm = start_vllm(
        described,
        location,
        max_model_len=max((len(row.ids) for row in rows), default=1) + generation.max_new_tokens,
        tensor_parallel_size=torch.cuda.device_count() if model.device_map else 1,
        # Compilation makes vLLM fast on a GPU. On a CPU, it would take longer than most runs.
        enforce_eager=described.device == "cpu" and not generation.compile,
        **({} if generation.batch_size == "auto" else {"max_num_seqs": generation.batch_size}),
    )
    described = replace(described, dtype=str(llm.llm_engine.model_config.dtype).removeprefix("torch."))
    progress.show_notice(str(described))
    try:
        yield Engine(
            described.revision_and_dtype, partial(_generate_texts_with_strategy, study, llm, described)
        )
    finally:
        llm.llm_engine.engine_core.shutdown()  # otherwise this process waits for vLLM's processes


def _generate_texts_with_strategy(
    study: Study,
    llm: VllmObject,
    loaded: LoadedModel,
    strategy: str,
    texts: Sequence[PlannedText],
) -> Iterator[FinishedBatch]:
    """Yield finished chunks of a strategy's texts.

    Raises:
        StudyError: Some prompts are too long. The error is raised after the last chunk.
    """
    recipe = loaded.make_recipe(
        parse(strategy), study.settings.generation, study.settings.seed, engine=ENGINE
    )
    rows, problem = encode_prompts_that_fit(loaded, texts, recipe)
    yield from generate_text_chunks(llm, loaded, rows, recipe)
    if problem:
        raise StudyError(problem)


def open_model_without_weights(location: str, *, name: str, revision: str, dtype: str) -> LoadedModel:
    """Return a model's tokenizer, revision, number format and device before vLLM loads the weights."""
    for variable, value in _ENVIRONMENT.items():
        os.environ.setdefault(variable, value)
    import vllm  # noqa: PLC0415 (this module can be imported without vLLM)
    from vllm.platforms import current_platform  # noqa: PLC0415

    files = ModelFiles.open(location, revision)
    on_cpu = current_platform.is_cpu()
    expected = files.predict_dtype(dtype, "cpu" if on_cpu else "cuda") or "auto"
    return files.load_all_but_weights(
        name,
        dtype=expected.partition(",")[0],  # without the name of a quantisation
        device="cpu" if on_cpu else current_platform.get_device_name(),
        versions=f"vllm {vllm.__version__}, torch {torch.__version__}, "
        f"transformers {transformers.__version__}",
    )


def start_vllm(loaded: LoadedModel, location: str, **options: VllmObject) -> VllmObject:
    """Start vLLM with a model. `options` are options of `vllm.LLM`.

    Raises:
        StudyError: vLLM cannot run the model.
    """
    from vllm import LLM  # noqa: PLC0415

    settings: dict[str, object] = {
        "dtype": loaded.dtype,
        "generation_config": "vllm",  # the model's own settings would change the strategy
        "disable_log_stats": True,
    }
    if not loaded.revision.startswith("sha256:"):
        settings |= {"revision": loaded.revision, "tokenizer_revision": loaded.revision}
    if loaded.device == "cpu":  # on a CPU, vLLM uses its older runner, and would take 92 % of all memory
        import psutil  # type: ignore[import-untyped]  # noqa: PLC0415 (vLLM brings it)

        memory = psutil.virtual_memory()
        share = round(0.8 * memory.available / memory.total, 3)
        settings |= {"gpu_memory_utilization": share, "async_scheduling": False}
    if not any(point.value == PROCESSOR for point in entry_points(group="vllm.logits_processors")):
        settings["logits_processors"] = [PROCESSOR]  # this package is not installed, but runs from source
    try:
        return LLM(location, **{**settings, **options})
    except (ValueError, RuntimeError, OSError, NotImplementedError) as error:
        raise StudyError(
            f"vLLM cannot run the model {loaded.name!r}: {get_first_line(error)}; "
            "read vLLM's own messages above, or use --engine local, which runs any causal language model"
        ) from error


def generate_text_chunks(
    llm: VllmObject,
    loaded: LoadedModel,
    prompts: Sequence[EncodedPrompt],
    recipe: Recipe,
) -> Iterator[FinishedBatch]:
    """Generate one text for each encoded prompt, and yield the texts in chunks, in the same order.

    Within a chunk, vLLM starts the next prompt as soon as a text is finished.
    """
    at_once = int(llm.llm_engine.vllm_config.scheduler_config.max_num_seqs)
    size = CHUNK_BATCHES * at_once
    for first in range(0, len(prompts), size):
        chunk = prompts[first : first + size]
        began = time.perf_counter()
        outputs = llm.generate(
            [{"prompt_token_ids": row.ids} for row in chunk],
            [make_sampling_params(loaded, recipe, row) for row in chunk],
            use_tqdm=False,
        )
        seconds = (time.perf_counter() - began) / len(chunk)
        batch = min(len(chunk), at_once)
        texts = []
        for row, output in zip(chunk, outputs, strict=True):
            new = list(output.outputs[0].token_ids)
            texts.append(make_continuation(loaded, recipe, row, new, seconds=seconds, batch_size=batch))
        yield FinishedBatch(texts, [])


def make_sampling_params(loaded: LoadedModel, recipe: Recipe, prompt: EncodedPrompt) -> VllmObject:
    """Return vLLM's `SamplingParams` for a prompt."""
    from vllm import SamplingParams  # noqa: PLC0415

    strategy = parse(recipe.strategy)
    ours = make_extra_args(strategy, seed=recipe.seed, prompt_id=prompt.prompt.id, run=prompt.run)
    return SamplingParams(
        temperature=0,  # take the likeliest token, because the strategy masks all others
        max_tokens=recipe.max_new_tokens,
        stop_token_ids=list_end_ids(loaded, recipe.stop),
        stop=list(recipe.stop),
        include_stop_str_in_output=bool(recipe.stop),  # `make_continuation` removes the string
        detokenize=bool(recipe.stop),
        extra_args=None if isinstance(strategy, Greedy) else ours,
    )
