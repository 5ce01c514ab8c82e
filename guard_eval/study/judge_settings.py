"""The `[[judge]]` tables of study.toml: which models rate, how they are asked, and what their tokens cost.

A study.toml is a stranger's file and is passed on: it holds no secret, and what it adds to requests does not
change what is asked, of which model, and in which form.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, PrivateAttr, model_validator

from guard_eval.rubric import CRITERIA, Criterion, criteria
from guard_eval.study.criteria_settings import CriteriaNames, SettingsTable
from guard_eval.study.judge_files import ExamplesFile, JudgedExample, PromptFile, check_covered, read_examples

ANSWER_TOKENS, RATIONALE_TOKENS, REASONED_ANSWER_TOKENS = 512, 512, 8192
"""Enough for a verdict, for a rationale besides, and for reasoning, which counts among an answer's tokens."""

TIMEOUT, REASONED_TIMEOUT = 600.0, 1800.0
"""Seconds until a request without a response is given up: a busy server of one's own takes minutes."""


def reasons(model: str) -> bool:
    """Return whether a model is known to reason before it answers: whether reasoning.toml names it.

    >>> reasons("gpt-5-mini"), reasons("openai/o3"), reasons("claude-opus-5-5"), reasons("Qwen/Qwen3-8B")
    (True, True, True, True)
    >>> reasons("gpt-4o"), reasons("gpt-5-chat-latest"), reasons("claude-haiku-4-5"), reasons("olmo-2")
    (False, False, False, False)
    """
    return _reasoning().fullmatch(model.rpartition("/")[2]) is not None


@cache
def _reasoning() -> re.Pattern[str]:
    text = Path(__file__).with_name("reasoning.toml").read_text(encoding="utf-8")
    patterns = [each for family in tomllib.loads(text)["family"] for each in family["models"]]
    return re.compile("|".join(f"(?:{each})" for each in patterns), re.IGNORECASE)


def _reasons(settings: dict[str, Any]) -> bool:
    return reasons(settings.get("model", "")) or settings.get("reasoning_effort") not in (None, "none")


def _answer_tokens(settings: dict[str, Any]) -> int:
    verdict = REASONED_ANSWER_TOKENS if _reasons(settings) else ANSWER_TOKENS
    return verdict + (RATIONALE_TOKENS if settings.get("rationale") else 0)


def _timeout(settings: dict[str, Any]) -> float:
    return REASONED_TIMEOUT if _reasons(settings) else TIMEOUT


def _check_name(name: str) -> str:
    if not name.strip() or not name.isprintable() or len(name) > 100:
        raise ValueError("a judge's name has 1 to 100 printable characters")
    return name


_OWN_FIELDS = re.compile(
    "models?|fallbacks|messages|input|prompt|instructions|system|contents|chattemplate|conversation|background"
    "|previousresponseid|max(?:completion|output)?tokens|responseformat|text|guided.*|structuredoutputs|grammar"
    "|n|bestof|seed|temperature|topp|reasoning(?:effort)?|stream|store|tools|toolchoice|functions|mcpservers"
    "|plugins|websearchoptions|logitbias|logitsprocessors|extra(?:body|headers|query)|apikey|baseurl|timeout"
)
"""Fields of a request, without `_` and in lower case, that this program sets, or that would change what is
asked or choose the verdict."""

_SECRET_NAME = re.compile(
    r"auth|cookie|credential|passw|secret|(?:^|[-_])(?:key|token)s?(?:[-_]|$)|apikey", re.IGNORECASE
)
_SECRET_VALUE = re.compile(
    r"^(?:bearer|basic)\s|\b(?:sk|key)-[\w-]{8,}|\bAIza[\w-]{20,}|\beyJ[\w-]{20,}", re.IGNORECASE
)
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_FIXED_HEADERS = re.compile(
    "host|connection|content-.*|transfer-encoding|accept.*|te|trailer|upgrade|expect", re.IGNORECASE
)
_NEUTRAL_HEADERS = {"http-referer", "x-title", "user-agent"}
"""Headers that only name who asks."""


def _check_body(fields: dict[str, Any]) -> dict[str, Any]:
    for name, value in fields.items():
        if _OWN_FIELDS.fullmatch(re.sub("[_-]", "", name).lower()):
            raise ValueError(f"extra_body cannot contain {name!r}; use the judge's own setting, or remove it")
        try:
            words = json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            raise ValueError(
                f"extra_body.{name} is nothing that JSON has; give text, numbers or tables"
            ) from None
        if str(value).lower() in ("priority", "fast"):
            raise ValueError(f"extra_body.{name} = {value!r} costs more than the known prices; remove it")
        if _SECRET_VALUE.search(words):
            raise ValueError(f"extra_body.{name} looks like a key; name its variable in api_key_env instead")
    return fields


def _check_headers(headers: dict[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if _HEADER_NAME.fullmatch(name) is None or _FIXED_HEADERS.fullmatch(name):
            raise ValueError(f"headers cannot contain {name!r}; remove it")
        if _SECRET_NAME.search(name) or _SECRET_VALUE.search(value):
            raise ValueError(
                f"the header {name!r} looks like a secret, and study.toml is passed on; put the key into an "
                "environment variable, and name that in api_key_env"
            )
        if not (value.isascii() and value.isprintable()) or value != value.strip():
            raise ValueError(f"the header {name!r} has characters that no header has; use plain ASCII")
    if len({name.lower() for name in headers}) < len(headers):
        raise ValueError("headers names one twice, in upper and lower case; remove one")
    return headers


def headers_in_key(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that can change an answer.

    >>> headers_in_key({"X-Title": "a study", "X-Region": "eu"})
    {'x-region': 'eu'}
    """
    lower = {name.lower(): value for name, value in headers.items()}
    return {name: value for name, value in sorted(lower.items()) if name not in _NEUTRAL_HEADERS}


Temperature = Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)] | Literal["default"]
Usd = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Judge(SettingsTable):
    """A language model as a rater, at any server that speaks one of OpenAI's interfaces.

    Attributes:
        name: What it is called as a rater; the model's name by default, for a second table of that model
            with `#2` after it.
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

    name: Annotated[str, AfterValidator(_check_name)] | None = None
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
    max_output_tokens: int = Field(default_factory=_answer_tokens, ge=64, le=10_000_000)
    temperature: Temperature | None = None
    top_p: float | None = Field(default=None, gt=0, le=1)
    extra_body: Annotated[dict[str, Any], AfterValidator(_check_body)] = Field(default_factory=dict)
    headers: Annotated[dict[str, str], AfterValidator(_check_headers)] = Field(default_factory=dict)
    concurrency: int = Field(default=64, ge=1, le=256)
    timeout: float = Field(default_factory=_timeout, gt=0, le=86_400, allow_inf_nan=False)
    usd_per_million_input_tokens: Usd | None = None
    usd_per_million_output_tokens: Usd | None = None

    _known: dict[str, Criterion] = PrivateAttr(default=CRITERIA)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.samples > 1 and self.temperature == 0:
            raise ValueError(
                f"samples = {self.samples} with temperature = 0 pays for the same answer again; remove one"
            )
        if (self.usd_per_million_input_tokens is None) != (self.usd_per_million_output_tokens is None):
            raise ValueError(
                "a price has two parts; give usd_per_million_input_tokens and _output_tokens, or neither"
            )
        if "criteria" in self.model_fields_set:  # else the study's, see `in_study`
            check_covered(self.judged_examples, self.criteria, rationale=self.rationale)
        return self

    @property
    def rater_name(self) -> str:
        """Return the name of the judge as a rater: its own, or else its model's."""
        return self.name or self.model

    @property
    def is_reasoning(self) -> bool:
        """Return whether the model reasons before it answers."""
        return _reasons(self.__dict__)

    @property
    def rubric(self) -> tuple[Criterion, ...]:
        """Return the criteria with their titles and definitions, in the order in which they are asked.

        Raises:
            StudyError: One is unknown.
        """
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
            ValueError: An example has no verdict on one of the criteria.
        """
        own = "criteria" in self.model_fields_set
        judge = self.model_copy(update={} if own else {"criteria": criteria})
        judge._known = known  # noqa: SLF001
        check_covered(judge.judged_examples, judge.criteria, rationale=judge.rationale)
        return judge


def named(judges: Sequence[Judge]) -> list[Judge]:
    """Return the judges with a name for each that is not the first of its model.

    Raises:
        ValueError: Two are the same, or are called the same.
    """
    found: list[Judge] = []
    of_model: Counter[str] = Counter()
    for judge in judges:
        if any(judge == other for other in judges if other is not judge):
            raise ValueError(
                f"[[judge]] names {judge.model} twice, with the same settings; remove one, or ask one judge "
                "several times: samples = 2"
            )
        of_model[judge.model] += 1
        again = judge.name is None and of_model[judge.model] > 1
        found.append(
            judge.model_copy(update={"name": f"{judge.model}#{of_model[judge.model]}"}) if again else judge
        )
    names = Counter(judge.name or judge.model for judge in found)
    if (repeated := next((name for name, count in names.items() if count > 1), None)) is not None:
        raise ValueError(f"two judges are called {repeated}; each is one rater: give them different names")
    return found
