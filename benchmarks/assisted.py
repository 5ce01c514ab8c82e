"""Does people's share assisted by a judge hold, and what does it gain? Simulated studies with known truth.

    export OPENBLAS_NUM_THREADS=1                # a process, a core
    python benchmarks/assisted.py                # docs/assisted.md's tables, some minutes on two cores
    python benchmarks/assisted.py --figure docs/images/assisted-worth.svg    # what people's ratings are worth
    python benchmarks/assisted.py --verdicts cs_vs_cd_human.csv    # people's own verdicts, stand-in judges

A judge judges 1000 pairs, in both orders; people rate a random part of them.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from common import parser, table
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy import optimize

from analysis.results.judges.assisted import assisted_rows
from analysis.stats.assisted import assisted_mean, effective_items
from analysis.stats.intervals import item_mean
from analysis.verdicts.tidy import read
from guard_eval.reporting.drawing import INK, WIDTH, Drawing, finished, standalone
from guard_eval.reporting.figure_style import FIRST, SECOND, style

Floats = NDArray[np.float64]

JUDGED = 1000
RATED = (40, 150, 400)
CORRELATIONS = (0.0, 0.2, 0.4, 0.55, 0.7, 0.9)
MANY, SOME = 400_000, 40_000
"""Items from which the truth, and a judge's correlation, are computed."""
TIE = 0.45
COLUMNS = ("studies", "people rate", "r", "covers", "people alone cover", "width", "best width")


@dataclass(frozen=True, kw_only=True)
class World:
    """How people and a judge come to their verdicts.

    Attributes:
        name: In the table.
        raters: People of a pair.
        forced: Which part of the judge's verdicts are for method_a whatever the texts.
        sizes: Each dataset's part of the pairs.
        leans: How far people lean to method_a in each dataset, in standard deviations.
        pairs: Pairs of a prompt; they share half their variance, and people rate all of them or none.
    """

    name: str
    raters: int = 3
    forced: float = 0.0
    sizes: tuple[float, ...] = (0.34, 0.33, 0.33)
    leans: tuple[float, ...] = (0.1, 0.1, 0.1)
    pairs: int = 1

    def draw(
        self, n: int, weight: float, rng: np.random.Generator
    ) -> tuple[Floats, Floats, NDArray[np.int64]]:
        """Return people's mean scores of n pairs, the judge's, and the datasets, [n] each."""
        prompts = n // self.pairs
        dataset = np.repeat(
            np.searchsorted(np.cumsum(self.sizes), (np.arange(prompts) + 0.5) / prompts), self.pairs
        )
        shared = np.repeat(rng.normal(size=prompts), self.pairs)
        latent = rng.normal(size=n) if self.pairs == 1 else (shared + rng.normal(size=n)) / 2**0.5
        latent = latent + np.array(self.leans)[dataset]
        people = _verdicts(latent[:, None] + rng.normal(size=(n, self.raters))).mean(axis=1)
        spread = people.std()
        # the judge sees what people chose, and something else: so r can be as large as one likes
        seen = (people - 0.5) / spread if spread else np.zeros(n)
        view = weight * seen + (1 - weight**2) ** 0.5 * rng.normal(size=n)
        judge = _verdicts(view[:, None] + 0.2 * rng.normal(size=(n, 2))).mean(axis=1)
        return people, np.where(rng.random(n) < self.forced, 1.0, judge), dataset

    def weight_for(self, correlation: float) -> float:
        """Return the weight that gives the judge so large an r with people within datasets."""
        if correlation == 0:
            return 0.0

        def excess(weight: float) -> float:
            people, judge, dataset = self.draw(SOME, weight, np.random.default_rng(3))
            for place in range(len(self.sizes)):
                for values in (people, judge):
                    values[dataset == place] -= values[dataset == place].mean()
            return float(np.corrcoef(people, judge)[0, 1]) - correlation

        return 1.0 if excess(1.0) <= 0 else optimize.brentq(excess, 0.0, 1.0, xtol=1e-3)


def _verdicts(values: Floats) -> Floats:
    return np.where(values > TIE, 1.0, np.where(values < -TIE, 0.0, 0.5))


WORLDS = (
    World(name="a judge as people"),
    World(name="10 % forced to one side", forced=0.1),
    World(name="unequal datasets", sizes=(0.7, 0.2, 0.1), leans=(0.4, -0.2, -0.6), forced=0.1),
    World(name="one rater", raters=1),
    World(name="4 pairs a prompt", pairs=4),
)


def studies(task: tuple[World, int, float, int]) -> tuple[object, ...]:
    """Return a line: coverage and mean width of assisted and of unassisted intervals."""
    world, rated, correlation, count = task
    rng = np.random.default_rng(zlib.crc32(repr(task).encode()))
    weight = world.weight_for(correlation)
    people, _, of = world.draw(MANY, weight, np.random.default_rng(4))
    # the datasets as in a study, where their sizes are whole
    sizes = np.bincount(world.draw(JUDGED, 0.0, rng)[2]) / JUDGED
    truth = float(sizes @ [people[of == place].mean() for place in range(len(sizes))])
    covered, widths, found = np.zeros(2), np.zeros(2), []
    for _ in range(count):
        people, judge, dataset = world.draw(JUDGED, weight, rng)
        prompt = np.arange(JUDGED) // world.pairs
        part = np.isin(prompt, list(_part(dataset[:: world.pairs], rated // world.pairs, rng)))
        strata = dataset.astype(str).tolist()
        clusters = None if world.pairs == 1 else prompt
        assisted = assisted_mean(np.where(part, people, np.nan), judge, strata, clusters=clusters)
        alone = item_mean(
            people[part],
            dataset[part].astype(str).tolist(),
            clusters=None if clusters is None else prompt[part],
        )
        for place, interval in enumerate((assisted.interval, alone)):
            if interval.low is None or interval.high is None:
                raise RuntimeError(f"no interval: {interval.warnings}")
            covered[place] += interval.low <= truth <= interval.high
            widths[place] += interval.high - interval.low
        found.append(assisted.correlation or 0.0)
    r = float(np.mean(found))
    best = (rated / effective_items(rated, JUDGED, r)) ** 0.5
    shares = [f"{value / count:.3f}" for value in covered]
    return (world.name, rated, f"{r:.2f}", *shares, f"{widths[0] / widths[1]:.3f}", f"{best:.3f}")


def _part(dataset: NDArray[np.int64], count: int, rng: np.random.Generator) -> Iterator[int]:
    """Yield a random part of the prompts, from each dataset as many as its size asks for."""
    before = chosen = 0
    for place in range(int(dataset.max()) + 1):
        mine = np.flatnonzero(dataset == place)
        before += len(mine)
        due = round(before * count / len(dataset))
        yield from rng.permutation(mine)[: due - chosen].tolist()
        chosen = due


def published(path: Path, count: int) -> str:
    """Return what stand-ins for a judge give on published verdicts of people.

    Each of the people in turn is the judge of all pairs, and the others rate a third of them; then judges are
    made up of the others' mean and noise.
    """
    frame = read(path)
    rng = np.random.default_rng(1)
    lines = []
    names = sorted(frame["rater"].unique())
    for name in names:
        judge = frame[frame["rater"] == name].assign(rater_kind="model")
        lines.append(_line(f"{name} stands in", frame[frame["rater"] != name], judge, count))
    others = frame.assign(value=frame["verdict"].eq(frame["method_a"]) + 0.5 * frame["verdict"].eq("tie"))
    mean = others.groupby("pair_id")["value"].mean()
    for weight in (0.0, 0.5, 0.8):
        view = weight * (mean - 0.5) / mean.std() + (1 - weight**2) ** 0.5 * rng.normal(size=len(mean))
        rows = frame.drop_duplicates("pair_id").set_index("pair_id")
        first, second = rows["method_a"], rows["method_b"]
        chosen = np.where(
            view.loc[rows.index] > TIE, first, np.where(view.loc[rows.index] < -TIE, second, "tie")
        )
        judge = rows.assign(verdict=chosen, rater="made up", rater_kind="model").reset_index()
        lines.append(_line(f"made up of people and noise, weight {weight}", frame, judge, count))
    return table(("the judge", "people rate", "r", "width", "ratings gained"), lines)


def _line(name: str, people: pd.DataFrame, judge: pd.DataFrame, count: int) -> tuple[object, ...]:
    rng, found = np.random.default_rng(2), []
    pairs = judge[["pair_id", "dataset"]]
    for _ in range(count):
        part = pairs.groupby("dataset")["pair_id"].sample(frac=1 / 3, random_state=rng)
        verdicts = pd.concat([people[people["pair_id"].isin(part)], judge], ignore_index=True)
        (row,) = assisted_rows(verdicts, random=True)
        ratio = (row.share.high - row.share.low) / (row.alone.high - row.alone.low)
        found.append((row.rated, row.correlation, ratio, row.gained))
    rated, r, ratio, gained = np.mean(found, axis=0)
    return name, f"{rated:.0f} of {len(pairs)}", f"{r:.2f}", f"{ratio:.3f}", f"{gained:.0f}"


def worth() -> Drawing:
    """Return a figure of how many times people's ratings are worth, by the judge's r and people's part."""
    name, r = "assisted-worth", np.linspace(0, 0.95, 96)
    with style(ink=INK, frame=INK, ground="none", salt=name):
        sheet = Figure(figsize=(WIDTH, 3.4), layout="constrained")
        axes = sheet.add_subplot()
        for rated, colour, dashes in zip(RATED, (FIRST, SECOND, INK), ("-", "--", ":"), strict=True):
            times = [effective_items(rated, JUDGED, float(value)) / rated for value in r]
            axes.plot(r, times, color=colour, linestyle=dashes, linewidth=1.6, label=f"{rated} of {JUDGED}")
        axes.axhline(2, color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
        axes.set(xlim=(0, 0.95), ylim=(1, 4), xlabel="r of the judge with people, within datasets")
        axes.set_ylabel("ratings are worth, times")
        axes.grid(visible=True, color=INK, alpha=0.12, linewidth=0.6)
        axes.legend(frameon=False, title="people rate")
        heading = "What people's ratings are worth when a judge assists"
        described = "It rises with r, slowly below .5; half the ratings, the dashed line, take an r of .71."
        return finished(sheet, axes, name=name, heading=heading, description=described)


def main() -> int:
    """Print the tables."""
    options = parser(__doc__)
    options.add_argument("--studies", type=int, default=2000, help="simulated studies of a line")
    options.add_argument("--processes", type=int, default=2)
    options.add_argument("--verdicts", type=Path, help="a table of people's verdicts")
    options.add_argument("--figure", type=Path, help="write the figure of docs/assisted.md (.svg)")
    given = options.parse_args()
    if given.figure:
        given.figure.write_text(standalone(worth()), encoding="utf-8")
        return 0
    count = 20 if given.quick else given.studies
    if given.verdicts:
        print(published(given.verdicts, min(count, 300)))
        return 0
    tasks = [(world, rated, r, count) for world, rated, r in product(WORLDS, RATED, CORRELATIONS)]
    with ProcessPoolExecutor(given.processes) as pool:
        print(table(COLUMNS, pool.map(studies, tasks)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
