"""The tables of scores and of differences between strategies, and the format of each metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from guard_eval.bundled import read_bundled_toml
from guard_eval.records import HUMAN, record
from guard_eval.reporting.escaping import Cell
from guard_eval.reporting.words import format_number
from guard_eval.results import Result

if TYPE_CHECKING:
    import pandas as pd

    from guard_eval.metrics.outcomes import Outcome

OVERALL = "all datasets"
"""The name in place of a dataset for the mean over datasets. All datasets have the same weight."""


@record
class Score:
    """A score of a strategy on a dataset. The fields are the columns of scores.csv.

    Attributes:
        dataset: The dataset, or `OVERALL`.
        value: The value, or None if it is undefined. `note` then gives the reason.
        low, high: The limits of the interval at `level`.
        n: The number of texts with a value.
        counts: The number of texts that were left out, cut or repaired, by reason.
        signature: The definition of the metric, with the settings.
        runs: The number of texts for each prompt.
    """

    metric: str
    dataset: str
    strategy: str
    value: float | None
    low: float | None
    high: float | None
    level: float
    n: int
    counts: Mapping[str, int]
    note: str
    signature: str
    runs: int


@record
class Difference:
    """A strategy's value minus the baseline's value, prompt by prompt: a row of differences.csv.

    If the smallest possible p-value is above 1 − level, there is no p-value, and `note` gives the reason.

    Attributes:
        dataset: The dataset, or `OVERALL`.
        n: The number of prompts that both strategies continued.
        p_holm: The p-value after Holm's correction for `family` tests, which include impossible tests.
        smallest_p: The smallest possible p-value.
    """

    metric: str
    dataset: str
    strategy: str
    baseline: str
    level: float
    n: int
    value: float | None = None
    low: float | None = None
    high: float | None = None
    p_value: float | None = None
    p_holm: float | None = None
    smallest_p: float = 0.0
    family: int = 0
    method: str = "no test"
    note: str = ""


class Metric(NamedTuple):
    """The names, the unit and the format of a metric.

    Attributes:
        label: The short name, for the heading of a column.
        title: The full name, for the title of a figure.
        meaning: A sentence about what the metric measures.
        unit: The unit of the values, such as `%`. Empty if there is no unit.
        lowest, highest: The smallest and the largest possible value.
        digits: The number of decimals.
        better: An arrow up if larger values are better, or an arrow down if smaller values are better. Empty
            if values nearer to the value of human texts are better.
    """

    label: str
    title: str
    meaning: str
    unit: str = "%"
    lowest: float = 0
    highest: float = 100
    digits: int = 2
    better: str = ""

    @property
    def heading(self) -> str:
        """The heading of a column: the label, the unit, and the arrow to better values."""
        unit = f"({self.unit})" if self.unit else ""
        return " ".join(filter(None, (self.label, unit, self.better)))


METRICS = {name: Metric(**fields) for name, fields in read_bundled_toml(__file__, "metrics.toml").items()}
"""Every metric by name, in the order in which tables show them (metrics.toml)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class MeasurementResult(Result):
    """The result of a measurement.

    Attributes:
        scores: The score of each metric, dataset and strategy, in the order of the tables.
        differences: The differences from the baseline, if there is one.
        settings: All settings by name, with the versions of packages.
        failures: The metrics that could not be measured, each with the reason and the remedy.
        question: The study's question. Empty for texts without a study.
        outcomes: An `Outcome` for each score, by metric, dataset and strategy.
    """

    scores: Sequence[Score] = ()
    differences: Sequence[Difference] = ()
    settings: Mapping[str, Cell] = field(default_factory=dict)
    failures: tuple[str, ...] = ()
    question: str = ""
    outcomes: Mapping[tuple[str, str, str], Outcome] = field(default_factory=dict, metadata={"json": False})

    def to_frame(self) -> pd.DataFrame:
        """Return the scores as a data frame. A missing number is NaN."""
        import pandas as pd  # noqa: PLC0415 (commands need no data frame)

        return pd.DataFrame(list(self.scores))


def find_scores_closest_to_human(rows: Sequence[Score]) -> set[tuple[str, str, str]]:
    """Return metric, dataset and strategy of the scores that are nearest to the human score.

    These scores are bold in the paper's main table (`tab:ablation_resultglacs`). For each metric and dataset,
    these are the strategies whose rounded value is nearest to the rounded human value, with all ties.
    """
    rounded = {
        (row.metric, row.dataset, row.strategy): round(row.value, METRICS[row.metric].digits)
        for row in rows
        if row.value is not None
    }
    closest: set[tuple[str, str, str]] = set()
    for human, human_value in rounded.items():
        if human[2] != HUMAN:
            continue
        distances = {
            key: round(abs(value - human_value), METRICS[key[0]].digits)
            for key, value in rounded.items()
            if key[:2] == human[:2] and key != human
        }
        closest |= {key for key, distance in distances.items() if distance == min(distances.values())}
    return closest


def format_value(metric: str, value: float | None, *, sign: str = "") -> str:
    """Format a value of a metric with the metric's number of decimals."""
    return format_number(value, METRICS[metric].digits, sign=sign)


def format_interval(metric: str, low: float | None, high: float | None) -> str:
    """Format the limits of an interval in brackets. Return "" if there is no interval."""
    if low is None or high is None:
        return ""
    return f"[{format_value(metric, low)}, {format_value(metric, high)}]"


def format_level(level: float) -> str:
    """Format a confidence level as a percentage."""
    return f"{100 * level:g} %"


def format_counts(counts: Mapping[str, int]) -> str:
    """Return named counts as one line, such as `empty: 3; repaired: 1`."""
    return "; ".join(f"{name}: {number}" for name, number in counts.items())
