"""Our figures for a table: from a study's metrics, from how long its texts took, and from verdicts."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.verdicts.scores import rater_scores
from analysis.verdicts.tidy import orient
from guard_eval.cli.replication.compare import Key, Ours
from guard_eval.cli.replication.prompts import dataset_named
from guard_eval.errors import StudyError
from guard_eval.estimate import bootstrap_weights, percentile_interval
from guard_eval.metrics.scores import OVERALL
from guard_eval.records import SIMULATED, Continuation
from guard_eval.strategies import parse

REPLICATES = 2000
LEVEL = 0.95
SEED = 1

WHO = {"person": "people", "simulated": "people", "model": "judge", "simulated_model": "judge"}
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
    by_prompt = {strategy: {one.prompt_id: one for one in each} for strategy, each in made.items()}
    prompts = sorted(set.intersection(*map(set, by_prompt.values())))
    if not prompts:
        return {}
    weights = bootstrap_weights(len(prompts), replicates=REPLICATES, seed=SEED)
    ones = np.ones(len(prompts))
    found: dict[Key, Ours] = {}
    rates: dict[str, _Ratio] = {}
    for strategy, texts in by_prompt.items():
        seconds, tokens = (
            np.array([getattr(texts[prompt], name) for prompt in prompts], dtype=np.float64)
            for name in ("seconds", "new_tokens")
        )
        rates[strategy] = _Ratio.of(weights, tokens, seconds)
        found["", "", strategy, "", "sec_per_story"] = _Ratio.of(weights, seconds, ones).ours(len(prompts))
        found["", "", strategy, "", "tokens_per_sec"] = rates[strategy].ours(len(prompts))
        found["", "", strategy, "", "tokens_per_story"] = _Ratio.of(weights, tokens, ones).ours(len(prompts))
    if "guard" in rates:
        guard = rates.pop("guard")
        for other, rate in rates.items():
            ratio = _Ratio(guard.value / rate.value, guard.replicates / rate.replicates)
            found["", "", "guard", other, "tokens_per_sec_ratio"] = ratio.ours(len(prompts))
    return found


@dataclass(frozen=True)
class _Ratio:
    """A sum over another one, and the same in each resample of what is summed."""

    value: float
    replicates: NDArray[np.float64]

    @classmethod
    def of(cls, weights: NDArray[np.float64], up: NDArray[np.float64], down: NDArray[np.float64]) -> _Ratio:
        """Return the ratio of two sums over what `weights` resample."""
        return cls(float(up.sum() / down.sum()), (weights @ up) / (weights @ down))

    def ours(self, units: int, *, n: int | None = None) -> Ours:
        """Return it with its interval over so many units."""
        found = percentile_interval(self.value, self.replicates, level=LEVEL, n=units, seed=SEED)
        return Ours(value=self.value, low=found.low, high=found.high, n=units if n is None else n)


def of_verdicts(frame: pd.DataFrame) -> dict[Key, Ours]:
    """Return shares of wins and ties in percent, by criterion and dataset, of people and of judges.

    Intervals resample prompts, or pairs where prompts are not known: ratings of one are not independent.
    Where both kinds have judged, `agree` says whether both prefer the same strategy.

    Args:
        frame: A validated table of verdicts; methods and datasets may have the paper's names or ours.
    """
    scores = rater_scores(orient(_renamed(frame)))
    made_up = scores["rater_kind"].isin(SIMULATED)
    if not made_up.all():
        scores = scores[~made_up]
    found: dict[Key, Ours] = {}
    for (a, b, kind), mine in scores.groupby(["method_a", "method_b", "rater_kind"], sort=False):
        who = WHO[str(kind)]
        for dataset, part in [("All", mine), *mine.groupby("dataset")]:
            for criterion, judged in [("overall", part), *part.groupby("criterion")]:
                found |= _shares(judged, str(a), str(b), str(dataset), f"{who}.{criterion}")
    return found | _agreement(found)


def is_counts(path: Path) -> bool:
    """Say whether a CSV file holds counts of wins and ties rather than verdicts."""
    try:
        with path.open(encoding="utf-8-sig") as stream:
            head = stream.readline()
    except (OSError, UnicodeDecodeError):
        return False  # the reader of verdicts reports what is wrong with it
    return {"dataset", "criterion", "ties"} <= set(head.strip().split(","))


def of_counts(path: Path, *, who: str) -> dict[Key, Ours]:
    """Return shares in percent from counts of wins and ties: exact, without intervals.

    Columns are dataset, criterion, ties, and NAME_wins of either strategy. Counts do not say which ratings
    are of the same pair, so that there can be no intervals.

    Args:
        path: The file.
        who: `people` or `judge`.

    Raises:
        StudyError: The file cannot be read, a count is no whole number, or there are not two strategies.
    """
    sums: dict[tuple[str, str], NDArray[np.float64]] = {}
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.DictReader(stream)
            wins_columns = [name for name in reader.fieldnames or () if name.endswith("_wins")]
            if len(wins_columns) != 2:
                named = ", ".join(wins_columns) or "none"
                raise StudyError(
                    f"{path} has {len(wins_columns)} columns NAME_wins ({named}); "
                    "counts compare two strategies: keep one such column for each of the two"
                )
            first, second = wins_columns
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
        if n == 0:  # nothing was judged: there is no share, and no difference from the paper's
            continue
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
    won, tied, lost = (
        np.bincount(place, weights=each).astype(np.float64) for each in (net > 0, net == 0, net < 0)
    )
    all_ = won + tied + lost
    weights = bootstrap_weights(len(all_), replicates=REPLICATES, seed=SEED)
    return {
        ("", dataset, *pair, f"{what}.{part}"): _Ratio.of(weights, 100 * up, all_).ours(
            len(all_), n=int(all_.sum())
        )
        for pair, wins in (((a, b), won), ((b, a), lost))
        for part, up in (("win", wins), ("tie", tied), ("share", wins + tied / 2))
    }


def _agreement(found: Mapping[Key, Ours]) -> dict[Key, Ours]:
    """Return whether people and judges prefer the same strategy, where both have judged."""
    agree: dict[Key, Ours] = {}
    for model, dataset, a, b, metric in found:
        who, criterion, what = metric.split(".")
        if (who, what) != ("people", "win"):
            continue
        wins = [
            [found.get((model, dataset, *pair, f"{each}.{criterion}.win")) for pair in ((a, b), (b, a))]
            for each in ("people", "judge")
        ]
        margins = [won.value - lost.value for won, lost in wins if won is not None and lost is not None]
        if len(margins) == 2:
            same = float(margins[0] * margins[1] > 0)
            agree[model, dataset, a, b, f"both.{criterion}.agree"] = Ours(value=same)
    return agree
