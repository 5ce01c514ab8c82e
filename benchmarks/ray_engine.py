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

import psutil
from common import environment, heading, line, parser, tests_module, wait_until

from guard_eval.cli.generate import generate
from guard_eval.engines.ray import writers
from guard_eval.records import Continuation, Recipe
from guard_eval.study.folder import Study
from guard_eval.texts.continuations import continuation_files, read_continuations

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
_KINDS = {"MapWorker": "worker", "raylet": "Ray's node"}
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
        for one in read_continuations(path)
    )


def _files(study: Study) -> Iterator[Path]:
    for strategy in study.settings.generation.strategies:
        yield from continuation_files(study.continuations, strategy)


class StubJob(writers.Job):
    """A STUB in the place of workers that load a model: its texts repeat their prompts."""

    def load(self) -> None:
        """Load nothing."""

    def texts(self, _: None, chunk: Sequence[writers.Pending]) -> Iterator[list[Continuation]]:
        """Yield a text for each prompt and strategy."""
        settings = self.study.settings
        for strategy in self.strategies:
            recipe = Recipe(
                model=settings.model.name,
                revision=self.made_by.get("revision") or "stub",
                strategy=strategy,
                seed=settings.seed,
                max_new_tokens=settings.generation.max_new_tokens,
                max_prompt_tokens=settings.generation.max_prompt_tokens,
                dtype=self.made_by.get("dtype") or "float32",
            )
            yield [
                Continuation(
                    id=recipe.continuation_id(prompt),
                    prompt_id=prompt.id,
                    dataset=prompt.dataset,
                    recipe=recipe,
                    text=f"{prompt.text} {prompt.text}",
                    prompt_tokens=10,
                    new_tokens=20,
                    finish="length",
                    seconds=0.0,
                    batch=len(chunk),
                    device="stub",
                    versions="stub",
                )
                for prompt, lacking in chunk
                if strategy in lacking
            ]


def _generate(options: argparse.Namespace) -> None:
    """Be the command that the benchmark starts, kills and weighs."""
    from guard_eval.cli.generation import ray

    if options.stub:
        import ray_engine  # by its name, so that workers find it; this is __main__

        ray.Job = ray_engine.StubJob  # type: ignore[misc]
    if options.address:
        ray.PART_SECONDS = 1.0  # files show how far it is
    only = ["greedy"] * options.greedy
    study = Study.open(options.folder)
    generate(study, engine="ray", address=options.address, strategies=only)


@contextmanager
def _command(study: Study, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run this program as the command, in a process of its own, and kill what is left of it."""
    environ = environment(COLUMNS="100")
    environ["PYTHONPATH"] += f":{Path(__file__).parent}"  # for the stub in Ray's workers
    command = [sys.executable, __file__, "generate", str(study.folder), *options]
    with subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


def kills(options: argparse.Namespace) -> None:
    """Print a table: what was killed when, and what was lost, doubled or different."""
    rng = random.Random(options.seed)
    print(heading("killed", "when", "texts then on disk"))
    with tempfile.TemporaryDirectory() as folder:
        study = make(Path(folder) / "ray", prompts=options.prompts, tokens=options.tokens)

        def written() -> int:
            from pyarrow import parquet  # type: ignore[import-untyped]  # (an extra)

            return sum(int(parquet.read_metadata(path).num_rows) for path in _files(study))

        def reach(count: float, process: subprocess.Popen[bytes]) -> None:
            wait_until(
                lambda: process.poll() is not None or written() >= count, seconds=900, what="the texts"
            )

        def report(what: str) -> None:
            print(line([what, f"{share:.0%}", written()]), flush=True)

        with tests_module("ray_cluster").two_nodes() as (cluster, second):
            for kill in range(options.kills):
                share = (kill + 1) / (options.kills + 3)
                with _command(study, "--address", cluster.address) as process:
                    reach(share * 2 * options.prompts, process)
                    rng.choice(_workers()).kill()
                    before = written()
                    report(f"worker {kill + 1}")
                    if kill % 2 == 0:
                        reach(before + 1, process)
                    report("the command")
            share = (options.kills + 1) / (options.kills + 3)
            with _command(study, "--address", cluster.address) as process:
                reach(share * 2 * options.prompts, process)
                cluster.remove_node(second, allow_graceful=False)
                report("one node of two")
                process.wait(1800)
        whole = make(Path(folder) / "one", prompts=options.prompts, tokens=options.tokens)
        generate(whole)
        ours, theirs = texts(study), texts(whole)
    ids = {row[2] for row in ours}
    print(f"texts: {len(theirs)} by one process, {len(ours)} by the cluster")
    print(f"lost: {len({row[2] for row in theirs} - ids)}; doubled: {len(ours) - len(ids)}")
    print(f"ids, texts and tokens equal: {ours == theirs}")


def _workers() -> list[psutil.Process]:
    """Wait for workers, and return their processes."""
    found: list[psutil.Process] = []

    def started() -> bool:
        found[:] = [one for one in psutil.Process().children(recursive=True) if _kind(one) == "worker"]
        return bool(found)

    wait_until(started, what="a worker's start")
    return found


def _kind(process: psutil.Process) -> str:
    try:
        words = " ".join(process.cmdline()[:1])
    except psutil.Error:
        return "other"
    return next((kind for name, kind in _KINDS.items() if name in words), "other")


def memory(options: argparse.Namespace) -> None:
    """Print a table: the most memory of each kind of process, texts, and what was lost or doubled."""
    print(heading("prompts", "seconds", *_PARTS, "texts", "lost", "doubled"))
    found = []
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for prompts in options.sizes:
            study = make(Path(folder) / str(prompts), prompts=prompts, tokens=2)
            began = time.monotonic()
            with _command(study, "--greedy", *["--stub"] * options.stub) as process:
                found.append(_peaks(process))
            seconds, made = time.monotonic() - began, texts(study)
            ids = {row[2] for row in made}
            cells = [f"{found[-1][part] / MIB:.0f} MiB" for part in _PARTS]
            counts = f"{len(made):,}", prompts - len(ids), len(made) - len(ids)
            print(line([f"{prompts:,}", f"{seconds:.0f}", *cells, *counts]), flush=True)
    for part in _PARTS if len(found) > 1 else ():
        first, last = found[0][part], found[-1][part]
        each = (last - first) / (options.sizes[-1] - options.sizes[0])
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


MEASURES: dict[str, Callable[[argparse.Namespace], None]] = {
    "kills": kills,
    "memory": memory,
    "generate": _generate,
}


def main() -> None:
    """Run what the command line asks for."""
    command = parser(__doc__)
    option = command.add_argument
    option("measure", choices=MEASURES, help="`generate` is for this program's own use")
    option("folder", nargs="?", type=Path, help="where to make the studies; default: the system's")
    option("--prompts", type=int, default=1000, help="kills: of the study")
    option("--tokens", type=int, default=24, help="kills: new tokens of a text")
    option("--kills", type=int, default=4, help="kills: workers killed")
    option("--seed", type=int, default=1)
    option("--sizes", type=int, nargs="+", default=[10_000, 100_000], help="memory: numbers of prompts")
    option("--stub", action="store_true", help="memory: workers without a model")
    option("--address", help="generate: the cluster's")
    option("--greedy", action="store_true", help="generate: one strategy")
    options = command.parse_args()
    if options.quick:
        options.prompts, options.kills, options.sizes = 60, 1, [100, 200]
    MEASURES[options.measure](options)


if __name__ == "__main__":
    main()
