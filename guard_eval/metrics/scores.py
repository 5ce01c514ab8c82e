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
        counts: Texts left out, cut or mended, by what was the matter: `{"empty": 3}`.
        note: What a reader must know, or empty.
        signature: The definition with all its settings.
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


@dataclass(frozen=True, kw_only=True)
class Metric:
    """How a metric is shown.

    Attributes:
        name: Its name in tables for programs.
        label: Its name at the head of a column.
        title: Its name in full words, as at the head of a figure.
        unit: Of its values, such as `%`; empty if it has none.
        digits: Decimals that are shown.
        best: `human` where the value nearest to the references' is the best, else None.
        meaning: What it measures, in a sentence.
    """

    name: str
    label: str
    title: str
    unit: str
    digits: int
    best: Literal["human"] | None
    meaning: str


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric(
            name="diversity",
            label="Div.",
            title="Diversity",
            unit="%",
            digits=2,
            best="human",
            meaning="Product over n = 2, 3, 4 of the share of n-grams that repeat no earlier one.",
        ),
        Metric(
            name="mauve",
            label="MAUVE",
            title="MAUVE",
            unit="%",
            digits=2,
            best="human",
            meaning="How near the texts' distribution is to the references'.",
        ),
        Metric(
            name="coherence",
            label="Coh.",
            title="Coherence",
            unit="nats",
            digits=2,
            best="human",
            meaning="Mean log-likelihood per token of the text, given its prompt.",
        ),
        Metric(
            name="bertscore",
            label="BERT-Sc.",
            title="BERTScore",
            unit="%",
            digits=2,
            best="human",
            meaning="F1 of the similarity of tokens in context between text and reference.",
        ),
        Metric(
            name="perplexity",
            label="PPL",
            title="Perplexity",
            unit="",
            digits=2,
            best="human",
            meaning="exp of the mean negative log-likelihood over all tokens of all texts.",
        ),
        *(
            Metric(
                name=f"rep_{n}",
                label=f"rep-{n}",
                title=f"Repeated {n}-grams",
                unit="%",
                digits=2,
                best="human",
                meaning=f"Share of {n}-grams that repeat an earlier one of their text.",
            )
            for n in (2, 3, 4)
        ),
        *(
            Metric(
                name=f"distinct_{n}",
                label=f"dist-{n}",
                title=f"Distinct {n}-grams",
                unit="%",
                digits=2,
                best="human",
                meaning=f"Different {n}-grams of all texts together over all {n}-grams.",
            )
            for n in (1, 2)
        ),
        Metric(
            name="self_bleu",
            label="self-BLEU",
            title="Self-BLEU",
            unit="%",
            digits=2,
            best="human",
            meaning="Mean BLEU of each text against all others of its strategy: how alike they are.",
        ),
        Metric(
            name="words",
            label="words",
            title="Length in words",
            unit="",
            digits=1,
            best="human",
            meaning="Mean length in words.",
        ),
        Metric(
            name="tokens",
            label="tokens",
            title="Length in tokens",
            unit="",
            digits=1,
            best=None,
            meaning="Mean length in tokens, the end-of-text token included.",
        ),
        Metric(
            name="ended",
            label="ended",
            title="Texts ended by the model",
            unit="%",
            digits=1,
            best=None,
            meaning="Share of texts that the model ended itself.",
        ),
        Metric(
            name="tokens_per_second",
            label="tok/s",
            title="Tokens per second",
            unit="",
            digits=0,
            best=None,
            meaning="All tokens over all wall time of generation.",
        ),
        Metric(
            name="seconds_per_text",
            label="s/text",
            title="Time per text",
            unit="s",
            digits=3,
            best=None,
            meaning="Wall time of generation over texts.",
        ),
    )
}


@dataclass(frozen=True, kw_only=True)
class Results:
    """Everything a measurement found, and how.

    Attributes:
        scores: By metric, dataset and strategy, in the order in which tables show them.
        differences: From the baseline, if there was one.
        settings: All settings by name, in words and numbers.
        speed: Device and batch size of each dataset and strategy, where known.
        warnings: What a reader must know, in sentences.
    """

    scores: tuple[Score, ...]
    differences: tuple[Difference, ...] = ()
    settings: Mapping[str, str | int | float | None] = field(default_factory=dict)
    speed: Mapping[tuple[str, str], str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
