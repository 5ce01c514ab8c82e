"""Results as they are shown, in words and rounded figures that no format has escaped yet."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from guard_eval.escaping import NOTHING
from guard_eval.generations import HUMAN
from guard_eval.metrics.scores import METRICS, Difference, Results, Score

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
        scores: By metric; a metric that was not taken is not there.
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


@dataclass(frozen=True, kw_only=True)
class ShownCell:
    """A score: its value, its interval in brackets, and the number of its note."""

    value: str = NOTHING
    interval: str = ""
    closest: bool = False
    note: int | None = None


@dataclass(frozen=True, kw_only=True)
class ShownRow:
    """A strategy's cells on a dataset, one per metric."""

    strategy: str
    texts: int
    cells: list[ShownCell]


@dataclass(frozen=True, kw_only=True)
class ShownDataset:
    """A dataset's rows, one per strategy."""

    name: str
    rows: list[ShownRow]


DIFFERENCE_HEADS = (
    "Metric",
    "Dataset",
    "Strategy",
    "Baseline",
    "Difference",
    "Interval",
    "p",
    "p (Holm)",
    "Prompts",
)


class View:
    """What a page shows of results, in words and rounded figures that no format has escaped yet."""

    def __init__(self, results: Results, metrics: Sequence[str] | None = None) -> None:
        self.metrics = tuple(metrics or metrics_of(results))
        self.heads = [_head(metric) for metric in self.metrics]
        self.notes: list[str] = []
        self.closest = closest_to_human(results)
        rows = wide(results, self.metrics)
        self.datasets = [
            ShownDataset(name=name, rows=[self._row(row) for row in rows if row.dataset == name])
            for name in dict.fromkeys(row.dataset for row in rows)
        ]
        self.differences = [_difference(difference) for difference in results.differences]
        self.methods = list(dict.fromkeys(map(_method, results.differences)))
        self.meanings = [(METRICS[name].label, METRICS[name].meaning) for name in self.metrics]
        self.facts = list(_facts(results))
        said = levels(score.level for score in results.scores if score.low is not None)
        self.intervals = f"In brackets: the value's {said} interval." if said else ""

    def _row(self, row: WideRow) -> ShownRow:
        cells = [self._cell(row.scores.get(metric)) for metric in self.metrics]
        return ShownRow(strategy=row.strategy, texts=row.texts, cells=cells)

    def _cell(self, score: Score | None) -> ShownCell:
        if score is None:
            return ShownCell()
        note = ". ".join(filter(None, (score.note.rstrip("."), counted(score.counts))))
        if note and note not in self.notes:
            self.notes.append(note)
        return ShownCell(
            value=figure(score.metric, score.value),
            interval=interval(score.metric, score.low, score.high),
            closest=(score.metric, score.dataset, score.strategy) in self.closest,
            note=self.notes.index(note) + 1 if note else None,
        )


def _head(metric: str) -> str:
    shown = METRICS[metric]
    return f"{shown.label} ({shown.unit})" if shown.unit else shown.label


def _difference(one: Difference) -> tuple[str, ...]:
    return (
        _head(one.metric),
        one.dataset,
        one.strategy,
        one.baseline,
        figure(one.metric, one.value, sign="+"),
        interval(one.metric, one.low, one.high) or NOTHING,
        _p_value(one.p_value),
        _p_value(one.p_holm),
        str(one.n),
    )


def _method(one: Difference) -> str:
    tests = f"Holm's correction over {one.family} tests" if one.p_holm is not None else ""
    return "; ".join(filter(None, (one.method, f"{levels([one.level])} intervals", tests)))


def _p_value(p: float | None) -> str:
    if p is None or not math.isfinite(p):
        return NOTHING
    return "<0.0001" if p < 0.0001 else f"{p:.4f}"


def _facts(results: Results) -> Iterable[tuple[str, str]]:
    yield from ((name, NOTHING if value is None else str(value)) for name, value in results.settings.items())
    for (dataset, strategy), speed in results.speed.items():
        yield f"speed of {strategy} on {dataset}", speed
    for metric, signature in dict.fromkeys((score.metric, score.signature) for score in results.scores):
        if signature:
            yield f"signature of {metric}", signature
