"""A study's continuations by vLLM: prompts in, finished continuations out, chunk by chunk."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import entry_points
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import torch
import transformers
from transformers import GenerationConfig

from guard_eval import progress
from guard_eval.engines.encoding import EncodedPrompt, encode, eos_ids, make_continuation, split_by_length
from guard_eval.engines.generate import Batches, Work
from guard_eval.engines.generation import recipe_of
from guard_eval.engines.loading import LoadedModel, ModelFiles, first_line
from guard_eval.engines.study_models import recipe_settings
from guard_eval.engines.vllm.plugin import PROCESSOR
from guard_eval.engines.vllm.request import extra_args, unsupported
from guard_eval.errors import MissingExtraError, PromptsError, StudyError
from guard_eval.records import Continuation, Prompt, Recipe
from guard_eval.strategies import Greedy, parse
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
    if refused := {name: why for name in strategies if (why := unsupported(parse(name)))}:
        named = "; ".join(f"{name} does not run on vLLM: {why}" for name, why in refused.items())
        options = [text for name in refused for text in ("--strategy", name)]
        local = study.command("generate", "--engine", "local", *options)
        raise StudyError(f"{named}. Write them with: {local}; then this command writes the rest")
    model = study.settings.model
    if model.device not in {"auto", "cpu", "cuda"}:
        raise StudyError(
            f"model.device = {model.device!r}: vLLM takes the GPUs that it sees; set model.device = auto and "
            "choose them by CUDA_VISIBLE_DEVICES"
        )
    if isinstance(model.device_map, dict):
        raise StudyError(
            "model.device_map is a table, and vLLM spreads a model evenly over the GPUs that it sees; "
            "set model.device_map = auto, or use --engine local"
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
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    study, model, generation = work.study, work.study.settings.model, work.study.settings.generation
    described = describe(
        study.locate_model(model.name), name=model.name, revision=model.revision, dtype=model.dtype
    )
    if model.device != "auto" and (model.device == "cpu") != (described.device == "cpu"):
        raise StudyError(
            f"model.device = {model.device!r}, and the vLLM that is installed here runs on "
            f"{described.device}; set model.device = auto, or use --engine local"
        )
    work.find({**work.known, "revision": described.revision, "dtype": described.dtype})
    check_study(study, [name for name, texts in work.missing.items() if texts])
    prompts = {prompt.id: prompt for texts in work.missing.values() for prompt, _ in texts}
    rows = encode(described, list(prompts.values()), generation.max_prompt_tokens, chat=generation.chat)
    fitting, problem = split_by_length(described, rows, generation.max_new_tokens)
    encoded = {row.prompt.id: row for row in fitting}
    progress.notice("loading the model")
    llm = start(
        described,
        study.locate_model(model.name),
        max_model_len=max((len(row.ids) for row in fitting), default=1) + generation.max_new_tokens,
        tensor_parallel_size=torch.cuda.device_count() if model.device_map else 1,
        # On a CPU compiling takes longer than most runs; on a GPU graphs are what makes vLLM fast.
        enforce_eager=described.device == "cpu" and not generation.compile,
        **({} if generation.batch_size == "auto" else {"max_num_seqs": generation.batch_size}),
    )
    described = replace(described, dtype=_dtype_name(llm.llm_engine.model_config.dtype))
    progress.notice(f"{described}: up to {batch_limit(llm)} texts at once")

    def batches(name: str, texts: Sequence[tuple[Prompt, int]]) -> Iterator[list[Continuation]]:
        recipe = recipe_of(described, parse(name), engine=ENGINE, **recipe_settings(study))
        chosen = [replace(encoded[prompt.id], run=run) for prompt, run in texts if prompt.id in encoded]
        yield from generate(llm, described, chosen, recipe)
        if problem is not None:
            raise PromptsError(f"{problem}; all other texts are made")

    try:
        yield batches
    finally:
        llm.llm_engine.engine_core.shutdown()  # left alone, vLLM's processes keep this one from ending


def describe(location: str, *, name: str, revision: str, dtype: str) -> LoadedModel:
    """Return a model's tokenizer and settings as `loading.load` would, but without the model itself.

    Args:
        location: A folder or a Hub id.
        name: What the study calls it.
        revision: A Hub branch, tag or commit; a folder has none.
        dtype: `float32`, `bfloat16`, `float16`, or `auto`: float32 on a CPU, else as the model was saved.

    Raises:
        StudyError: There is no such model, or it cannot be read.
    """
    import vllm  # noqa: PLC0415 (this module is also read where there is none)
    from vllm.platforms import current_platform  # noqa: PLC0415

    files = ModelFiles.open(location, revision)
    try:
        version: dict[str, Any] = dict(files.version)
        ends: Any = GenerationConfig.from_pretrained(files.source, **version)
    except OSError:
        ends = None
    here = current_platform.is_cpu()
    if dtype == "auto":
        dtype = "float32" if here else _dtype_name(files.config.dtype or "auto")
    return LoadedModel(
        model=SimpleNamespace(config=files.config, generation_config=ends),
        tokenizer=files.read_tokenizer(),
        name=name,
        revision=files.revision,
        dtype=dtype,
        device="cpu" if here else current_platform.get_device_name(),
        versions=f"vllm {vllm.__version__}, torch {torch.__version__}, "
        f"transformers {transformers.__version__}",
    )


def start(described: LoadedModel, location: str, **options: Any) -> Any:  # noqa: ANN401 (vLLM's LLM)
    """Return vLLM with a model; `options` are those of `vllm.LLM`.

    Raises:
        StudyError: vLLM cannot run it.
    """
    from vllm import LLM  # noqa: PLC0415

    settings: dict[str, Any] = {
        "dtype": described.dtype,
        "generation_config": "vllm",  # not the model's own: a strategy's parameters are all there are
        "disable_log_stats": True,
    }
    if not described.revision.startswith("sha256:"):
        settings |= {"revision": described.revision, "tokenizer_revision": described.revision}
    if described.device == "cpu":  # its runner is the older one
        settings |= {"gpu_memory_utilization": _memory_share(), "async_scheduling": False}
    if not any(point.value == PROCESSOR for point in entry_points(group="vllm.logits_processors")):
        settings["logits_processors"] = [PROCESSOR]  # run from a checkout
    try:
        return LLM(location, **{**settings, **options})
    except (ValueError, RuntimeError, OSError, NotImplementedError) as error:
        raise StudyError(
            f"vLLM cannot run the model {described.name!r}: {first_line(error)}; "
            "its own messages are above, and --engine local runs any causal language model"
        ) from error


def _memory_share() -> float:
    """Return how much of the machine's memory to take: vLLM would take 92 %, whatever others use of it."""
    import psutil  # type: ignore[import-untyped]  # noqa: PLC0415 (vLLM brings it)

    memory = psutil.virtual_memory()
    return round(0.8 * float(memory.available) / float(memory.total), 3)


def _dtype_name(dtype: object) -> str:
    return str(dtype).removeprefix("torch.")


def batch_limit(llm: Any) -> int:  # noqa: ANN401
    """Return how many requests vLLM runs at once at most."""
    return int(llm.llm_engine.vllm_config.scheduler_config.max_num_seqs)


def generate(
    llm: Any,  # noqa: ANN401 (vLLM's LLM)
    described: LoadedModel,
    rows: Sequence[EncodedPrompt],
    recipe: Recipe,
) -> Iterator[list[Continuation]]:
    """Return an iterator over chunks of continuations, one for each of `rows`, the longest prompts first.

    Within a chunk vLLM never waits for a batch to end: a prompt takes the place of one that is done.

    Args:
        llm: `start`'s.
        described: `describe` of its model.
        rows: Prompts by `encode`.
        recipe: By `ENGINE`, and a strategy for which `unsupported` returns None.
    """
    ordered = sorted(rows, key=lambda row: (-len(row.ids), row.prompt.id, row.run))
    at_once = batch_limit(llm)
    size = CHUNK_BATCHES * at_once
    for chunk in (ordered[start : start + size] for start in range(0, len(ordered), size)):
        began = time.perf_counter()
        outputs = llm.generate(
            [{"prompt_token_ids": row.ids} for row in chunk],
            [sampling_params(described, recipe, row) for row in chunk],
            use_tqdm=False,
        )
        seconds = (time.perf_counter() - began) / len(chunk)
        yield [
            make_continuation(
                described,
                recipe,
                row,
                list(output.outputs[0].token_ids),
                seconds=seconds,
                batch=min(len(chunk), at_once),
            )
            for row, output in zip(chunk, outputs, strict=True)
        ]


def sampling_params(described: LoadedModel, recipe: Recipe, row: EncodedPrompt) -> Any:  # noqa: ANN401
    """Return vLLM's `SamplingParams` for a prompt."""
    from vllm import SamplingParams  # noqa: PLC0415

    strategy = parse(recipe.strategy)
    ours = extra_args(strategy, seed=recipe.seed, prompt_id=row.prompt.id, run=row.run)
    return SamplingParams(
        temperature=0,  # the likeliest token is taken, of which a strategy has left one
        max_tokens=recipe.max_new_tokens,
        stop_token_ids=eos_ids(described),
        stop=list(recipe.stop),
        include_stop_str_in_output=bool(recipe.stop),  # `make_continuation` cuts alike for every engine
        detokenize=bool(recipe.stop),
        extra_args=None if isinstance(strategy, Greedy) else ours,
    )
