"""What a report needs to know of its study beside the verdicts."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version

import pandas as pd

from analysis.results.judges.judge_usage import JudgeUsage
from analysis.results.shares import Correction, Estimand
from analysis.verdicts.composite import Composite
from analysis.verdicts.panel import JudgePanel
from guard_eval.records import Pair
from guard_eval.rubric import COMPOSITE, Criterion


@dataclass(frozen=True, kw_only=True)
class MeasuredMetrics:
    """Automatic metrics of a study.

    Attributes:
        table: Columns dataset, strategy, texts, then one column per metric.
        intervals: Low and high by dataset, strategy and metric, where there is an interval.
        notes: What each was measured with.
        level: The intervals' confidence level.
    """

    table: pd.DataFrame
    intervals: Mapping[tuple[str, str, str], tuple[float, float]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    level: float = 0.95


@dataclass(frozen=True, kw_only=True)
class Context:
    """A study's name, plan and circumstances.

    Attributes:
        name: The study's name.
        question: What it asks.
        seed: The study's seed, where there is one.
        study_hash: Hash of the settings as they are.
        stored_hash: Hash of the settings when the first verdict came; if it differs the report is
            exploratory.
        criteria: The study's own criteria, and those of the paper that it rewords.
        reworded: What was changed in the words of criteria after their first verdicts.
        texts: What was compared, in the plural.
        declared: What was declared of a bare table, and where: sentences.
        planned: The family declared beforehand: (method_a, method_b, criterion); `None` where none was.
        unfinished: What raters have still to rate of what was planned, in words.
        alpha: The error rate.
        compare: Comparisons of several to show in full, by their two methods.
        correction: For the number of tests in the family: `holm`, `bh` or `max-t`.
        margin: The largest distance of a share from one half that does not matter, where one was set.
        sequential: Whether it was declared that verdicts are looked at while they come in.
        raters: For whom the answer is to hold: the raters who take part, or raters like them.
        raters_per_item: How many raters of each kind make an item complete, where that is planned.
        assisted_by: The judge who assists people in the answer, where one was declared.
        panel: The judges who count as one besides, where that was declared.
        composite: The criteria whose weighted mean is an overall result, where one was declared.
        random_part: Whether the pairs that people rated are known to be a random part of those judged.
        metrics: The automatic metrics, where they were measured.
        examples: Pairs to show side by side.
        judging: How judges were asked: tokens, money, failures, calibration; None where none was.
        failures: (kind, count) of verdicts that could not be had.
        versions: Versions of what was used, by name.
        settings: The study's settings, shown as they stand.
        command: The command that makes this report again.
    """

    name: str
    question: str = "Which decoding strategy writes better continuations?"
    seed: int | None = None
    study_hash: str | None = None
    stored_hash: str | None = None
    criteria: tuple[Criterion, ...] = ()
    reworded: tuple[str, ...] = ()
    texts: str = "continuations"
    declared: tuple[str, ...] = ()
    planned: tuple[tuple[str, str, str], ...] | None = None
    unfinished: tuple[str, ...] = ()
    alpha: float = 0.05
    correction: Correction = "holm"
    compare: tuple[tuple[str, str], ...] = ()
    margin: float | None = None
    sequential: bool = False
    raters: Estimand = "these"
    raters_per_item: Mapping[str, int] = field(default_factory=dict)
    assisted_by: str | None = None
    panel: JudgePanel | None = None
    composite: Composite | None = None
    random_part: bool = False
    metrics: MeasuredMetrics | None = None
    examples: tuple[Pair, ...] = ()
    judging: JudgeUsage | None = None
    failures: tuple[tuple[str, int], ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    settings: str = ""
    command: str = ""

    @property
    def titles(self) -> dict[str, str]:
        """Return what the study's own criteria are called, by name."""
        return {COMPOSITE: "the composite", **{each.name: each.title for each in self.criteria}}

    @property
    def why_exploratory(self) -> tuple[str, ...]:
        """Return why the results are exploratory; nothing where the analysis is the one declared."""
        reasons = []
        if (
            self.study_hash is not None
            and self.stored_hash is not None
            and self.study_hash != self.stored_hash
        ):
            reasons.append(
                f"the settings were changed after the first verdict (then {self.stored_hash[:16]}, now "
                f"{self.study_hash[:16]})"
            )
        reasons += [f"a criterion was reworded: {what}" for what in self.reworded]
        if self.planned is None:
            reasons.append("no comparison was declared before the verdicts were collected")
        return tuple(reasons)


def versions() -> dict[str, str]:
    """Return the versions of what an analysis rests on."""
    packages = ("guard-eval", "numpy", "scipy", "statsmodels", "pandas", "matplotlib")
    return {"Python": platform.python_version(), **{name: version(name) for name in packages}}
