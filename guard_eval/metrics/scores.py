"""Results: what a metric says of a strategy on a dataset, how sure that is, and the settings that made it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

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
        p_value: Two-sided, of "neither differs from the other"; None where no test was made, or where it
            could not have reached one minus the level.
        p_holm: The same after Holm's correction over `family` tests.
        family: How many tests were corrected together.
        n: Prompts that both continued.
        method: How interval and p-value were made.
        note: Why there is no p-value, or none after the correction; empty where there is.
    """

    metric: str
    dataset: str
    strategy: str
    baseline: str
    value: float | None
    low: float | None
    high: float | None
    level: float
    p_value: float | None
    p_holm: float | None
    family: int
    n: int
    method: str
    note: str = ""


@dataclass(frozen=True)
class Metric:
    """How a metric is shown.

    Attributes:
        name: Its name in tables for programs.
        label: Its name at the head of a column.
        title: Its name in full words, as at the head of a figure.
        meaning: What it measures, in a sentence.
        unit: Of its values, such as `%`; empty if it has none.
        digits: Decimals that are shown.
        best: `human` where the value nearest to the references' is the best, else None.
    """

    name: str
    label: str
    title: str
    meaning: str
    unit: str = "%"
    digits: int = 2
    best: Literal["human"] | None = "human"


_METRICS = (
    Metric(
        "diversity",
        "Div.",
        "Diversity",
        "Product over n = 2, 3, 4 of the share of n-grams that repeat no earlier one.",
    ),
    Metric("mauve", "MAUVE", "MAUVE", "How near the texts' distribution is to the references'."),
    Metric(
        "coherence",
        "Coh.",
        "Coherence",
        "Mean log-likelihood per token of the text, given its prompt.",
        unit="nats",
    ),
    Metric(
        "bertscore",
        "BERT-Sc.",
        "BERTScore",
        "F1 of the similarity of tokens in context between text and reference.",
    ),
    Metric(
        "perplexity",
        "PPL",
        "Perplexity",
        "exp of the mean negative log-likelihood over all tokens of all texts.",
        unit="",
    ),
    *(
        Metric(
            f"rep_{n}",
            f"rep-{n}",
            f"Repeated {n}-grams",
            f"Share of {n}-grams that repeat an earlier one of their text.",
        )
        for n in (2, 3, 4)
    ),
    *(
        Metric(
            f"distinct_{n}",
            f"dist-{n}",
            f"Distinct {n}-grams",
            f"Different {n}-grams of all texts together over all {n}-grams.",
        )
        for n in (1, 2)
    ),
    Metric(
        "self_bleu",
        "self-BLEU",
        "Self-BLEU",
        "Mean BLEU of each text against all others of its strategy: how alike they are.",
    ),
    Metric("words", "words", "Length in words", "Mean length in words.", unit="", digits=1),
    Metric(
        "tokens",
        "tokens",
        "Length in tokens",
        "Mean length in tokens, the end-of-text token included.",
        unit="",
        digits=1,
        best=None,
    ),
    Metric(
        "ended",
        "ended",
        "Texts ended by the model",
        "Share of texts that the model ended itself.",
        digits=1,
        best=None,
    ),
    Metric(
        "tokens_per_second",
        "tok/s",
        "Tokens per second",
        "All tokens over all wall time of generation.",
        unit="",
        digits=0,
        best=None,
    ),
    Metric(
        "seconds_per_text",
        "s/text",
        "Time per text",
        "Wall time of generation over texts.",
        unit="s",
        digits=3,
        best=None,
    ),
)
METRICS = {metric.name: metric for metric in _METRICS}
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
