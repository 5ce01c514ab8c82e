"""The `[[judge]]` tables of study.toml: which models rate, how they are asked, and what their tokens cost.

A study.toml is a stranger's file and is passed on: it holds no secret, and what it adds to requests does not
change what is asked, of which model, and in which form.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, JsonValue, PrivateAttr, TypeAdapter, ValidationError

from guard_eval.records import Choice
from guard_eval.rubric import CRITERIA, Criterion, check_name, criteria
from guard_eval.study.criteria_settings import CriteriaNames, SettingsTable
from guard_eval.study.files import StudyFile, study_file
from guard_eval.study.problems import message_of

_OWN_FIELDS = re.compile(
    "models?|fallbacks|messages|input|prompt|instructions|system|contents|chattemplate|conversation|background"
    "|previousresponseid|max(?:completion|output)?tokens|responseformat|text|guided.*|structuredoutputs|grammar"
    "|n|bestof|seed|temperature|topp|reasoning(?:effort)?|stream|store|tools|toolchoice|functions|mcpservers"
    "|plugins|websearchoptions|logitbias|logitsprocessors|extra(?:body|headers|query)|apikey|baseurl|timeout"
)
"""Fields of a request, without `_` and in lower case, that this program sets, or that would change what is
asked or choose the verdict."""

_SECRET = re.compile(
    r"^(?:bearer|basic)\s|\b(?:sk|key)-[\w-]{8,}|\bAIza[\w-]{20,}|\beyJ[\w-]{20,}", re.IGNORECASE
)
_SECRET_HEADER = re.compile(
    r"auth|cookie|credential|passw|secret|(?:^|[-_])(?:key|token)s?(?:[-_]|$)|apikey", re.IGNORECASE
)
_FIXED_HEADER = re.compile(
    "host|connection|content-.*|transfer-encoding|accept.*|te|trailer|upgrade|expect", re.IGNORECASE
)
_NEUTRAL_HEADERS = {"http-referer", "x-title", "user-agent"}
"""Headers that only name who asks."""

PLACEHOLDERS = ("criteria", "judgments", "count", "metrics")
"""What a prompt template can have filled in; `criteria` must be there."""

_PLACEHOLDER = re.compile(r"\{\{[ \t]*([^{}\n]*?)[ \t]*\}\}")

LONGEST_PROMPT_BYTES, LONGEST_EXAMPLES_BYTES = 2**15, 2**20


@cache
def _reasoning_models() -> re.Pattern[str]:
    text = Path(__file__).with_name("reasoning.toml").read_text(encoding="utf-8")
    patterns = [each for family in tomllib.loads(text)["family"] for each in family["models"]]
    return re.compile("|".join(f"(?:{each})" for each in patterns), re.IGNORECASE)


def reasons(settings: Mapping[str, Any]) -> bool:
    """Return whether a model reasons before it answers, by its table: reasoning.toml or its effort says so.

    >>> [reasons({"model": name}) for name in ("openai/o3", "Qwen/Qwen3-8B", "gpt-5-chat-latest", "olmo-2")]
    [True, True, False, False]
    """
    model = str(settings.get("model", "")).rpartition("/")[2]
    known = _reasoning_models().fullmatch(model) is not None
    return known or settings.get("reasoning_effort") not in (None, "none")


def _check_body(fields: dict[str, JsonValue]) -> dict[str, JsonValue]:
    for name, value in fields.items():
        if _OWN_FIELDS.fullmatch(re.sub("[_-]", "", name).lower()):
            raise ValueError(f"extra_body cannot contain {name!r}; use the judge's own setting, or remove it")
        if str(value).lower() in ("priority", "fast"):
            raise ValueError(f"extra_body.{name} = {value!r} costs more than the known prices; remove it")
        if _SECRET.search(str(value)):
            raise ValueError(f"extra_body.{name} looks like a key; name its variable in api_key_env instead")
    return fields


def _check_headers(headers: dict[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if _FIXED_HEADER.fullmatch(name):
            raise ValueError(f"headers cannot contain {name!r}; remove it")
        if _SECRET_HEADER.search(name) or _SECRET.search(value):
            raise ValueError(
                f"the header {name!r} looks like a secret; name its variable in api_key_env instead"
            )
    if len({name.lower() for name in headers}) < len(headers):
        raise ValueError("headers names one twice, in upper and lower case; remove one")
    return headers


class JudgedExample(SettingsTable):
    """A pair with its verdict, shown to a judge before the pair that is asked about.

    `id` is a name that no pair of the study has; `a` and `b` are the texts shown as Method A's and B's.
    """

    id: str | None = None
    prompt: str
    a: str
    b: str
    verdict: dict[str, Choice] = Field(min_length=1)
    rationale: str | None = Field(default=None, min_length=1, max_length=1000)


_EXAMPLES = TypeAdapter(Annotated[list[JudgedExample], Field(min_length=1, max_length=64)])


def fill(template: str, values: Mapping[str, str]) -> str:
    """Return a template with its placeholders filled in, once: what is filled in is not read again.

    >>> fill('{{count}} of {{ criteria }}, as {"json": {}}', {"count": "two", "criteria": "{{count}}"})
    'two of {{count}}, as {"json": {}}'
    """
    return _PLACEHOLDER.sub(lambda match: values[match[1]], template)


@lru_cache(maxsize=16)
def read_examples(text: str) -> tuple[JudgedExample, ...]:
    """Return the examples in a file's text: a JSON object a line.

    Raises:
        ValueError: A line is no example, or there are none, or too many.
    """
    lines = [line for line in text.split("\n") if line.strip()]
    try:
        return tuple(_EXAMPLES.validate_json("[" + ",\n".join(lines) + "]"))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        number, *keys = first["loc"] or ("JSON",)
        where = ": ".join([f"example {number + 1}" if isinstance(number, int) else number, *map(str, keys)])
        raise ValueError(
            f'{where}: {message_of(first)}; write 1 to 64 lines, each a JSON object with "prompt", "a", "b", '
            '"verdict" ("A", "tie" or "B" for each criterion) and, if you like, "id" and "rationale"'
        ) from None


def _check_template(file: StudyFile) -> StudyFile:
    names = _PLACEHOLDER.findall(file.text)
    known = ", ".join(f"{{{{{name}}}}}" for name in PLACEHOLDERS)
    if unknown := [name for name in names if name not in PLACEHOLDERS]:
        raise ValueError(f"{{{{{unknown[0]}}}}} is not filled in; known are: {known}")
    if "criteria" not in names:
        raise ValueError("it lacks {{criteria}}, the numbered criteria; write it where they belong")
    return file


def _check_judge_name(name: str) -> str:
    if not name.strip() or not name.isprintable() or len(name) > 100:  # it is shown in terminals, too
        raise ValueError("a judge's name has 1 to 100 printable characters")
    return name


JudgeName = Annotated[str, AfterValidator(_check_judge_name)]
PromptFile = Annotated[StudyFile, study_file(most=LONGEST_PROMPT_BYTES), AfterValidator(_check_template)]
ExamplesFile = Annotated[
    StudyFile,
    study_file(most=LONGEST_EXAMPLES_BYTES),
    AfterValidator(lambda file: read_examples(file.text) and file),
]
HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$")]
HeaderValue = Annotated[str, Field(pattern=r"^[!-~]([ -~]*[!-~])?$")]
Temperature = Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)] | Literal["default"]
Usd = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Judge(SettingsTable):
    """A language model as a rater, at any server that speaks one of OpenAI's interfaces.

    Attributes:
        name: What it is called as a rater; the model's name by default.
        model: The model, as its server calls it; pin a snapshot if there are any.
        base_url: The server; the environment's (OPENAI_BASE_URL), or else OpenAI's, by default.
        api_key_env: The environment variable that holds the server's key. Without it a server gets no key
            but its maker's own: OpenAI's, Anthropic's and Gemini's.
        criteria: On what two texts are compared, in this order; those that people are asked by default.
        prompt: A file in the study's folder with instructions in place of the paper's.
        examples: A file in the study's folder with pairs and their verdicts, shown before each pair.
        rationale: Whether a short rationale is asked for before the verdict.
        orders: Whether each pair is judged both ways round, or in one order drawn by the study's seed.
        samples: How often each order is asked; each sample is a row of its own.
        style: `chat` completions, `responses`, or what the server takes.
        output: How the form of the answer is asked for; `auto` begins with a strict schema.
        reasoning_effort: For models that reason; the server's own default unless given.
        max_output_tokens: The longest answer, reasoning included; more for models that reason.
        temperature: 0 unless given, and left out for reasoning models and for several samples; `default`
            sends none.
        top_p: The share of probability that tokens are drawn from; the server's own default unless given.
        extra_body: Fields added to the body of each request; none that this program sets itself.
        headers: Headers added to each request; no secrets.
        concurrency: How many requests are under way at most; fewer if the server refuses or queues them.
        timeout: Seconds until a request without a response is given up; more for models that reason.
        usd_per_million_input_tokens: The price of the prompt's tokens, before any list.
        usd_per_million_output_tokens: The price of the answer's tokens, reasoning included.
    """

    name: JudgeName | None = None
    model: str = Field(min_length=1)
    base_url: str | None = None
    api_key_env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$")] | None = None
    criteria: CriteriaNames = Field(default=list(CRITERIA), min_length=1)
    prompt: PromptFile | None = None
    examples: ExamplesFile | None = None
    rationale: bool = False
    orders: Literal["both", "one"] = "both"
    samples: int = Field(default=1, ge=1, le=100)
    style: Literal["auto", "chat", "responses"] = "auto"
    output: Literal["auto", "json_schema", "text"] = "auto"
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    max_output_tokens: int = Field(
        default_factory=lambda settings: 8192 if reasons(settings) else 512, ge=64, le=10_000_000
    )
    temperature: Temperature | None = None
    top_p: float | None = Field(default=None, gt=0, le=1)
    extra_body: Annotated[dict[str, JsonValue], AfterValidator(_check_body)] = Field(default_factory=dict)
    headers: Annotated[dict[HeaderName, HeaderValue], AfterValidator(_check_headers)] = Field(default={})
    concurrency: int = Field(default=64, ge=1, le=256)
    timeout: float = Field(
        default_factory=lambda settings: 1800.0 if reasons(settings) else 600.0,
        gt=0, le=86_400, allow_inf_nan=False,
    )  # fmt: skip
    usd_per_million_input_tokens: Usd | None = None
    usd_per_million_output_tokens: Usd | None = None

    _known: dict[str, Criterion] = PrivateAttr(default=CRITERIA)

    def contradictions(self) -> Iterator[str]:
        """Yield that answers are paid for that are all the same."""
        if self.samples > 1 and self.temperature == 0:
            yield f"samples = {self.samples} with temperature = 0 pays for the same answer again; remove one"

    @property
    def rater_name(self) -> str:
        """Return the name of the judge as a rater: its own, or else its model's."""
        return self.name or self.model

    @property
    def is_reasoning(self) -> bool:
        """Return whether the model reasons before it answers."""
        return reasons(self.__dict__)

    @property
    def answering_headers(self) -> dict[str, str]:
        """Return the headers that can change an answer, in lower case."""
        headers = {name.lower(): value for name, value in self.headers.items()}
        return {name: value for name, value in sorted(headers.items()) if name not in _NEUTRAL_HEADERS}

    @property
    def rubric(self) -> tuple[Criterion, ...]:
        """Return the criteria with their titles and definitions, in the order in which they are asked."""
        return criteria(self.criteria, self._known)

    @property
    def judged_examples(self) -> tuple[JudgedExample, ...]:
        """Return the examples that are shown before each pair."""
        return () if self.examples is None else read_examples(self.examples.text)

    def in_study(self, known: dict[str, Criterion], criteria: list[str]) -> Self:
        """Return this judge as its study has it.

        Args:
            known: The criteria that the study can name.
            criteria: Those that people are asked, which are the judge's unless it names its own.

        Raises:
            ValueError: An example names an unknown criterion, or lacks what is asked.
        """
        declared = "criteria" in self.model_fields_set
        judge = self.model_copy(update={} if declared else {"criteria": criteria})
        judge._known = known  # noqa: SLF001 (of the same class)
        for number, example in enumerate(judge.judged_examples, start=1):
            missing = [name for name in judge.criteria if name not in example.verdict]
            missing += ["rationale"] if judge.rationale and example.rationale is None else []
            if missing:
                raise ValueError(
                    f"{judge.rater_name}: example {number} of {self.examples and self.examples.file} has no "
                    f"{', '.join(missing)}, which this judge is asked; add it"
                )
            for name in example.verdict:
                check_name(name, known)
        return judge
