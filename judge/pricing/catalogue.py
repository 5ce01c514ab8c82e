"""Prices from the package genai-prices, whose data lie in the package: nothing is asked of a server."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING

from judge.pricing.price import BATCH_FACTOR, Price

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice, TieredPrices

_CLOSED = ("openai", "anthropic", "google", "x-ai")
"""Makers whose models only they serve: whoever passes requests on to them charges for them."""

_OPEN_WEIGHTS = ("gpt-oss", "gemma", "grok-1", "grok-2")
"""What these makers published, for anybody's server."""

_KINDS = ("input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok")


def has_catalogue() -> bool:
    """Return whether the package with the prices is installed."""
    return find_spec("genai_prices") is not None


def catalogue_price(model: str, url: str, *, at: datetime | None = None) -> Price | None:
    """Return what a model costs at a server, or None where the catalogue does not have it or is missing.

    A server of no known provider may pass requests on: there a model that only its maker serves has the
    maker's price, and any other has none.

    Args:
        model: The model, as the server calls it.
        url: The server's address.
        at: When; now by default. Some prices change on a day that is announced.
    """
    found = _find(model, url)
    if found is None:
        return None
    at = at or datetime.now(UTC)
    standard, batch = found.get_prices(at), found.get_prices(at, {"processing": "batch"})
    price = _price(standard, 0)
    if price is None:
        return None
    starts = [tier.start for kind in _KINDS for tier in getattr(getattr(standard, kind), "tiers", ())]
    halved = _price(batch, 0)
    factor = _factor(halved, price) if halved is not None and halved != price else BATCH_FACTOR
    if not starts:
        return replace(price, batch_factor=factor)
    return replace(price, batch_factor=factor, long_from=min(starts), long=_price(standard, max(starts) + 1))


def _factor(batch: Price, standard: Price) -> float:
    """Return what a batch costs as a part of the price, the dearer of both sides."""
    parts = [(batch.input, standard.input), (batch.output, standard.output)]
    return max((part / whole for part, whole in parts if whole), default=BATCH_FACTOR)


def _find(model: str, url: str) -> ModelInfo | None:
    try:
        from genai_prices.data_snapshot import get_snapshot  # noqa: PLC0415 (a quarter of a second)
    except ImportError:
        return None  # a list of the tables, and a preview, need no extra
    catalogue = get_snapshot()
    try:
        provider = catalogue.find_provider(None, None, url.lower())
    except LookupError:
        pass
    else:
        return provider.find_model(model.lower(), all_providers=catalogue.providers)
    if any(part in model.lower() for part in _OPEN_WEIGHTS):
        return None
    for maker in _CLOSED:
        name = model.lower().removeprefix(f"{maker}/")
        found = catalogue.find_provider(None, maker, None).find_model(name)
        if found is not None:
            return found
    return None


def _price(prices: ModelPrice, tokens: int) -> Price | None:
    """Return the price of a prompt of so many tokens, or None where it is not priced by tokens."""
    given, made, cached, written = (_amount(getattr(prices, kind), tokens) for kind in _KINDS)
    if given is None or made is None:
        return None
    source = f"genai-prices {version('genai-prices')}"
    return Price(input=given, output=made, cached=cached, written=written, source=source)


def _amount(price: Decimal | TieredPrices | None, tokens: int) -> float | None:
    if price is None:
        return None
    amount = price if isinstance(price, Decimal) else price.base
    for tier in () if isinstance(price, Decimal) else price.tiers:
        if tokens > tier.start:
            amount = tier.price
    return float(amount)
