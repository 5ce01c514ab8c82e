"""Our figures for a table of the paper: from metrics, the time of texts, verdicts, or counts of these."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from guard_eval.errors import StudyError
from guard_eval.estimate import Estimate, Floats, jackknife
from guard_eval.metrics.scores import OVERALL, Score
from guard_eval.records import SIMULATED, Continuation
from guard_eval.replication.compare import COUNTED, Key
from guard_eval.replication.prompts import dataset_named
from guard_eval.strategies import parse

WHO = {"person": "people", "simulated": "people", "model": "judge", "simulated_model": "judge"}
"""Kinds of raters, in the words of `Figure.metric`."""
_COUNTS = {"dataset", "criterion", "ties"}


def from_metrics(scores: Iterable[Score], *, model: str = "") -> dict[Key, Estimate]:
    """Return the scores of a study's datasets, with the paper's names of these."""
    return {
        (model, dataset_named(score.dataset), score.strategy, "", score.metric): Estimate(
            value=score.value, low=score.low, high=score.high, n=score.n
        )
        for score in scores
        if score.value is not None and score.dataset != OVERALL
    }


def from_times(texts: Mapping[str, Sequence[Continuation]]) -> dict[Key, Estimate]:
    """Return time and length per text of each strategy; only prompts that all strategies continued count.

    Args:
        texts: Continuations by strategy, generated one text at a time.
    """
    by_prompt = {name: {text.prompt_id: text for text in each} for name, each in texts.items()}
    prompts = sorted(set.intersection(*map(set, by_prompt.values())))
    metrics = {"sec_per_story": (1, 2), "tokens_per_sec": (0, 1), "tokens_per_story": (0, 2)}
    figures: dict[Key, Estimate] = {}
    for name, each in by_prompt.items() if prompts else ():
        rows = [[each[prompt].new_tokens, each[prompt].seconds, 1] for prompt in prompts]
        parts = np.array(rows, dtype=np.float64)
        figures |= {
            ("", "", name, "", metric): _ratio(parts[:, [up, down]]) for metric, (up, down) in metrics.items()
        }
    return figures


def _ratio(parts: Floats, *, highest: float = math.inf) -> Estimate:
    """Return a sum over another one, `[units, 2]`, with an interval over units."""
    return jackknife(parts, lambda total: total[..., 0] / total[..., 1], bounds=(0.0, highest))


def from_verdicts(frame: pd.DataFrame) -> dict[Key, Estimate]:
    """Return shares of wins and ties in percent, by criterion and dataset, of people and of judges.

    A rater who saw a pair twice (a judge, in both orders) has one answer to it. Intervals are over prompts,
    or over pairs if prompts are not known. Simulated raters count only if there are no others. If both kinds
    judged, `agree` says whether both prefer the same strategy.

    Args:
        frame: A validated table of verdicts; methods and datasets may have the paper's names or ours.
    """
    table = pd.DataFrame(frame, dtype=object).reset_index(drop=True)
    if not (simulated := table["rater_kind"].isin(SIMULATED)).all():
        table = table[~simulated]
    for name, rename in (
        ("method_a", _signature),
        ("method_b", _signature),
        ("verdict", _signature),
        ("dataset", dataset_named),
    ):
        table[name] = table[name].map({value: rename(str(value)) for value in table[name].unique()})
    prompts = table["prompt_id"] if "prompt_id" in table else pd.Series(None, index=table.index, dtype=object)
    table["unit"] = prompts.where(prompts.notna() & (prompts != ""), table["pair_id"])
    table["who"] = table["rater_kind"].map(WHO)
    table["first"] = table[["method_a", "method_b"]].min(axis=1)
    table["second"] = table[["method_a", "method_b"]].max(axis=1)
    table["net"] = (table["verdict"] == table["first"]).astype(int) - (
        table["verdict"] == table["second"]
    ).astype(int)
    keys = ["who", "first", "second", "dataset", "criterion", "unit", "pair_id", "rater"]
    scores = np.sign(table.groupby(keys, sort=False)["net"].sum()).reset_index()
    figures: dict[Key, Estimate] = {}
    for (who, first, second), compared in scores.groupby(["who", "first", "second"], sort=False):
        for dataset, part in (("All", compared), *compared.groupby("dataset")):
            for criterion, judged in (("overall", part), *part.groupby("criterion")):
                outcomes = pd.crosstab(
                    [judged["dataset"], judged["unit"]], judged["net"].astype(int)
                ).reindex(columns=[1, 0, -1], fill_value=0)
                counts = outcomes.to_numpy(dtype=float)
                metric = f"{who}.{criterion}"
                figures |= _shares(counts, str(first), str(second), str(dataset), metric)
    return figures | _agreement(figures)


def _shares(
    counts: Floats, first: str, second: str, dataset: str, metric: str, *, exact: bool = False
) -> dict[Key, Estimate]:
    """Return the shares of wins, ties, and wins with half the ties, in percent, for either strategy.

    Args:
        counts: Wins of the first strategy, ties and losses, `[units, 3]`.
        first: The first strategy.
        second: The second one.
        dataset: The dataset.
        metric: Who judged, and by which criterion.
        exact: Whether these are the paper's own counts, so that there is no interval.
    """
    n, figures = float(counts.sum()), {}
    for pair, wins in (((first, second), 0), ((second, first), 2)):
        won, tied = counts[:, wins], counts[:, 1]
        for part, up in (("win", won), ("tie", tied), ("share", won + tied / 2)):
            if exact:
                estimate = Estimate(value=100 * float(up.sum()) / n, n=int(n), method=COUNTED)
            else:
                estimate = replace(
                    _ratio(np.column_stack([100 * up, counts.sum(axis=1)]), highest=100.0), n=int(n)
                )
            figures["", dataset, *pair, f"{metric}.{part}"] = estimate
    return figures


def _agreement(figures: Mapping[Key, Estimate]) -> dict[Key, Estimate]:
    """Return whether people and judges prefer the same strategy, if both judged."""
    agree: dict[Key, Estimate] = {}
    for model, dataset, first, second, metric in figures:
        who, criterion, what = metric.split(".")
        if (who, what) != ("people", "win"):
            continue
        wins = [
            figures.get((model, dataset, *pair, f"{each}.{criterion}.win"))
            for each in ("people", "judge")
            for pair in ((first, second), (second, first))
        ]
        won = [each.value for each in wins if each is not None and each.value is not None]
        if len(won) == 4:
            same = (won[0] - won[1]) * (won[2] - won[3]) > 0
            agree[model, dataset, first, second, f"both.{criterion}.agree"] = Estimate(value=float(same))
    return agree


def is_counts(path: Path) -> bool:
    """Return whether a CSV file holds counts of wins and ties rather than verdicts."""
    try:
        with path.open(encoding="utf-8-sig") as stream:
            return set(stream.readline().strip().split(",")) >= _COUNTS
    except (OSError, UnicodeDecodeError):
        return False  # the reader of verdicts reports what is wrong with it


def from_counts(path: Path, *, who: str) -> dict[Key, Estimate]:
    """Return shares in percent from counts of wins and ties: exact, without intervals.

    Columns are dataset, criterion, ties, and NAME_wins of either strategy. Counts do not say which ratings
    are of the same pair, so there can be no intervals.

    Args:
        path: The file.
        who: `people` or `judge`.

    Raises:
        StudyError: The file cannot be read, a count is no whole number, or there are not two strategies.
    """
    try:
        table = pd.read_csv(path, encoding="utf-8-sig", dtype=str, keep_default_na=False)
        columns = [name for name in map(str, table) if name.endswith("_wins")]
        table = table.astype(dict.fromkeys(("ties", *columns), int))
    except (OSError, ValueError, KeyError) as error:
        raise StudyError(
            f"cannot read counts in {path} ({error}); a line has dataset, criterion, ties and NAME_wins twice"
        ) from error
    if len(columns) != 2:
        raise StudyError(
            f"{path} has {len(columns)} columns NAME_wins ({', '.join(columns) or 'none'}); counts compare "
            "two strategies: keep one such column for each of the two"
        )
    table["dataset"] = table["dataset"].map(dataset_named)
    first, second = (_signature(name.removesuffix("_wins")) for name in columns)
    figures: dict[Key, Estimate] = {}
    for dataset, part in (("All", table), *table.groupby("dataset")):
        for criterion, rows in part.groupby("criterion"):
            counts = rows[[columns[0], "ties", columns[1]]].to_numpy(dtype=float)
            if counts.sum():  # without a verdict there is no share, and no difference from the paper's
                metric = f"{who}.{criterion}"
                figures |= _shares(counts, first, second, str(dataset), metric, exact=True)
    return figures


def _signature(method: str) -> str:
    """Return a method's signature, or its name if it is no strategy.

    >>> _signature("GUARD"), _signature("ACS"), _signature("Top-k"), _signature("tie")
    ('guard', 'acs(q=1)', 'top_k(k=50)', 'tie')
    """
    try:
        return str(parse(method.lower().replace("-", "_")))
    except StudyError:
        return method
