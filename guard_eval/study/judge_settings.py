"""The `[[judge]]` tables of study.toml: which models rate, how they are asked, and what their tokens cost.

A study.toml is a stranger's file and is passed on: it holds no secret, and what it adds to requests must not
change what is asked, of which model, and in which form, behind the reader's back.
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

from pydantic import AfterValidator, Field, PlainValidator, PrivateAttr, model_validator

from guard_eval.rubric import CRITERIA, Criterion, criteria
from guard_eval.study.criteria_settings import CriteriaNames, SettingsTable
from guard_eval.study.judge_files import (
    ExamplesFile,
    JudgedExample,
    PromptFile,
    check_covered,
    read_examples,
)

ANSWER_TOKENS = 512
"""Enough for a verdict in any form."""

RATIONALE_TOKENS = 512
"""What a rationale may have besides: `judge.prompts.prompt` asks for at most 60 words, in whatever script."""

REASONED_ANSWER_TOKENS = 8192
"""Reasoning counts among an answer's tokens; who allows too little pays for reasoning without a verdict."""

TIMEOUT = 600.0
"""Seconds until a request without response is given up: a busy server of one's own takes minutes."""

REASONED_TIMEOUT = 1800.0
"""The same where the model reasons first."""

ProviderName = Literal["openai", "anthropic", "gemini"]
"""Whose interface is spoken: OpenAI's, which most servers speak, Anthropic's own, or Gemini's own."""

_NOT_TAKEN = {
    "anthropic": (
        ("style", "chat"),
        ("style", "responses"),
        ("output", "json_object"),
        ("reasoning_effort", "minimal"),
    ),
    "gemini": (
        ("style", "chat"),
        ("style", "responses"),
        ("reasoning_effort", "xhigh"),
        ("reasoning_effort", "max"),
    ),
}
"""Settings that an interface has nothing for."""

_LONGEST_NAME = 100


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


def _name(name: str) -> str:
    if not name.strip() or not name.isprintable() or len(name) > _LONGEST_NAME:
        raise ValueError(f"a judge's name has 1 to {_LONGEST_NAME} printable characters")
    return name


def _reasons(settings: dict[str, Any]) -> bool:
    """Return whether a judge reasons: as study.toml says, else by its model's name or its effort."""
    if settings.get("reasons") is not None:
        return bool(settings["reasons"])
    return reasons(settings.get("model", "")) or settings.get("reasoning_effort") not in (None, "none")


def _answer_tokens(settings: dict[str, Any]) -> int:
    verdict = REASONED_ANSWER_TOKENS if _reasons(settings) else ANSWER_TOKENS
    return verdict + (RATIONALE_TOKENS if settings.get("rationale") else 0)


def _timeout(settings: dict[str, Any]) -> float:
    return REASONED_TIMEOUT if _reasons(settings) else TIMEOUT


_OURS = {
    "model": "model",
    **dict.fromkeys(("models", "fallbacks"), "one [[judge]] for each model"),
    **dict.fromkeys(("messages", "input", "prompt", "instructions", "system", "systeminstruction"), "prompt"),
    **dict.fromkeys(("contents", "chattemplate", "transforms", "documents", "echo"), "prompt"),
    **dict.fromkeys(("conversation", "previousresponseid", "cachedcontent"), "prompt"),
    **dict.fromkeys(("maxtokens", "maxcompletiontokens", "maxoutputtokens"), "max_output_tokens"),
    **dict.fromkeys(("responseformat", "text", "jsonschema", "grammar", "structuredoutputs"), "output"),
    **dict.fromkeys(("guidedjson", "guidedchoice", "guidedregex", "guidedgrammar"), "output"),
    **dict.fromkeys(("regex", "ebnf", "modalities", "responsemodalities", "audio"), "output"),
    **dict.fromkeys(("outputconfig", "outputformat", "generationconfig"), "output"),
    **dict.fromkeys(("responsemimetype", "responseschema", "responsejsonschema"), "output"),
    **dict.fromkeys(("thinking", "thinkingconfig"), "reasoning_effort"),
    **dict.fromkeys(("reasoning", "reasoningeffort"), "reasoning_effort"),
    "temperature": "temperature",
    "topp": "top_p",
    "seed": "the study's seed",
    **dict.fromkeys(("n", "bestof", "candidatecount"), "samples"),
    **dict.fromkeys(("store", "background", "stream", "streamoptions"), None),
    # what would have the server fetch, or send the texts, elsewhere; or choose the verdict
    **dict.fromkeys(("tools", "toolchoice", "toolconfig", "functions", "functioncall"), None),
    **dict.fromkeys(("automaticfunctioncalling", "mcpservers", "plugins", "websearchoptions"), None),
    **dict.fromkeys(("container", "logitsprocessors", "logitbias", "allowedtokenids"), None),
    # settings of a connection, which an SDK may take from a body
    **dict.fromkeys(("extrabody", "extraquery", "shouldreturnhttpresponse"), None),
    **dict.fromkeys(("extraheaders", "headers"), "headers"),
    "timeout": "timeout",
    **dict.fromkeys(("apikey", "authorization"), "api_key_env"),
    **dict.fromkeys(("apibase", "baseurl", "httpoptions"), "base_url"),
}
"""Fields that this program sets itself or that would change how it reads a response, in lower
case and without underscores, as some SDKs take both: the setting instead."""

_DEARER = {"servicetier": {"priority"}, "speed": {"fast"}}
"""Values for which a server charges more than its list says, so that no budget would hold."""

_NEUTRAL_HEADERS = {"http-referer", "x-title", "user-agent"}
"""Headers that only name who asks."""

_NOT_OURS_TO_SET = {
    *("host", "connection", "content-length", "content-type", "content-encoding", "transfer-encoding"),
    *("accept", "accept-encoding", "te", "trailer", "upgrade", "expect", "idempotency-key"),
}
_SECRET_NAME = re.compile(
    r"auth|cookie|credential|passw|secret|signature|(?:^|[-_])(?:key|token)s?(?:[-_]|$)|apikey", re.IGNORECASE
)
_SECRET_VALUE = re.compile(
    r"^(?:bearer|basic)\s|\b(?:sk|key)-[\w-]{8,}|\bAIza[\w-]{20,}|\beyJ[\w-]{20,}", re.IGNORECASE
)
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")


def _body(fields: dict[str, Any]) -> dict[str, Any]:
    for name, value in fields.items():
        plain = re.sub("[_-]", "", name).lower()
        if plain in _OURS:
            instead = _OURS[plain]
            raise ValueError(
                f"extra_body must not name {name!r}, which is not its to set; "
                + (f"use {instead}" if instead else "remove it")
            )
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            raise ValueError(
                f"extra_body.{name} is nothing that JSON has; give text, numbers or tables"
            ) from None
        if str(value).lower() in _DEARER.get(plain, ()):
            raise ValueError(
                f"extra_body.{name} = {value!r} costs more than the prices known here, and no budget would "
                "hold; remove it"
            )
        if _SECRET_VALUE.search(json.dumps(value)):
            raise ValueError(f"extra_body.{name} looks like a key; name its variable in api_key_env instead")
    return fields


def _headers(headers: dict[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if _NAME.fullmatch(name) is None or name.lower() in _NOT_OURS_TO_SET:
            raise ValueError(f"headers must not name {name!r}; remove it")
        if _SECRET_NAME.search(name) or _SECRET_VALUE.search(value):
            raise ValueError(
                f"headers must hold no secret, and {name!r} looks like one: study.toml is passed on; put the "
                "key into an environment variable and name that in api_key_env"
            )
        if not (value.isascii() and value.isprintable()) or value != value.strip():
            raise ValueError(f"the header {name!r} has characters that no header has; use plain ASCII")
    if len({name.lower() for name in headers}) < len(headers):
        raise ValueError("headers names one twice, in upper and lower case; remove one")
    return headers


def _temperature(value: object) -> float | Literal["default"]:
    if value == "default":
        return "default"
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 2:
        return float(value)
    raise ValueError('give a number from 0 to 2, or "default" to send none')


Temperature = Annotated[float | Literal["default"], PlainValidator(_temperature)]
"""A temperature, or that the server's own is taken."""

ExtraBody = Annotated[dict[str, Any], AfterValidator(_body)]
"""Fields added to the body of each request."""

ExtraHeaders = Annotated[dict[str, str], AfterValidator(_headers)]
"""Headers added to each request."""


def counting(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that can change an answer.

    >>> counting({"X-Title": "a study", "X-Region": "eu"})
    {'x-region': 'eu'}
    """
    named = {name.lower(): value for name, value in headers.items()}
    return {name: value for name, value in sorted(named.items()) if name not in _NEUTRAL_HEADERS}


class Judge(SettingsTable):
    """A language model as a rater, at any server that speaks one of OpenAI's interfaces.

    Attributes:
        name: What it is called as a rater; the model's name by default, for a second table of that model
            with `#2` after it.
        provider: Whose interface the server speaks: `openai`'s, as most do, `anthropic`'s or `gemini`'s.
        model: The model, as its server calls it; pin a snapshot where there are any.
        base_url: The server; the environment's (OPENAI_BASE_URL), or else the provider's own, by default.
        api_key_env: The environment variable that holds the key of a server that is not the provider's own;
            without it, such a server is sent no key.
        criteria: On what two texts are compared, in this order: the paper's criteria, and the study's own.
        prompt: A file in the study's folder with instructions in place of the paper's.
        examples: A file in the study's folder with pairs and their verdicts, shown before each pair.
        rationale: Whether a short rationale is asked for before the verdict.
        orders: Whether each pair is judged both ways round, or in one order drawn by the study's seed.
        samples: How often each order is asked; each sample is a row of its own.
        style: `chat` completions, `responses`, `batch` (cheaper, and up to a day), or what the server takes.
        output: How the form of the answer is asked for; `auto` begins with a strict schema.
        reasons: Whether the model reasons before it answers; known of many models by their names.
        reasoning_effort: For models that reason; the server's own default unless given.
        max_output_tokens: The longest answer, reasoning included; more for models that reason.
        temperature: 0 unless given, and left out for reasoning models and for several samples; `default`
            sends none.
        top_p: The share of probability that tokens are drawn from; the server's own default unless given.
        extra_body: Fields added to the body of each request; none that this program sets itself.
        headers: Headers added to each request; no secrets.
        concurrency: How many requests are under way at most; fewer where the server cannot bear it.
        timeout: Seconds until a request without response is given up; more for models that reason.
        usd_per_million_input_tokens: The price of the prompt's tokens, before any list.
        usd_per_million_cached_tokens: The price of those of them that the server has in its cache.
        usd_per_million_output_tokens: The price of the answer's tokens, reasoning included.
        batch_factor: What a batch costs, as a part of that.
    """

    name: Annotated[str, AfterValidator(_name)] | None = None
    provider: ProviderName = "openai"
    model: str = Field(min_length=1)
    base_url: str | None = None
    api_key_env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$")] | None = None
    criteria: CriteriaNames = Field(default=list(CRITERIA), min_length=1)
    prompt: PromptFile | None = None
    examples: ExamplesFile | None = None
    rationale: bool = False
    orders: Literal["both", "one"] = "both"
    samples: int = Field(default=1, ge=1, le=100)
    style: Literal["auto", "chat", "responses", "batch"] = "auto"
    output: Literal["auto", "json_schema", "json_object", "text"] = "auto"
    reasons: bool | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    max_output_tokens: int = Field(default_factory=_answer_tokens, ge=64, le=10_000_000)
    temperature: Temperature | None = None
    top_p: float | None = Field(default=None, gt=0, le=1)
    extra_body: ExtraBody = Field(default_factory=dict)
    headers: ExtraHeaders = Field(default_factory=dict)
    concurrency: int = Field(default=64, ge=1, le=512)
    timeout: float = Field(default_factory=_timeout, gt=0, le=86_400, allow_inf_nan=False)
    usd_per_million_input_tokens: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    usd_per_million_cached_tokens: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    usd_per_million_output_tokens: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    batch_factor: float | None = Field(default=None, gt=0, le=1)

    _known: dict[str, Criterion] = PrivateAttr(default=CRITERIA)

    @property
    def is_reasoning(self) -> bool:
        """Return whether the model reasons before it answers."""
        return _reasons(self.__dict__)

    @model_validator(mode="after")
    def _provider_takes_it(self) -> Self:
        for name, value in _NOT_TAKEN.get(self.provider, ()):
            if getattr(self, name) == value:
                raise ValueError(f'{name} = "{value}" is not for provider = "{self.provider}"; remove one')
        return self

    @model_validator(mode="after")
    def _samples_differ(self) -> Self:
        if self.samples > 1 and self.temperature == 0:
            raise ValueError(
                f"samples = {self.samples} with temperature = 0 pays for the same answer again; remove one"
            )
        return self

    @model_validator(mode="after")
    def _examples_have_all(self) -> Self:
        check_covered(self.judged_examples, self.criteria, rationale=self.rationale)
        return self

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

    def with_rubric(self, known: dict[str, Criterion]) -> Self:
        """Return this judge with the criteria that its study can name."""
        judge = self.model_copy()
        judge._known = known  # noqa: SLF001 (of this very class)
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
