"""A study's continuations by vLLM: prompts in, finished continuations out every few seconds."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import torch
import transformers
from transformers import GenerationConfig

from guard_eval import progress
from guard_eval.engines.decode import check_vocabulary
from guard_eval.engines.encoding import (
    EncodedPrompt,
    StopStrings,
    encode,
    eos_ids,
    make_continuation,
    too_long,
)
from guard_eval.engines.generate import Batches, Work
from guard_eval.engines.generation import recipe_of
from guard_eval.engines.loading import LoadedModel, ModelFiles, first_line
from guard_eval.engines.vllm.plugin import PROCESSOR
from guard_eval.engines.vllm.request import extra_args, unsupported
from guard_eval.errors import MissingExtraError, StudyError
from guard_eval.records import Continuation, Prompt, Recipe
from guard_eval.strategies import Greedy, Strategy, parse
from guard_eval.study.folder import Study

ENGINE = "vllm"
"""What a `Recipe` says of this engine."""

_PAUSE = 2.0
"""Seconds after which the texts that are finished are handed out."""


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
    """Start vLLM with a study's model; what does not fit is refused first.

    Raises:
        StudyError: vLLM cannot run the model, or a prompt is too long.
        MissingExtraError: vLLM is not installed.
    """
    if find_spec("vllm") is None:
        raise MissingExtraError("vllm", "vllm")
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    study, model, generation = work.study, work.study.settings.model, work.study.settings.generation
    location = study.locate_model(model.name)
    described = describe(location, name=model.name, revision=model.revision, dtype=model.dtype)
    if model.device != "auto" and (model.device == "cpu") != (described.device == "cpu"):
        raise StudyError(
            f"model.device = {model.device!r}, and the vLLM that is installed here runs on "
            f"{described.device}; set model.device = auto, or use --engine local"
        )
    work.find({**work.known, "revision": described.revision, "dtype": described.dtype})
    check_study(study, [name for name, texts in work.missing.items() if texts])
    prompts = {prompt.id: prompt for texts in work.missing.values() for prompt, _ in texts}
    rows = encode(described, list(prompts.values()), generation.max_prompt_tokens, chat=generation.chat)
    encoded = {row.prompt.id: row for row in rows}
    if problem := too_long(described, rows, generation.max_new_tokens):
        raise StudyError(problem)
    for name in work.missing:
        check_vocabulary(described.model, described.name, parse(name))
    progress.notice("loading the model")
    served = start(
        described,
        location,
        tokens=max((len(row.ids) for row in rows), default=1) + generation.max_new_tokens,
        at_once=None if generation.batch_size == "auto" else generation.batch_size,
        devices=torch.cuda.device_count() if model.device_map else 1,
        # On a CPU compiling takes longer than most runs; on a GPU graphs are what makes vLLM fast.
        enforce_eager=described.device == "cpu" and not generation.compile,
    )
    progress.notice(f"{served.described}: up to {served.at_once} texts at once")

    def batches(name: str, texts: Sequence[tuple[Prompt, int]]) -> Iterator[list[Continuation]]:
        recipe = recipe_of(
            served.described,
            parse(name),
            seed=study.settings.seed,
            max_new_tokens=generation.max_new_tokens,
            max_prompt_tokens=generation.max_prompt_tokens,
            chat=generation.chat,
            engine=ENGINE,
            stop=generation.stop,
        )
        waiting = [replace(encoded[prompt.id], run=run) for prompt, run in texts]
        return generate(served, waiting, parse(name), recipe)

    with closing(served):
        yield batches


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
        dtype = "float32" if here else str(files.config.dtype or "auto").removeprefix("torch.")
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


@dataclass(frozen=True)
class Served:
    """A model that vLLM holds.

    Attributes:
        described: Its tokenizer and settings.
        engine: vLLM's `LLMEngine`.
    """

    described: LoadedModel
    engine: Any

    @property
    def at_once(self) -> int:
        """Return how many requests it runs at once at most."""
        return int(self.engine.vllm_config.scheduler_config.max_num_seqs)

    def close(self) -> None:
        """End vLLM's processes; left alone, they keep this one from ending."""
        self.engine.engine_core.shutdown()


def start(
    described: LoadedModel,
    location: str,
    *,
    tokens: int,
    at_once: int | None = None,
    devices: int = 1,
    **options: Any,  # noqa: ANN401
) -> Served:
    """Start vLLM with a model.

    Args:
        described: `describe` of it.
        location: A folder or a Hub id.
        tokens: How long the longest prompt and its continuation are together.
        at_once: How many requests to run at once; vLLM's own limit if left out.
        devices: Over how many GPUs to spread it (tensor parallel).
        options: Anything else that `vllm.LLM` takes.

    Raises:
        StudyError: vLLM cannot run it.
    """
    from vllm import LLM  # noqa: PLC0415

    settings: dict[str, Any] = {
        "dtype": described.dtype,
        "max_model_len": tokens,
        "tensor_parallel_size": devices,
        "generation_config": "vllm",  # not the model's own: a strategy's parameters are all there are
        "disable_log_stats": True,
    }
    if not described.revision.startswith("sha256:"):
        settings |= {"revision": described.revision, "tokenizer_revision": described.revision}
    if at_once is not None:
        settings["max_num_seqs"] = at_once
    if described.device == "cpu":
        settings["gpu_memory_utilization"] = (
            _share_of_memory()
        )  # it means the machine's, where there is no GPU
    if not _is_installed():
        settings["logits_processors"] = [PROCESSOR]
    try:
        engine = LLM(location, **{**settings, **options}).llm_engine
    except (ValueError, RuntimeError, OSError, NotImplementedError) as error:
        raise StudyError(
            f"vLLM cannot run the model {described.name!r}: {first_line(error)}; "
            "its own messages are above, and --engine local runs any causal language model"
        ) from error
    dtype = str(engine.model_config.dtype).removeprefix("torch.")
    return Served(replace(described, dtype=dtype), engine)


def _share_of_memory() -> float:
    """Return how much of the machine's memory to take: most of what others have left of it.

    vLLM would take 92 % of all there is, and not start where other programs use the rest.
    """
    import psutil  # type: ignore[import-untyped]  # noqa: PLC0415 (vLLM brings it)

    memory = psutil.virtual_memory()
    return round(0.8 * float(memory.available) / float(memory.total), 3)


def _is_installed() -> bool:
    """Return whether vLLM finds the plugin by itself; run from a checkout it does not."""
    return any(point.value == PROCESSOR for point in entry_points(group="vllm.logits_processors"))


def generate(
    served: Served, encoded: Sequence[EncodedPrompt], strategy: Strategy, made_by: Recipe
) -> Iterator[list[Continuation]]:
    """Return an iterator over continuations as they are finished, one for each prompt in the end.

    vLLM never waits for a batch to end: a prompt takes the place of one that is done. No more are handed to
    it than it needs to be busy, however many there are.

    Args:
        served: The model.
        encoded: The prompts, by `texts.encode` with the tokenizer of `served.described`.
        strategy: One for which `request.unsupported` says nothing.
        made_by: `local.generation.recipe` with `ENGINE`.
    """
    waiting = deque(enumerate(sorted(encoded, key=lambda row: (-len(row.ids), row.prompt.id, row.run))))
    running: dict[str, EncodedPrompt] = {}
    stops = StopStrings(served.described.tokenizer, made_by.stop) if made_by.stop else None
    finished: list[tuple[EncodedPrompt, list[int]]] = []
    since, peak = time.perf_counter(), 0
    while waiting or running:
        while waiting and len(running) < 2 * served.at_once:
            number, row = waiting.popleft()
            running[str(number)] = row
            (prompt,) = served.engine.renderer.render_cmpl([{"prompt_token_ids": row.ids}])
            served.engine.add_request(str(number), prompt, _parameters(served, strategy, made_by, row))
        peak = max(peak, min(len(running), served.at_once))
        for output in served.engine.step():
            name, new = output.request_id, list(output.outputs[0].token_ids)
            if name not in running:  # it was stopped, and this is what was under way
                continue
            stopped = stops is not None and stops.reached(new)
            if stopped and not output.finished:
                served.engine.abort_request([name])
            if stopped or output.finished:
                finished.append((running.pop(name), new))
        took = time.perf_counter() - since
        if finished and (took >= _PAUSE or not (waiting or running)):
            yield [
                make_continuation(
                    served.described, made_by, row, new, seconds=took / len(finished), batch=peak
                )
                for row, new in finished
            ]
            finished, since, peak = [], time.perf_counter(), 0


def _parameters(served: Served, strategy: Strategy, made_by: Recipe, row: EncodedPrompt) -> Any:  # noqa: ANN401
    from vllm import SamplingParams  # noqa: PLC0415
    from vllm.sampling_params import RequestOutputKind  # noqa: PLC0415

    ours = extra_args(strategy, seed=made_by.seed, prompt_id=row.prompt.id, run=row.run)
    return SamplingParams(
        temperature=0,  # the likeliest token is taken, of which a strategy has left one
        max_tokens=made_by.max_new_tokens,
        stop_token_ids=eos_ids(served.described),
        detokenize=False,
        # vLLM's own search for stop strings reads other texts than ours, which are cut alike in every engine.
        output_kind=RequestOutputKind.CUMULATIVE if made_by.stop else RequestOutputKind.FINAL_ONLY,
        extra_args=None if isinstance(strategy, Greedy) else ours,
    )
