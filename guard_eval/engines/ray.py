"""Texts by workers of a Ray cluster: chunks of prompts out, continuations back as they come.

Ray starts a worker that died again, elsewhere if its machine is lost, and gives it the same chunk. The driver
appends texts as they come, so a run that is stopped goes on where it was.
"""

from __future__ import annotations

import logging
import os
import pickle
import signal
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import chdir, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from guard_eval import progress
from guard_eval.engines.generate import Batches, Work
from guard_eval.errors import MissingExtraError, StudyError
from guard_eval.records import Continuation, Prompt
from guard_eval.search_path import HOME
from guard_eval.strategies import own
from guard_eval.study.folder import BUNDLED, Study

RESTARTS = 3
"""How often Ray starts a worker again, and gives out a chunk again."""
_STORE_BYTES = 1 << 30
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_BACKEND_LOG_LEVEL": "fatal",
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",
    "RAY_ENABLE_AUTO_CONNECT": "0",
}
"""No report of its use to Ray's makers, and no pages of warnings; Ray's log files have all of them."""


@dataclass(frozen=True, kw_only=True)
class Pool:
    """The workers of a run: how many, and what each has.

    Attributes:
        workers: How many there are.
        gpu: Whether each has a GPU of its own.
        cpus: How many CPUs each has.
        neighbours: How many share a machine at most, and its memory.
    """

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
    address = os.environ.get("RAY_ADDRESS")
    with _connected(address) as ray:
        pool = pool_of(ray, device=work.study.settings.model.device, workers=workers)
        work.find({**work.known, "dtype": work.known["dtype"] if not pool.gpu else None})
        progress.notice(f"{work.total} texts by {work.study.settings.model.name}: {pool}")

        def batches(name: str, texts: Sequence[tuple[Prompt, int]]) -> Iterator[list[Continuation]]:
            return _on_workers(ray, pool, Job(work.study, name, pool), texts)

        yield batches


class Job:
    """What every worker is given. A model's folder must lie at the same place on every machine."""

    def __init__(self, study: Study, strategy: str, pool: Pool) -> None:
        """Say what is to be written: texts by one of the study's strategies."""
        self._study, self._strategy, self._pool = study, strategy, pool
        self._own = own.texts()  # a worker's machine need not have these files
        names = filter(None, (study.settings.model.name, study.settings.amateur_of(strategy)))
        # Each machine has the bundled model in its own copy of the package.
        self._places = {name: BUNDLED if name == BUNDLED else study.locate_model(name) for name in names}

    @property
    def rows(self) -> int:
        """How many texts a worker is given at once; they are lost and written again when it dies."""
        least, size = 256 if self._pool.gpu else 32, self._study.settings.generation.batch_size
        return least if size == "auto" else size * -(-least // size)

    @cached_property
    def models(self) -> Any:  # noqa: ANN401 (StudyModels, which imports torch: the driver needs none)
        """Load the models, in a worker."""
        import torch  # noqa: PLC0415

        from guard_eval.engines.study_models import StudyModels  # noqa: PLC0415

        for path, text in self._own.items():
            own.use_text(path, text)
        os.environ.pop("OMP_NUM_THREADS", None)  # Ray's doing; it would keep a small model from one thread
        torch.set_num_threads(self._pool.cpus)
        return StudyModels(
            self._study,
            [self._strategy],
            locate=lambda name: self._study.locate_model(self._places[name]),
            device="cuda" if self._pool.gpu else "cpu",  # a worker sees its own GPU alone
            neighbours=self._pool.neighbours,
        )

    def write(self, texts: Sequence[tuple[Prompt, int]]) -> tuple[list[Continuation], str | None]:
        """Return the continuations of prompts and runs, and the error that ended them, if any."""
        written: list[Continuation] = []
        try:
            for batch in self.models.generate(texts, self._strategy):
                written += batch
        except StudyError as error:  # which Ray would disfigure
            return written, str(error)
        return written, None


class Worker:
    """An actor that works on one chunk after the other."""

    def __init__(self, job: bytes) -> None:
        self._job: Job = pickle.loads(job)  # noqa: S301 (the driver's)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Return the chunk's number and, pickled, its texts and its error."""
        [number], [data] = batch["number"], batch["data"]
        result = self._job.write(pickle.loads(data))  # noqa: S301
        return {"number": [number], "data": [pickle.dumps(result)]}


def _on_workers(
    ray: Any,  # noqa: ANN401 (Ray's types are not imported)
    pool: Pool,
    job: Job,
    texts: Sequence[tuple[Prompt, int]],
) -> Iterator[list[Continuation]]:
    """Yield the texts of each chunk as some worker has written them.

    Raises:
        StudyError: A worker refused a prompt or a model, the machines have different models, or workers died
            again and again. What was yielded stays good.
    """
    ordered = sorted(texts, key=lambda each: -len(each[0].text))
    chunks = [ordered[start : start + job.rows] for start in range(0, len(ordered), job.rows)]
    items = [
        {"number": n, "data": pickle.dumps([(replace(p, reference=None), run) for p, run in chunk])}
        for n, chunk in enumerate(chunks)
    ]
    data = ray.data.from_items(items, override_num_blocks=len(items)).map_batches(
        Worker,
        fn_constructor_args=[pickle.dumps(job)],
        batch_size=1,
        compute=ray.data.ActorPoolStrategy(size=min(pool.workers, len(items))),
        num_cpus=1 if pool.gpu else pool.cpus,
        num_gpus=1 if pool.gpu else 0,
        max_restarts=RESTARTS,
        max_task_retries=RESTARTS,
    )
    waiting, recipe, problems = set(range(len(items))), None, []
    try:
        for row in data.iter_rows():
            if row["number"] not in waiting:  # it came twice
                continue
            waiting.remove(row["number"])
            written, problem = pickle.loads(row["data"])  # noqa: S301 (our own worker's)
            problems += [problem] if problem else []
            recipe = recipe or (written[0].recipe if written else None)
            if other := next((text.recipe for text in written if text.recipe != recipe), None):
                raise StudyError(  # noqa: TRY301 (it ends the run as the errors below do)
                    f"the workers' models differ: {recipe} and {other}. Put the same files on all machines, "
                    "or name a Hub commit as model.revision, and the arithmetic as model.dtype"
                )
            if written:
                yield written
    except StudyError:
        raise
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        reason = lines[-1] if lines else type(error).__name__
        raise StudyError(
            f"the workers could not go on: {reason}; what they wrote is kept. "
            "If memory ran out, lower generation.batch_size or --workers. Run the same command again"
        ) from error
    if problems or waiting:
        reason = (
            "; ".join(dict.fromkeys(problems)) or f"{len(waiting)} of {len(items)} chunks did not come back"
        )
        raise StudyError(f"{reason}; run the command again to write the rest")


def pool_of(ray: Any, *, device: str, workers: int | None) -> Pool:  # noqa: ANN401
    """Return the workers that the cluster has room for: one a GPU; without GPUs one a CPU but one.

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
    # Actors on every CPU would leave none for Ray's own tasks, and the run would wait for ever.
    room = sum(gpus) if gpu else sum(cpus) - 1
    if room < 1:
        raise StudyError(f"the Ray cluster has {sum(cpus)} CPUs, and at least 2 are needed; add a node")
    if workers is not None and workers > room:
        rest = f"{room} GPUs" if gpu else f"{sum(cpus)} CPUs, of which Ray needs one itself"
        raise StudyError(f"--workers {workers}: the Ray cluster has {rest}; at most {room}")
    count = workers or room
    each = 1 if gpu else max(1, min((sum(cpus) - 1) // count, max(cpus)))
    most = max(gpus) if gpu else max(cpus) // each
    return Pool(workers=count, gpu=gpu, cpus=each, neighbours=min(count, max(1, most)))


@contextmanager
def _connected(address: str | None) -> Iterator[Any]:
    """Give Ray, connected to the cluster at `address`; without one a cluster of this machine, for as long."""
    for package in ("ray", "pyarrow"):
        if find_spec(package) is None:
            raise MissingExtraError("ray", package)
    for name, value in _QUIET.items():  # read on being imported
        os.environ.setdefault(name, value)
    ray, data = import_module("ray"), import_module("ray.data")
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # what it raises is shown once
    data.DataContext.get_current().enable_progress_bars = False  # the command shows its own
    _start(ray, address)
    try:
        yield ray
    finally:
        ray.shutdown()


def _start(ray: Any, address: str | None) -> None:  # noqa: ANN401
    where = "a Ray of its own" if address is None else f"the Ray cluster at {address}"
    progress.notice("starting Ray on this machine" if address is None else f"joining {where}")
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address is None:  # two CPUs at least: Ray needs one beside the worker's
        cpus = max(2, os.cpu_count() or 2)
        options |= {"num_cpus": cpus, "object_store_memory": _STORE_BYTES, "include_dashboard": False}
    on_end = signal.getsignal(signal.SIGTERM)
    try:
        if address is not None:
            _check_port(address)
        with chdir(HOME):  # its workers take modules from the folder it is started in
            ray.init(address or "local", **options)
    except (ConnectionError, ValueError, RuntimeError, OSError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise StudyError(f"cannot reach {where}: {reason}; check it with: ray status") from error
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, on_end or signal.SIG_DFL)  # Ray replaces it, and ends silently


def _check_port(address: str) -> None:
    """Check at once that something listens; Ray would try for minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
