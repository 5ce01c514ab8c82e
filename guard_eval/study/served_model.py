"""A model behind a server, in study.toml: the server's address and key, and the price of tokens.

A study.toml may come from a stranger and is passed on to others, so it must not contain secrets.
"""

import re
from functools import partial
from typing import Annotated

from pydantic import AfterValidator, Field

from guard_eval.study.criteria_settings import SettingsTable

_OWN_HEADERS = (
    "host|connection|content.*|transferencoding|accept.*|te|trailer|upgrade|expect"
    "|.*(?:auth|cookie|credential|passw|secret|key|token).*"
)
"""Headers that this program sets, or that would hold a secret."""

_NEUTRAL_HEADERS = {"http-referer", "x-title", "user-agent"}
"""Request headers that identify the client and change no answer."""

_SECRET_NAME = re.compile(r"auth|cookie|secret|passw|credential|key|token$", re.IGNORECASE)

_REFUSED_VALUE = re.compile(
    r"(?i)^(?:bearer|basic)\s|\b(?:sk|key)-[\w-]{8,}|\bAIza[\w-]{20,}|\beyJ[\w-]{20,}|^(?:priority|fast)$"
)
"""A pattern of refused values: secrets, and service tiers with higher prices, such as `priority`."""


def refuse_reserved_names(reserved_names: str, added: dict[str, object]) -> dict[str, object]:
    """Return extra fields or headers unchanged, or refuse reserved names. `-` equals `_`; case is ignored."""
    for name, value in added.items():
        if re.fullmatch(reserved_names, re.sub("[_-]", "", name.lower())) or _REFUSED_VALUE.search(
            str(value)
        ):
            remedy = "remove it"
            if _SECRET_NAME.search(name):
                remedy = "name a key's variable in api_key_env, or remove it"
            raise ValueError(f"{name!r} cannot be set here; {remedy}")
    return added


HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$")]
HeaderValue = Annotated[str, Field(pattern=r"^[!-~]([ -~]*[!-~])?$")]
Price = Annotated[float, Field(ge=0, le=100_000, allow_inf_nan=False)]
Prices = Annotated[list[Price], Field(min_length=2, max_length=2)]


class ServerSettings(SettingsTable):
    """The address, key and limits of a model behind a server, and the price of its tokens.

    Attributes:
        base_url: The address of the server. Default for a judge: OPENAI_BASE_URL in the environment, or else
            OpenAI.
        api_key_env: The environment variable with the server's key. By default only OpenAI, Anthropic and
            Gemini get their own keys.
        headers: Headers that are added to each request, without secrets.
        concurrency: The largest number of requests at once. There are fewer if the server refuses or queues
            them.
        timeout: The time after which a request without a response is given up, in seconds.
        usd_per_million_tokens: The price of a million tokens of the prompt and of the answer, reasoning
            included, such as `[0.5, 1.5]`. It replaces the price of any list.
    """

    base_url: str | None = None
    api_key_env: str | None = Field(default=None, pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$", exclude=True)
    headers: Annotated[
        dict[HeaderName, HeaderValue], AfterValidator(partial(refuse_reserved_names, _OWN_HEADERS))
    ] = {}
    concurrency: int = Field(default=64, ge=1, le=256, exclude=True)
    timeout: float = Field(default=1800.0, gt=0, le=86_400, exclude=True)
    usd_per_million_tokens: Prices | None = Field(default=None, exclude=True)

    @property
    def headers_affecting_answers(self) -> dict[str, str]:
        """Return the headers that can change an answer."""
        return {name: value for name, value in self.headers.items() if name.lower() not in _NEUTRAL_HEADERS}


class ServedModel(ServerSettings):
    """A model at any server that speaks one of OpenAI's interfaces.

    Attributes:
        model: The model's name at its server. Name a snapshot if there are any.
    """

    model: str = Field(min_length=1)
