"""Results in words and rounded figures, not yet escaped for any format."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from decimal import Decimal

from guard_eval.metrics.scores import METRICS, Results, Score
from guard_eval.reporting.escaping import NOTHING
from guard_eval.texts.generations import HUMAN

HUMAN_BY_DEFINITION = {"mauve": Decimal(100), "bertscore": Decimal(100)}
"""Metrics against the references, which are as near to themselves as can be."""

CLOSEST = "Bold: closest to the human value of its dataset, as shown (rounded); several if they tie."


def metrics_of(results: Results) -> tuple[str, ...]:
    """Return the metrics that were taken, in the results' order."""
    return tuple(dict.fromkeys(score.metric for score in results.scores))


def strategies_of(results: Results, dataset: str | None = None) -> tuple[str, ...]:
    """Return the strategies that have scores (on a dataset), in the results' order."""
    found = (score for score in results.scores if dataset in {None, score.dataset})
    return tuple(dict.fromkeys(score.strategy for score in found))


def by_strategy(results: Results) -> dict[tuple[str, str], dict[str, Score]]:
    """Return the scores by dataset and strategy, and then by metric, in the results' order."""
    rows: dict[tuple[str, str], dict[str, Score]] = {}
    for dataset in dict.fromkeys(score.dataset for score in results.scores):
        rows |= {(dataset, strategy): {} for strategy in strategies_of(results)}
    for score in results.scores:
        rows[score.dataset, score.strategy][score.metric] = score
    return {place: scores for place, scores in rows.items() if scores}


def text_count(scores: Mapping[str, Score]) -> int:
    """Return how many texts a strategy had: the most that a metric was taken of."""
    return max(score.n for score in scores.values())


def closest_to_human(results: Results) -> set[tuple[str, str, str]]:
    """Return metric, dataset and strategy of each value that is nearest to the human one, as shown.

    What the paper's main table (`tab:ablation_resultglacs`) sets in bold: per metric whose `best` is `human`
    and per dataset, the strategies whose rounded value differs least from the rounded human value; all that
    tie. The human row itself is never among them.
    """
    values: dict[tuple[str, str], dict[str, Decimal]] = {}
    for score in results.scores:
        if METRICS[score.metric].best == "human" and score.value is not None and math.isfinite(score.value):
            cells = values.setdefault((score.metric, score.dataset), {})
            cells[score.strategy] = Decimal(figure(score.metric, score.value))
    found = set()
    for (metric, dataset), cells in values.items():
        human = HUMAN_BY_DEFINITION.get(metric, cells.get(HUMAN))
        away = {
            name: abs(value - human) for name, value in cells.items() if human is not None and name != HUMAN
        }
        found |= {(metric, dataset, name) for name, far in away.items() if far == min(away.values())}
    return found


def figure(metric: str, value: float | None, *, sign: str = "") -> str:
    """Return a value with the decimals its metric is shown with, never `-0.00`."""
    if value is None or not math.isfinite(value):
        return NOTHING
    text = f"{value:{sign}.{METRICS[metric].digits}f}"
    return text.lstrip("+-") if float(text) == 0 else text


def interval(metric: str, low: float | None, high: float | None) -> str:
    """Return limits in brackets; nothing where there is no interval."""
    return "" if low is None or high is None else f"[{figure(metric, low)}, {figure(metric, high)}]"


def levels(found: Iterable[float]) -> str:
    """Return confidence levels in words, each once."""
    return " or ".join(f"{100 * level:g} %" for level in sorted(set(found)))


def counted(counts: Mapping[str, int]) -> str:
    """Return counts in words."""
    return "; ".join(f"{name}: {number}" for name, number in counts.items())
