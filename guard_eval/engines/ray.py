"""Texts by workers of a Ray cluster: chunks of prompts out, continuations back as they come.

Ray starts a worker that died again, elsewhere if its machine is lost, and gives it the same chunk. The driver
appends texts as they come, so a run that is stopped goes on where it was.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import chdir, contextmanager
from dataclasses import replace
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from guard_eval import progress
from guard_eval.engines.generate import Batches, Work
from guard_eval.errors import MissingExtraError, PromptsError, StudyError
from guard_eval.records import Continuation, Prompt
from guard_eval.strategies import own
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


class Pool(NamedTuple):
    """How many workers there are, what each has, and how many share a machine and its memory at most."""

    workers: int
    gpu: bool
    cpus: int
    neighbours: int

    def __str__(self) -> str:
        each = "a GPU" if self.gpu else f"{self.cpus} CPU{'s' if self.cpus > 1 else ''}"
        return f"{self.workers} worker{'s' if self.workers > 1 else ''} with {each} each"


@contextmanager
def open_ray(work: Work, workers: int | None) -> Iterator[Batches]:
    """Connect to the cluster that RAY_ADDRESS names, or start one on this machine.

    Raises:
        StudyError: There is no such cluster, or it has no room.
        MissingExtraError: Ray is not installed.
    """
    if find_spec("ray") is None:
        raise MissingExtraError("ray", "ray")
    for name, value in _QUIET.items():  # read on being imported
        os.environ.setdefault(name, value)
    ray, settings = import_module("ray"), work.study.settings
    _start(ray, os.environ.get("RAY_ADDRESS"))
    try:
        pool = pool_of(ray, device=settings.model.device, workers=workers)
        work.find({**work.known, "dtype": None if pool.gpu else work.known["dtype"]})
        progress.notice(f"{work.total} texts by {settings.model.name}: {pool}")
        study = replace(work.study, folder=work.study.folder.resolve())
        yield lambda name, texts: _write_on_workers(ray, pool, study, name, texts)
    finally:
        ray.shutdown()


class Worker:
    """An actor that writes texts by one of the study's strategies, one chunk after the other.

    A model's folder must lie at the same path on every machine; the files of users' own strategies need not.
    """

    def __init__(self, study: Study, strategy: str, pool: Pool, sources: dict[str, str]) -> None:
        self._study, self._strategy, self._pool, self._sources = study, strategy, pool, sources

    @cached_property
    def _models(self) -> Any:  # noqa: ANN401 (StudyModels, which imports torch: the driver needs none)
        import torch  # noqa: PLC0415

        from guard_eval.engines.study_models import StudyModels  # noqa: PLC0415

        for path, text in self._sources.items():
            own.use_text(path, text)
        os.environ.pop("OMP_NUM_THREADS", None)  # Ray's doing; it would keep a small model from one thread
        torch.set_num_threads(self._pool.cpus)
        device = "cuda" if self._pool.gpu else "cpu"  # a worker sees its own GPU alone
        return StudyModels(self._study, device=device, neighbours=self._pool.neighbours)

    def write(self, texts: Sequence[tuple[Prompt, int]]) -> tuple[list[Continuation], str | None]:
        """Return the continuations of prompts and runs, and the error that ended them, if any."""
        written: list[Continuation] = []
        try:
            for batch in self._models.generate(texts, self._strategy):
                written += batch
        except StudyError as error:  # which Ray would disfigure
            return written, str(error)
        return written, None


def _write_on_workers(
    ray: Any,  # noqa: ANN401 (Ray's types are not imported)
    pool: Pool,
    study: Study,
    strategy: str,
    texts: Sequence[tuple[Prompt, int]],
) -> Iterator[list[Continuation]]:
    """Yield the texts of each chunk as some worker has written them.

    Raises:
        StudyError: A worker refused a prompt or a model, the machines have different models, or workers died
            again and again. What was yielded stays good.
    """
    least, size = 256 if pool.gpu else 32, study.settings.generation.batch_size
    rows = least if size == "auto" else size * -(-least // size)
    ordered = sorted(texts, key=lambda each: -len(each[0].text))
    short = [(replace(prompt, reference=None), run) for prompt, run in ordered]
    chunks = [short[start : start + rows] for start in range(0, len(short), rows)]
    actor = ray.remote(
        num_cpus=1 if pool.gpu else pool.cpus,
        num_gpus=1 if pool.gpu else 0,
        max_restarts=RESTARTS,
        max_task_retries=RESTARTS,
    )(Worker)
    count = min(pool.workers, len(chunks))
    workers = [actor.remote(study, strategy, pool, own.texts) for _ in range(count)]
    results = import_module("ray.util").ActorPool(workers)
    recipe, problems = None, []
    try:
        for written, problem in results.map_unordered(
            lambda worker, chunk: worker.write.remote(chunk), chunks
        ):
            problems += [problem] if problem else []
            recipe = recipe or (written[0].recipe if written else None)
            if other := next((text.recipe for text in written if text.recipe != recipe), None):
                raise StudyError(
                    f"the workers' models differ: {recipe} and {other}. Put the same files on all machines, "
                    "or name a Hub commit as model.revision, and the arithmetic as model.dtype"
                )
            if written:
                yield written
    except ray.exceptions.RayError as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise StudyError(
            f"the workers could not go on: {lines[-1] if lines else type(error).__name__}; what they wrote "
            "is kept. If memory ran out, lower generation.batch_size or --workers. Run the same command again"
        ) from error
    finally:
        for worker in workers:
            ray.kill(worker)
    if problems:
        raise PromptsError(f"{'; '.join(dict.fromkeys(problems))}; run the command again to write the rest")


def pool_of(ray: Any, *, device: str, workers: int | None) -> Pool:  # noqa: ANN401
    """Return the workers that the cluster has room for: one a GPU; without GPUs one a CPU.

    Raises:
        StudyError: There is no room for so many, or no GPU where one is asked for.
    """
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    gpus, cpus = ([int(node.get(kind, 0)) for node in nodes] for kind in ("GPU", "CPU"))
    if device.startswith("cuda") and not sum(gpus):
        raise StudyError(
            f"model.device = {device!r}, but the Ray cluster has no GPU; start its nodes with --num-gpus, "
            "or set model.device = 'cpu'"
        )
    gpu = bool(sum(gpus)) and device != "cpu"
    room, kind = (sum(gpus), "GPUs") if gpu else (sum(cpus), "CPUs")
    if room < (workers or 1):
        raise StudyError(f"--workers {workers or 1}: the Ray cluster has {room} {kind}; give at most {room}")
    count = workers or room
    each = 1 if gpu else max(1, min(sum(cpus) // count, max(cpus)))
    fitting = max(gpus) if gpu else max(cpus) // each
    return Pool(workers=count, gpu=gpu, cpus=each, neighbours=min(count, max(1, fitting)))


def _start(ray: Any, address: str | None) -> None:  # noqa: ANN401
    """Connect Ray to the cluster at `address`, or without one to a cluster of this machine."""
    where = "a Ray of its own" if address is None else f"the Ray cluster at {address}"
    progress.notice("starting Ray on this machine" if address is None else f"joining {where}")
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address is None:
        options |= {"object_store_memory": _STORE_BYTES, "include_dashboard": False}
    on_end = signal.getsignal(signal.SIGTERM)
    try:
        host, _, port = (address or "").rpartition(":")
        if host and port.isdecimal():  # does anything listen? Ray would try for minutes
            socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
        with chdir(Path(__file__).parents[2]):  # its workers take modules from the folder it is started in
            ray.init(address or "local", **options)
    except (ConnectionError, ValueError, RuntimeError, OSError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise StudyError(f"cannot reach {where}: {reason}; check it with: ray status") from error
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, on_end or signal.SIG_DFL)  # Ray replaces it, and ends silently
