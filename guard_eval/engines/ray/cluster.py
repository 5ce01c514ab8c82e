"""The cluster: connecting to it or starting one here, what it has, and how many workers that is."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from guard_eval.errors import MissingExtraError, StudyError
from guard_eval.search_path import HOME

_STORE = 1 << 30
"""Bytes of the shared memory of a cluster that is started here; what does not fit goes to disk."""
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_BACKEND_LOG_LEVEL": "fatal",
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",
    "RAY_ENABLE_AUTO_CONNECT": "0",
}
"""No report of its use to Ray's makers; no warnings of what a later version will do about GPUs, of what would
happen to workers if this process ended, or, a page each, of every worker that is started again; and a
thread that is late does not connect again to a cluster that has been left. Ray's log files have all of it."""


@dataclass(frozen=True, kw_only=True)
class Pool:
    """The workers of a run.

    Attributes:
        workers: How many there are.
        gpu: Whether each has a GPU of its own.
        cpus: How many CPUs each has.
        neighbours: How many share a machine at most, and its memory.
        nodes: How many machines the cluster has.
    """

    workers: int
    gpu: bool
    cpus: int
    neighbours: int
    nodes: int

    def __str__(self) -> str:
        each = "a GPU" if self.gpu else f"{self.cpus} CPU{'s' if self.cpus > 1 else ''}"
        machines = f"{self.nodes} machine{'s' if self.nodes > 1 else ''}"
        return f"{self.workers} worker{'s' if self.workers > 1 else ''} with {each} each, on {machines}"


def library() -> Any:  # noqa: ANN401 (Ray's types are not imported to say so)
    """Return the package `ray`.

    Raises:
        MissingExtraError: It is not installed, or pyarrow is not.
    """
    for package in ("ray", "pyarrow"):
        if find_spec(package) is None:
            raise MissingExtraError("ray", package)
    for name, value in _QUIET.items():  # read on being imported
        os.environ.setdefault(name, value)
    return import_module("ray")


@contextmanager
def connected(address: str | None) -> Iterator[Any]:
    """Give Ray, connected to the cluster at `address`; without one a cluster of this machine, for as long.

    Raises:
        StudyError: There is no such cluster.
        MissingExtraError: Ray is not installed.
    """
    if address is not None and address.startswith("ray://"):
        raise StudyError(
            f"--address {address} is one of Ray's client server, through which no data set goes; run the "
            "command on a machine of the cluster, with --address auto"
        )
    ray = library()
    data = import_module("ray.data")
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # what it raises is shown once
    data.DataContext.get_current().enable_progress_bars = False  # the command shows its own
    _start(ray, address)
    try:
        yield ray
    finally:
        ray.shutdown()


def _start(ray: Any, address: str | None) -> None:  # noqa: ANN401
    if address is not None:
        _check_port(address)
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    end = signal.getsignal(signal.SIGTERM)
    try:
        # it announces that it will be quiet; and its workers take modules from the folder it is started in
        with _muted(), chdir(HOME):
            if address is None:
                # Two CPUs at least: Ray needs one beside the worker's.
                cpus = max(2, os.cpu_count() or 2)
                ray.init("local", num_cpus=cpus, object_store_memory=_STORE, include_dashboard=False, **quiet)
            else:
                ray.init(address, **quiet)
    except (ConnectionError, ValueError, RuntimeError, OSError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        where = "a Ray of its own" if address is None else f"the Ray cluster at {address}"
        raise StudyError(f"cannot reach {where}: {reason}; check it with: ray status") from error
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, end or signal.SIG_DFL)  # Ray replaces it, and ends silently


def _check_port(address: str) -> None:
    """Check at once that something listens; Ray would try for minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdecimal():
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
        except OSError as error:
            raise StudyError(
                f"cannot reach the Ray cluster at {address}: {error.strerror or error}; check it with ray "
                "status on its head"
            ) from error


@contextmanager
def _muted() -> Iterator[None]:
    """Keep what is not Python's from writing to the standard error; exceptions come all the same."""
    kept = os.dup(2)
    try:
        with open(os.devnull, "wb") as nothing:  # noqa: PTH123 (its handle is wanted)
            os.dup2(nothing.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def pool_of(ray: Any, *, device: str, workers: int | None) -> Pool:  # noqa: ANN401
    """Return the workers that the cluster has room for: one a GPU, without GPUs one a CPU but one.

    Args:
        ray: Connected.
        device: Where the study's models run: `auto`, `cpu`, `cuda`.
        workers: How many are wanted; all there is room for if None.

    Raises:
        StudyError: There is no room for so many, or no GPU where one is asked for.
    """
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    gpus = [int(node.get("GPU", 0)) for node in nodes]
    cpus = [int(node.get("CPU", 0)) for node in nodes]
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
    return Pool(workers=count, gpu=gpu, cpus=each, neighbours=min(count, max(1, most)), nodes=len(nodes))


def has_room(ray: Any, pool: Pool) -> bool:  # noqa: ANN401
    """Return whether the machines that are alive still have room for all workers."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    kind, each = ("GPU", 1) if pool.gpu else ("CPU", pool.cpus)
    return sum(int(node.get(kind, 0)) // each for node in nodes) >= pool.workers


def actors(ray: Any, pool: Pool, *, blocks: int) -> dict[str, Any]:  # noqa: ANN401
    """Return what `Dataset.map_batches` takes for the workers, no more of them than blocks.

    Ray Data starts a worker that died again, elsewhere if its machine is lost, with the same block.
    """
    resources = {"num_gpus": 1, "num_cpus": 1} if pool.gpu else {"num_cpus": pool.cpus}
    return {"compute": ray.data.ActorPoolStrategy(size=min(pool.workers, blocks)), **resources}


def use_threads(cpus: int) -> None:
    """Let a model on the CPU have a worker's CPUs; a small one takes fewer, as on one machine."""
    import torch  # noqa: PLC0415 (in a worker)

    os.environ.pop("OMP_NUM_THREADS", None)  # Ray's doing; it would keep a small model from one thread
    torch.set_num_threads(cpus)
