"""Scores of strategies, their differences, and how each metric is shown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import NamedTuple

from guard_eval.reporting.escaping import NOTHING
from guard_eval.texts.generations import HUMAN

OVERALL = "all datasets"
"""The dataset of a mean over datasets, in which each weighs the same."""


@dataclass(frozen=True, kw_only=True)
class Score:
    """One metric of one strategy on one dataset.

    Attributes:
        metric: One of `METRICS`.
        dataset: The dataset, or `OVERALL`.
        strategy: The strategy's signature, or `generations.HUMAN`.
        value: None where it is undefined, and `note` says why.
        low: Lower limit of the interval; None where there is none, and `note` says why.
        high: Upper limit.
        level: The confidence level, such as 0.95.
        n: How many texts it was taken of.
        counts: Texts left out, cut or repaired, by reason: `{"empty": 3}`.
        note: What a reader must know, or empty.
        signature: The definition with all its settings.
        runs: How many texts a prompt has at most.
        run_sd: The standard deviation of the values of single runs; None where there are not several.
    """

    metric: str
    dataset: str
    strategy: str
    value: float | None
    low: float | None = None
    high: float | None = None
    level: float = 0.95
    n: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    note: str = ""
    signature: str = ""
    runs: int = 1
    run_sd: float | None = None


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A strategy's metric less the baseline's, prompt by prompt.

    Attributes:
        metric: One of `METRICS`.
        dataset: The dataset, or `OVERALL`.
        strategy: The strategy.
        baseline: What it is compared with.
        value: The difference; None where either is undefined.
        low: Lower limit of its interval.
        high: Upper limit.
        level: The confidence level.
        p_value: The two-sided p-value; None if no test was made, or if p could not have reached
            one minus the level.
        p_holm: The same after Holm's correction over `family` tests.
        family: How many tests were declared, tests that could not be made included.
        n: How many prompts both continued.
        method: How interval and p-value were made.
        note: Why there is no p-value, or none after the correction; empty where there is.
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
    family: int = 0
    method: str = "no test"
    note: str = ""


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


METRICS = {
    "diversity": Metric(
        "Div.", "Diversity", "Product over n = 2, 3, 4 of the share of n-grams that repeat no earlier one."
    ),
    "mauve": Metric("MAUVE", "MAUVE", "How near the texts' distribution is to the references'."),
    "coherence": Metric(
        "Coh.", "Coherence", "Mean log-likelihood per token of the text, given its prompt.", unit="nats"
    ),
    "bertscore": Metric(
        "BERT-Sc.", "BERTScore", "F1 of the similarity of tokens in context between text and reference."
    ),
    "perplexity": Metric(
        "PPL", "Perplexity", "exp of the mean negative log-likelihood over all tokens of all texts.", unit=""
    ),
    **{
        f"rep_{n}": Metric(
            f"rep-{n}", f"Repeated {n}-grams", f"Share of {n}-grams that repeat an earlier one of their text."
        )
        for n in (2, 3, 4)
    },
    **{
        f"distinct_{n}": Metric(
            f"dist-{n}",
            f"Distinct {n}-grams",
            f"Different {n}-grams of all texts together over all {n}-grams.",
        )
        for n in (1, 2)
    },
    "self_bleu": Metric(
        "self-BLEU",
        "Self-BLEU",
        "Mean BLEU of each text against all others of its strategy: how alike they are.",
    ),
    "words": Metric("words", "Length in words", "Mean length in words.", unit="", digits=1),
    "tokens": Metric(
        "tokens",
        "Length in tokens",
        "Mean length in tokens, the end-of-text token included.",
        unit="",
        digits=1,
        human_is_best=False,
    ),
    "ended": Metric(
        "ended",
        "Texts ended by the model",
        "Share of texts that the model ended itself.",
        digits=1,
        human_is_best=False,
    ),
    "tokens_per_second": Metric(
        "tok/s",
        "Tokens per second",
        "All tokens over all wall time of generation.",
        unit="",
        digits=0,
        human_is_best=False,
    ),
    "seconds_per_text": Metric(
        "s/text",
        "Time per text",
        "Wall time of generation over texts.",
        unit="s",
        digits=3,
        human_is_best=False,
    ),
}
"""Every metric by name, in the order in which tables show them."""


@dataclass(frozen=True, kw_only=True)
class Results:
    """Everything a measurement found, and how.

    Attributes:
        scores: By metric, dataset and strategy, in the order in which tables show them.
        differences: From the baseline, if there was one.
        settings: All settings by name, in words and numbers.
        speed: Device and batch size of each dataset and strategy, where known.
        warnings: What a reader must know, in sentences.
        failures: What could not be measured: messages that say why and what to do.
    """

    scores: tuple[Score, ...] = ()
    differences: tuple[Difference, ...] = ()
    settings: Mapping[str, str | int | float | None] = field(default_factory=dict)
    speed: Mapping[tuple[str, str], str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()


HUMAN_BY_DEFINITION = {"mauve": Decimal(100), "bertscore": Decimal(100)}
"""Metrics against the references, which are as near to themselves as can be."""


def strategies_of(scores: Iterable[Score], dataset: str) -> list[str]:
    """Return the strategies that have scores on a dataset, in the order of the scores."""
    return list(dict.fromkeys(score.strategy for score in scores if score.dataset == dataset))


def closest_to_human(scores: Iterable[Score]) -> set[tuple[str, str, str]]:
    """Return metric, dataset and strategy of each value that is nearest to the human one, as shown.

    What the paper's main table (`tab:ablation_resultglacs`) sets in bold: per metric whose `human_is_best`
    and per dataset, the strategies whose rounded value differs least from the rounded human value; all that
    tie. The human row itself is never among them.
    """
    values: dict[tuple[str, str], dict[str, Decimal]] = {}
    for score in scores:
        if METRICS[score.metric].human_is_best and score.value is not None and math.isfinite(score.value):
            cells = values.setdefault((score.metric, score.dataset), {})
            cells[score.strategy] = Decimal(figure(score.metric, score.value))
    closest = set()
    for (metric, dataset), cells in values.items():
        human = HUMAN_BY_DEFINITION.get(metric, cells.pop(HUMAN, None))
        if human is None:
            continue
        away = {name: abs(value - human) for name, value in cells.items() if name != HUMAN}
        closest |= {(metric, dataset, name) for name, far in away.items() if far == min(away.values())}
    return closest


def figure(metric: str, value: float | None, *, sign: str = "") -> str:
    """Return a value with the decimals its metric is shown with, never `-0.00`."""
    if value is None or not math.isfinite(value):
        return NOTHING
    text = f"{value:{sign}.{METRICS[metric].digits}f}"
    return text.lstrip("+-") if float(text) == 0 else text


def interval(metric: str, low: float | None, high: float | None) -> str:
    """Return limits in brackets; nothing where there is no interval."""
    return "" if low is None or high is None else f"[{figure(metric, low)}, {figure(metric, high)}]"


def levels(numbers: Iterable[float]) -> str:
    """Return confidence levels in words, each once."""
    return " or ".join(f"{100 * level:g} %" for level in sorted(set(numbers)))


def counted(counts: Mapping[str, int]) -> str:
    """Return counts in words."""
    return "; ".join(f"{name}: {number}" for name, number in counts.items())
