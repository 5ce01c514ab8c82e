"""`guard-eval generate --engine ray`: how much memory many prompts take.

    python benchmarks/ray_engine.py [--stub]      # 10,000 and 100,000 prompts

Two tokens a prompt: what is measured is the way of the data, not the model. With `--stub` nothing is
generated.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil
from common import environment, heading, line, parser

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
max_new_tokens = 2
max_prompt_tokens = 24
batch_size = 32
[pairs]
compare = [["greedy", "guard"]]
"""
_ANIMALS = ("cat", "dog", "fox", "owl", "hen", "ox")
_KINDS = {"MapWorker": "worker", "raylet": "Ray's node"}
_PARTS = ("driver", "worker", "Ray's node")
MIB = 1 << 20


def make(folder: Path, prompts: int) -> Study:
    """Write a study of `prompts` prompts of about ten words."""
    folder.mkdir(parents=True)
    (folder / "study.toml").write_text(_STUDY, encoding="utf-8")
    with (folder / "prompts.jsonl").open("w", encoding="utf-8") as file:
        for n in range(prompts):
            file.write(f'{{"prompt": "Once there was a {_ANIMALS[n % 6]} who had {n} good friends"}}\n')
    return Study.open(folder)


def ids_of(study: Study) -> list[str]:
    """Return the id of every continuation on disk."""
    paths = continuation_files(study.continuations, "greedy")
    return [one.id for path in paths for one in read_continuations(path)]


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
    generate(Study.open(options.folder), engine="ray", strategies=["greedy"])


@contextmanager
def _command(study: Study, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run this program as the command, in a process of its own, and kill what is left of it."""
    environ = environment(COLUMNS="100")
    environ["PYTHONPATH"] += f":{Path(__file__).parent}"  # for the stub in Ray's workers
    command = [sys.executable, __file__, "--generate", "--folder", str(study.folder), *options]
    with subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


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
            study = make(Path(folder) / str(prompts), prompts)
            began = time.monotonic()
            with _command(study, *["--stub"] * options.stub) as process:
                found.append(_peaks(process))
            seconds, made = time.monotonic() - began, ids_of(study)
            ids = set(made)
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


def main() -> None:
    """Run what the command line asks for."""
    command = parser(__doc__)
    option = command.add_argument
    option("--folder", type=Path, help="where to make the studies; default: the system's")
    option("--sizes", type=int, nargs="+", default=[10_000, 100_000], help="numbers of prompts")
    option("--stub", action="store_true", help="workers without a model")
    option("--generate", action="store_true", help="for this program's own use")
    options = command.parse_args()
    if options.quick:
        options.sizes = [100, 200]
    if options.generate:
        _generate(options)
    else:
        memory(options)


if __name__ == "__main__":
    main()
