"""The tables of study.toml: what may stand there, checked all at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from guard_eval.database_url import check_url
from guard_eval.rubric import Criterion, check_weights
from guard_eval.strategies import ContrastiveDecoding, draws, parse, signature
from guard_eval.study.annotation_settings import Annotation
from guard_eval.study.criteria_settings import (
    OwnCriteria,
    SettingsContext,
    SettingsTable,
    each_once,
    matches,
    rubric,
)
from guard_eval.study.files import find_study_file
from guard_eval.study.judge_settings import Judge


def _check_inside(name: str, info: ValidationInfo) -> str:
    if isinstance(info.context, SettingsContext):
        with suppress(FileNotFoundError):  # it may be written later
            find_study_file(info.context.folder, name)
    return name


StrategyName = Annotated[str, AfterValidator(lambda text: signature(parse(text)))]
StrategyNames = Annotated[list[StrategyName], Field(min_length=1, max_length=1000), AfterValidator(each_once)]
StopString = Annotated[
    str,
    Field(min_length=1, max_length=100),
    matches("[^\ufffd]*", "no text ends before a broken character (U+FFFD); leave it out"),
]
StopStrings = Annotated[
    list[StopString],
    Field(max_length=16),
    AfterValidator(lambda texts: sorted(set(texts))),  # their order changes no text
]
Device = Annotated[
    str, matches(r"auto|cpu|cuda(:\d{1,3})?", "no device that is supported; write auto, cpu, cuda or cuda:1")
]
License = Annotated[
    str, matches("[A-Za-z0-9][A-Za-z0-9.+-]{0,63}", "no SPDX identifier; write one such as CC-BY-4.0")
]


class Prompts(SettingsTable):
    """What is to be continued.

    Attributes:
        file: A file in the study's folder: JSON lines, `.csv` or `.txt`. `guard-eval new --prompts`
            copies one there.
        limit: Only its first so many prompts.
    """

    file: Annotated[str, Field(pattern=r"^[^\x00]+$"), AfterValidator(_check_inside)] = "prompts.jsonl"
    limit: int | None = Field(default=None, ge=1)


class Model(SettingsTable):
    """Which language model continues it.

    Attributes:
        name: A Hugging Face id, a folder, or `bundled`: a small one, for trying things out.
        revision: A branch, tag or commit of the Hub; a folder has none.
        dtype: Its arithmetic; `auto` is float32 on a CPU and the model's own on a GPU.
        device: Where it runs: `auto`, `cpu`, `cuda` or `cuda:1`.
        device_map: In place of `device`: how it is spread over several, as transformers understands it.
        amateur: The smaller model of contrastive decoding.
        amateur_revision: Its branch, tag or commit.
    """

    name: str = Field(min_length=1)
    revision: str = "main"
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    device: Device = "auto"
    device_map: Annotated[str, Field(min_length=1)] | dict[str, int | str] | None = None
    amateur: str | None = Field(default=None, min_length=1)
    amateur_revision: str = "main"

    def contradictions(self) -> Iterator[str]:
        """Yield that the model lies in two places."""
        if self.device_map is not None and self.device != "auto":
            yield (
                f"device = {self.device!r} and device_map = {self.device_map!r} both say where the model "
                "lies; remove one"
            )


class GenerationSettings(SettingsTable):
    """How continuations are made.

    Attributes:
        strategies: By which strategies.
        runs: How many texts a strategy that draws writes to each prompt; others would write the same again.
        stop: A text ends before the first of these strings that it comes to.
        max_new_tokens: The length limit, in tokens.
        max_prompt_tokens: How many of a prompt's last tokens are kept.
        batch_size: How many at once, or `auto`: as many as memory holds.
        chat: Whether prompts go through the model's chat template.
        compile: Whether the model has a cache of fixed shapes, for which transformers compiles it on a GPU.
    """

    strategies: StrategyNames
    runs: int = Field(default=1, ge=1, le=1000)
    stop: StopStrings = Field(default=[])
    max_new_tokens: int = Field(default=256, ge=1, le=1_000_000)
    max_prompt_tokens: int = Field(default=256, ge=1, le=10_000_000)
    batch_size: Annotated[int, Field(ge=1)] | Literal["auto"] = "auto"
    chat: bool = False
    compile: bool = False


# fmt: off
MetricName = Literal[
    "diversity", "mauve", "coherence", "bertscore", "perplexity", "repetition", "distinct", "self_bleu",
    "length", "speed",
]
# fmt: on


class MetricSettings(SettingsTable):
    """How continuations are scored; the defaults are those of the published scripts.

    Attributes:
        compute: Which metrics.
        coherence_model: Whose log-likelihoods coherence and perplexity are.
        mauve_model: Whose last hidden state represents a text.
        mauve_tokens: Texts and references are cut to so many tokens; shorter ones do not count.
        mauve_buckets: Into how many buckets hidden states are put; `auto` is a tenth of the texts.
        mauve_scaling: The constant c.
        mauve_seeds: How many runs of k-means the score is the mean of.
        bertscore_model: The encoder.
        bertscore_layer: Which of its layers; by default the one that the metric's authors chose.
        baseline: The strategy that all others are compared with; None for no comparison.
        level: Confidence level of the intervals.
    """

    compute: list[MetricName] = Field(default=list(get_args(MetricName)), min_length=1)
    coherence_model: str = Field(default="facebook/opt-2.7b", min_length=1)
    mauve_model: str = Field(default="gpt2", min_length=1)
    mauve_tokens: int = Field(default=128, ge=1)
    mauve_buckets: Annotated[int, Field(ge=2)] | Literal["auto"] = "auto"
    mauve_scaling: float = Field(default=5.0, gt=0)
    mauve_seeds: int = Field(default=5, ge=1, le=100)
    bertscore_model: str = Field(default="roberta-large", min_length=1)
    bertscore_layer: int | None = Field(default=None, ge=1)
    baseline: StrategyName | None = None
    level: float = Field(default=0.95, gt=0, lt=1)


class Pairs(SettingsTable):
    """Which strategies are compared, on how many prompts of each dataset.

    Attributes:
        compare: Couples of strategies.
        per_dataset: Prompts drawn from each dataset.
        run: Where a strategy writes several texts a prompt, which of them is compared: 1, 2, ….
        best_of_runs: Instead, the one with the highest value of this metric. A strategy of one text a prompt
            has no choice.
        human_pairs: Of each comparison people rate so many pairs, drawn at random; a judge rates all. None
            where people rate all, too.
    """

    compare: list[Annotated[list[StrategyName], Field(min_length=2, max_length=2)]] = Field(
        min_length=1, max_length=10_000
    )
    per_dataset: int = Field(default=50, ge=1)
    run: int = Field(default=1, ge=1)
    best_of_runs: Literal["diversity", "coherence", "bertscore"] | None = None
    human_pairs: int | None = Field(default=None, ge=2)

    def contradictions(self) -> Iterator[str]:
        """Yield couples that compare nothing, or nothing new: in either order a pair is the same."""
        for (first, second), count in Counter(tuple(sorted(couple)) for couple in self.compare).items():
            if first == second:
                yield f"{first} is compared with itself; name two strategies"
            elif count > 1:
                yield f"{first} and {second} are compared {count} times; remove all entries but one"


class Analysis(SettingsTable):
    """How the verdicts will be tested, declared before there are any.

    Attributes:
        alpha: The error rate.
        correction: For the number of tests in the family: `holm` holds the chance of any error, `bh`
            (Benjamini–Hochberg) the expected share of errors among the findings.
        equivalence_margin: The largest distance of a win share from one half that does not matter; results
            are then equivalent, different, both (different but negligible) or undecided. None claims nothing.
        sequential: Verdicts are looked at while they come in, and the tests hold whenever one stops.
        raters: For whom the answer is to hold: `fixed`, the raters who take part, or `random`, all raters of
            the same kind, of whom at least three must take part.
        assisted_by: The judge, by name, whose verdicts assist people's in the answer (docs/assisted.md); None
            for an answer of people alone, beside which every judge's assistance is shown.
    """

    alpha: float = Field(default=0.05, gt=0, lt=1)
    correction: Literal["holm", "bh"] = "holm"
    equivalence_margin: float | None = Field(default=None, gt=0, lt=0.5)
    sequential: bool = False
    raters: Literal["fixed", "random"] = "fixed"
    assisted_by: str | None = None

    def contradictions(self) -> Iterator[str]:
        """Yield settings for which no test holds together."""
        alone = {"sequential = true": self.sequential, "assisted_by": self.assisted_by is not None}
        others = {
            "raters = 'random'": self.raters == "random",
            "correction = 'bh'": self.correction == "bh",
            "equivalence_margin": self.equivalence_margin is not None,
        }
        chosen = [name for name, is_set in {**alone, **others}.items() if is_set]
        if any(alone.values()) and len(chosen) > 1:
            yield f"no test holds for {' with '.join(chosen)}: remove all but one"


class Panel(SettingsTable):
    """Judges who count as one besides, declared before there are verdicts.

    Attributes:
        rule: `majority`: what more judges say than anything else; `mean`: the mean of their scores.
        members: The judges by name; all of them unless given.
    """

    rule: Literal["majority", "mean"]
    members: Annotated[list[str], Field(min_length=2), AfterValidator(each_once)] | None = None


class Publication(SettingsTable):
    """What a published data set says of itself (docs/publication.md); it changes no result.

    Attributes:
        authors: Who made the study, as they are to be cited.
        license: The SPDX identifier of the verdicts' licence, such as CC-BY-4.0.
    """

    authors: list[Annotated[str, Field(min_length=1, max_length=200)]] = Field(default=[])
    license: License | None = None


class Settings(SettingsTable):
    """All of study.toml.

    Attributes:
        name: The study's name, for pages and reports.
        question: What it asks; the report's first line.
        seed: Of every random choice: the same seed gives the same texts, pairs and sides.
        database: A server's URL, without password; default: the file study.db in the study's folder.
        composite: The weights of criteria whose weighted mean is an overall result.
    """

    name: str = Field(min_length=1)
    question: str = "Which decoding strategy writes better continuations?"
    seed: int
    database: Annotated[str, AfterValidator(check_url)] | None = None
    prompts: Prompts = Prompts()
    model: Model
    generation: GenerationSettings
    metrics: MetricSettings = MetricSettings()
    pairs: Pairs
    criteria: OwnCriteria = Field(default={})
    annotation: Annotation = Annotation()
    judge: Annotated[list[Judge], Field(max_length=100)] = Field(default=[])
    panel: Panel | None = None
    composite: Annotated[dict[str, float], AfterValidator(check_weights)] | None = None
    analysis: Analysis = Analysis()
    publication: Publication = Publication()

    @classmethod
    def read(cls, tables: dict[str, Any], folder: Path) -> Settings:
        """Return the settings in the tables of a study.toml, with what is in the study's folder.

        Raises:
            ValidationError: Something is wrong; `explain` words all of it.
        """
        custom = tables.get("criteria")
        names = frozenset(custom) if isinstance(custom, dict) else frozenset()
        return cls.model_validate(tables, context=SettingsContext(folder=folder, criteria=names))

    @property
    def rubric(self) -> dict[str, Criterion]:
        """Return the criteria that the study can name: the paper's, and its own."""
        return rubric(self.criteria)

    @field_validator("judge", mode="after")
    @classmethod
    def _judges_know_the_criteria(cls, judges: list[Judge], info: ValidationInfo) -> list[Judge]:
        known, annotation = rubric(info.data.get("criteria", {})), info.data.get("annotation")
        criteria = list(known) if annotation is None else annotation.criteria
        return [judge.in_study(known, criteria) for judge in judges]

    def amateur_of(self, strategy: str) -> str | None:
        """Return the amateur that a strategy, by its signature, is given: contrastive decoding's, or None."""
        return self.model.amateur if needs_amateur(strategy) else None

    def runs_of(self, strategy: str) -> int:
        """Return how many texts a strategy, by its signature, writes to each prompt."""
        return self.generation.runs if draws(parse(strategy)) else 1

    @property
    def judge_names(self) -> list[str]:
        """Return what the judges are called as raters."""
        return [judge.rater_name for judge in self.judge]

    def contradictions(self) -> Iterator[str]:
        """Yield what tables say against each other."""
        yield from self._unknown_names()
        pairs, runs, panel, assisting = (
            self.pairs,
            self.generation.runs,
            self.panel,
            self.analysis.assisted_by,
        )
        asked = [self.annotation.criteria, *(judge.criteria for judge in self.judge)]
        if pairs.run > runs:
            yield f"pairs.run = {pairs.run}, and generation.runs = {runs}; lower the one, or raise the other"
        if pairs.best_of_runs is not None and (pairs.run != 1 or runs == 1):
            remedy = "remove pairs.run" if pairs.run != 1 else "raise generation.runs, or remove it"
            yield f"pairs.best_of_runs = {pairs.best_of_runs!r} chooses among several runs; {remedy}"
        for name in filter(needs_amateur, self.generation.strategies if self.model.amateur is None else ()):
            yield (
                f"generation.strategies names {name}, which needs a second, smaller model; name it as "
                "model.amateur, or remove the strategy"
            )
        for name, count in Counter(self.judge_names).items():
            if count > 1:
                yield f"{count} judges are called {name}; give each its own name, or ask one in samples"
        if assisting is not None and pairs.human_pairs is None:
            yield "analysis.assisted_by needs pairs that people do not rate; set pairs.human_pairs"
        if panel is not None and len(self.judge) < 2:
            yield (
                f"[panel] needs two judges or more, and study.toml has {len(self.judge)}; add a [[judge]], "
                "or remove [panel]"
            )
        if self.composite and not any(self.composite.keys() <= set(criteria) for criteria in asked):
            yield (
                f"composite is of {', '.join(self.composite)}, and neither people nor any judge is asked all "
                f"of these; name some that are asked together (people: {', '.join(self.annotation.criteria)})"
            )

    def _unknown_names(self) -> Iterator[str]:
        """Yield names of strategies, judges and criteria that other tables do not have."""
        strategies, judges = self.generation.strategies, self.judge_names
        panel = self.panel.members if self.panel else None
        names: tuple[tuple[str, Iterable[str | None], str, list[str]], ...] = (
            ("pairs.compare", chain.from_iterable(self.pairs.compare), "generation.strategies", strategies),
            ("metrics.baseline", [self.metrics.baseline], "generation.strategies", strategies),
            ("analysis.assisted_by", [self.analysis.assisted_by], "[[judge]]", judges),
            ("panel.members", panel or (), "[[judge]]", judges),
        )
        for key, named, where, known in names:
            for name in dict.fromkeys(named):
                if name is not None and name not in known:
                    choice = ", ".join(known) or "none"
                    yield f"{key} names {name}, which {where} does not; add it, or choose from: {choice}"


def needs_amateur(strategy: str) -> bool:
    """Return whether a strategy, by its signature, contrasts the model with a smaller one."""
    return isinstance(parse(strategy), ContrastiveDecoding)
