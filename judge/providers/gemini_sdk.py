"""Google's SDK as a connection: a request's own JSON goes in, and the bytes of the response come out."""

from __future__ import annotations

import json
from typing import Any

import httpx2
from pydantic import ValidationError

from guard_eval.errors import MissingExtraError, StudyError
from judge.providers.endpoint import Provider

try:
    from google import genai
    from google.genai import types
except ImportError:
    raise MissingExtraError("gemini", "google-genai") from None

_NO_RETRIES = types.HttpRetryOptions(attempts=1)


class GeminiSdk:
    """One client of the SDK, its retries off; see `judge.providers.client.Sdk`.

    Attributes:
        api: The SDK's asynchronous interface, for files and batches.
    """

    def __init__(self, provider: Provider, http: httpx2.AsyncClient) -> None:
        self._model = provider.model
        self._http = http
        self.api = genai.Client(
            vertexai=False,
            api_key=provider.key,
            http_options=types.HttpOptions(
                base_url=provider.url.rstrip("/").removesuffix("/v1beta").removesuffix("/v1"),
                timeout=int(provider.timeout * 1000),
                retry_options=_NO_RETRIES,
                httpx_async_client=http,
            ),
        ).aio

    async def post(
        self,
        path: str,  # noqa: ARG002 (it follows from the model)
        *,
        cast_to: type[httpx2.Response],
        content: bytes,
        options: Any,  # noqa: ANN401
    ) -> httpx2.Response:
        """Send the JSON of a generateContent request; raise the SDK's error for any other status than 200."""
        body = json.loads(content)
        beside = {name: value for name, value in body.items() if name not in ("contents", "generationConfig")}
        headers = {name: value for name, value in options["headers"].items() if name != "Content-Type"}
        try:
            config = types.GenerateContentConfig.model_validate(
                {
                    **body.get("generationConfig", {}),
                    **beside,
                    "shouldReturnHttpResponse": True,
                    **({"httpOptions": {"headers": headers}} if headers else {}),
                }
            )
        except ValidationError as error:
            field = ".".join(map(str, error.errors()[0]["loc"]))
            raise StudyError(
                f"Gemini's interface does not have {field}, or not so; correct extra_body of the judge "
                f"{self._model!r} in study.toml"
            ) from None
        answer = await self.api.models.generate_content(
            model=self._model, contents=body["contents"], config=config
        )
        found = answer.sdk_http_response or types.HttpResponse()
        return cast_to(200, headers=found.headers, content=(found.body or "").encode())

    async def close(self) -> None:
        """Close the connections."""
        await self.api.aclose()
        await self._http.aclose()
