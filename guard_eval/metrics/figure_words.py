"""What figures say of scores, in words and rounded numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeGuard

from guard_eval.errors import StudyError
from guard_eval.escaping import one_line
from guard_eval.generations import HUMAN
from guard_eval.metrics.scores import METRICS, Metric, Results, Score
from guard_eval.metrics.view import figure, levels


def metric_of(name: str) -> Metric:
    """Return a metric by its name.

    Raises:
        StudyError: There is none of that name.
    """
    if name not in METRICS:
        raise StudyError(f"there is no metric {name!r}; there are {', '.join(METRICS)}")
    return METRICS[name]


def scores_of(results: Results, metric: str, dataset: str) -> dict[str, Score]:
    """Return a metric's scores on a dataset by strategy."""
    return {s.strategy: s for s in results.scores if (s.metric, s.dataset) == (metric, dataset)}


def there(score: Score | None) -> TypeGuard[Score]:
    """Say whether there is a score with a finite value."""
    return score is not None and score.value is not None and math.isfinite(score.value)


def value_of(score: Score) -> float:
    """Return the value of a score that is `there`."""
    assert score.value is not None
    return score.value


def limits_of(score: Score) -> tuple[float, float] | None:
    """Return both limits; None where either is no finite number."""
    low, high = score.low, score.high
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return None
    return low, high


def name_of(strategy: str) -> str:
    """Return a strategy's name on one line."""
    return "human (the references)" if strategy == HUMAN else one_line(strategy) or "(no name)"


def with_unit(metric: Metric) -> str:
    """Return what stands beside an axis."""
    return f"{metric.title} ({metric.unit})" if metric.unit else metric.title


def shown(metric: Metric, score: Score | None) -> str:
    """Return a score's value as it is printed."""
    return _number(metric, value_of(score)) if there(score) else "no value"


def with_limits(metric: Metric, score: Score) -> str:
    """Return a score's value with its limits, if it has any."""
    limits = limits_of(score)
    if limits is None or not there(score):
        return shown(metric, score)
    low, high = (_number(metric, limit) for limit in limits)
    return f"{shown(metric, score)} [{low}, {high}]"


def _number(metric: Metric, value: float) -> str:
    return figure(metric.name, value).replace("-", "\N{MINUS SIGN}")


def note_on(scores: Sequence[Score], what: str) -> str:
    """Return the note on what the intervals are, and how many texts there were."""
    said = levels(score.level for score in scores if limits_of(score))
    sizes = sorted({score.n for score in scores})
    texts = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    limits = f"{what}: {said} intervals" if said else "No intervals"
    return f"{limits}; {texts} texts per strategy"
