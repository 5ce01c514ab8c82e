"""Our figures for a table: from a study's metrics, from how long its texts took, and from verdicts."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from analysis.stats.resampling import percentile, prompt_weights
from guard_eval.cli.replication.compare import Key, Ours
from guard_eval.cli.replication.prompts import dataset_named
from guard_eval.errors import StudyError
from guard_eval.metrics.scores import OVERALL
from guard_eval.records import Continuation
from guard_eval.strategies import parse

if TYPE_CHECKING:
    import pandas as pd

REPLICATES = 2000
LEVEL = 0.95
SEED = 1

WHO = {"person": "people", "simulated": "people", "model": "judge"}
"""Kinds of raters, in the words of `Figure.metric`."""


def of_metrics(folder: Path, *, model: str = "") -> dict[Key, Ours]:
    """Return what `guard-eval measure` has written into `folder`; nothing where it has not yet.

    Raises:
        StudyError: metrics.json cannot be read.
    """
    path = folder / "metrics.json"
    try:
        scores = json.loads(path.read_text(encoding="utf-8"))["scores"]
        return {
            (model, dataset_named(one["dataset"]), one["strategy"], "", one["metric"]): Ours(
                value=one["value"], low=one["low"], high=one["high"], n=one["n"]
            )
            for one in scores
            if one["value"] is not None and one["dataset"] != OVERALL
        }
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StudyError(
            f"cannot read {path} ({error}); run guard-eval measure {folder.parent} again"
        ) from error


def of_speed(made: Mapping[str, Sequence[Continuation]]) -> dict[Key, Ours]:
    """Return time and length per text of each strategy, and GUARD's tokens per second over each other's.

    Ratios are of the same prompts: both strategies meet the same resampled ones. `tab:speed_comparison`
    prints none; those of its figures stand under the metric `tokens_per_sec_ratio`.

    Args:
        made: Continuations by strategy, one text at a time.
    """
    prompts = sorted(set.intersection(*({one.prompt_id for one in each} for each in made.values())))
    if not prompts:
        return {}
    weights = prompt_weights(len(prompts), replicates=REPLICATES, seed=SEED)
    seconds, tokens = ({s: _by_prompt(each, prompts, what) for s, each in made.items()} for what in (0, 1))
    ones = np.ones(len(prompts))
    found: dict[Key, Ours] = {}
    for strategy in made:
        s, t = seconds[strategy], tokens[strategy]
        for metric, up, down in (
            ("sec_per_story", s, ones),
            ("tokens_per_sec", t, s),
            ("tokens_per_story", t, ones),
        ):
            found["", "", strategy, "", metric] = _ratio(weights, up, down)
    for other in (name for name in made if "guard" in made and name != "guard"):
        rates = {name: _Rate(tokens[name], seconds[name], weights) for name in ("guard", other)}
        found["", "", "guard", other, "tokens_per_sec_ratio"] = _with_interval(
            rates["guard"].value / rates[other].value,
            rates["guard"].replicates / rates[other].replicates,
            len(prompts),
        )
    return found


@dataclass(frozen=True)
class _Rate:
    """A sum over another one, by prompt, and in each resample of the prompts."""

    up: NDArray[np.float64]
    down: NDArray[np.float64]
    weights: NDArray[np.float64]

    @property
    def value(self) -> float:
        return float(self.up.sum() / self.down.sum())

    @property
    def replicates(self) -> NDArray[np.float64]:
        found: NDArray[np.float64] = (self.weights @ self.up) / (self.weights @ self.down)
        return found


def of_verdicts(frame: pd.DataFrame) -> dict[Key, Ours]:
    """Return shares of wins and ties in percent, by criterion and dataset, of people and of judges.

    Intervals resample prompts, or pairs where prompts are not known: ratings of one are not independent.
    Where both kinds have judged, `agree`
    says whether both prefer the same strategy.

    Args:
        frame: A validated table of verdicts; methods and datasets may have the paper's names or ours.
    """
    from analysis.verdicts.scores import rater_scores
    from analysis.verdicts.tidy import orient

    scores = rater_scores(orient(_renamed(frame)))
    if (scores["rater_kind"] == "person").any():
        scores = scores[scores["rater_kind"] != "simulated"]
    found: dict[Key, Ours] = {}
    for (a, b, kind), mine in scores.groupby(["method_a", "method_b", "rater_kind"], sort=False):
        who = WHO[str(kind)]
        for dataset, part in [("All", mine), *((str(d), p) for d, p in mine.groupby("dataset"))]:
            for criterion, judged in [
                ("overall", part),
                *((str(c), p) for c, p in part.groupby("criterion")),
            ]:
                found |= _shares(judged, str(a), str(b), dataset, f"{who}.{criterion}")
    return found | _agreement(found)


def is_counts(path: Path) -> bool:
    """Say whether a CSV file holds counts of wins and ties rather than verdicts."""
    try:
        with path.open(encoding="utf-8-sig") as stream:
            head = stream.readline()
    except (OSError, UnicodeDecodeError):
        return False  # whoever reads the verdicts says what is wrong with it
    return {"dataset", "criterion", "ties"} <= set(head.strip().split(","))


def of_counts(path: Path, *, who: str) -> dict[Key, Ours]:
    """Return shares in percent from counts of wins and ties: exact, without intervals.

    Columns are dataset, criterion, ties, and NAME_wins of either strategy. Counts do not say which ratings
    are of the same pair, so that there can be no intervals.

    Args:
        path: The file.
        who: `people` or `judge`.

    Raises:
        StudyError: The file cannot be read, or a count is no whole number.
    """
    sums: dict[tuple[str, str], NDArray[np.float64]] = {}
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.DictReader(stream)
            first, second = (name for name in reader.fieldnames or () if name.endswith("_wins"))
            for line in reader:
                counts = np.array([int(line[name]) for name in (first, "ties", second)], dtype=np.float64)
                for dataset in (dataset_named(line["dataset"]), "All"):
                    key = (dataset, line["criterion"])
                    sums[key] = sums.get(key, np.zeros(3)) + counts
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StudyError(
            f"cannot read counts in {path} ({error}); a line has dataset, criterion, ties and NAME_wins twice"
        ) from error
    a, b = (canonical(name.removesuffix("_wins")) for name in (first, second))
    found: dict[Key, Ours] = {}
    for (dataset, criterion), (won, tied, lost) in sums.items():
        n = won + tied + lost
        for key, wins in (((a, b), won), ((b, a), lost)):
            for what, count in (("win", wins), ("tie", tied), ("share", wins + tied / 2)):
                found["", dataset, *key, f"{who}.{criterion}.{what}"] = Ours(
                    value=100 * count / n, n=int(n), recomputed=True
                )
    return found


def _renamed(frame: pd.DataFrame) -> pd.DataFrame:
    """Return verdicts under the names that figures have: signatures of strategies, the paper's datasets."""
    table = frame.copy()
    for name in ("method_a", "method_b", "verdict"):
        table[name] = table[name].astype(str).map({m: canonical(m) for m in table[name].astype(str).unique()})
    datasets = table["dataset"].astype(str)
    table["dataset"] = datasets.map({name: dataset_named(name) for name in datasets.unique()})
    return table


def canonical(method: str) -> str:
    """Return a method's signature, or its name where it is no strategy.

    >>> canonical("GUARD"), canonical("ACS"), canonical("Top-k"), canonical("tie")
    ('guard', 'acs(q=1)', 'top_k(k=50)', 'tie')
    """
    try:
        return str(parse(method.lower().replace("-", "_")))
    except StudyError:
        return method


def _shares(scores: pd.DataFrame, a: str, b: str, dataset: str, what: str) -> dict[Key, Ours]:
    net = scores["net"].to_numpy()
    _, place = np.unique(scores["unit"].to_numpy(), return_inverse=True)
    counts = np.stack(
        [np.bincount(place, weights=each.astype(float)) for each in (net > 0, net == 0, net < 0)], axis=1
    )
    weights = prompt_weights(len(counts), replicates=REPLICATES, seed=SEED)
    all_ = counts.sum(1)

    def share(parts: tuple[float, float, float]) -> Ours:
        return _ratio(weights, 100 * (counts @ np.array(parts)), all_, n=int(all_.sum()))

    ab, ba = (("", dataset, *pair) for pair in ((a, b), (b, a)))
    return {
        (*ab, f"{what}.win"): share((1, 0, 0)),
        (*ba, f"{what}.win"): share((0, 0, 1)),
        (*ab, f"{what}.tie"): share((0, 1, 0)),
        (*ba, f"{what}.tie"): share((0, 1, 0)),
        (*ab, f"{what}.share"): share((1, 0.5, 0)),
        (*ba, f"{what}.share"): share((0, 0.5, 1)),
    }


def _agreement(found: Mapping[Key, Ours]) -> dict[Key, Ours]:
    agree: dict[Key, Ours] = {}
    for (model, dataset, a, b, metric), people in found.items():
        who, criterion, what = metric.split(".")
        judge = found.get((model, dataset, a, b, f"judge.{criterion}.win"))
        lost = [found.get((model, dataset, b, a, f"{kind}.{criterion}.win")) for kind in ("people", "judge")]
        if (who, what) != ("people", "win") or judge is None or None in lost:
            continue
        margins = [
            won.value - (other.value if other else 0)
            for won, other in zip((people, judge), lost, strict=True)
        ]
        agree[model, dataset, a, b, f"both.{criterion}.agree"] = Ours(
            value=float(margins[0] * margins[1] > 0)
        )
    return agree


def _by_prompt(made: Sequence[Continuation], prompts: Sequence[str], what: int) -> NDArray[np.float64]:
    values = {one.prompt_id: (one.seconds, one.new_tokens)[what] for one in made}
    return np.array([values[prompt] for prompt in prompts], dtype=np.float64)


def _ratio(
    weights: NDArray[np.float64], up: NDArray[np.float64], down: NDArray[np.float64], *, n: int | None = None
) -> Ours:
    """Return the ratio of two sums with its interval over what `weights` resample."""
    rate = _Rate(up, down, weights)
    return _with_interval(rate.value, rate.replicates, len(up), n=n)


def _with_interval(
    value: float, replicates: NDArray[np.float64], units: int, *, n: int | None = None
) -> Ours:
    found = percentile(float(value), replicates, level=LEVEL, n=units, seed=SEED)
    return Ours(value=float(value), low=found.low, high=found.high, n=units if n is None else n)
