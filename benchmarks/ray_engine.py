"""`guard-eval generate --engine ray`: what `kill -9` costs, and how much memory many prompts take.

    python benchmarks/ray_engine.py kills                # workers, a node and the command, killed
    python benchmarks/ray_engine.py memory [--stub]      # 10,000 and 100,000 prompts

`kills` runs on a cluster of two nodes on this machine: workers are killed one after the other while they
write, then a whole node; the command itself is killed, and started again (every second time while a worker is
missing). In the end every text is compared with what one process makes of the same study. `memory` writes two
tokens a prompt: what is measured is the way of the data, not the model. With `--stub` nothing is generated.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from common import environment, wait_until

from guard_eval.cli.generate import generate
from guard_eval.engines.ray import writers
from guard_eval.engines.ray.cluster import library
from guard_eval.records import Continuation, Prompt, Recipe
from guard_eval.study.folder import Study
from guard_eval.texts.continuations import continuation_files, iter_continuations

_STUDY = """
name = "many prompts"
seed = 5
[model]
name = "bundled"
[generation]
strategies = ["greedy", "guard"]
max_new_tokens = {tokens}
max_prompt_tokens = 24
batch_size = 32
[pairs]
compare = [["greedy", "guard"]]
"""
_ANIMALS = ("cat", "dog", "fox", "owl", "hen", "ox")
_KINDS = {"MapWorker": "worker", "raylet": "Ray's node", "gcs_server": "Ray's head"}
_PARTS = ("driver", "worker", "Ray's node")
MIB = 1 << 20


def make(folder: Path, *, prompts: int, tokens: int) -> Study:
    """Write a study of `prompts` prompts of about ten words."""
    folder.mkdir(parents=True)
    (folder / "study.toml").write_text(_STUDY.format(tokens=tokens), encoding="utf-8")
    with (folder / "prompts.jsonl").open("w", encoding="utf-8") as file:
        for n in range(prompts):
            file.write(f'{{"prompt": "Once there was a {_ANIMALS[n % 6]} who had {n} good friends"}}\n')
    return Study.open(folder)


def texts(study: Study) -> list[tuple[str, str, str, str, int]]:
    """Return strategy, prompt, id, text and tokens of every continuation on disk, sorted."""
    return sorted(
        (one.recipe.strategy, one.prompt_id, one.id, one.text, one.new_tokens)
        for path in _files(study)
        for one in iter_continuations(path)
    )


def _files(study: Study) -> Iterator[Path]:
    for strategy in study.settings.generation.strategies:
        yield from continuation_files(study.continuations, strategy)


def _start(*arguments: str) -> subprocess.Popen[bytes]:
    """Start this program as the command, in a process of its own."""
    environ = environment(COLUMNS="100")
    environ["PYTHONPATH"] += f":{Path(__file__).parent}"  # for the stub in Ray's workers
    line = [sys.executable, __file__, "generate", *arguments]
    return subprocess.Popen(line, env=environ, stdout=subprocess.DEVNULL)  # noqa: S603 (our own program)


class StubWriter(writers.Writer):
    """A STUB in the place of the worker that loads a model: its texts repeat their prompts."""

    def _batches(self, rows: Sequence[dict[str, Any]]) -> Iterator[list[Continuation]]:
        settings = self._job.study.settings
        for number, strategy in enumerate(self._job.strategies):
            recipe = Recipe(
                model=settings.model.name,
                revision="stub",
                strategy=strategy,
                seed=settings.seed,
                max_new_tokens=settings.generation.max_new_tokens,
                max_prompt_tokens=settings.generation.max_prompt_tokens,
                dtype="float32",
            )
            wanted = [row for row in rows if number in row["strategies"]]
            yield [
                Continuation(
                    id=recipe.continuation_id(Prompt(id=row["id"], dataset=row["dataset"], text=row["text"])),
                    prompt_id=row["id"],
                    dataset=row["dataset"],
                    recipe=recipe,
                    text=f"{row['text']} {row['text']}",
                    prompt_tokens=10,
                    new_tokens=20,
                    finish="length",
                    seconds=0.0,
                    batch=len(rows),
                    device="stub",
                    versions="stub",
                )
                for row in wanted
            ]


def _generate(options: argparse.Namespace) -> None:
    """Be the command that the benchmark starts, kills and weighs."""
    if options.stub:
        import ray_engine  # noqa: PLC0415 (by its name, so that workers find it; this is __main__)

        writers.Writer = ray_engine.StubWriter  # type: ignore[misc]
    if options.address:
        from guard_eval.cli.generation import ray  # noqa: PLC0415 (only here)

        ray.PART_SECONDS = 1.0  # files show how far it is
    only = ["greedy"] if options.greedy else None
    study = Study.open(options.folder)
    generate(study, engine="ray", address=options.address, only=only)


def kills(options: argparse.Namespace) -> None:
    """Print a table: what was killed when, and what was lost, doubled or different."""
    rng = random.Random(options.seed)
    print("| killed | when | texts then on disk |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        study = make(Path(folder) / "ray", prompts=options.prompts, tokens=options.tokens)
        with _cluster() as (cluster, second):
            for kill in range(options.kills):
                share = (kill + 1) / (options.kills + 3)
                with _command(study, cluster.address) as ended:
                    _reach(study, share * 2 * options.prompts, ended)
                    rng.choice(_workers()).kill()
                    before = _made(study)
                    print(f"| worker {kill + 1} | {share:.0%} | {before} |")
                    if kill % 2 == 0:
                        _reach(study, before + 1, ended)
                    print(f"| the command | {share:.0%} | {_made(study)} |", flush=True)
            with _command(study, cluster.address) as ended:
                share = (options.kills + 1) / (options.kills + 3)
                _reach(study, share * 2 * options.prompts, ended)
                cluster.remove_node(second, allow_graceful=False)
                print(f"| one node of two | {share:.0%} | {_made(study)} |", flush=True)
                wait_until(ended, seconds=1800, what="the end of the last run")
        whole = make(Path(folder) / "one", prompts=options.prompts, tokens=options.tokens)
        generate(whole)
        ours, theirs = texts(study), texts(whole)
    ids = {row[2] for row in ours}
    print(f"texts: {len(theirs)} by one process, {len(ours)} by the cluster")
    print(f"lost: {len({row[2] for row in theirs} - ids)}; doubled: {len(ours) - len(ids)}")
    print(f"ids, texts and tokens equal: {ours == theirs}")


@contextmanager
def _cluster() -> Iterator[tuple[Any, Any]]:
    """Start a head and a second node, of two CPUs each, on this machine."""
    library()
    from ray.cluster_utils import Cluster  # noqa: PLC0415 (an extra)

    store = {"object_store_memory": 200 << 20}
    head = {"num_cpus": 2, "include_dashboard": False, **store}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        yield cluster, cluster.add_node(num_cpus=2, **store)
    finally:
        cluster.shutdown()


@contextmanager
def _command(study: Study, address: str) -> Iterator[Callable[[], bool]]:
    """Run the command, and kill what is left of it; yield whether it has ended."""
    process = _start(str(study.folder), "--address", address)
    try:
        yield lambda: process.poll() is not None
    finally:
        process.kill()
        process.wait()


def _workers() -> list[psutil.Process]:
    """Wait for workers, and return their processes."""
    found: list[psutil.Process] = []

    def started() -> bool:
        found[:] = [one for one in psutil.Process().children(recursive=True) if _kind(one) == "worker"]
        return bool(found)

    wait_until(started, what="a worker's start")
    return found


def _reach(study: Study, texts: float, ended: Callable[[], bool]) -> None:
    wait_until(lambda: ended() or _made(study) >= texts, seconds=900, what="the texts")


def _made(study: Study) -> int:
    from pyarrow import parquet  # type: ignore[import-untyped]  # noqa: PLC0415 (an extra)

    return sum(int(parquet.read_metadata(path).num_rows) for path in _files(study))


def memory(options: argparse.Namespace) -> None:
    """Print a table: peaks of memory of its own (USS) by process, texts, and what was lost or doubled."""
    print(f"| prompts | seconds | {' | '.join(_PARTS)} | texts | lost | doubled |")
    print("|---|---|---|---|---|---|---|---|")
    sizes, found = options.sizes, []
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for prompts in sizes:
            study = make(Path(folder) / str(prompts), prompts=prompts, tokens=2)
            began = time.monotonic()
            stub = ["--stub"] if options.stub else []
            found.append(_peaks(_start(str(study.folder), "--greedy", *stub)))
            seconds, made = time.monotonic() - began, texts(study)
            ids = {row[2] for row in made}
            cells = " | ".join(f"{found[-1][part] / MIB:.0f} MiB" for part in _PARTS)
            lost, doubled = prompts - len(ids), len(made) - len(ids)
            print(
                f"| {prompts:,} | {seconds:.0f} | {cells} | {len(made):,} | {lost} | {doubled} |", flush=True
            )
    for part in _PARTS if len(found) > 1 else ():
        first, last = found[0][part], found[-1][part]
        each = (last - first) / (sizes[-1] - sizes[0])
        print(f"{part}: ×{last / first:.2f}, {each:.0f} bytes for each further prompt")


def _peaks(process: subprocess.Popen[bytes]) -> dict[str, int]:
    """Return the most memory of its own that a process of each kind had, in bytes, until the command ends."""
    peaks: dict[str, int] = defaultdict(int)
    driver = psutil.Process(process.pid)
    while process.poll() is None:
        try:
            for one in (driver, *driver.children(recursive=True)):
                kind = "driver" if one.pid == driver.pid else _kind(one)
                peaks[kind] = max(peaks[kind], one.memory_full_info().uss)
        except psutil.Error:
            continue  # one of them has ended
        time.sleep(0.5)
    if process.returncode:
        raise SystemExit(f"the command ended with {process.returncode}")
    return peaks


def _kind(process: psutil.Process) -> str:
    try:
        words = " ".join(process.cmdline()[:1])
    except psutil.Error:
        return "other"
    return next((kind for name, kind in _KINDS.items() if name in words), "other")


def main() -> None:
    """Run what the command line asks for."""
    command = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts = command.add_subparsers(required=True)
    part = parts.add_parser("kills")
    part.set_defaults(act=kills)
    part.add_argument("--prompts", type=int, default=1000)
    part.add_argument("--tokens", type=int, default=24, help="new tokens of a text")
    part.add_argument("--kills", type=int, default=4, help="workers killed")
    part.add_argument("--seed", type=int, default=1)
    part = parts.add_parser("memory")
    part.set_defaults(act=memory)
    part.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000], help="numbers of prompts")
    part.add_argument("--stub", action="store_true", help="workers without a model")
    part.add_argument("--folder", help="where to make the studies; default: the system's")
    part = parts.add_parser("generate", help="for this program's own use")
    part.set_defaults(act=_generate)
    part.add_argument("folder", type=Path)
    part.add_argument("--address")
    part.add_argument("--greedy", action="store_true")
    part.add_argument("--stub", action="store_true")
    options = command.parse_args()
    options.act(options)


if __name__ == "__main__":
    main()
