"""Do the tests and intervals hold? Simulated studies with known truth, tabulated.

export OPENBLAS_NUM_THREADS=1                                      # a process, a core
python benchmarks/calibration.py --output docs/calibration.md      # some minutes on two cores
python benchmarks/calibration.py --quick                           # does it run? (rates mean nothing)

Every cell of the grid simulates studies without a difference (share .5) and with one (share .6) and gives
them to every test and every interval. The file named by --output keeps what stands before the line MARK; the
tables come after it.
"""

from __future__ import annotations

import argparse
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import get_args

import numpy as np
from calibration_tables import MARK, Row, markdown
from numpy.typing import NDArray

from analysis.stats import power
from analysis.stats.agreement import fleiss, gwet, krippendorff
from analysis.stats.counts import from_counts
from analysis.stats.intervals import item_mean
from analysis.stats.simulation import Design, Model, Panel, Truth, simulate, truth

ALPHA = 0.05
OTHER_SHARE = 0.6
RATER_SD = 0.4
AGREEMENT_STUDIES = 2000
"""At most; each of them is read one at a time."""
FAMILY_STUDIES = 10_000
"""At least; the bound on the family-wise error is closer to its nominal value than the others."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """One row to make: `make` of the design, with so many studies, from the seed."""

    make: Callable[[Design, int, np.random.Generator], Row]
    table: str
    design: Design
    studies: int
    seed: int

    def row(self) -> Row:
        """Return the row, its settings first."""
        rng = np.random.default_rng([self.seed, zlib.crc32(repr((self.table, self.design)).encode())])
        design = self.design
        settings: Row = {
            "model": design.model,
            "kappa": design.agreement,
            "ties": design.ties,
            "panel": design.panel if design.rater_sd else "none",
            "raters": design.raters,
            "items": design.items,
            "criteria": design.criteria,
            "correlation": design.correlation,
        }
        return settings | self.make(design, self.studies, rng)


def one_cell(design: Design, studies: int, rng: np.random.Generator) -> Row:
    """Return error rates and coverage without a difference, then coverage and power with one."""
    verdicts = simulate(design, studies=studies, rng=rng)[:, 0]
    row = tests(verdicts) | coverage(verdicts, truth(design))
    if design.raters > 1:
        row |= agreement_coverage(verdicts[:AGREEMENT_STUDIES], truth(design))
    apart = replace(design, share=OTHER_SHARE)
    verdicts = simulate(apart, studies=studies, rng=rng)[:, 0]
    with_one = tests(verdicts) | coverage(verdicts, truth(apart))
    return row | {f"{name} apart": value for name, value in with_one.items()}


def tests(verdicts: NDArray[np.int8]) -> Row:
    """Return how often each test finds a difference, and the sizes that the exact ones can attain."""
    histograms = power.net_histograms(verdicts)
    exact = {
        "binomial": power.sign_tests((verdicts > 0).sum(axis=(1, 2)), (verdicts < 0).sum(axis=(1, 2))),
        "flip": power.sign_flips(histograms),
        "majority": power.majority_signs(histograms),
    }
    row: Row = {}
    for name, tested in exact.items():
        row[name] = float((tested.p_values <= ALPHA).mean())
        row[f"{name} size"] = float(tested.sizes.mean())
    row["wilcoxon"] = float((power.signed_ranks(histograms) <= ALPHA).mean())
    return row


def coverage(verdicts: NDArray[np.int8], true: Truth) -> Row:
    """Return how often each interval holds the truth, where there is an interval."""
    histograms = power.net_histograms(verdicts)
    wins, untied = (verdicts > 0).sum(axis=(1, 2)), (verdicts != 0).sum(axis=(1, 2))
    return {
        "wilson": _held(power.wilsons(wins, untied), true.untied),
        "clopper": _held(power.clopper_pearsons(wins, untied), true.untied),
        "t": _held(power.item_means(histograms), true.share),
        "bootstrap": _held(power.item_bootstraps(histograms), true.share),
    }


def _held(limits: tuple[NDArray[np.float64], NDArray[np.float64]], value: float) -> float:
    low, high = limits
    there = ~np.isnan(low)
    # A limit that is the value but for rounding holds it.
    return float(((low <= value + 1e-9) & (value - 1e-9 <= high))[there].mean())


def agreement_coverage(verdicts: NDArray[np.int8], true: Truth) -> Row:
    """Return how often the agreement intervals hold what infinitely many items would show."""
    expected = sum(chance * (1 - chance) for chance in true.chances) / 2
    limits: dict[str, list[tuple[float | None, float | None]]] = {
        "kappa": [],
        "alpha": [],
        "ordinal": [],
        "ac1": [],
    }
    for study in verdicts:
        counts = np.stack([(study == choice).sum(axis=1) for choice in (1, 0, -1)], axis=1)
        patterns, kappa = from_counts(counts), fleiss(counts)
        limits["kappa"].append((kappa.low, kappa.high))
        for name, found in (
            ("alpha", krippendorff(patterns)),
            ("ordinal", krippendorff(patterns, metric="ordinal")),
            ("ac1", gwet(patterns)),
        ):
            limits[name].append((found.low, found.high))
    truths = {
        "kappa": true.agreement,
        "alpha": true.agreement,
        "ordinal": ordinal_alpha(true),
        "ac1": (true.raw - expected) / (1 - expected),
    }
    arrays = {name: np.array(pairs, dtype=float) for name, pairs in limits.items()}
    return {
        f"{name} interval": _held((pairs[:, 0], pairs[:, 1]), truths[name]) for name, pairs in arrays.items()
    }


def ordinal_alpha(true: Truth) -> float:
    """Return Krippendorff's ordinal α of infinitely many items: squared distances of mid-ranks."""
    chances, together = np.array(true.chances), np.array(true.together)
    ranks = chances.cumsum() - chances / 2
    distance = (ranks[:, None] - ranks) ** 2
    return 1 - float((together * distance).sum()) / float(chances @ distance @ chances)


def one_family(design: Design, studies: int, rng: np.random.Generator) -> Row:
    """Return how often Holm's correction lets any of several true null hypotheses fall."""
    verdicts = simulate(design, studies=studies, rng=rng)
    by_item, pooled = _p_values(verdicts)
    return {"holm": _any(by_item), "none": _any(by_item, corrected=False), "pooled": _any(pooled)}


def mixed_family(design: Design, studies: int, rng: np.random.Generator) -> Row:
    """Return the same where the methods differ in all criteria but one: only that one can fall wrongly."""
    null = simulate(replace(design, criteria=1), studies=studies, rng=rng)
    apart = replace(design, criteria=design.criteria - 1, share=OTHER_SHARE)
    verdicts = np.concatenate([null, simulate(apart, studies=studies, rng=rng)], axis=1)
    by_item, pooled = _p_values(verdicts)
    return {
        "holm": float((power.holms(by_item)[:, 0] <= ALPHA).mean()),
        "none": float((by_item[:, 0] <= ALPHA).mean()),
        "pooled": float((power.holms(pooled)[:, 0] <= ALPHA).mean()),
    }


def _p_values(verdicts: NDArray[np.int8]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the sign-flip test's and the pooled binomial's p-values, [studies, criteria]."""
    flips, pooled = [], []
    for criterion in range(verdicts.shape[1]):
        own = verdicts[:, criterion]
        flips.append(power.sign_flips(power.net_histograms(own)).p_values)
        wins, losses = (own > 0).sum(axis=(1, 2)), (own < 0).sum(axis=(1, 2))
        pooled.append(power.sign_tests(wins, losses).p_values)
    return np.stack(flips, axis=1), np.stack(pooled, axis=1)


def _any(p_values: NDArray[np.float64], *, corrected: bool = True) -> float:
    adjusted = power.holms(p_values) if corrected else p_values
    return float((adjusted <= ALPHA).any(axis=1).mean())


def three_datasets(design: Design, studies: int, rng: np.random.Generator) -> Row:
    """Return coverage of the stratified t interval where datasets of a third of the items differ in share."""
    sizes = [len(part) for part in np.array_split(np.arange(design.items), 3)]
    shares = (0.4, 0.5, 0.6)
    parts = [
        simulate(replace(design, items=n, share=share), studies=studies, rng=rng)[:, 0]
        for n, share in zip(sizes, shares, strict=True)
    ]
    true = sum(n * share for n, share in zip(sizes, shares, strict=True)) / design.items
    means = 0.5 + np.concatenate(parts, axis=1).mean(axis=2) / 2
    names = [name for name, n in zip("abc", sizes, strict=True) for _ in range(n)]
    found = [item_mean(study, names) for study in means]
    limits = np.array([(interval.low, interval.high) for interval in found], dtype=float)
    return {"t": _held((limits[:, 0], limits[:, 1]), true)}


def grid(*, quick: bool) -> Iterator[Design]:
    """Return the designs of the main table. With one rater neither κ nor the model makes a difference."""
    items = (20, 40) if quick else (20, 40, 150, 500)
    models, panels = get_args(Model), get_args(Panel)
    effects = [(0.0, "fixed"), *((RATER_SD, panel) for panel in panels)]
    for (sd, panel), model, kappa, ties, raters, n in product(
        effects, models, (0.41, 0.05), (0.32, 0.67), (1, 3, 5), items
    ):
        alone = raters == 1
        if alone and (model != models[0] or kappa < 0.4 or (sd > 0 and panel != "random")):
            continue
        if quick and raters == 5:
            continue
        yield Design(
            items=n, raters=raters, ties=ties, agreement=kappa, model=model, rater_sd=sd, panel=panel
        )


def families(*, quick: bool) -> Iterator[Design]:
    """Return the designs of the table of families: three raters with fixed biases."""
    for model, kappa, ties, n, criteria, correlation in product(
        get_args(Model),
        (0.41, 0.05),
        (0.32, 0.67),
        (40,) if quick else (40, 150),
        (3,) if quick else (3, 6),
        (0.0, 0.5, 0.9),
    ):
        yield Design(
            items=n,
            raters=3,
            ties=ties,
            agreement=kappa,
            model=model,
            rater_sd=RATER_SD,
            criteria=criteria,
            correlation=correlation,
        )


def tasks(options: argparse.Namespace) -> list[Task]:
    """Return everything to do."""
    quick, studies, seed = options.quick, options.studies, options.seed
    task = partial(Task, seed=seed)
    several = studies if quick else max(studies, FAMILY_STUDIES)
    out = [task(make=one_cell, table="grid", design=d, studies=studies) for d in grid(quick=quick)]
    for design in families(quick=quick):
        out.append(task(make=one_family, table="families", design=design, studies=several))
        if design.correlation == 0:
            out.append(task(make=mixed_family, table="mixed", design=design, studies=several))
    thirds = [d for d in grid(quick=quick) if d.raters == 3 and d.panel == "fixed" and d.items < 500]
    return out + [task(make=three_datasets, table="datasets", design=d, studies=studies) for d in thirds]


def run(work: list[Task], processes: int) -> dict[str, list[Row]]:
    """Do it all, and say on stderr how far it has come."""
    tables: dict[str, list[Row]] = {}
    began = time.monotonic()
    with ProcessPoolExecutor(max_workers=processes) as pool:
        for done, (task, row) in enumerate(zip(work, pool.map(_row, work), strict=True), 1):
            tables.setdefault(task.table, []).append(row)
            if done % 20 == 0 or done == len(work):
                print(f"{done} of {len(work)} rows, {time.monotonic() - began:.0f} s", file=sys.stderr)
    return tables


def _row(task: Task) -> Row:
    return task.row()


def write(path: Path, tables: str) -> None:
    """Put the tables into `path`, after what stands there before MARK."""
    there = path.read_text(encoding="utf-8") if path.exists() else ""
    before = there.partition(MARK)[0] if MARK in there else ""
    path.write_text(f"{before}{MARK}\n\n{tables}", encoding="utf-8")


def main(arguments: Iterable[str] | None = None) -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--studies", type=int, default=4000, help="studies a cell (default: 4000)")
    parser.add_argument("--seed", type=int, default=20261122)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="a tenth of the grid, 200 studies")
    parser.add_argument("--output", type=Path, help="Markdown file; without it the tables are printed")
    options = parser.parse_args(None if arguments is None else list(arguments))
    if options.quick:
        options.studies = min(options.studies, 200)
    tables = markdown(run(tasks(options), options.processes), studies=options.studies, seed=options.seed)
    if options.output:
        write(options.output, tables)
    else:
        print(tables)


if __name__ == "__main__":
    main()
