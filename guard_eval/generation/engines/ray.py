"""Write texts with the workers of a Ray cluster.

A worker gets a chunk of prompts when it is ready. If a worker dies or its machine is lost, another worker
gets the chunk. This process saves texts when they arrive, so a stopped run can be continued.
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
from guard_eval.errors import MissingExtraError, StudyError, get_first_line
from guard_eval.generation import FinishedBatch, PlannedText
from guard_eval.generation.plan import Engine, GenerationPlan
from guard_eval.generation.strategies import own
from guard_eval.records import Recipe
from guard_eval.study.folder import Study

RayObject: TypeAlias = Any
"""An object of Ray: the module, a worker, or a pending answer. Ray is imported only when it is used."""
ATTEMPTS = 4
"""The largest number of attempts to write one chunk."""
ROOM_SECONDS = 120.0
"""The longest wait for the first worker to start, in seconds."""
_STORE_BYTES = 1 << 30
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_BACKEND_LOG_LEVEL": "fatal",
    "RAY_ENABLE_AUTO_CONNECT": "0",
}
"""Environment variables with which Ray sends no usage reports, and writes long warnings only to log files."""


@contextmanager
def open_ray_engine(plan: GenerationPlan) -> Iterator[Engine]:
    """Connect to the Ray cluster at RAY_ADDRESS, or start a cluster on this machine.

    Raises:
        StudyError: The cluster does not exist, or it has no free place.
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
            f"model.device = {model.device!r} spreads a model over several GPUs, but --engine ray gives each "
            "worker one GPU; use --engine vllm, or --shard i/n with --engine local"
        )
    _connect_to_ray(ray, os.environ.get("RAY_ADDRESS"))
    try:
        resources = sum_live_resources(ray.nodes())
        count, device = choose_worker_count_and_device(
            resources, device=model.single_device, workers=plan.workers
        )
        progress.show_notice(f"{plan.missing_count} texts by {model.name}: {count} workers, {device}")
        on_cpu = device == "cpu"
        options = {"num_cpus": 1, "num_gpus": 0 if on_cpu else 1, "scheduling_strategy": "SPREAD"}
        new_worker = partial(
            ray.remote(**options)(Worker).remote,
            replace(plan.study, folder=plan.study.folder.resolve()),
            device=device,
            threads=max(1, int(resources["CPU"]) // count) if on_cpu else 1,
            sources=own.sources,
        )
        smallest_chunk = 32 if on_cpu else 256
        size = plan.study.settings.generation.batch_size
        # Each chunk has only full batches.
        chunk = smallest_chunk if size == "auto" else size * math.ceil(smallest_chunk / size)
        workers = _Workers(ray=ray, new_worker=new_worker, count=count, chunk=chunk)
        yield Engine(
            {**plan.facts, "dtype": plan.facts["dtype"] if on_cpu else None}, workers.generate_batches
        )
    finally:
        ray.shutdown()


class Worker:
    """A process on a Ray cluster (an actor) that writes a strategy's texts, one chunk after the other.

    A model's folder must have the same path on every machine. Files of users' own strategies are sent to the
    machines.
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
    def _models(self) -> Any:  # noqa: ANN401 (StudyModels; its import loads torch)
        import torch  # noqa: PLC0415

        from guard_eval.generation.engines.local import StudyModels  # noqa: PLC0415

        for path, text in self._sources.items():
            own.load_strategies_from_source(path, text)
        os.environ.pop("OMP_NUM_THREADS", None)  # set by Ray; without it, a small model uses one thread
        torch.set_num_threads(self._threads)
        return StudyModels(self._study, device=self._device)  # the worker sees only its own GPU

    def confirm_start(self) -> None:
        """Do nothing. The answer shows that the worker has started."""

    def generate_batches(self, texts: Sequence[PlannedText]) -> tuple[list[FinishedBatch], str]:
        """Write planned texts. Return the batches, and the message of an error, or "" without an error."""
        batches: list[FinishedBatch] = []
        try:
            batches.extend(
                self._models.generate_batches(self._strategy, texts)
            )  # keep the batches before an error
        except StudyError as error:  # Ray would add text to a raised exception
            return batches, str(error)
        return batches, ""


@dataclass(frozen=True, kw_only=True)
class _Workers:
    """The workers of a Ray cluster, which write a study's texts together.

    Attributes:
        ray: Ray's module.
        new_worker: A function that starts a worker for a strategy.
        count: The number of workers that write at the same time.
        chunk: The number of texts in a chunk.
    """

    ray: RayObject
    new_worker: Callable[[str], RayObject]
    count: int
    chunk: int

    def generate_batches(self, strategy: str, texts: Sequence[PlannedText]) -> Iterator[FinishedBatch]:
        """Yield the batches of each chunk as soon as a worker has written the chunk.

        Raises:
            StudyError: A worker refused a prompt or a model, the machines have different models, or workers
                died several times. The texts that were yielded before are valid.
        """
        ordered = sorted(texts, key=lambda planned: -len(planned[0].text))
        without_references = [(replace(prompt, reference=None), run) for prompt, run in ordered]
        starts = range(0, len(ordered), self.chunk)
        chunks = [without_references[start : start + self.chunk] for start in starts]
        recipes: set[Recipe] = set()
        problems: dict[str, None] = {}
        try:
            for batches, problem in self._distribute_chunks(chunks, partial(self.new_worker, strategy)):
                problems |= {problem: None} if problem else {}
                recipes.update(text.recipe for batch in batches for text in batch.texts)
                if len(recipes) > 1:
                    raise StudyError(
                        f"the workers' models differ: {' and '.join(map(str, recipes))}. Put the same files "
                        "on all machines, or set model.revision to a Hub commit. Also set model.dtype"
                    )
                yield from batches
        except self.ray.exceptions.RayError as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[-1]
            raise StudyError(
                f"the workers stopped: {reason}. All written texts are kept. "
                "If memory ran out, lower generation.batch_size or --workers. Run the same command again"
            ) from error
        if problems:
            raise StudyError("; ".join(problems))

    def _distribute_chunks(
        self, chunks: Sequence[Sequence[PlannedText]], make_worker: Callable[[], RayObject]
    ) -> Iterator[tuple[list[FinishedBatch], str]]:
        """Give each free worker the next chunk. Yield the batches of each chunk, and an error message or "".

        Raises:
            StudyError: No worker runs, and the cluster has no free place for a worker.
            RayError: A chunk failed `ATTEMPTS` times, or `ATTEMPTS` workers died before their first chunk.
        """
        queue = deque(range(len(chunks)))
        attempts = Counter[int | None]()
        # For each pending answer, the worker and the chunk. A worker that is starting has no chunk yet.
        at_work: dict[RayObject, tuple[RayObject, int | None]] = {}

        def start_worker() -> None:
            worker = make_worker()
            at_work[worker.confirm_start.remote()] = worker, None

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
                        at_work[worker.generate_batches.remote(chunks[following])] = worker, following
        finally:
            for worker, _ in at_work.values():
                self.ray.kill(worker)

    def _wait_for_answers(
        self, pending_answers: Mapping[RayObject, tuple[RayObject, int | None]]
    ) -> list[RayObject]:
        """Wait until a worker answers. Return the answers that have arrived.

        Raises:
            StudyError: No worker runs, and the cluster has no free place for a worker.
        """
        answers: list[RayObject] = self.ray.wait(list(pending_answers), timeout=ROOM_SECONDS)[0]
        if not answers and all(chunk is None for _, chunk in pending_answers.values()):
            raise StudyError(
                f"the Ray cluster could not start a worker within {ROOM_SECONDS:.0f} seconds. Check with ray "
                "status whether machines are lost or other programs use them. Then run the same command again"
            )
        return answers


def sum_live_resources(nodes: Sequence[Mapping[str, RayObject]]) -> Mapping[str, float]:
    """Sum the CPUs and GPUs of all live machines. Ray's own function also counts lost machines."""
    resources = Counter[str]()
    for node in nodes:
        resources.update(node["Resources"] if node["Alive"] else {})
    return resources


def choose_worker_count_and_device(
    resources: Mapping[str, float], *, device: str, workers: int | None
) -> tuple[int, Literal["cpu", "cuda"]]:
    """Return the number of workers and their kind of device.

    By default there is one worker per GPU. Without GPUs, there is one worker per CPU.

    Raises:
        StudyError: The cluster is too small for `workers`, or the study needs a GPU and there is no GPU.
    """
    has_gpu = resources.get("GPU", 0) >= 1
    use_gpu = device.startswith("cuda") or (device == "auto" and has_gpu)
    kind = "GPU" if use_gpu else "CPU"
    room = int(resources.get(kind, 0))
    if room < (workers or 1):
        raise StudyError(
            f"the Ray cluster has {room} {kind}s; set --workers {room} or less, or change model.device"
        )
    return workers or room, "cuda" if use_gpu else "cpu"


def _connect_to_ray(ray: RayObject, address: str | None) -> None:
    """Connect Ray to the cluster at `address`, or start a cluster on this machine if there is no address."""
    progress.show_notice(
        f"joining the Ray cluster at {address}" if address else "starting Ray on this machine"
    )
    options: dict[str, object] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address is None:
        options |= {"object_store_memory": _STORE_BYTES, "include_dashboard": False}
    try:
        host, _, port = (address or "").rpartition(":")
        if host and port.isdecimal():  # this fails at once if nothing listens; Ray would try for minutes
            socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
        with chdir(Path(__file__).parents[3]):  # workers import modules from the folder where Ray starts
            ray.init(address or "local", **options)
    except (ConnectionError, ValueError, RuntimeError, OSError) as error:
        raise StudyError(
            f"cannot start or reach Ray: {get_first_line(error)}; check the cluster with: ray status"
        ) from error
