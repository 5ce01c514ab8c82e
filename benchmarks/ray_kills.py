"""What `kill -9` costs a run of `--engine ray`, on a cluster of two nodes on this machine.

Workers are killed one after the other while they write, then a whole node; the command itself is killed, and
started again (every second time while a worker is missed). In the end every text is compared with what one
process makes of the same study.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Self

import psutil
from ray_studies import environment, make, texts

from guard_eval.continuations import continuation_files
from guard_eval.engines.ray_data.cluster import library
from guard_eval.study import Study

DRIVER = """
import sys
from pathlib import Path
from guard_eval.cli import generate, generate_ray
from guard_eval.study import Study
generate_ray.PART_SECONDS = 1.0  # files show how far it is
generate.run(Study.open(Path(sys.argv[1])), engine=generate.Engine.RAY, address=sys.argv[2])
"""


def main() -> None:
    """Print a table: who was killed when, and what was lost, doubled or different."""
    options = _options()
    rng = random.Random(options.seed)
    print("| killed | when | texts then on disk |")
    print("|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        study = make(Path(folder) / "ray", prompts=options.prompts, tokens=options.tokens)
        total = 2 * options.prompts
        with _Cluster() as cluster:
            for kill in range(options.kills):
                share = (kill + 1) / (options.kills + 3)
                with _Driver(study, cluster.address) as driver:
                    _until(partial(_is_at, study, driver, share * total))
                    rng.choice(cluster.workers()).kill()
                    before = _made(study)
                    print(f"| worker {kill + 1} | {share:.0%} | {before} |")
                    if kill % 2 == 0:
                        _until(partial(_is_at, study, driver, before + 1))
                    print(f"| the command | {share:.0%} | {_made(study)} |")
            with _Driver(study, cluster.address) as driver:
                share = (options.kills + 1) / (options.kills + 3)
                _until(partial(_is_at, study, driver, share * total))
                cluster.lose()
                print(f"| one node of two | {share:.0%} | {_made(study)} |")
                _until(lambda: driver.ended, seconds=1800)
                print(f"the last run ended with {driver.process.returncode}")
        _compare(study, options, Path(folder))


def _compare(study: Study, options: argparse.Namespace, folder: Path) -> None:
    from guard_eval.cli import generate  # noqa: PLC0415 (torch)

    whole = make(folder / "one", prompts=options.prompts, tokens=options.tokens)
    generate.run(whole)
    ours, theirs = texts(study), texts(whole)
    ids = {row[2] for row in ours}
    print(f"texts: {len(theirs)} by one process, {len(ours)} by the cluster")
    print(f"lost: {len({row[2] for row in theirs} - ids)}; doubled: {len(ours) - len(ids)}")
    print(f"ids, texts and tokens equal: {ours == theirs}")


class _Driver:
    """The command, in a process of its own; what is left of it is killed in the end."""

    def __init__(self, study: Study, address: str) -> None:
        line = [sys.executable, "-c", DRIVER, str(study.folder), address]
        self.process = subprocess.Popen(line, env=environment(), stdout=subprocess.DEVNULL)  # noqa: S603

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None


class _Cluster:
    """A head and a second node, of two CPUs each, on this machine."""

    def __enter__(self) -> Self:
        library()
        from ray.cluster_utils import Cluster  # noqa: PLC0415 (an extra)

        store = {"object_store_memory": 200 << 20}
        self._cluster: Any = Cluster(
            initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False, **store}
        )
        self._second = self._cluster.add_node(num_cpus=2, **store)
        self.address: str = self._cluster.address
        return self

    def __exit__(self, *_: object) -> None:
        self._cluster.shutdown()

    def lose(self) -> None:
        """Kill the second node."""
        self._cluster.remove_node(self._second, allow_graceful=False)

    def workers(self) -> list[psutil.Process]:
        """Wait for workers, and return their processes."""
        return _until(lambda: [one for one in psutil.Process().children(recursive=True) if _writes(one)])


def _writes(process: psutil.Process) -> bool:
    try:
        return "MapWorker" in " ".join(process.cmdline()[:1])
    except psutil.Error:
        return False


def _is_at(study: Study, driver: _Driver, texts: float) -> bool:
    return driver.ended or _made(study) >= texts


def _made(study: Study) -> int:
    return sum(
        _rows(path)
        for strategy in study.settings.generation.strategies
        for path in continuation_files(study.continuations, strategy)
    )


def _rows(path: Path) -> int:
    from pyarrow import parquet  # type: ignore[import-untyped]  # noqa: PLC0415 (an extra)

    return int(parquet.read_metadata(path).num_rows)


def _until(condition: Callable[[], Any], seconds: float = 900) -> Any:  # noqa: ANN401
    end = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > end:
            raise SystemExit("it did not come about")
        time.sleep(0.1)
    return found


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=1000)
    parser.add_argument("--tokens", type=int, default=24, help="new tokens of a text")
    parser.add_argument("--kills", type=int, default=4, help="workers killed")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    main()
