"""Write texts with the workers of a Ray cluster.

A worker gets a chunk of prompts when it is ready. If it dies, or its machine is lost, another worker gets its
chunk. The driver stores texts when they arrive, so a run that is stopped can continue.
"""

from __future__ import annotations

import logging
import math
import os
import socket
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, TypeAlias

from guard_eval import progress
from guard_eval.errors import MissingExtraError, StudyError, first_line
from guard_eval.generation.plan import Engine, FinishedBatch, GenerationPlan, PlannedText
from guard_eval.generation.strategies import own
from guard_eval.records import Recipe
from guard_eval.study.folder import Study

RayObject: TypeAlias = Any
"""An object of Ray, which is imported late: its module, a worker, or a pending answer."""
ATTEMPTS = 4
"""The largest number of workers that try one chunk."""
ROOM_SECONDS = 120.0
"""The time to wait for room in a cluster if no worker runs."""
_STORE_BYTES = 1 << 30
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_BACKEND_LOG_LEVEL": "fatal",
    "RAY_ENABLE_AUTO_CONNECT": "0",
}
"""Settings against usage reports to Ray's makers and pages of warnings. Ray's log files have all warnings."""


@contextmanager
def open_ray(plan: GenerationPlan) -> Iterator[Engine]:
    """Connect to the cluster that RAY_ADDRESS names, or start one on this machine.

    Raises:
        StudyError: The cluster does not exist, or it has no room.
        MissingExtraError: Ray is not installed.
    """
    if find_spec("ray") is None:
        raise MissingExtraError("ray", "ray")
    for name, value in _QUIET.items():  # Ray reads these variables when it is imported
        os.environ.setdefault(name, value)
    ray = import_module("ray")
    model = plan.study.settings.model
    if model.device_map is not None:
        raise StudyError(
            f"--engine ray gives each worker one GPU, and model.device = {model.device!r} spreads a model; "
            "use --engine vllm, or --shard i/n with --engine local"
        )
    _connect_to_ray(ray, os.environ.get("RAY_ADDRESS"))
    try:
        resources = sum_resources(ray.nodes())
        count, device = choose_workers(resources, device=model.one_device, workers=plan.workers)
        progress.notice(f"{plan.total} texts by {model.name}: {count} workers, {device}")
        on_cpu = device == "cpu"
        options = {"num_cpus": 1, "num_gpus": 0 if on_cpu else 1, "scheduling_strategy": "SPREAD"}
        new_worker = partial(
            ray.remote(**options)(Worker).remote,
            replace(plan.study, folder=plan.study.folder.resolve()),
            device=device,
            threads=max(1, int(resources["CPU"]) // count) if on_cpu else 1,
            sources=own.texts,
        )
        smallest_chunk = 32 if on_cpu else 256
        size = plan.study.settings.generation.batch_size
        # A chunk consists of full batches.
        chunk = smallest_chunk if size == "auto" else size * math.ceil(smallest_chunk / size)
        workers = _Workers(ray=ray, new_worker=new_worker, count=count, chunk=chunk)
        yield Engine({**plan.facts, "dtype": plan.facts["dtype"] if on_cpu else None}, workers.write)
    finally:
        ray.shutdown()


class Worker:
    """An actor that writes texts by one of the study's strategies, one chunk after the other.

    A model's folder must have the same path on every machine. The files of users' own strategies are sent.
    """

    def __init__(
        self, study: Study, strategy: str, *, device: str, threads: int, sources: dict[str, str]
    ) -> None:
        self._study = study
        self._strategy = strategy
        self._device = device
        self._threads = threads
        self._sources = sources

    @cached_property
    def _models(self) -> Any:  # noqa: ANN401 (StudyModels, which imports torch: the driver needs none)
        import torch  # noqa: PLC0415

        from guard_eval.generation.engines.local import StudyModels  # noqa: PLC0415

        for path, text in self._sources.items():
            own.use_text(path, text)
        os.environ.pop("OMP_NUM_THREADS", None)  # set by Ray; with it, a small model would not use one thread
        torch.set_num_threads(self._threads)
        return StudyModels(self._study, device=self._device)  # the worker sees only its own GPU

    def ready(self) -> None:
        """Return when the worker runs."""

    def write(self, texts: Sequence[PlannedText]) -> tuple[list[FinishedBatch], str]:
        """Return the batches of planned texts, and the error that ended them, or ""."""
        batches: list[FinishedBatch] = []
        try:
            batches.extend(self._models.write(self._strategy, texts))  # batches before an error are kept
        except StudyError as error:  # Ray would add its own text to an exception
            return batches, str(error)
        return batches, ""


@dataclass(frozen=True, kw_only=True)
class _Workers:
    """The workers of a cluster.

    Attributes:
        ray: Ray's module.
        new_worker: Starts a worker for a strategy.
        count: The number of workers that write at once.
        chunk: The number of texts in a chunk.
    """

    ray: RayObject
    new_worker: Callable[[str], RayObject]
    count: int
    chunk: int

    def write(self, strategy: str, texts: Sequence[PlannedText]) -> Iterator[FinishedBatch]:
        """Yield the batches of each chunk when a worker has written it.

        Raises:
            StudyError: A worker refused a prompt or a model, the machines have different models, or workers
                died several times. The yielded texts are valid.
        """
        ordered = sorted(texts, key=lambda planned: -len(planned[0].text))
        without_references = [(replace(prompt, reference=None), run) for prompt, run in ordered]
        starts = range(0, len(ordered), self.chunk)
        chunks = [without_references[start : start + self.chunk] for start in starts]
        recipes: set[Recipe] = set()
        problems: dict[str, None] = {}
        try:
            for batches, problem in self._hand_out_chunks(chunks, partial(self.new_worker, strategy)):
                problems |= {problem: None} if problem else {}
                recipes.update(text.recipe for batch in batches for text in batch.texts)
                if len(recipes) > 1:
                    raise StudyError(
                        f"the workers' models differ: {' and '.join(map(str, recipes))}. Put the same files "
                        "on all machines, or name a Hub commit as model.revision, and the arithmetic as "
                        "model.dtype"
                    )
                yield from batches
        except self.ray.exceptions.RayError as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[-1]
            raise StudyError(
                f"the workers could not go on: {reason}; what they wrote is kept. "
                "If memory ran out, lower generation.batch_size or --workers. Run the same command again"
            ) from error
        if problems:
            raise StudyError("; ".join(problems))

    def _hand_out_chunks(
        self, chunks: Sequence[Sequence[PlannedText]], new_worker: Callable[[], RayObject]
    ) -> Iterator[tuple[list[FinishedBatch], str]]:
        """Give chunks to workers that run, and yield the results.

        Raises:
            StudyError: No worker runs, and the cluster has no room for one.
            RayError: A chunk failed `ATTEMPTS` times, or as many new workers died.
        """
        queue = deque(range(len(chunks)))
        attempts = Counter[int | None]()
        # The worker and its chunk, by the pending answer. A worker that starts has no chunk yet.
        at_work: dict[RayObject, tuple[RayObject, int | None]] = {}

        def start_worker() -> None:
            worker = new_worker()
            at_work[worker.ready.remote()] = worker, None

        for _ in chunks[: self.count]:
            start_worker()
        try:
            while queue or any(chunk is not None for _, chunk in at_work.values()):
                for answer in self._wait_for_answers(at_work):
                    worker, chunk = at_work.pop(answer)
                    try:
                        result = self.ray.get(answer)
                    except self.ray.exceptions.RayError as error:
                        attempts[chunk] += 1
                        is_final = isinstance(error, self.ray.exceptions.RayTaskError)
                        if is_final or attempts[chunk] == ATTEMPTS:
                            raise
                        queue.extendleft([] if chunk is None else [chunk])
                        start_worker()
                        continue
                    if chunk is not None:
                        yield result
                    if queue:
                        following = queue.popleft()
                        at_work[worker.write.remote(chunks[following])] = worker, following
        finally:
            for worker, _ in at_work.values():
                self.ray.kill(worker)

    def _wait_for_answers(self, at_work: Mapping[RayObject, tuple[RayObject, int | None]]) -> list[RayObject]:
        """Wait for answers, and return those that have arrived.

        Raises:
            StudyError: No worker runs, and there is no room for one.
        """
        answers: list[RayObject] = self.ray.wait(list(at_work), timeout=ROOM_SECONDS)[0]
        if not answers and all(chunk is None for _, chunk in at_work.values()):
            raise StudyError(
                f"the Ray cluster had no room for a worker within {ROOM_SECONDS:.0f} seconds; look with "
                "ray status for lost machines and other programs, then run the same command again"
            )
        return answers


def sum_resources(nodes: Sequence[Mapping[str, RayObject]]) -> Mapping[str, float]:
    """Return the resources of all live machines. Ray's own sum includes lost machines for some time."""
    resources = Counter[str]()
    for node in nodes:
        resources.update(node["Resources"] if node["Alive"] else {})
    return resources


def choose_workers(
    resources: Mapping[str, float], *, device: str, workers: int | None
) -> tuple[int, Literal["cpu", "cuda"]]:
    """Return the number of workers and their kind of device: one worker for each GPU, or else for each CPU.

    Raises:
        StudyError: There is no room for `workers`, or the study needs a GPU and there is none.
    """
    has_gpu = resources.get("GPU", 0) >= 1
    use_gpu = device.startswith("cuda") or (device == "auto" and has_gpu)
    kind = "GPU" if use_gpu else "CPU"
    room = int(resources.get(kind, 0))
    if room < (workers or 1):
        raise StudyError(
            f"the Ray cluster has {room} {kind}s: use at most {room} --workers, or set another model.device"
        )
    return workers or room, "cuda" if use_gpu else "cpu"


def _connect_to_ray(ray: RayObject, address: str | None) -> None:
    """Connect Ray to the cluster at `address`. Without an address, start a cluster on this machine."""
    progress.notice(f"joining the Ray cluster at {address}" if address else "starting Ray on this machine")
    options: dict[str, object] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address is None:
        options |= {"object_store_memory": _STORE_BYTES, "include_dashboard": False}
    try:
        host, _, port = (address or "").rpartition(":")
        if (
            host and port.isdecimal()
        ):  # if nothing listens there, this fails at once; Ray would try for minutes
            socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
        with chdir(Path(__file__).parents[3]):  # workers import modules from the folder where Ray starts
            ray.init(address or "local", **options)
    except (ConnectionError, ValueError, RuntimeError, OSError) as error:
        raise StudyError(
            f"cannot start or reach Ray: {first_line(error)}; check it with: ray status"
        ) from error
