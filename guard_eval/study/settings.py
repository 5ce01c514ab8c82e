"""The tables of study.toml. All of them are checked at once."""

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, combinations
from typing import Annotated, Literal, Self, get_args

from pydantic import (
    AfterValidator,
    Field,
    ValidationInfo,
    field_serializer,
    field_validator,
    model_validator,
)

from guard_eval.database_url import check_database_url
from guard_eval.errors import suggest_nearest_word
from guard_eval.generation.strategies import ContrastiveDecoding, is_stochastic, parse, parse_grid
from guard_eval.records import RoundPlan, make_content_id
from guard_eval.rubric import HUMAN_CRITERIA, Criterion
from guard_eval.study.criteria_settings import (
    CriteriaNames,
    OwnCriteria,
    SettingsTable,
    StudyFile,
    make_rubric,
    refuse_duplicates,
    to_one_line,
)
from guard_eval.study.judge_settings import CONTINUATIONS, Judge
from guard_eval.study.system_settings import (
    BUNDLED,
    Code,
    Count,
    GenerationSettings,
    Model,
    Name,
    NameOfSystem,
    SmallCount,
    System,
    Tokens,
)
from guard_eval.study.test_plan import EXCLUSIVE, SplitPlan
from guard_eval.study.tuning import JUDGE, Tuning, remove_parameters

Group = Annotated[list[NameOfSystem], Field(min_length=2, max_length=100), AfterValidator(refuse_duplicates)]
Statement = Annotated[str, Field(max_length=2000), AfterValidator(to_one_line)]
Ending = Literal["completed", "no_place", "ran_out", "screened_out", "declined"]
Language = Literal["en", "de"]
"""The languages of the app that the package contains."""
# fmt: off
MetricName = Literal[
    "diversity", "mauve", "coherence", "bertscore", "perplexity", "repetition", "distinct", "self_bleu",
    "length", "speed",
]
# fmt: on


class Prompts(SettingsTable):
    """The prompts that are continued.

    Attributes:
        file: A file of prompts in the study's folder: JSON lines, `.csv` or `.txt`.
        limit: The largest number of prompts of each dataset; the first ones in the file are used. Default:
            all.
    """

    file: Name = "prompts.jsonl"
    limit: Count | None = None


class MetricSettings(SettingsTable):
    """The settings for scoring continuations. The defaults are those of the published scripts.

    Attributes:
        compute: The metrics to compute.
        coherence_model: The model whose log-likelihoods are coherence and perplexity.
        mauve_model: The model whose last hidden state represents a text.
        mauve_tokens: The number of tokens to which texts and references are cut. Shorter texts do not count.
        mauve_buckets: The number of clusters of hidden states. `auto` is a tenth of the number of texts.
        mauve_seeds: The number of runs of k-means over which the score is averaged.
        bertscore_model: The model that encodes texts and references.
        bertscore_layer: The layer of the encoder. Default: 17 for `roberta-large`, as its authors chose.
        baseline: The system that all others are compared with. Default: `greedy`, if the study has it.
        level: The confidence level of the intervals.
    """

    compute: list[MetricName] = Field(default=list(get_args(MetricName)), min_length=1)
    coherence_model: Name = "facebook/opt-2.7b"
    mauve_model: Name = "gpt2"
    mauve_tokens: Tokens = 128
    mauve_buckets: Annotated[Count, Field(ge=2, le=100_000)] | Literal["auto"] = "auto"
    mauve_seeds: SmallCount = 5
    bertscore_model: Name = "roberta-large"
    bertscore_layer: SmallCount | None = None
    baseline: NameOfSystem | None = None
    level: float = Field(default=0.95, gt=0, lt=1)


class Pairs(SettingsTable):
    """The compared systems, and the number of prompts of each dataset.

    Attributes:
        compare: Couples of systems, or groups in which each is compared with each: strategies of
            [generation], or names of [[system]]. A strategy with several settings is named without its
            parameters: `top_p`.
        per_dataset: The number of prompts that are drawn from each dataset.
        human_pairs: The number of pairs that people rate in each comparison, drawn at random. Judges rate all
            pairs. Default: all.
        design: The pairs that are rated. `fixed`: all pairs. `rounds`: a tournament in which beaten systems
            leave after a round of prompts. `candidate`: one system against each other system; a comparison
            stops when it is decided.
        rounds: The number of rounds of prompts in the designs `rounds` and `candidate`.
    """

    compare: Annotated[
        list[Group],
        AfterValidator(lambda groups: [[*couple] for group in groups for couple in combinations(group, 2)]),
        Field(min_length=1, max_length=10_000),
        AfterValidator(refuse_duplicates),
    ]
    per_dataset: Count = 50
    human_pairs: Annotated[Count, Field(ge=2)] | None = None
    design: Literal["fixed", "rounds", "candidate"] = "fixed"
    rounds: Annotated[int, Field(ge=2, le=100)] = 10

    def is_removed(self, method_a: str, method_b: str) -> bool:
        """Return whether `compare` has lost a comparison that has pairs. Rounds keep all comparisons."""
        return self.design == "fixed" and {method_a, method_b} not in map(set, self.compare)


class Pages(SettingsTable):
    """The pages that a rater sees before the first pair, besides the instructions.

    Attributes:
        consent: Ask for consent first.
        background: Ask for the language background, which raters report themselves.
        practice: Show practice pairs, with a comment on each answer.
        check: Ask questions about the instructions. A rater who fails twice rates nothing.
    """

    consent: bool = False
    background: bool = False
    practice: bool = False
    check: bool = False


class Recruitment(SettingsTable):
    """The ways to take part without an invitation by name, and the completion codes.

    Attributes:
        prolific: Let people from Prolific rate: `true`, or Prolific's id of the study, so that people from
            other studies are refused.
        oidc: Let people rate after they sign in with the provider in Streamlit's secrets.toml.
        codes: The completion codes for the platform: `completed`; `no_place`, if there was no work at the
            start; `ran_out`, if there was none after consent; `screened_out`, after a failed check;
            `declined`, without consent. An ending without a code shows only a text.
    """

    prolific: bool | Code = False
    oidc: bool = False
    codes: dict[Ending, Code] = Field(default={}, exclude=True)

    @field_serializer("prolific")
    def _serialise_prolific_as_bool(self, prolific: bool | str) -> bool:  # noqa: FBT001 (a field)
        return bool(prolific)


class Annotation(SettingsTable):
    """The questions for people, their wording, and the distribution of pairs.

    Attributes:
        criteria: The criteria on which people compare two texts, in this order: the paper's criteria, and the
            study's own.
        raters_per_pair: The number of people who rate each pair.
        lease_minutes: The time after which a pair that was shown and not rated may go to another rater, in
            minutes.
        pairs_per_rater: The largest number of pairs for one rater. Default: no limit.
        gold_every: The number of pairs between two gold pairs. Default: no gold pairs.
        gold: A file in the study's folder with gold pairs, whose better text is known: JSON lines with
            "prompt", "better" and "worse", and "criteria" if the answer is not clear on all of them.
        repeats: The number of a rater's pairs that are shown again later, with the sides swapped.
        language: The language of the app.
        wording: A TOML file in the study's folder whose words replace those of the language.
        pages: The pages before the first pair.
        recruitment: The ways to take part without an invitation by name.
    """

    criteria: CriteriaNames = list(HUMAN_CRITERIA)
    raters_per_pair: SmallCount = 4
    lease_minutes: float = Field(default=30, gt=0, le=525_600)
    pairs_per_rater: Count | None = None
    gold_every: Count | None = None
    gold: StudyFile | None = None
    repeats: int = Field(default=0, ge=0, le=1000)
    language: Language = "en"
    wording: StudyFile | None = None
    pages: Pages = Pages()
    recruitment: Recruitment = Recruitment()


class People(SettingsTable):
    """Facts about the people who rate, which only the owner knows, for reviewers' checklists.

    Attributes:
        recruited: How and where the people were recruited.
        pay_per_hour: The pay for an hour, with its currency, and how adequate it is where people live.
        ethics: The ethics board and its decision, or why none was needed.
        population: The people's characteristics: countries, ages, occupations.
    """

    recruited: Statement | None = None
    pay_per_hour: Statement | None = None
    ethics: Statement | None = None
    population: Statement | None = None


Words = Annotated[str, Field(max_length=300), AfterValidator(to_one_line)]


def _make_default_question(table: dict[str, object]) -> str:
    texts = table.get("texts", CONTINUATIONS)
    return f"Which {'decoding strategy' if texts == CONTINUATIONS else 'system'} writes better {texts}?"


class Settings(SettingsTable):
    """All settings of a study, as in study.toml.

    Attributes:
        name: The study's name on pages and in reports.
        texts: The name of the compared texts on pages, in the report and in judges' prompts: a plural, such
            as answers or summaries, in the language of the pages.
        task: The task of the systems with each prompt, in a sentence for raters and judges.
        question: The study's question, which is the first line of the report. Default: which decoding
            strategy writes better continuations, or which system writes better texts.
        seed: The seed of every random choice. The same seed gives the same texts, pairs and sides.
        database: The URL of a database server, without a password. Default: the file study.db in the study's
            folder.
        authors: The authors of the study, as they are to be cited (docs/publication.md).
        license: The SPDX identifier of the verdicts' licence, such as CC-BY-4.0.
    """

    name: Words
    texts: Words = CONTINUATIONS
    task: Words | None = None
    question: Statement = Field(default_factory=_make_default_question)
    seed: int = Field(ge=0, lt=2**63)
    database: Annotated[str, AfterValidator(check_database_url)] | None = Field(default=None, exclude=True)
    authors: list[Words] = Field(default=[], exclude=True)
    license: Words | None = Field(default=None, exclude=True)
    prompts: Prompts = Prompts()
    model: Model = Model(name=BUNDLED)
    generation: GenerationSettings = GenerationSettings()
    tuning: Tuning | None = None
    system: list[System] = Field(default=[], max_length=1000)
    metrics: MetricSettings = MetricSettings()
    pairs: Pairs
    criteria: OwnCriteria = {}
    annotation: Annotation = Annotation()
    people: People = Field(default=People(), exclude=True)
    judge: list[Judge] = Field(default=[], max_length=100)
    analysis: SplitPlan = SplitPlan()

    @property
    def rubric(self) -> dict[str, Criterion]:
        """Return the criteria that the study can name: the paper's and the study's own."""
        return make_rubric(self.criteria)

    @property
    def systems(self) -> dict[str, System]:
        """Return all systems by name: each strategy of [generation] by its signature, then [[system]].

        Every setting of a grid is a system.
        """
        return {system.name: system for system in (*self._generated_systems, *self.system)}

    @property
    def _generated_systems(self) -> list[System]:
        fields = {"name", "strategy"}
        return [
            System.model_construct(
                fields, name=name, strategy=name, setting_of=remove_parameters(text) if "[" in text else None
            )
            for text in self.generation.strategies
            for name in ([text] if "[" not in text else parse_grid(text).settings)
        ]

    @property
    def grids(self) -> dict[str, list[str]]:
        """Return the settings of each tuned strategy. [tuning] chooses one of them."""
        grids: dict[str, list[str]] = {}
        for system in self.systems.values() if self.tuning else ():
            if system.setting_of is not None:
                grids.setdefault(system.setting_of, []).append(system.name)
        return grids

    @property
    def tuning_rule_hash(self) -> str:
        """Return the hash of the rule of [tuning] and of all settings that it can choose."""
        by_judge = self.tuning is not None and JUDGE in self.tuning.scores
        metrics = self.metrics.model_dump(mode="json", exclude={"compute", "level", "baseline"})
        judged = [self.metrics.baseline, *(judge.model_dump(mode="json") for judge in self.judge)]
        tuning = self.tuning and self.tuning.model_dump(mode="json")
        return make_content_id(tuning, self.grids, metrics, judged if by_judge else [], self.seed)

    def replace_grids_by_chosen_settings(self, chosen: Mapping[str, str]) -> Self:
        """Replace each grid in pairs.compare and metrics.baseline by its chosen setting."""
        couples = [[chosen.get(name, name) for name in couple] for couple in self.pairs.compare]
        baseline = self.metrics.baseline
        metrics = self.metrics.model_copy(update={"baseline": chosen.get(baseline or "", baseline)})
        pairs = self.pairs.model_copy(update={"compare": couples})
        return self.model_copy(update={"metrics": metrics, "pairs": pairs})

    def find_writing_model(self, system: System) -> Model:
        """Return the local model that writes a system's texts."""
        return system.model or self.model

    @property
    def local_systems(self) -> list[System]:
        """Return the systems whose texts a local model writes."""
        return [system for system in self.systems.values() if system.source == "strategy"]

    def find_amateur(self, strategy: str) -> str | None:
        """Return the amateur model of a strategy, or None if the strategy is not contrastive decoding."""
        return self.model.amateur if needs_amateur(strategy) else None

    def count_texts_per_prompt(self, name: str) -> int:
        """Return the number of texts per prompt for a system, or for a strategy given by its signature.

        A file needs one text per prompt.
        """
        system = self.systems.get(name)
        if system is None or system.source == "strategy":
            drawn = is_stochastic(parse(name if system is None else str(system.strategy)))
        else:
            drawn = system.source == "server" and system.temperature != 0
        return self.generation.runs if drawn else 1

    @field_validator("judge")
    @classmethod
    def _fill_judges_from_study(cls, judges: list[Judge], info: ValidationInfo) -> list[Judge]:
        criteria_by_name = make_rubric(info.data.get("criteria", {}))
        annotation = info.data.get("annotation")
        refuse_duplicates([judge.rater_name for judge in judges])
        criteria = annotation.criteria if annotation else []
        texts = info.data.get("texts", CONTINUATIONS)
        task = info.data.get("task")
        return [
            judge.complete_with_study_settings(criteria_by_name, criteria, texts=texts, task=task)
            for judge in judges
        ]

    @model_validator(mode="after")
    def _check_tables_together(self) -> Self:
        grids = self.grids
        tried = [*chain(*grids.values())]
        # The checks below refuse a grid without [tuning].
        named = [system.setting_of for system in self._generated_systems if system.setting_of]
        systems = [*(name for name in self.systems if name not in tried), *dict.fromkeys([*grids, *named])]
        assisting = self.analysis.assisted_by
        table = "generation.strategies or [[system]]" if self.system else "generation.strategies"
        criteria = [*self.annotation.criteria, *chain(*(judge.criteria for judge in self.judge))]
        problems = [
            f"{key} names {name}, which is not in {table}: {suggest_nearest_word(name, valid_names)}"
            for key, names, table, valid_names in (
                ("pairs.compare", chain(*self.pairs.compare), table, systems),
                ("metrics.baseline", filter(None, [self.metrics.baseline]), table, systems),
                (
                    "analysis.assisted_by",
                    filter(None, [assisting]),
                    "[[judge]]",
                    [judge.rater_name for judge in self.judge],
                ),
                ("analysis.composite", self.analysis.composite or (), "annotation.criteria", criteria),
            )
            for name in dict.fromkeys(names)
            if name not in valid_names
        ]
        problems += [*self._list_model_problems(), *self._list_tuning_problems()]
        if assisting and not self.pairs.human_pairs:
            problems.append("analysis.assisted_by needs pairs that people do not rate; set pairs.human_pairs")
        if self.analysis.panel and len(self.judge) < 2:
            problems.append("analysis.panel needs two judges; add another table [[judge]], or remove panel")
        problems += self._list_round_problems()
        if problems:
            raise ValueError("\n".join(problems))
        return self

    def _list_round_problems(self) -> Iterator[str]:
        """Yield the reasons why comparisons cannot stop after a round of prompts."""
        pairs = self.pairs
        if pairs.design == "fixed":
            return
        couples = [frozenset(couple) for couple in pairs.compare]
        systems = sorted(frozenset[str]().union(*couples))
        shared = frozenset.intersection(*couples)
        if pairs.design == "rounds" and len(couples) < math.comb(len(systems), 2):
            yield (
                "pairs.design rounds compares every system with every other; write pairs.compare = "
                f"{json.dumps([systems])}"
            )
        if pairs.design == "candidate" and not shared:
            yield "pairs.design candidate needs one system in each couple of pairs.compare; remove the others"
        chosen = [f"analysis.{key}" for key in EXCLUSIVE if key in self.analysis.list_non_default_keys()]
        for key in [*chosen, *["pairs.human_pairs"] * (pairs.human_pairs is not None)]:
            yield f"{key} cannot be combined with the test of pairs.design {pairs.design}; remove one of them"

    def make_round_plan(self, criteria: Sequence[str], showings: int) -> RoundPlan | None:
        """Return the plan for stopping decided comparisons early. The first criterion decides."""
        design = self.pairs.design
        if design == "fixed":
            return None
        return RoundPlan(design=design, criterion=criteria[0], alpha=self.analysis.alpha, showings=showings)

    def _list_tuning_problems(self) -> Iterator[str]:
        """Yield the problems of grids and of the rule that chooses a setting."""
        grids = [text for text in self.generation.strategies if "[" in text]
        if self.tuning is None and grids:
            yield (
                f"generation.strategies has several settings of {grids[0]}, and nothing says which one "
                "is compared; add [tuning] with prompts and maximize, or give one value"
            )
        if self.tuning is not None and not self.grids:
            yield (
                "tuning: no strategy has several settings; give one a list of values, such as "
                "top_p(p=[0.8, 0.9]), or remove [tuning]"
            )
        if self.tuning is not None and JUDGE in self.tuning.scores:
            if not self.judge:
                yield "tuning names judge, but the study has no judge; add [[judge]]"
            if self.metrics.baseline is None or self.metrics.baseline in self.grids:
                yield "tuning names judge, but no system to compare settings with; set metrics.baseline"

    def _list_model_problems(self) -> list[str]:
        """Return the problems of models, strategies and names of systems."""
        local = self.local_systems
        problems = [
            f"{'[[system]]' if system in self.system else 'generation.strategies'} names {system.name}, "
            "which needs a smaller model: set model.amateur"
            for system in local
            if needs_amateur(str(system.strategy)) and not self.find_writing_model(system).amateur
        ]
        if "model" not in self.model_fields_set and any(system.model is None for system in local):
            problems.append("model: is missing; add it")
        names = Counter(system.name for system in (*self._generated_systems, *self.system))
        # A grid may have the same name as its setting without parameters, such as guard.
        names.update(name for name, tried in self.grids.items() if name not in tried)
        problems += [
            f"two systems are named {name}; rename one" for name, count in names.items() if count > 1
        ]
        dtypes: dict[str, set[str]] = {}
        for model in map(self.find_writing_model, local):
            dtypes.setdefault(model.name, set()).add(model.dtype)
        problems += [
            f"the model {name} has dtype auto and another dtype, so its texts cannot be told apart; set "
            "dtype in each of its tables"
            for name, model_dtypes in dtypes.items()
            if len(model_dtypes) > 1 and "auto" in model_dtypes
        ]
        writers: dict[tuple[str, str], System] = {}
        for system in local:
            model = self.find_writing_model(system)
            first = writers.setdefault((model.model_dump_json(), str(system.strategy)), system)
            if first is not system:
                problems.append(
                    f"{first.name} and {system.name} are both {system.strategy} of {model.name}; remove one"
                )
        return problems


def needs_amateur(strategy: str) -> bool:
    """Return whether the strategy with this signature needs a smaller model for contrast."""
    return isinstance(parse(strategy), ContrastiveDecoding)
