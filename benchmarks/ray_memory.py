"""Memory of `guard-eval generate --engine ray` on ten thousand prompts and on a hundred thousand.

The bundled model writes two tokens a prompt: what is measured is the way of the data, not the model. With
`--stub` nothing writes at all (`ray_stub.py`), which is faster by far and takes the same way.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import psutil
from ray_studies import command, environment, make, texts

KINDS = {"MapWorker": "worker", "raylet": "Ray's node", "gcs_server": "Ray's head"}
MIB = 1 << 20


def main() -> None:
    """Print a table: peaks of memory of its own (USS) by process, texts, and what was lost or doubled."""
    options = _options()
    print("| prompts | seconds | driver | largest worker | Ray's node | texts | lost | doubled |")
    print("|---|---|---|---|---|---|---|---|")
    found = []
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for prompts in options.prompts:
            study = make(Path(folder) / str(prompts), prompts=prompts, tokens=options.tokens)
            began = time.monotonic()
            line = command(study, "--engine", "ray", "--strategy", "greedy")
            if options.stub:
                line = [
                    sys.executable,
                    str(Path(__file__).with_name("ray_stub.py")),
                    str(study.folder),
                    "greedy",
                ]
            peaks = watched(line)
            seconds = time.monotonic() - began
            made = texts(study)
            lost, doubled = prompts - len({row[2] for row in made}), len(made) - len({row[2] for row in made})
            found.append(peaks)
            cells = [f"{peaks[kind] / MIB:.0f} MiB" for kind in ("driver", "worker", "Ray's node")]
            print(
                f"| {prompts:,} | {seconds:.0f} | {' | '.join(cells)} | {len(made):,} | {lost} | {doubled} |"
            )
    if len(found) > 1:
        for kind in ("driver", "worker", "Ray's node"):
            more = found[-1][kind] - found[0][kind]
            each = more / (options.prompts[-1] - options.prompts[0])
            print(
                f"{kind}: ×{found[-1][kind] / found[0][kind]:.2f}, {each:.0f} bytes for each further prompt"
            )


def watched(line: list[str]) -> dict[str, int]:
    """Run a command, and return the most memory of its own that a process of each kind had, in bytes."""
    peaks: dict[str, int] = defaultdict(int)
    process = subprocess.Popen(line, env=environment(), stdout=subprocess.DEVNULL)  # noqa: S603
    driver = psutil.Process(process.pid)
    while process.poll() is None:
        for one in _family(driver):
            try:
                kind = "driver" if one.pid == driver.pid else _kind(one)
                peaks[kind] = max(peaks[kind], one.memory_full_info().uss)
            except psutil.Error:
                continue
        time.sleep(0.5)
    if process.returncode:
        raise SystemExit(f"{' '.join(line)} ended with {process.returncode}")
    return peaks


def _family(driver: psutil.Process) -> list[psutil.Process]:
    try:
        return [driver, *driver.children(recursive=True)]
    except psutil.Error:
        return []


def _kind(process: psutil.Process) -> str:
    words = " ".join(process.cmdline()[:1])
    return next((kind for name, kind in KINDS.items() if name in words), "other")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--stub", action="store_true", help="workers without a model")
    parser.add_argument("--tokens", type=int, default=2, help="new tokens of a text")
    parser.add_argument("--folder", help="where to make the studies; default: the system's")
    return parser.parse_args()


if __name__ == "__main__":
    main()
