"""The `[[judge]]` tables of study.toml: the models that judge, and the form of their requests."""

import re
from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, JsonValue, PrivateAttr, ValidationError
from pydantic_core import from_json

from guard_eval.records import Choice
from guard_eval.rubric import CRITERIA, Criterion, select_criteria
from guard_eval.study.criteria_settings import CriteriaNames, SettingsTable, StudyFile, to_one_line
from guard_eval.study.served_model import ServedModel, refuse_reserved_names
from guard_eval.study.toml import format_validation_problems

_OWN_FIELDS = (
    "models?|fallbacks|messages|input|prompt|instructions|system|contents|chattemplate|conversation|background"
    "|previousresponseid|max(?:completion|output)?tokens|responseformat|text|guided.*|structuredoutputs|grammar"
    "|n|bestof|seed|temperature|reasoning(?:effort)?|stream|store|tools|toolchoice|functions|mcpservers"
    "|plugins|websearchoptions|logitbias|logitsprocessors|extra(?:body|headers|query)|apikey|baseurl|timeout"
)
"""Fields of a request that this program sets, or that would change the question or force a verdict."""

CONTINUATIONS = "continuations"
"""The default name of the compared texts: the paper's word."""

_PLACEHOLDER = re.compile(r"\{\{([^{}\n]*)\}\}")
PLACEHOLDERS = ("criteria", "judgments", "count", "metrics", "texts", "task")
"""The placeholders of a prompt template. A template must have `criteria`."""


class JudgedExample(SettingsTable):
    """A pair with its verdict, which a judge reads before each question.

    `id` is a name that no pair of the study has. `a` and `b` are the texts of Method A and Method B.
    """

    id: str | None = None
    prompt: str
    a: str
    b: str
    verdict: dict[str, Choice] = Field(min_length=1)
    rationale: str | None = Field(default=None, min_length=1, max_length=1000)


class _Examples(SettingsTable):
    """All examples in a judge's file of examples, so that they are checked together."""

    example: list[JudgedExample] = Field(min_length=1, max_length=64)


def fill_template(template: str, values: Mapping[str, str]) -> str:
    """Return a template with its placeholders filled in. Placeholders in inserted values stay unchanged.

    >>> fill_template('{{count}} of {{ all }}, as {"json": {}}', {"count": "two", "all": "{{count}}"})
    'two of {{count}}, as {"json": {}}'
    """
    return _PLACEHOLDER.sub(lambda match: values[match[1].strip()], template)


@lru_cache(maxsize=16)
def read_judged_examples(text: str) -> tuple[JudgedExample, ...]:
    """Return the examples in a file's text, which has a JSON object per line.

    Raises:
        ValueError: A line is not an example, or the number of examples is 0 or too large.
    """
    tables = {"example": from_json("[" + ",\n".join(filter(str.strip, text.split("\n"))) + "]")}
    try:
        return tuple(_Examples.model_validate(tables).example)
    except ValidationError as error:
        problems = format_validation_problems(error, _Examples, tables)
    raise ValueError("\n".join(problems))


def _check_prompt_placeholders(file: StudyFile) -> StudyFile:
    names = sorted({name.strip() for name in _PLACEHOLDER.findall(file.text)})
    if "criteria" not in names or not set(names) <= {*PLACEHOLDERS}:
        names_allowed = ", ".join(f"{{{{{name}}}}}" for name in PLACEHOLDERS)
        raise ValueError(
            f"the prompt has the placeholders {names}; it needs {{{{criteria}}}}, and may have only "
            f"{names_allowed}"
        )
    return file


JudgeName = Annotated[str, Field(max_length=100), AfterValidator(to_one_line)]


class Judge(ServedModel):
    """A language model as a rater, at any server that speaks one of OpenAI's interfaces.

    Attributes:
        name: The judge's name as a rater. Default: the model's name.
        criteria: The criteria on which the judge compares two texts, in this order. Default: those of people.
        prompt: A file in the study's folder with instructions that replace the paper's.
        examples: A file in the study's folder with pairs and their verdicts, which are shown before each
            pair.
        rationale: Ask for a short rationale before the verdict.
        orders: Judge each pair in `both` orders, or in `one` order that the study's seed draws.
        samples: The number of requests for each order. Each sample is a row of its own.
        style: The interface: `chat` completions, `responses`, or the one that the server takes.
        output: The form of the answer. `auto` begins with a strict schema.
        reasoning_effort: The effort of a model that reasons. Default: the server's own.
        max_output_tokens: The largest length of an answer in tokens, reasoning included. Default: 512, and
            8192 as soon as an answer is cut off or shows that the model reasons.
        temperature: The temperature of sampling. Default: 0, or nothing with `reasoning_effort`, with several
            samples, or for a model that turns out to reason. `default` never sends it.
        extra_body: Fields that are added to the body of each request. Fields that this program sets are
            refused.
    """

    name: JudgeName | None = Field(default=None, exclude=True)
    criteria: CriteriaNames = list(CRITERIA)
    prompt: Annotated[StudyFile, AfterValidator(_check_prompt_placeholders)] | None = None
    examples: (
        Annotated[StudyFile, AfterValidator(lambda file: read_judged_examples(file.text) and file)] | None
    ) = None
    rationale: bool = False
    orders: Literal["both", "one"] = "both"
    samples: int = Field(default=1, ge=1, le=100)
    style: Literal["auto", "chat", "responses"] = "auto"
    output: Literal["auto", "json_schema", "text"] = "auto"
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    max_output_tokens: int | None = Field(default=None, ge=64, le=10**7)
    temperature: Annotated[float, Field(ge=0, le=2)] | Literal["default"] | None = None
    extra_body: Annotated[
        dict[str, JsonValue], AfterValidator(partial(refuse_reserved_names, _OWN_FIELDS))
    ] = Field(default_factory=dict)

    _known: dict[str, Criterion] = PrivateAttr(default=CRITERIA)
    _texts: str = PrivateAttr(default=CONTINUATIONS)
    _task: str | None = PrivateAttr(default=None)

    @property
    def rater_name(self) -> str:
        """Return the name of the judge as a rater: the judge's own name, or else the model's name."""
        return self.name or self.model

    @property
    def asks_to_reason(self) -> bool:
        """Return whether the study asks the model to reason before it answers."""
        return self.reasoning_effort not in (None, "none")

    @property
    def rubric(self) -> tuple[Criterion, ...]:
        """Return the criteria with their titles and definitions, in the order in which they are judged."""
        return select_criteria(self.criteria, self._known)

    @property
    def judged_examples(self) -> tuple[JudgedExample, ...]:
        """Return the examples that are shown before each pair."""
        return () if self.examples is None else read_judged_examples(self.examples.text)

    @property
    def name_of_texts(self) -> str:
        """Return the study's word for the compared texts, such as "summaries"."""
        return self._texts

    @property
    def task(self) -> str | None:
        """Return the task that the texts were written for, if the study names a task."""
        return self._task

    def complete_with_study_settings(
        self, rubric: dict[str, Criterion], criteria: list[str], *, texts: str, task: str | None
    ) -> Self:
        """Return this judge with the settings of the study. By default, a judge has the criteria of people.

        Raises:
            ValueError: An example lacks one of the judge's criteria.
        """
        has_criteria = "criteria" in self.model_fields_set
        judge = self.model_copy(update={} if has_criteria else {"criteria": criteria})
        judge._known = rubric  # noqa: SLF001 (of the same class)
        judge._texts = texts  # noqa: SLF001
        judge._task = task  # noqa: SLF001
        for number, example in enumerate(judge.judged_examples, start=1):
            lacking = [name for name in judge.criteria if name not in example.verdict]
            lacking += ["rationale"] if judge.rationale and example.rationale is None else []
            if lacking:
                name = f"{judge.rater_name}: example {number}"
                raise ValueError(f"{name} has no {', '.join(lacking)}; add every answer of this judge")
        return judge
