"""What a server tells of itself: its software, its models, and when the judge's model is switched off."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from typing import TYPE_CHECKING, Any, Literal

from judge.providers.envelopes import excerpt

if TYPE_CHECKING:
    import openai

Kind = Literal["OpenAI", "vLLM", "Ollama", "llama.cpp", "SGLang", "LM Studio", "transformers serve"]

PROBE_TIMEOUT = 5.0
"""Seconds after which a server that does not answer the probe is left alone."""

_BY_OWNER: dict[str, Kind] = {
    "vllm": "vLLM",
    "library": "Ollama",
    "llamacpp": "llama.cpp",
    "sglang": "SGLang",
    "organization_owner": "LM Studio",
    "openai": "OpenAI",
    "system": "OpenAI",
    "openai-internal": "OpenAI",
}

_LACKS: dict[Kind, str] = {
    "vLLM": "no Batch API, no rate headers",
    "Ollama": "no Batch API, no rate headers; it may ignore the schema and cut long prompts in silence",
    "llama.cpp": "no Batch API, no rate headers",
    "SGLang": "no Batch API, no rate headers",
    "LM Studio": "no Batch API, no rate headers",
    "transformers serve": "no Batch API, no rate headers; it ignores schema and JSON mode",
}

_SHOWN = 5


async def probe(sdk: openai.AsyncOpenAI, model: str) -> tuple[str, ...]:
    """Return messages for the user about the server of the judge's model; never raises."""
    try:
        answer = await sdk.models.with_raw_response.list(timeout=PROBE_TIMEOUT)
        listed = json.loads(answer.http_response.content)["data"]
        entries = [each for each in listed if isinstance(each, dict) and isinstance(each.get("id"), str)]
    except Exception:  # noqa: BLE001 (a server need not know this; its answers are what counts)
        return ()
    return read_models(entries, answer.headers, model)


def read_models(entries: list[dict[str, Any]], headers: Mapping[str, str], model: str) -> tuple[str, ...]:
    """Return messages for the user about a server that lists its models so.

    Args:
        entries: The models, each with its `id`.
        headers: The answer's, looked up in lower case.
        model: The judge's model.
    """
    kind = _kind(entries, headers)
    names = [each["id"] for each in entries]
    mine = next((each for each in entries if each["id"] in (model, f"{model}:latest")), None)
    context, end = _context(mine or {}), _shutdown(mine or {})
    notices = []
    if kind in _LACKS:
        size = f", whose model takes {context:,} tokens" if context else ""
        notices.append(f"the server is {kind}{size}: {_LACKS[kind]}")
    if names and mine is None and kind != "OpenAI":  # OpenAI's list leaves out some of its own names
        shown = ", ".join(excerpt(name) for name in names[:_SHOWN])
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        notices.append(f"the server does not list {model}; it has {shown}{more}")
    if end is not None:
        notices.append(f"the provider switches {model} off on {end}; finish before, or name another model")
    return tuple(notices)


def _kind(entries: list[dict[str, Any]], headers: Mapping[str, str]) -> Kind | None:
    if "openai-version" in headers or "openai-processing-ms" in headers:
        return "OpenAI"
    if headers.get("server", "").lower().startswith("llama.cpp"):
        return "llama.cpp"
    owners = {str(each.get("owned_by")) for each in entries}
    for owner, kind in _BY_OWNER.items():
        if owner in owners:
            return kind
    # its owners are the authors' names in its cache of the Hub
    mine = entries and all(each["id"].startswith(f"{each.get('owned_by')}/") for each in entries)
    return "transformers serve" if mine and headers.get("server") == "uvicorn" else None


def _context(entry: dict[str, Any]) -> int | None:
    meta = entry.get("meta")
    size = entry.get("max_model_len") or (meta.get("n_ctx") if isinstance(meta, dict) else None)
    return size if isinstance(size, int) and size > 0 else None


def _shutdown(entry: dict[str, Any]) -> date | None:
    try:
        return date.fromisoformat(str(entry.get("shutdown_date"))[:10])
    except ValueError:
        return None
