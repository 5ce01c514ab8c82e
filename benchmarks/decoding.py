"""How fast the decoding is: every strategy and every way of running it, measured in pairs in one process.

Prints a table as it goes, at the end the same as Markdown, and with `--json` writes all figures to a file.
README.md beside this file says what is compared and how the ratios are made.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers
from common import in_turns, line, parser, table, timed
from decoding_ways import SHAPES, Way, Workbench, build, random_prompts
from transformers import AutoModelForCausalLM, AutoTokenizer

import guard_eval
from guard_eval.engines.local.batch import Batch
from guard_eval.engines.local.decode import decode
from guard_eval.engines.packed import pack
from guard_eval.errors import StudyError
from guard_eval.strategies import AdaptiveContrastiveSearch, ContrastiveSearch, Greedy, Guard, Strategy, TopP

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
SECTIONS = {
    "greedy": "Over greedy `generate`",
    "alike": "Over greedy `generate` with the same (packed) linear layers",
    "guard": "What GUARD adds to the package's own greedy loop",
    "static": "Fixed shapes (on a GPU one CUDA graph a step), over the same step by step",
    "repetition": "A repeated cache over candidates as a tree",
    "headline": "Contrastive search and ACS over GUARD, all in the package's own loops",
}
"""Name → title; a ratio is the time of the table's second way over that of its first."""

_DEMO = Path(guard_eval.__file__).parent / "demo"
_ABOUT = ("device", "dtype", "shape", "prompt_tokens", "new_tokens", "rounds", "quick")
_REPETITION_UP_TO = 32
"""The largest batch at which a cache is repeated: it takes k times the memory and the time."""

Cell = str | float | int | None


# The figures of a run: printed as they come, stored as JSON, and set as Markdown tables.


@dataclass(frozen=True)
class Results:
    """Everything a run found.

    Attributes:
        about: Machine and settings.
        path: Where the JSON goes after each row, if anywhere: a run that is stopped leaves what it had.
        tables: By name: a title and rows, which have the same keys in the same order but for empty cells.
    """

    about: dict[str, Cell]
    path: Path | None = None
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, name: str, title: str, columns: tuple[str, ...], row: dict[str, Cell]) -> None:
        """Print a row, and append it to the table `name`."""
        found = self.tables.setdefault(name, {"title": title, "columns": columns, "rows": []})
        if not found["rows"]:
            print(f"{name}: {line(columns)}", flush=True)
        found["rows"].append(row)
        print(f"{name}: {line(_shown(row.get(key)) for key in columns)}", flush=True)
        if self.path:
            figures = {"about": self.about, "tables": self.tables}
            self.path.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    def markdown(self) -> str:
        """Return all tables, under a paragraph on the machine and the settings."""
        parts = ["; ".join(f"{name} {value}" for name, value in self.about.items())]
        for found in self.tables.values():
            rows = [[_shown(row.get(key)) for key in found["columns"]] for row in found["rows"]]
            parts.append(f"## {found['title']}\n\n{table(found['columns'], rows)}")
        return "\n\n".join(parts) + "\n"


def _shown(value: Cell) -> str:
    if isinstance(value, float):
        return f"{value:.2f}" if abs(value) >= 0.1 or value == 0 else f"{value:.4f}"
    return "" if value is None else str(value)


def about(options: argparse.Namespace) -> dict[str, Cell]:
    """Return what a reader must know of the machine and the settings."""
    gpu = torch.cuda.get_device_name(options.device) if options.device.type == "cuda" else None
    versions = {module.__name__: module.__version__ for module in (torch, transformers)}
    return {
        **{name: str(getattr(options, name)) for name in _ABOUT},
        "device": gpu or _processor(),
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        **versions,
        "python": platform.python_version(),
    }


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


# Ways of decoding in turns.


@dataclass
class Stopwatch:
    """Runs and times decoding strategies on one device.

    Attributes:
        device: Whose queue is waited for before the clock is read.
        rounds: At most so many runs of B.
        seconds: No round starts after so many seconds of a comparison, but two are made in any case.
    """

    device: torch.device
    rounds: int
    seconds: float
    _texts: dict[Way, list[list[int]]] = field(default_factory=dict)

    def compare(self, base: Way, way: Way) -> dict[str, Cell]:
        """Run `base` and `way` in turns, each of them once beforehand if it has not been run yet.

        Returns milliseconds per generated token of both (medians), the median, least and greatest ratio, the
        number of rounds, and the share of prompts, among those that both continued, with the same tokens.
        """
        pairs = list(zip(self._warmed(base), self._warmed(way), strict=False))
        runs = (timed(one.run, self._wait) for one in (base, way))
        turns = in_turns(*runs, rounds=self.rounds, seconds=self.seconds)
        ratios = [ratio * base.tokens / way.tokens for ratio in turns.ratios]
        return {
            "base_ms": 1e3 * turns.medians[0] / base.tokens,
            "way_ms": 1e3 * turns.medians[1] / way.tokens,
            "ratio": statistics.median(ratios),
            "low": min(ratios),
            "high": max(ratios),
            "rounds": len(ratios),
            "same_texts": sum(a == b for a, b in pairs) / len(pairs),
        }

    def _warmed(self, way: Way) -> list[list[int]]:
        if way not in self._texts:
            texts = way.run()
            made = sum(map(len, texts))
            if made != way.tokens:
                raise RuntimeError(
                    f"{way.name} made {made} tokens and not {way.tokens}; its times mean nothing"
                )
            self._texts[way] = texts
        return self._texts[way]

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


@dataclass(frozen=True)
class Comparison:
    """A row of the table `section`: B over A. Both make the same tokens where they are `alike`."""

    section: str
    base: Way
    way: Way
    alike: bool = False


def comparisons(bench: Workbench, *, compiled: bool) -> Iterator[Comparison]:
    """Return the rows for one model and batch, the important ones first."""
    greedy, own_greedy = bench.generate(), bench.engine(Greedy())
    guard, released = bench.engine(Guard()), bench.engine(Guard(formulation="released"))
    ten, acs = bench.engine(ContrastiveSearch(k=10)), bench.engine(AdaptiveContrastiveSearch())
    packed = None if bench.own is bench.plain else bench.generate(packed=True)
    yield Comparison("greedy", greedy, own_greedy, alike=True)
    yield Comparison("greedy", greedy, guard)
    if packed:
        yield Comparison("alike", packed, own_greedy, alike=True)
        yield Comparison("alike", packed, guard)
    yield Comparison("guard", own_greedy, guard)
    if compiled:
        fast = bench.engine(Guard(), compiled=True)
        yield Comparison("greedy", greedy, fast)
        yield Comparison("guard", own_greedy, fast)
        yield Comparison("guard", guard, fast, alike=True)
        if packed:
            yield Comparison("alike", packed, fast)
    for strategy in (Greedy(), Guard(), ContrastiveSearch(k=10), AdaptiveContrastiveSearch()):
        fixed, stepwise = (bench.engine(strategy, static=way) for way in (True, False))
        yield Comparison("static", stepwise, fixed, alike=True)
    if greedy_static := bench.generate(static=True) if bench.plain.device.type == "cuda" else None:
        yield Comparison("static", greedy, greedy_static, alike=True)
        yield Comparison("static", greedy_static, own_greedy, alike=True)
    yield Comparison("greedy", greedy, bench.processor(Guard()))
    yield Comparison("greedy", greedy, released)
    yield Comparison("guard", own_greedy, released)
    for way in (ten, bench.engine(ContrastiveSearch(k=5)), acs):
        yield Comparison("greedy", greedy, way)
    yield Comparison("headline", guard, ten)
    yield Comparison("headline", guard, acs)
    trees = ((ContrastiveSearch(k=10), ten), (AdaptiveContrastiveSearch(), acs))
    for strategy, tree in trees if len(bench.prompts) <= _REPETITION_UP_TO else ():
        yield Comparison("repetition", tree, bench.repetition(strategy), alike=True)
        yield Comparison("greedy", greedy, bench.repetition(strategy))
        if packed:
            yield Comparison("repetition", tree, bench.repetition(strategy, packed=True), alike=True)
    yield Comparison("greedy", greedy, bench.engine(TopP()))
    if packed:
        yield Comparison("greedy", greedy, packed, alike=True)


_SPEED = ("vocabulary", "batch", "base", "way", "base_ms", "way_ms", "ratio", "low", "high", "rounds")


def measure_speed(results: Results, options: argparse.Namespace) -> None:
    """Fill the tables of `options.sections`."""
    shape = SHAPES[options.shape]
    for vocabulary in options.vocabularies or shape.vocabularies:
        plain = build(shape, vocabulary, device=options.device, dtype=DTYPES[options.dtype])
        own = plain
        if plain.device.type == "cpu" and plain.dtype == torch.float32:
            own = copy.deepcopy(plain)
            pack(own)
        for batch in options.batches:
            prompts = random_prompts(vocabulary, batch=batch, tokens=options.prompt_tokens)
            bench = Workbench(plain=plain, own=own, prompts=prompts, limit=options.new_tokens)
            watch = Stopwatch(options.device, options.rounds, options.seconds)
            for comparison in comparisons(bench, compiled=not options.quick):
                if comparison.section in options.sections:
                    row: dict[str, Cell] = {"vocabulary": vocabulary, "batch": batch}
                    row |= _row(watch, comparison)
                    title, columns = SECTIONS[comparison.section], (*_SPEED, "same_texts", "note")
                    results.add(comparison.section, title, columns, row)


def _row(watch: Stopwatch, comparison: Comparison) -> dict[str, Cell]:
    row: dict[str, Cell] = {"base": comparison.base.name, "way": comparison.way.name}
    try:
        row |= watch.compare(comparison.base, comparison.way)
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
        return row | {"note": "skipped: does not fit into memory"}
    except StudyError as error:
        return row | {"note": f"skipped: {error}"}
    return row if comparison.alike else row | {"same_texts": None}


# What depends on the batch.

INVARIANT: tuple[Strategy, ...] = (
    Greedy(),
    Guard(),
    Guard(formulation="released"),
    TopP(),
    ContrastiveSearch(),
)
_INVARIANCE = ("dtype", "strategy", "texts", "tokens", "batch", "other_texts", "other_tokens", "seconds")


def measure_invariance(results: Results, options: argparse.Namespace) -> None:
    """Compare texts made one at a time with the same texts made in batches, padded on the left."""
    batch, limit = (2, 4) if options.quick else (16, 96)
    transformers.utils.logging.disable_progress_bar()
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    # Cut to different lengths, so that batches need padding.
    lines = (_DEMO / "prompts.jsonl").read_text(encoding="utf-8").splitlines()
    ids = [tokenizer(json.loads(line)["prompt"])["input_ids"] for line in lines]
    prompts = [row[: 6 + 7 * place % 29] for place, row in enumerate(ids[: max(4, batch)])]
    title = f"What changes from batch 1 to batch {batch}: {options.model.name}, prompts of different lengths"
    for dtype in ("float32", "bfloat16"):
        model = AutoModelForCausalLM.from_pretrained(options.model, dtype=DTYPES[dtype])
        model = model.to(options.device).eval()
        pack(model)
        for strategy in INVARIANT:
            start = time.perf_counter()
            alone, together = (texts(model, prompts, strategy, batch=n, limit=limit) for n in (1, batch))
            row = differences(alone, together)
            row |= {"dtype": dtype, "strategy": str(strategy), "batch": batch}
            row["seconds"] = time.perf_counter() - start
            results.add("invariance", title, _INVARIANCE, row)


def texts(
    model: Any, prompts: list[list[int]], strategy: Strategy, *, batch: int, limit: int
) -> list[list[int]]:
    """Return the new tokens of each prompt, made `batch` at a time; a prompt keeps its key in any batch."""
    found = model.generation_config.eos_token_id
    ends = torch.tensor(found if isinstance(found, list) else [found][: found is not None], dtype=torch.long)
    made: list[list[int]] = []
    for start in range(0, len(prompts), batch):
        rows = prompts[start : start + batch]
        keys = torch.arange(start, start + len(rows), device=model.device)
        given = Batch(prompts=rows, keys=keys, ends=ends.to(model.device), limit=limit)
        made += decode(model, given, strategy).tokens
    return made


def differences(alone: list[list[int]], together: list[list[int]]) -> dict[str, Cell]:
    """Return how many texts differ, and the share of the tokens made alone from a first other one on.

    >>> differences([[1, 2, 3, 4], [5, 6]], [[1, 2, 9, 4], [5, 6]])
    {'texts': 2, 'tokens': 6, 'other_texts': 0.5, 'other_tokens': 0.3333333333333333}
    """
    tokens, other = sum(map(len, alone)), 0
    for a, b in zip(alone, together, strict=True):
        same = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
        other += len(a) - same
    return {
        "texts": len(alone),
        "tokens": tokens,
        "other_texts": sum(a != b for a, b in zip(alone, together, strict=True)) / len(alone),
        "other_tokens": other / tokens,
    }


def read(arguments: list[str] | None) -> argparse.Namespace:
    """Return the settings; what cannot be used is named, and the process left with code 2."""
    command = parser(__doc__)
    option = command.add_argument
    option("--device", default="cpu", help="cpu, cuda or cuda:0")
    option("--dtype", choices=DTYPES, default="float32", help="the random model's arithmetic")
    option("--shape", choices=SHAPES, default="small", help="the random model's size; 7b is Qwen2.5-7B's")
    option("--vocabularies", type=int, nargs="+", help="sizes; default: the shape's")
    option("--batches", type=int, nargs="+", default=[1, 8, 32], help="how many texts at a time")
    option("--prompt-tokens", type=int, default=32, help="of each text")
    option("--new-tokens", type=int, default=48, help="of each text; none ends earlier")
    option("--sections", nargs="*", choices=SECTIONS, default=list(SECTIONS), help="which tables")
    option("--rounds", type=int, default=5, help="runs of each way in a row of a table")
    option("--seconds", type=float, default=10, help="start no further round of a row after this long")
    option("--threads", type=int, help="of PyTorch on the CPU; default: PyTorch's own choice")
    option("--invariance", action="store_true", help="count what changes from batch 1 to a padded batch")
    option("--model", type=Path, default=_DEMO / "model", help="a model's folder, for --invariance")
    option("--json", type=Path, help="write the figures here, again after each row")
    options = command.parse_args(arguments)
    if options.quick:
        options.shape, options.batches, options.vocabularies = "tiny", [1, 2], None
        options.prompt_tokens, options.new_tokens, options.rounds = 6, 5, 2
    if min(*options.batches, options.prompt_tokens, options.new_tokens, options.rounds) < 1:
        command.error("batches, tokens and rounds must be at least 1")
    try:
        options.device = torch.device(options.device)
    except RuntimeError:
        command.error(f"--device {options.device} is no device; write cpu, cuda or cuda:0")
    if options.device.type == "cuda" and not torch.cuda.is_available():
        command.error("--device cuda, but PyTorch finds no GPU here; write cpu")
    if options.invariance and not options.model.is_dir():
        command.error(f"--model {options.model} is no folder; name one that holds a transformers model")
    return options


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark; return the exit code."""
    options = read(arguments)
    if options.threads:
        torch.set_num_threads(options.threads)
    results = Results(about(options), options.json)
    if options.invariance:
        measure_invariance(results, options)
    if options.sections:
        measure_speed(results, options)
    print("\n" + results.markdown(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
