"""Scores of strategies, their differences, and how each metric is shown."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import pandas as pd

from guard_eval.reporting.escaping import NOTHING
from guard_eval.results import Result
from guard_eval.texts.generations import HUMAN

OVERALL = "all datasets"
"""The dataset of a mean over datasets, in which each weighs the same."""


SCORE_COLUMNS = (
    *("metric", "dataset", "strategy", "value", "low", "high", "level", "n", "counts", "note"),
    *("signature", "runs", "run_sd"),
)
"""The columns of scores.csv. What is undefined is None, and `note` says why. `n` counts the texts that have a
value, and `counts` those left out, cut or repaired, by reason. `signature` is the definition.
Where a prompt has several texts, `runs` is their number and `run_sd` the spread of the runs' own values."""
DIFFERENCE_COLUMNS = (
    *("metric", "dataset", "strategy", "baseline", "level", "n", "value", "low", "high"),
    *("p_value", "p_holm", "family", "method", "note"),
)
"""The columns of differences.csv: the strategy's value less the baseline's, prompt by prompt. `n` counts the
prompts that both continued. `p_holm` is corrected for `family` tests, those included that could not be made.
There is no p if it could not have reached 1 − level; `note` says so."""


class Metric(NamedTuple):
    """How a metric is shown.

    Attributes:
        label: Its name at the head of a column.
        title: Its full name, as at the head of a figure.
        meaning: What it measures, in a sentence.
        unit: The unit of its values, such as `%`; empty if it has none.
        digits: How many decimals are shown.
        human_is_best: Whether the value nearest to the references' is the best.
    """

    label: str
    title: str
    meaning: str
    unit: str = "%"
    digits: int = 2
    human_is_best: bool = True

    @property
    def heading(self) -> str:
        """Return the head of a column: the label with the unit."""
        return f"{self.label} ({self.unit})" if self.unit else self.label

    @property
    def axis(self) -> str:
        """Return the label of an axis: the full name with the unit."""
        return f"{self.title} ({self.unit})" if self.unit else self.title


_neutral = partial(Metric, human_is_best=False)
METRICS = {
    "diversity": Metric(
        "Div.", "Diversity", "Product over n = 2, 3, 4 of the share of n-grams that repeat no earlier one."
    ),
    "mauve": Metric("MAUVE", "MAUVE", "How near the texts' distribution is to the references'."),
    "coherence": Metric("Coh.", "Coherence", "Mean log-likelihood per token, given the prompt.", unit="nats"),
    "bertscore": Metric(
        "BERT-Sc.", "BERTScore", "F1 of the similarity of tokens in context to the reference's."
    ),
    "perplexity": Metric(
        "PPL", "Perplexity", "exp of the mean negative log-likelihood of all tokens.", unit=""
    ),
    **{
        f"rep_{n}": Metric(
            f"rep-{n}", f"Repeated {n}-grams", f"{n}-grams that repeat an earlier one of their text."
        )
        for n in (2, 3, 4)
    },
    **{
        f"distinct_{n}": Metric(
            f"dist-{n}", f"Distinct {n}-grams", f"Different {n}-grams of all texts over all {n}-grams."
        )
        for n in (1, 2)
    },
    "self_bleu": Metric(
        "self-BLEU", "Self-BLEU", "Mean BLEU of each text against all others of its strategy."
    ),
    "words": Metric("words", "Length in words", "Mean length in words.", unit="", digits=1),
    "tokens": _neutral(
        "tokens", "Length in tokens", "Mean length with the end-of-text token.", unit="", digits=1
    ),
    "ended": _neutral("ended", "Texts ended by the model", "Texts that the model ended itself.", digits=1),
    "tokens_per_second": _neutral("tok/s", "Tokens per second", "Tokens over wall time.", unit="", digits=0),
    "seconds_per_text": _neutral("s/text", "Time per text", "Wall time over texts.", unit="s", digits=3),
}
"""Every metric by name, in the order in which tables show them."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Measured(Result):
    """What a measurement says.

    Attributes:
        scores: A row for each metric, dataset and strategy, in the order of tables; see `SCORE_COLUMNS`.
        differences: From the baseline, if there is one; see `DIFFERENCE_COLUMNS`.
        settings: All settings by name, with the versions of packages and where texts were generated.
        failures: Metrics that could not be measured: why, and what to do.
    """

    scores: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=[*SCORE_COLUMNS]))
    differences: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=[*DIFFERENCE_COLUMNS]))
    settings: Mapping[str, Any] = field(default_factory=dict)
    failures: tuple[str, ...] = ()

    def to_frame(self) -> pd.DataFrame:
        """Return the scores with a missing number as NaN."""
        return self.scores.infer_objects()

    def _repr_html_(self) -> str:
        columns = ["metric", "dataset", "strategy", "value", "low", "high", "n", "note"]
        return str(self.scores[columns].to_html())


def rows_of(frame: pd.DataFrame) -> list[Any]:
    """Return the rows, each with a field for each column."""
    return list(frame.itertuples(index=False))


def closest_to_human(rows: Sequence[Any]) -> set[tuple[str, str, str]]:
    """Return metric, dataset and strategy of each score that is nearest to the human one, as shown.

    What the paper's main table (`tab:ablation_resultglacs`) sets in bold: per metric whose `human_is_best`
    and per dataset, the strategies whose rounded value differs least from the rounded human value; all that
    tie. The human row itself is never among them.
    """
    values: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows:
        metric = METRICS[row.metric]
        if metric.human_is_best and is_finite(row.value):
            values.setdefault((row.metric, row.dataset), {})[row.strategy] = round(row.value, metric.digits)
    closest = set()
    for (name, dataset), cells in values.items():
        human = cells.pop(HUMAN, math.nan)
        away = {
            strategy: round(abs(value - human), METRICS[name].digits) for strategy, value in cells.items()
        }
        closest |= {(name, dataset, strategy) for strategy, far in away.items() if far == min(away.values())}
    return closest


def is_finite(value: float | None) -> bool:
    """Return whether there is a value that is a finite number."""
    return value is not None and math.isfinite(value)


def format_value(metric: str, value: float | None, *, sign: str = "") -> str:
    """Return a value with the decimals its metric is shown with and a typographic minus, never `-0.00`."""
    if value is None or not math.isfinite(value):
        return NOTHING
    text = f"{value:{sign}.{METRICS[metric].digits}f}"
    return (text.lstrip("+-") if float(text) == 0 else text).replace("-", "\N{MINUS SIGN}")


def format_interval(metric: str, low: float | None, high: float | None) -> str:
    """Return limits in brackets; nothing where there is no interval."""
    return (
        f"[{format_value(metric, low)}, {format_value(metric, high)}]"
        if is_finite(low) and is_finite(high)
        else ""
    )


def format_level(level: float) -> str:
    """Return a confidence level in words."""
    return f"{100 * level:g} %"


def format_counts(counts: Mapping[str, int]) -> str:
    """Return counts in words."""
    return "; ".join(f"{name}: {number}" for name, number in counts.items())
