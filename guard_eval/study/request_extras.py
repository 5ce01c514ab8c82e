"""What a `[[judge]]` table adds to requests: fields of the body and headers, none in place of our own.

A study.toml is a stranger's file and is passed on: it holds no secret, and what it adds must not change what
is asked, of which model, and in which form, behind the reader's back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, PlainValidator

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
