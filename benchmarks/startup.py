"""How long it takes from the command to the first token, with the bundled model."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

from results import Cell, Results

_STUDY = """\
name = "Start"
question = "How long does it take to begin?"
seed = 1

[prompts]
file = "prompts.jsonl"

[model]
name = "bundled"
device = "cpu"

[generation]
strategies = ["greedy", "guard"]
max_new_tokens = 1

[pairs]
compare = [["greedy", "guard"]]
per_dataset = 1
"""

_NEEDED = ("typer", "rich", "pydantic", "sqlalchemy")
_COLUMNS = {"what": "", "seconds": "seconds, median", "low": "least", "high": "greatest", "note": ""}
_PATIENCE = 120


def measure(results: Results, *, rounds: int) -> None:
    """Time `guard-eval generate` on a study of one prompt and one token, in processes of their own."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    row: dict[str, Cell] = {
        "what": "`guard-eval generate` until the first line with the first token is written"
    }
    if missing:
        row["note"] = f"skipped: {', '.join(missing)} not installed"
    else:
        seconds = [_seconds() for _ in range(rounds)]
        row |= {"seconds": statistics.median(seconds), "low": min(seconds), "high": max(seconds)}
    results.add("startup", "Start-up", _COLUMNS, row)


def _seconds() -> float:
    with tempfile.TemporaryDirectory() as name:
        study = Path(name)
        (study / "study.toml").write_text(_STUDY, encoding="utf-8")
        (study / "prompts.jsonl").write_text('{"prompt": "Once upon a time"}\n', encoding="utf-8")
        start = time.perf_counter()
        with subprocess.Popen(  # noqa: S603 (our own command line)
            [sys.executable, "-m", "guard_eval", "generate", name],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                while not _has_line(study):
                    if process.poll() is not None and not _has_line(study):
                        errors = process.stderr.read() if process.stderr else ""
                        raise RuntimeError(f"guard-eval generate left with {process.returncode}: {errors}")
                    if time.perf_counter() - start > _PATIENCE:
                        raise RuntimeError(f"guard-eval generate wrote nothing in {_PATIENCE} s")
                    time.sleep(0.01)
                return time.perf_counter() - start
            finally:
                process.kill()


def _has_line(study: Path) -> bool:
    return any(b"\n" in path.read_bytes() for path in study.glob("continuations/*.jsonl"))
