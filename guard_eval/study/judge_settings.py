"""The `[[judge]]` tables of study.toml: which models rate, how they are asked, and what their tokens cost."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, PrivateAttr, model_validator

from guard_eval.rubric import CRITERIA, Criterion, criteria
from guard_eval.study.criteria_settings import CriteriaNames, SettingsTable
from guard_eval.study.judge_files import (
    ExamplesFile,
    JudgedExample,
    PromptFile,
    check_covered,
    read_examples,
)
from guard_eval.study.request_extras import ExtraBody, ExtraHeaders, Temperature

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
    max_output_tokens: int = Field(default_factory=_answer_tokens, ge=64)
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
