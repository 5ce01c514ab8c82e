"""One model's price, what tokens cost with it, and the prices in the package genai-prices.

The package has its data with it: no price is asked of a server.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING

from guard_eval.store import Usage

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice, TieredPrices

BATCH_FACTOR = 0.5
"""What a batch costs where nothing else is given: the rebate that came with OpenAI's Batch API."""

_MILLION = 1_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Price:
    """US dollars per million tokens, and where the figures are from.

    Attributes:
        input: Of the prompt's tokens.
        output: Of the answer's tokens, reasoning among them.
        source: Who says so.
        cached: Of prompt tokens that the server had in its cache; the input's where it is not known.
        written: Of prompt tokens that the server writes into its cache; the input's where it is not known.
        batch_factor: What a batch costs, as a part of that.
        long_from: Prompts of more tokens have a price of their own, `long`, for all their tokens.
        long: That price.
        assumed: Nothing states that it is free; the server is merely a local one.
    """

    input: float
    output: float
    source: str
    cached: float | None = None
    written: float | None = None
    batch_factor: float = BATCH_FACTOR
    long_from: int | None = None
    long: Price | None = None
    assumed: bool = False

    def usd(self, input_tokens: int, output_tokens: int, *, cached: int = 0, written: int = 0) -> float:
        """Return what so many tokens cost, in US dollars, in prompts that are not long.

        Args:
            input_tokens: Of the prompts, those read from and written to the cache included.
            output_tokens: Of the answers, reasoning included.
            cached: How many of the input's came from the cache.
            written: How many of the input's were written into it.

        >>> price = Price(input=2.5, cached=1.25, written=3.0, output=10.0, source="")
        >>> price.usd(1_000_000, 100_000), price.usd(1_000_000, 100_000, cached=400_000)
        (3.5, 3.0)
        >>> price.usd(1_000_000, 100_000, cached=400_000, written=200_000)
        3.1
        >>> price.in_batch().usd(1_000_000, 100_000, cached=400_000)
        1.75
        """
        cached = min(cached, input_tokens)
        written = min(written, input_tokens - cached)
        rebate = 0.0 if self.cached is None else cached * (self.input - self.cached)
        extra = 0.0 if self.written is None else written * (self.written - self.input)
        return (input_tokens * self.input - rebate + extra + output_tokens * self.output) / _MILLION

    def most_usd(self, input_tokens: int, output_tokens: int) -> float:
        """Return the most that one request of so many tokens can cost, in US dollars."""
        return self._of_prompt(input_tokens).usd(input_tokens, output_tokens, written=input_tokens)

    def cost(self, usage: Usage) -> float | None:
        """Return what an answer cost, in US dollars; None where the server does not state its tokens."""
        if usage.input_tokens is None or usage.output_tokens is None:
            return None
        return self._of_prompt(usage.input_tokens).usd(
            usage.input_tokens,
            usage.output_tokens,
            cached=usage.cached_tokens or 0,
            written=usage.written_tokens or 0,
        )

    def in_batch(self) -> Price:
        """Return the price of the same tokens in a batch.

        Tokens from the cache cost there what others do: sources disagree on whether both rebates are given,
        and a sum may be too high and not too low.
        """
        factor = self.batch_factor
        return replace(
            self,
            input=factor * self.input,
            output=factor * self.output,
            cached=None,
            written=None if self.written is None else factor * self.written,
            long=None if self.long is None else replace(self.long, batch_factor=factor).in_batch(),
        )

    def _of_prompt(self, tokens: int) -> Price:
        """Return the price of a prompt of so many tokens."""
        return self.long if self.long and self.long_from is not None and tokens > self.long_from else self


_CLOSED = ("openai", "anthropic", "google", "x-ai")
"""Makers whose models only they serve: a service that passes requests on to them charges for them."""

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
