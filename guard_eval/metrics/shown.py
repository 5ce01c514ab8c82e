"""Results in words and rounded figures, which no format has escaped yet."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from guard_eval.metrics.scores import METRICS, Results, Score
from guard_eval.reporting.escaping import NOTHING
from guard_eval.texts.generations import HUMAN

HUMAN_BY_DEFINITION = {"mauve": Decimal(100), "bertscore": Decimal(100)}
"""Metrics against the references, which are as near to themselves as can be."""

CLOSEST = "Bold: closest to the human value of its dataset, as shown (rounded); several if they tie."


@dataclass(frozen=True, kw_only=True)
class WideRow:
    """All scores of a strategy on a dataset.

    Attributes:
        dataset: The dataset.
        strategy: The strategy.
        texts: How many texts there were, the most that a metric was taken of.
        scores: By metric; without metrics that were not taken.
    """

    dataset: str
    strategy: str
    texts: int
    scores: Mapping[str, Score]


def metrics_of(results: Results) -> tuple[str, ...]:
    """Return the metrics that were taken, in the results' order."""
    return tuple(dict.fromkeys(score.metric for score in results.scores))


def wide(results: Results, metrics: Sequence[str]) -> list[WideRow]:
    """Return a row per dataset and strategy with its scores of `metrics`, in the results' order."""
    cells: dict[tuple[str, str], dict[str, Score]] = {}
    for score in results.scores:
        if score.metric in metrics:
            cells.setdefault((score.dataset, score.strategy), {})[score.metric] = score
    rows = []
    for dataset in datasets(results):
        for strategy in strategies(results):
            if scores := cells.get((dataset, strategy)):
                texts = max(score.n for score in scores.values())
                rows.append(WideRow(dataset=dataset, strategy=strategy, texts=texts, scores=scores))
    return rows


def closest_to_human(results: Results) -> set[tuple[str, str, str]]:
    """Return metric, dataset and strategy of each value that is nearest to the human one, as shown.

    What the paper's main table (`tab:ablation_resultglacs`) sets in bold: per metric whose `best` is `human`
    and per dataset, the strategies whose rounded value differs least from the rounded human value; all that
    tie. The human row itself is never among them.
    """
    shown: dict[tuple[str, str], dict[str, Decimal]] = {}
    for score in results.scores:
        if METRICS[score.metric].best == "human" and score.value is not None and math.isfinite(score.value):
            values = shown.setdefault((score.metric, score.dataset), {})
            values[score.strategy] = Decimal(figure(score.metric, score.value))
    found = set()
    for (metric, dataset), values in shown.items():
        human = HUMAN_BY_DEFINITION.get(metric, values.get(HUMAN))
        away = {
            name: abs(value - human) for name, value in values.items() if human is not None and name != HUMAN
        }
        found |= {(metric, dataset, name) for name, far in away.items() if far == min(away.values())}
    return found


def figure(metric: str, value: float | None, *, sign: str = "") -> str:
    """Return a value with the decimals its metric is shown with, never `-0.00`."""
    if value is None or not math.isfinite(value):
        return NOTHING
    shown = f"{value:{sign}.{METRICS[metric].digits}f}"
    return shown.lstrip("+-") if float(shown) == 0 else shown


def interval(metric: str, low: float | None, high: float | None) -> str:
    """Return limits in brackets; nothing where there is no interval."""
    return "" if low is None or high is None else f"[{figure(metric, low)}, {figure(metric, high)}]"


def levels(found: Iterable[float]) -> str:
    """Return confidence levels in words, each once."""
    return " or ".join(f"{100 * level:g} %" for level in sorted(set(found)))


def counted(counts: Mapping[str, int]) -> str:
    """Return counts in words."""
    return "; ".join(f"{name}: {number}" for name, number in counts.items())


def datasets(results: Results) -> tuple[str, ...]:
    """Return the datasets that have scores, in the results' order."""
    return tuple(dict.fromkeys(score.dataset for score in results.scores))


def strategies(results: Results, dataset: str | None = None) -> tuple[str, ...]:
    """Return the strategies that have scores (on a dataset), in the results' order."""
    here = (score for score in results.scores if dataset in {None, score.dataset})
    return tuple(dict.fromkeys(score.strategy for score in here))
