"""Which provider's batches a judge's are."""

from __future__ import annotations

from collections.abc import Callable

from guard_eval.study.judge_settings import ProviderName
from judge.batch.anthropic_batches import AnthropicBatches
from judge.batch.api import BatchApi
from judge.batch.gemini_batches import GeminiBatches
from judge.batch.openai_batches import OpenAIBatches
from judge.failures import Retry
from judge.providers.client import Client

_BATCHES: dict[ProviderName, Callable[..., BatchApi]] = {
    "openai": OpenAIBatches,
    "anthropic": AnthropicBatches,
    "gemini": GeminiBatches,
}


def batch_api(client: Client, *, retry: Retry, seed: int) -> BatchApi:
    """Return the batches of a client's provider."""
    return _BATCHES[client.provider.name](client, retry=retry, seed=seed)
