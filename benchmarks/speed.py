"""Which ways of decoding are timed against which: the sections of the benchmark."""

from __future__ import annotations

import argparse
import copy
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch
from pairing_runs import Stopwatch, Way
from random_models import SHAPES, build, random_prompts
from results import Cell, Results
from ways import Workbench

from guard_eval.engines.packed import pack
from guard_eval.errors import StudyError
from guard_eval.strategies import AdaptiveContrastiveSearch, ContrastiveSearch, Greedy, Guard, TopP

SECTIONS = {
    "greedy": "Over greedy `generate`",
    "alike": "Over greedy `generate` with the same (packed) linear layers",
    "guard": "What GUARD adds to the package's own greedy loop",
    "repetition": "A repeated cache over candidates as a tree",
    "headline": "Contrastive search and ACS over GUARD, all in the package's own loops",
    "published": "The published way, one text at a time, over GUARD in the package's own loop",
}
"""Name → title; a ratio is the time of the table's second way over that of its first."""

_COLUMNS = {
    "vocabulary": "vocabulary",
    "batch": "batch",
    "base": "A",
    "way": "B",
    "base_ms": "A, ms/token",
    "way_ms": "B, ms/token",
    "ratio": "B/A",
    "low": "least",
    "high": "greatest",
    "rounds": "rounds",
    "same_texts": "same texts",
    "note": "",
}

_REPETITION_UP_TO = 32
"""The largest batch at which a cache is repeated: it takes k times the memory and the time."""


@dataclass(frozen=True)
class Comparison:
    """A row of a table.

    Attributes:
        section: The table.
        base: A, which is divided by.
        way: B.
        alike: Whether both are to make the same tokens, so that `same_texts` means something.
    """

    section: str
    base: Way
    way: Way
    alike: bool = False


def measure(
    results: Results,
    options: argparse.Namespace,
    *,
    device: torch.device,
    dtype: torch.dtype,
    deadline: float,
) -> None:
    """Fill the tables of `options.sections`; none is begun after `deadline` (`time.perf_counter`)."""
    shape = SHAPES[options.shape]
    for vocabulary in options.vocabularies or shape.vocabularies:
        plain = build(shape, vocabulary, device=device, dtype=dtype)
        own = _packed(plain)
        for batch in options.batches:
            prompts = random_prompts(vocabulary, batch=batch, tokens=options.prompt_tokens)
            bench = Workbench(plain=plain, own=own, prompts=prompts, limit=options.new_tokens)
            watch = Stopwatch(device, options.rounds, options.seconds)
            for comparison in comparisons(bench, compiled=not options.no_compile):
                if comparison.section in options.sections:
                    row: dict[str, Cell] = {"vocabulary": vocabulary, "batch": batch}
                    row |= _row(watch, comparison, deadline)
                    results.add(comparison.section, SECTIONS[comparison.section], _COLUMNS, row)


def _packed(plain: Any) -> Any:  # noqa: ANN401 (transformers' classes are untyped)
    """Return the model that the package's engine runs: a packed copy where there is packing."""
    if plain.device.type != "cpu" or plain.dtype != torch.float32:
        return plain
    own = copy.deepcopy(plain)
    pack(own)
    return own


def comparisons(bench: Workbench, *, compiled: bool) -> Iterator[Comparison]:
    """Return the rows for one model and batch, the important ones first."""
    greedy, own_greedy = bench.generate(), bench.engine(Greedy())
    guard, released = bench.engine(Guard()), bench.engine(Guard(formulation="released"))
    ten, acs = bench.engine(ContrastiveSearch(k=10)), bench.engine(AdaptiveContrastiveSearch())
    yield Comparison("greedy", greedy, own_greedy, alike=True)
    yield Comparison("greedy", greedy, guard)
    if bench.own is not bench.plain:
        packed = bench.generate(packed=True)
        yield Comparison("alike", packed, own_greedy, alike=True)
        yield Comparison("alike", packed, guard)
    yield Comparison("guard", own_greedy, guard)
    if compiled:
        fast = bench.engine(Guard(), compiled=True)
        yield Comparison("greedy", greedy, fast)
        yield Comparison("guard", own_greedy, fast)
        yield Comparison("guard", guard, fast, alike=True)
    yield Comparison("greedy", greedy, bench.processor(Guard()))
    yield Comparison("greedy", greedy, released)
    yield Comparison("guard", own_greedy, released)
    yield Comparison("greedy", greedy, ten)
    yield Comparison("greedy", greedy, bench.engine(ContrastiveSearch(k=5)))
    yield Comparison("greedy", greedy, acs)
    yield Comparison("headline", guard, ten)
    yield Comparison("headline", guard, acs)
    yield from _repetitions(bench, greedy, {ContrastiveSearch(k=10): ten, AdaptiveContrastiveSearch(): acs})
    yield Comparison("greedy", greedy, bench.engine(TopP()))
    if bench.own is not bench.plain:
        yield Comparison("greedy", greedy, bench.generate(packed=True), alike=True)
    yield Comparison("published", released, bench.published_script(), alike=True)
    yield Comparison("published", released, bench.published_processor(), alike=True)


def _repetitions(bench: Workbench, greedy: Way, trees: dict[Any, Way]) -> Iterator[Comparison]:
    if len(bench.prompts) > _REPETITION_UP_TO:
        return
    for strategy, tree in trees.items():
        yield Comparison("repetition", tree, bench.repetition(strategy), alike=True)
        yield Comparison("greedy", greedy, bench.repetition(strategy))
        if bench.own is not bench.plain:
            yield Comparison("repetition", tree, bench.repetition(strategy, packed=True), alike=True)


def _row(watch: Stopwatch, comparison: Comparison, deadline: float) -> dict[str, Cell]:
    row: dict[str, Cell] = {"base": comparison.base.name, "way": comparison.way.name}
    if time.perf_counter() > deadline:
        return row | {"note": "skipped: no time left"}
    try:
        paired = watch.compare(comparison.base, comparison.way)
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
        return row | {"note": "skipped: does not fit into memory"}
    except StudyError as error:
        return row | {"note": f"skipped: {error}"}
    row |= asdict(paired)
    return row if comparison.alike else row | {"same_texts": None}
