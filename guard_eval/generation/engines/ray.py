"""Texts by workers of a Ray cluster: chunks of prompts out, continuations back as they come.

Ray starts a worker that died again, elsewhere if its machine is lost, and gives it the same chunk. The driver
appends texts as they come, so a run that is stopped goes on where it was.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager
from dataclasses import replace
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from guard_eval import progress
from guard_eval.errors import MissingExtraError, PromptsError, StudyError
from guard_eval.generation.engines.command import Batches, Work
from guard_eval.generation.engines.loading import first_line
from guard_eval.generation.strategies import own
from guard_eval.records import Continuation, Prompt, Recipe
from guard_eval.study.folder import Study

RESTARTS = 3
"""How often Ray starts a worker again, and gives out a chunk again."""
_STORE_BYTES = 1 << 30
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_BACKEND_LOG_LEVEL": "fatal",
    "RAY_ENABLE_AUTO_CONNECT": "0",
}
"""No report of its use to Ray's makers, and no pages of warnings; Ray's log files have all of them."""


@contextmanager
def open_ray(work: Work) -> Iterator[Batches]:
    """Connect to the cluster that RAY_ADDRESS names, or start one on this machine.

    Raises:
        StudyError: There is no such cluster, or it has no room.
        MissingExtraError: Ray is not installed.
    """
    if find_spec("ray") is None:
        raise MissingExtraError("ray", "ray")
    for name, value in _QUIET.items():  # read on being imported
        os.environ.setdefault(name, value)
    ray, model = import_module("ray"), work.study.settings.model
    if model.device_map is not None:
        raise StudyError(
            "--engine ray gives each worker one GPU, and model.device_map spreads a model over several; "
            "use --engine vllm, or --shard i/n with --engine local"
        )
    _start(ray, os.environ.get("RAY_ADDRESS"))
    try:
        count, device = choose_workers(ray.cluster_resources(), device=model.device, workers=work.workers)
        work.find({**work.known, "dtype": work.known["dtype"] if device == "cpu" else None})
        progress.notice(f"{work.total} texts by {model.name}: {count} workers, {device}")
        study = replace(work.study, folder=work.study.folder.resolve())
        yield lambda name, texts: _write_on_workers(ray, study, name, texts, count=count, device=device)
    finally:
        ray.shutdown()


class Worker:
    """An actor that writes texts by one of the study's strategies, one chunk after the other.

    A model's folder must lie at the same path on every machine; the files of users' own strategies need not.
    """

    def __init__(
        self, study: Study, strategy: str, *, device: str, threads: int, sources: dict[str, str]
    ) -> None:
        self._study, self._strategy, self._device = study, strategy, device
        self._threads, self._sources = threads, sources

    @cached_property
    def _models(self) -> Any:  # noqa: ANN401 (StudyModels, which imports torch: the driver needs none)
        import torch  # noqa: PLC0415

        from guard_eval.generation.engines.local import StudyModels  # noqa: PLC0415

        for path, text in self._sources.items():
            own.use_text(path, text)
        os.environ.pop("OMP_NUM_THREADS", None)  # Ray's doing; it would keep a small model from one thread
        torch.set_num_threads(self._threads)
        return StudyModels(self._study, device=self._device)  # it sees its own GPU alone

    def write(self, texts: Sequence[tuple[Prompt, int]]) -> tuple[list[Continuation], str | None]:
        """Return the continuations of prompts and runs, and the error that ended them, if any."""
        written: list[Continuation] = []
        try:
            for batch in self._models.write(texts, self._strategy):
                written += batch
        except StudyError as error:  # which Ray would disfigure
            return written, str(error)
        return written, None


def _write_on_workers(
    ray: Any,  # noqa: ANN401 (Ray's types are not imported)
    study: Study,
    strategy: str,
    texts: Sequence[tuple[Prompt, int]],
    *,
    count: int,
    device: str,
) -> Iterator[list[Continuation]]:
    """Yield the texts of each chunk as some worker has written them.

    Raises:
        StudyError: A worker refused a prompt or a model, the machines have different models, or workers died
            again and again. What was yielded stays good.
    """
    least, size = 32 if device == "cpu" else 256, study.settings.generation.batch_size
    rows = least if size == "auto" else size * -(-least // size)
    ordered = sorted(texts, key=lambda each: -len(each[0].text))
    short = [(replace(prompt, reference=None), run) for prompt, run in ordered]
    chunks = [short[start : start + rows] for start in range(0, len(short), rows)]
    actor = ray.remote(
        num_cpus=1,
        num_gpus=int(device != "cpu"),
        scheduling_strategy="SPREAD",
        max_restarts=RESTARTS,
        max_task_retries=RESTARTS,
    )(Worker)
    threads = max(1, int(ray.cluster_resources()["CPU"]) // count) if device == "cpu" else 1
    workers = [
        actor.remote(study, strategy, device=device, threads=threads, sources=own.texts)
        for _ in chunks[:count]
    ]
    results = import_module("ray.util").ActorPool(workers)
    recipes: set[Recipe] = set()
    problems: list[str] = []
    try:
        for written, problem in results.map_unordered(
            lambda worker, chunk: worker.write.remote(chunk), chunks
        ):
            problems += [problem] if problem else []
            recipes.update(text.recipe for text in written)
            if len(recipes) > 1:
                raise StudyError(
                    f"the workers' models differ: {' and '.join(map(str, recipes))}. Put the same files on "
                    "all machines, or name a Hub commit as model.revision, and the arithmetic as model.dtype"
                )
            if written:
                yield written
    except ray.exceptions.RayError as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[-1]
        raise StudyError(
            f"the workers could not go on: {reason}; what they wrote is kept. "
            "If memory ran out, lower generation.batch_size or --workers. Run the same command again"
        ) from error
    finally:
        for worker in workers:
            ray.kill(worker)
    if problems:
        raise PromptsError("; ".join(dict.fromkeys(problems)))


def choose_workers(
    resources: Mapping[str, float], *, device: str, workers: int | None
) -> tuple[int, Literal["cpu", "cuda"]]:
    """Return how many workers a cluster has room for, and on what: one a GPU; without GPUs one a CPU.

    Raises:
        StudyError: There is no room for so many, or no GPU where one is asked for.
    """
    gpu = device.startswith("cuda") or (device == "auto" and resources.get("GPU", 0) >= 1)
    kind = "GPU" if gpu else "CPU"
    room = int(resources.get(kind, 0))
    if room < (workers or 1):
        raise StudyError(
            f"the Ray cluster has {room} {kind}s: give at most so many --workers, or set another model.device"
        )
    return workers or room, "cuda" if gpu else "cpu"


def _start(ray: Any, address: str | None) -> None:  # noqa: ANN401
    """Connect Ray to the cluster at `address`, or without one to a cluster of this machine."""
    progress.notice(f"joining the Ray cluster at {address}" if address else "starting Ray on this machine")
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address is None:
        options |= {"object_store_memory": _STORE_BYTES, "include_dashboard": False}
    try:
        host, _, port = (address or "").rpartition(":")
        if host and port.isdecimal():  # does anything listen? Ray would try for minutes
            socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
        with chdir(Path(__file__).parents[3]):  # its workers take modules from the folder it is started in
            ray.init(address or "local", **options)
    except (ConnectionError, ValueError, RuntimeError, OSError) as error:
        raise StudyError(
            f"cannot start or reach Ray: {first_line(error)}; check it with: ray status"
        ) from error
