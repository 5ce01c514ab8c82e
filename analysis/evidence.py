"""The input of every analysis: the scored verdicts, and the declarations about them."""

import json
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, wraps
from importlib.metadata import version
from itertools import chain
from types import MappingProxyType
from typing import Annotated, Literal, Self, TypeVar, cast

import pandas as pd
from pydantic import Field

from analysis.scores.likeness import Conduct
from analysis.scores.scores import CELL, Planned, ScoredVerdicts, describe_composite, group_connected_methods
from analysis.verdicts.table import has_named_raters
from guard_eval.errors import StudyError
from guard_eval.estimate import Adjustment
from guard_eval.metrics.scores import Score
from guard_eval.records import PEOPLE, Contest, Couple, DeclaredPart, JsonObject, Pair, record
from guard_eval.rubric import COMPOSITE, Criterion
from guard_eval.study.test_plan import TestPlan
from guard_eval.study.tuning import Choice

CORRECTION_NAMES = {"holm": "Holm", "bh": "Benjamini–Hochberg", "max-t": "max-T"}
ALL = "all datasets"
"""The name of the dataset for a result over all datasets."""
MIN_RANKED = 3
"""The smallest number of methods for a ranking."""
MAX_IN_FULL = 24
"""With several methods, all comparisons are analysed in full only up to this number of results."""


@record
class Exclusion:
    """A rater whose verdicts were excluded by the owner of the study.

    Attributes:
        rater: The rater's name.
        rater_kind: The rater's kind.
        reason: The reason, in the owner's words.
        at: The time of the exclusion, in ISO 8601, UTC.
        results: Whether the exclusion was `before` or `after` the results were first reported or exported.
        verdicts: The number of verdicts that do not count.
        included: Whether the rater was included again `before` or `after` the results were first reported or
            exported; empty if the rater is still excluded. Of a rater who was included again, only verdicts
            on pairs that others had taken meanwhile do not count.
    """

    rater: str
    rater_kind: str
    reason: str
    at: str
    results: Literal["before", "after"]
    verdicts: int
    included: Literal["", "before", "after"] = ""

    @property
    def decisions(self) -> str:
        """Return what was decided and when, to be followed by "the results were first seen"."""
        if self.included == self.results:
            return f"excluded and included again {self.results}"
        inclusion = f" and included again {self.included}" if self.included else ""
        return f"excluded {self.results}{inclusion}"


def list_software_versions() -> dict[str, str]:
    """Return the versions of the software that an analysis uses."""
    packages = ("guard-eval", "numpy", "scipy", "statsmodels", "pandas", "matplotlib")
    return {"Python": platform.python_version(), **{name: version(name) for name in packages}}


HexDigits = Annotated[str, Field(pattern=r"^[0-9a-f]{8,64}$")]
"""A part of a hash, which may be a part of a file's name."""


@record
class AskedPrompt:
    """One form of a judge's questions: its prompt without the texts, and the numbers of its results."""

    judge: str
    id: HexDigits
    prompt: HexDigits
    description: str
    manner: str
    text: str
    answers: int
    verdicts: int

    @property
    def file_name(self) -> str:
        """The name of the report's file with a whole request."""
        return f"{self.prompt}-{self.id[:8]}.txt"


@record
class SpendingRow:
    """Tokens and dollars of one judge over all runs, including calibration.

    Attributes:
        judge: The judge's name.
        requests: The number of requests, except those that were certainly not billed.
        answers: The number of answers.
        lost: The number of requests whose answer never came.
        open: The number of requests that are not answered yet.
        unmetered: The number of answers without token counts.
        input_tokens, cached_tokens, output_tokens, reasoning_tokens: The numbers of tokens.
        usd: The smallest possible cost of the answers.
        held_usd: The dollars that are reserved for lost and open requests.
        unpriced: The number of requests whose cost is unknown, and which no sum includes.
    """

    judge: str
    requests: int
    answers: int
    lost: int
    open: int
    unmetered: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    reasoning_tokens: int
    usd: float
    held_usd: float
    unpriced: int


@record
class FailureRow:
    """A reason for missing verdicts: the judge, the kind, the number, and one example."""

    judge: str
    kind: str
    count: int
    reason: str


@record
class ModelRow:
    """A model and fingerprint that answered a judge's requests: count, first time and last time in UTC."""

    judge: str
    model: str | None
    fingerprint: str | None
    answers: int
    first: datetime
    last: datetime


@record
class CalibrationItem:
    """A judge's answers about a pair with a known answer, on one criterion.

    Attributes:
        orders: The number of orders in which the pair was asked about.
        answers: The preferred texts: `target` is the text that the check is about.
    """

    judge: str
    criterion: str
    check: Literal["identical", "shuffled", "swapped", "padded"]
    orders: int
    answers: tuple[Literal["target", "other", "tie"], ...]


@record
class JudgeUsage:
    """The facts about the requests to judges, from the store's `read_judge_usage`."""

    prompts: tuple[AskedPrompt, ...] = ()
    spent: tuple[SpendingRow, ...] = ()
    failed: tuple[FailureRow, ...] = ()
    seen: tuple[ModelRow, ...] = ()
    checked: tuple[CalibrationItem, ...] = ()


@record
class StudyFacts:
    """The facts of a study that change or weaken its answer. They travel beside its table of verdicts.

    Attributes:
        study_hash: The hash of everything that can change a result.
        parts: The settings for people and for each judge, with the changes after the first verdict.
        criteria: The study's own criteria, and the criteria of the paper that the study rewords.
        reworded: The changes in the words of criteria after the first verdicts on them.
        has_late_pairs: Pairs were added to a comparison after the comparison's first verdict.
        declared: Sentences that say what was declared, and where.
        unfinished: Sentences about the planned ratings that are missing.
        raters_per_item: The planned number of raters of each kind for a complete item.
        judging: The facts about the requests to judges; empty without judges.
        choice: The choice of a setting of each strategy by [tuning]; None without a choice.
        unknown_searches: The systems whose texts come from files and whose strategy has only one setting in
            the study.
        exclusions: The excluded raters.
        shares_with_excluded: The results with the verdicts of excluded raters, as phrases, if these verdicts
            themselves are not known.
        conduct: The number of pairs on which the app counted copies and programs, by rater.
    """

    study_hash: str | None = None
    parts: tuple[DeclaredPart, ...] = ()
    criteria: tuple[Criterion, ...] = ()
    reworded: tuple[str, ...] = ()
    has_late_pairs: bool = False
    declared: tuple[str, ...] = ()
    unfinished: tuple[str, ...] = ()
    raters_per_item: Mapping[str, int] = field(default_factory=dict)
    judging: JudgeUsage = field(default_factory=JudgeUsage)
    choice: Choice | None = None
    unknown_searches: tuple[str, ...] = ()
    exclusions: tuple[Exclusion, ...] = ()
    shares_with_excluded: tuple[str, ...] = ()
    conduct: Conduct = field(default_factory=dict)


@record
class Context(StudyFacts):
    """Everything that a report states about a study besides the verdicts.

    Attributes:
        name: The study's name.
        question: The question of the study.
        seed: The study's seed, if there is one.
        texts: The kind of compared texts, in the plural.
        ties: Whether raters could choose a tie; None if this is unknown.
        planned: The results declared beforehand: (method_a, method_b, criterion); None without a declaration.
        plan: The plan for testing the verdicts.
        compare: The requested comparisons of several methods, which are analysed in every way.
        by: The declared columns for splitting results. The test whether a result depends on such a column
            belongs to the family of the result.
        explored: Further columns, which were chosen later and cannot support a claim.
        contests: The rounds of a study whose comparisons stop early, by the kind of raters and the judge.
        random_part: Whether the pairs that people rated are known to be a random part of the judged pairs.
        metrics: The scores of automatic metrics.
        examples: The pairs that are shown side by side.
        with_excluded: All verdicts, including those of excluded raters; None if nobody was excluded.
        people: The study's facts about the people who rated, for a checklist (`reports.checklist`).
        versions: The versions of the software, by name.
        settings: The study's present settings.
        command: The command that writes this report.
    """

    name: str
    question: str = "Which decoding strategy writes better continuations?"
    seed: int | None = None
    texts: str = "continuations"
    ties: bool | None = None
    planned: Planned | None = None
    plan: TestPlan = field(default_factory=TestPlan)
    compare: tuple[Couple, ...] = ()
    by: tuple[str, ...] = ()
    explored: tuple[str, ...] = ()
    contests: Mapping[tuple[str, str], Contest] = field(default_factory=dict)
    random_part: bool = False
    metrics: tuple[Score, ...] = ()
    examples: tuple[Pair, ...] = ()
    with_excluded: pd.DataFrame | None = None
    people: JsonObject | None = None
    versions: Mapping[str, str] = field(default_factory=list_software_versions)
    settings: str = ""
    command: str = ""

    @property
    def composite(self) -> str:
        """Describe the declared composite of criteria; empty without a composite."""
        return "" if self.plan.composite is None else describe_composite(self.plan.composite)

    @property
    def titles(self) -> dict[str, str]:
        """Return the titles of the study's own criteria, by name."""
        return {
            COMPOSITE: "the composite",
            **{criterion.name: criterion.title for criterion in self.criteria},
        }

    def describe_changed_settings(self, *, deciding: bool) -> Iterator[str]:
        """Describe the settings that changed after the first verdict of people, or of a judge.

        Args:
            deciding: Whether to describe those of people (without people's verdicts, of judges), or the rest.
        """
        has_people = any(declared.name == PEOPLE and declared.first_hash for declared in self.parts)
        for declared in self.parts:
            is_people = declared.name == PEOPLE
            if declared.changes and (is_people == has_people) == deciding:
                whose = "" if is_people else f" of {declared.name}"
                yield f"settings were changed after the first verdict{whose}: {'; '.join(declared.changes)}"

    @property
    def exploratory_reasons(self) -> tuple[str, ...]:
        """Return the reasons why the results are exploratory; none if the declared analysis was followed."""
        if self.planned is None:
            return (*self.late_changes, "no comparison was declared before the verdicts were collected")
        return self.late_changes

    @property
    def late_changes(self) -> tuple[str, ...]:
        """Return the changes after the first verdict that make the results exploratory."""
        reworded = (f"a criterion was reworded: {what}" for what in self.reworded)
        is_larger = self.has_late_pairs and not self.plan.sequential
        late_pairs = ("pairs were added to a comparison after its first verdict",) if is_larger else ()
        return (*self.describe_changed_settings(deciding=True), *reworded, *late_pairs)


PLAN_KEYS = tuple(TestPlan.model_fields)
SHARE_KEYS = ("alpha", "correction", "weights", "raters", "panel", "composite")
"""The settings of a test plan that change a win share, its interval or its test."""
DECIDED = frozenset({*SHARE_KEYS, "margin", "sequential", "assisted_by"})
"""Settings that may be declared even if an analysis does not use them. Others then raise an error."""
UNNAMED_RATERS = (
    'raters = "random": the table does not say which rater gave which verdict. Add a column rater, or remove '
    "this setting"
)
R = TypeVar("R")

USED_PLAN_KEYS: dict[Callable[..., object], frozenset[str]] = {}
"""For each analysis, the settings of the test plan that change its rows."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """Scored verdicts and their context. The evidence is made once, and no analysis changes it.

    Attributes:
        scored: The verdicts; `scored.scores` has a row per rater and pair, `scored.items` one per pair.
        context: The declarations, and other circumstances of the study.
    """

    scored: ScoredVerdicts
    context: Context
    _rows: dict[object, object] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def from_verdicts(cls, table: pd.DataFrame, context: Context) -> Self:
        """Score a validated table according to the declarations in `context`.

        Raises:
            StudyError: Raters are declared to be a sample, but the table does not identify the raters.
        """
        plan = context.plan
        scored = ScoredVerdicts.from_verdicts(table, context.planned, plan.panel, plan.composite)
        evidence = cls(scored=scored, context=context)
        if plan.raters == "random" and not evidence.are_raters_known:
            raise StudyError(UNNAMED_RATERS)
        return evidence

    def rows(self, analyse: Callable[["Evidence"], Sequence[R]]) -> Sequence[R]:
        """Run an analysis once, and return its rows. Example: `evidence.rows(measure_agreement)`.

        The argument is the function itself, so that mypy knows the class of the rows.
        """
        if analyse not in self._rows:
            self._rows[analyse] = analyse(self)
        return cast(Sequence[R], self._rows[analyse])

    @property
    def plan(self) -> TestPlan:
        """Return the plan for testing the verdicts."""
        return self.context.plan

    @property
    def frame(self) -> pd.DataFrame:
        """Return the table of verdicts, in which each comparison has one order of its methods."""
        return self.scored.frame

    @cached_property
    def are_raters_known(self) -> bool:
        """Return whether the table says which rater gave each verdict."""
        return has_named_raters(self.frame)

    def count_raters(self, scores: pd.DataFrame) -> int | None:
        """Count the raters who gave these scores; None if the table does not name the raters."""
        return int(scores["rater"].nunique()) if self.are_raters_known else None

    @property
    def adjustment(self) -> Adjustment:
        """Return the correction for tests without sign flips: Holm replaces max-T, which needs sign flips."""
        return "holm" if self.plan.correction == "max-t" else self.plan.correction

    @cached_property
    def has_early_stopping(self) -> bool:
        """Return whether comparisons stop once decided. Then tests for a fixed sample are invalid."""
        rounds = self.frame.get("prompt_round", pd.Series(0, index=self.frame.index))
        return bool((rounds > 0).any())

    @property
    def seed(self) -> int:
        """Return the seed of randomly drawn signs and errors."""
        return self.context.seed or 0

    @cached_property
    def comparisons(self) -> tuple[Couple, ...]:
        """Return the two methods of each comparison."""
        pairs = self.scored.scores[CELL[:2]].drop_duplicates()
        return tuple(sorted(pairs.itertuples(index=False, name=None)))

    @cached_property
    def is_ranked(self) -> bool:
        """Return whether raters of one kind compared three connected methods or more on one criterion."""
        compared = self.scored.scores[CELL].drop_duplicates()
        groups = [
            group_connected_methods(result[CELL[:2]].itertuples(index=False, name=None))
            for _, result in compared.groupby(CELL[2:], sort=False)
        ]
        return any(len(methods) >= MIN_RANKED for methods in chain(*groups))

    @cached_property
    def detailed_comparisons(self) -> tuple[Couple, ...]:
        """Return the comparisons that are analysed in every way: the requested ones, or all if they are few.

        Raises:
            StudyError: A requested comparison does not exist.
        """
        chosen = tuple(self._find_comparison_of_methods(a, b) for a, b in self.context.compare)
        if chosen or not self.is_ranked:
            return chosen or self.comparisons
        results = len(self.scored.scores[CELL].drop_duplicates())
        return self.comparisons if results <= MAX_IN_FULL else ()

    @cached_property
    def detailed_verdicts(self) -> ScoredVerdicts:
        """Return the scored verdicts on the comparisons to analyse in full, or all if there are none."""
        chosen = self.detailed_comparisons
        return self.scored.restrict_to_comparisons(chosen) if chosen else self.scored

    def _find_comparison_of_methods(self, a: str, b: str) -> Couple:
        """Return the comparison of two methods, with the methods in the order of the table."""
        for pair in self.comparisons:
            if set(pair) == {a, b}:
                return pair
        names = ", ".join(sorted({name for pair in self.comparisons for name in pair}))
        raise StudyError(
            f"{a!r} and {b!r} are not compared with each other; name two of these methods: {names}"
        )


def declare_plan_keys(
    *uses: str,
    refuses: Mapping[str, str] = MappingProxyType({}),
    needs: Callable[[Evidence], object] = lambda _: True,
) -> Callable[[Callable[[Evidence], Iterable[R]]], Callable[[Evidence], list[R]]]:
    """Declare the keys of the plan that an analysis uses. The other keys in `DECIDED` do not change the rows.

    The declared analysis returns a list, even if the analysis itself yields its rows.

    Args:
        uses: The keys that change the rows.
        refuses: The keys that the analysis cannot use, each with the reason and the remedy.
        needs: A condition on the evidence. If it is false, the analysis has no rows and refuses no key.
    """
    if unknown := {*uses, *refuses}.difference(PLAN_KEYS):
        raise ValueError(f"{', '.join(sorted(unknown))}: not a key of the plan; use {', '.join(PLAN_KEYS)}")

    def wrap(analyse: Callable[[Evidence], Iterable[R]]) -> Callable[[Evidence], list[R]]:
        @wraps(analyse)
        def analyse_after_checks(evidence: Evidence) -> list[R]:
            if not needs(evidence):
                return []
            for key in sorted(evidence.plan.list_non_default_keys()):
                if key in refuses or key not in DECIDED.union(uses):
                    why = refuses.get(key, f"{analyse.__name__} does not use this setting; leave it out")
                    raise StudyError(f"{key} = {json.dumps(getattr(evidence.plan, key))}: {why}")
            return list(analyse(evidence))

        USED_PLAN_KEYS[analyse_after_checks] = frozenset(uses)
        return analyse_after_checks

    return wrap
