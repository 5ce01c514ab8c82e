"""A study's continuations by vLLM: prompts in, finished continuations out, chunk by chunk."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import Any

import torch
import transformers

from guard_eval import progress
from guard_eval.errors import MissingExtraError, PromptsError, StudyError
from guard_eval.generation.engines.command import Batches, Work
from guard_eval.generation.engines.encoding import (
    EncodedPrompt,
    encode,
    eos_ids,
    make_continuation,
    split_by_length,
)
from guard_eval.generation.engines.loading import LoadedModel, ModelFiles, first_line
from guard_eval.generation.engines.local import recipe_of, recipe_settings
from guard_eval.generation.engines.vllm.plugin import PROCESSOR
from guard_eval.generation.engines.vllm.request import extra_args
from guard_eval.generation.strategies import Greedy, LogitStrategy, parse
from guard_eval.records import Continuation, Prompt, Recipe
from guard_eval.study.folder import Study

ENGINE = "vllm"
"""What a `Recipe` says of this engine."""
CHUNK_BATCHES = 4
"""Texts of a chunk, in full batches: so many are written again after a kill."""
_ENVIRONMENT = {
    "VLLM_LOGGING_LEVEL": "ERROR",  # its start fills a screen
    "VLLM_NO_USAGE_STATS": "1",  # it would report to its authors what it runs on
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # an error in a process of its own would not arrive here
}
"""vLLM's settings, where the environment does not set them."""


def check_study(study: Study, strategies: Sequence[str]) -> None:
    """Refuse strategies and settings of a study that vLLM cannot run.

    Raises:
        StudyError: There are some; all strategies are named.
    """
    if refused := [name for name in strategies if not isinstance(parse(name), LogitStrategy)]:
        options = [text for name in refused for text in ("--strategy", name)]
        raise StudyError(
            f"{'; '.join(refused)}: not on vLLM, which has the logits of each step alone. Write them with: "
            f"{study.command('generate', *options)}; then this command writes the rest"
        )
    model = study.settings.model
    if model.device != "auto" or isinstance(model.device_map, dict):
        raise StudyError(
            "vLLM spreads a model evenly over the GPUs that it sees; set model.device = auto and "
            "model.device_map = auto, and choose GPUs by CUDA_VISIBLE_DEVICES"
        )


@contextmanager
def open_vllm(work: Work) -> Iterator[Batches]:
    """Start vLLM with a study's model.

    Raises:
        StudyError: vLLM cannot run the model or a strategy.
        MissingExtraError: vLLM is not installed.
    """
    if find_spec("vllm") is None:
        raise MissingExtraError("vllm", "vllm")
    study, model, generation = work.study, work.study.settings.model, work.study.settings.generation
    location = study.locate_model(model.name)
    described = describe(location, name=model.name, revision=model.revision, dtype=model.dtype)
    work.find({**work.known, "revision": described.revision, "dtype": described.dtype})
    prompts = {prompt.id: prompt for texts in work.missing.values() for prompt, _ in texts}
    rows = encode(described, list(prompts.values()), generation.max_prompt_tokens, chat=generation.chat)
    fitting, problem = split_by_length(described, rows, generation.max_new_tokens)
    encoded = {row.prompt.id: row for row in fitting}
    progress.notice("loading the model")
    llm = start(
        described,
        location,
        max_model_len=max((len(row.ids) for row in fitting), default=1) + generation.max_new_tokens,
        tensor_parallel_size=torch.cuda.device_count() if model.device_map else 1,
        # On a CPU compiling takes longer than most runs; on a GPU graphs are what makes vLLM fast.
        enforce_eager=described.device == "cpu" and not generation.compile,
        **({} if generation.batch_size == "auto" else {"max_num_seqs": generation.batch_size}),
    )
    described = replace(described, dtype=str(llm.llm_engine.model_config.dtype).removeprefix("torch."))
    progress.notice(str(described))

    def batches(name: str, texts: Sequence[tuple[Prompt, int]]) -> Iterator[list[Continuation]]:
        recipe = recipe_of(described, parse(name), engine=ENGINE, **recipe_settings(study))
        chosen = [replace(encoded[prompt.id], run=run) for prompt, run in texts if prompt.id in encoded]
        yield from generate(llm, described, chosen, recipe)
        if problem is not None:
            raise PromptsError(problem)

    try:
        yield batches
    finally:
        llm.llm_engine.engine_core.shutdown()  # left alone, vLLM's processes keep this one from ending


def describe(location: str, *, name: str, revision: str, dtype: str) -> LoadedModel:
    """Return what `loading.load` would of a model that vLLM is to load; see `ModelFiles.describe`."""
    for variable, value in _ENVIRONMENT.items():
        os.environ.setdefault(variable, value)
    import vllm  # noqa: PLC0415 (this module is also read where there is none)
    from vllm.platforms import current_platform  # noqa: PLC0415

    files, here = ModelFiles.open(location, revision), current_platform.is_cpu()
    return files.describe(
        name,
        dtype=(files.expected_dtype(dtype, "cpu" if here else "cuda") or "auto").partition(",")[0],
        device="cpu" if here else current_platform.get_device_name(),
        versions=f"vllm {vllm.__version__}, torch {torch.__version__}, "
        f"transformers {transformers.__version__}",
    )


def start(described: LoadedModel, location: str, **options: Any) -> Any:  # noqa: ANN401 (vLLM's LLM)
    """Return vLLM with a model, by the options of `vllm.LLM`; raise a `StudyError` if it cannot run it."""
    from vllm import LLM  # noqa: PLC0415

    settings: dict[str, Any] = {
        "dtype": described.dtype,
        "generation_config": "vllm",  # not the model's own: a strategy's parameters are all there are
        "disable_log_stats": True,
    }
    if not described.revision.startswith("sha256:"):
        settings |= {"revision": described.revision, "tokenizer_revision": described.revision}
    if described.device == "cpu":  # its runner is the older one, and it would take 92 % of all memory
        import psutil  # type: ignore[import-untyped]  # noqa: PLC0415 (vLLM brings it)

        memory = psutil.virtual_memory()
        share = round(0.8 * memory.available / memory.total, 3)
        settings |= {"gpu_memory_utilization": share, "async_scheduling": False}
    if not any(point.value == PROCESSOR for point in entry_points(group="vllm.logits_processors")):
        settings["logits_processors"] = [PROCESSOR]  # run from a checkout
    try:
        return LLM(location, **{**settings, **options})
    except (ValueError, RuntimeError, OSError, NotImplementedError) as error:
        raise StudyError(
            f"vLLM cannot run the model {described.name!r}: {first_line(error)}; "
            "its own messages are above, and --engine local runs any causal language model"
        ) from error


def generate(
    llm: Any,  # noqa: ANN401 (vLLM's LLM)
    described: LoadedModel,
    rows: Sequence[EncodedPrompt],
    recipe: Recipe,
) -> Iterator[list[Continuation]]:
    """Return an iterator over chunks of continuations, one for each of `rows`, the longest prompts first.

    Within a chunk vLLM never waits for a batch to end: a prompt takes the place of one that is done.
    """
    ordered = sorted(rows, key=lambda row: (-len(row.ids), row.prompt.id, row.run))
    at_once = int(llm.llm_engine.vllm_config.scheduler_config.max_num_seqs)
    size = CHUNK_BATCHES * at_once
    for chunk in (ordered[start : start + size] for start in range(0, len(ordered), size)):
        began = time.perf_counter()
        outputs = llm.generate(
            [{"prompt_token_ids": row.ids} for row in chunk],
            [sampling_params(described, recipe, row) for row in chunk],
            use_tqdm=False,
        )
        seconds = (time.perf_counter() - began) / len(chunk)
        batch, written = min(len(chunk), at_once), [list(output.outputs[0].token_ids) for output in outputs]
        yield [
            make_continuation(described, recipe, row, new, seconds=seconds, batch=batch)
            for row, new in zip(chunk, written, strict=True)
        ]


def sampling_params(described: LoadedModel, recipe: Recipe, row: EncodedPrompt) -> Any:  # noqa: ANN401
    """Return vLLM's `SamplingParams` for a prompt."""
    from vllm import SamplingParams  # noqa: PLC0415

    strategy = parse(recipe.strategy)
    ours = extra_args(strategy, seed=recipe.seed, prompt_id=row.prompt.id, run=row.run)
    return SamplingParams(
        temperature=0,  # the likeliest token is taken, of which a strategy has left one
        max_tokens=recipe.max_new_tokens,
        stop_token_ids=eos_ids(described, recipe.stop),
        stop=list(recipe.stop),
        include_stop_str_in_output=bool(recipe.stop),  # `make_continuation` cuts alike for every engine
        detokenize=bool(recipe.stop),
        extra_args=None if isinstance(strategy, Greedy) else ours,
    )
