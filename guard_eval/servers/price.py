"""Find the prices of a model's tokens: in study.toml, or otherwise in the package genai-prices.

If neither has a price, the model costs nothing on a server in this network. On other servers the price is
unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING

from guard_eval.errors import StudyError
from guard_eval.records import BILLION, Usage
from guard_eval.servers.server import classify_address_distance
from guard_eval.study.served_model import ServedModel

if TYPE_CHECKING:
    from genai_prices.types import ModelPrice

REMEDY = "set usd_per_million_tokens in study.toml ([0, 0] if they cost nothing)"
"""The remedy in messages about an unknown price."""

LARGEST_BUDGET = 1e9
"""The largest budget in US dollars. Budgets are counted in billionths, as integers of 64 bits."""

_CLOSED = ("openai", "anthropic", "google", "x-ai")
"""Makers whose models no other company runs. Services that forward requests charge the maker's price."""

_OPEN_WEIGHTS = ("gpt-oss", "gemma", "grok-1", "grok-2")
"""Models whose weights the makers in `_CLOSED` have published, so that any server can run them."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Price:
    """The price of a model's tokens.

    Attributes:
        online: US dollars per million tokens, as an object of genai-prices; None if all tokens are free.
        batch: The prices for requests in a batch, as an object of genai-prices.
        source: The source of the prices.
        assumed: Whether the price is unknown and is therefore assumed to be zero.
    """

    online: ModelPrice | None
    batch: ModelPrice | None
    source: str
    assumed: bool = False

    @lru_cache(maxsize=4096)  # noqa: B019 (a price lives as long as its run)
    def price_tokens(
        self, input_tokens: int, output_tokens: int, *, cached: int = 0, batch: bool = False
    ) -> float:
        """Return the cost of one request's tokens in US dollars. `cached` counts a part of the input tokens.

        Some models cost more per token if a request is long, so each request is priced by itself. In a batch,
        cached tokens have the full price, because it is unknown whether a server gives both discounts.
        """
        prices = self.batch if batch else self.online
        if prices is None:
            return 0.0
        from genai_prices.types import Usage as Counted  # noqa: PLC0415 (a preview needs no extra)

        cached_input = 0 if batch else min(cached, input_tokens)
        usage = Counted(
            input_tokens=input_tokens, output_tokens=output_tokens, cache_read_tokens=cached_input
        )
        return float(prices.calc_price(usage)["total_price"])

    def compute_cost(self, usage: Usage, *, batch: bool = False) -> int | None:
        """Return the cost of a request in billionths of a dollar, or None if the tokens are unknown."""
        if usage.input_tokens is None or usage.output_tokens is None:
            return None
        cached = usage.cached_tokens or 0
        return convert_to_billionths(
            self.price_tokens(usage.input_tokens, usage.output_tokens, cached=cached, batch=batch)
        )

    def compute_max_cost(self, body: bytes, max_output_tokens: int, *, batch: bool = False) -> int:
        """Return the highest cost of a request in billionths of a dollar, with one token for each byte.

        The number of bytes is rounded up to a multiple of 64, so only a few different costs are computed.
        """
        return convert_to_billionths(
            self.price_tokens(-(-len(body) // 64) * 64, max_output_tokens, batch=batch)
        )

    def __str__(self) -> str:
        """Return the prices of a million tokens, with the source of the prices."""
        if self.assumed:
            return f"free ({self.source})"
        online, batch = (
            f"${1000 * self.price_tokens(1000, 0, batch=way):g} in, "
            f"${1000 * self.price_tokens(0, 1000, batch=way):g} out"
            for way in (False, True)
        )
        return f"{online} per million tokens; in a batch {batch} ({self.source})"


def check_budget(budget: float | None) -> None:
    """Refuse an amount that cannot be a budget in US dollars."""
    if budget is not None and not 0 < budget <= LARGEST_BUDGET:
        raise StudyError(
            f"--budget {budget:g} must be an amount in US dollars above 0, and at most {LARGEST_BUDGET:g}; "
            "write an amount such as --budget 20"
        )


def find_price(settings: ServedModel, url: str) -> Price | None:
    """Return today's price of a model's tokens at this address; None if the price is unknown."""
    stated = settings.usd_per_million_tokens
    if stated is None:
        listed = _find_catalogue_price(settings.model, url)
        if listed is not None or classify_address_distance(url) == "far":
            return listed
        source = "a server in your network, and no listed price"
        return Price(online=None, batch=None, source=source, assumed=True)
    if not any(stated):
        return Price(online=None, batch=None, source="study.toml")
    from genai_prices.types import ModelPrice  # noqa: PLC0415 (a preview needs no extra)

    input_price, output_price = (Decimal(str(number)) for number in stated)
    prices = ModelPrice(input_mtok=input_price, output_mtok=output_price)
    return Price(online=prices, batch=prices, source="study.toml")


def _find_catalogue_price(model: str, url: str) -> Price | None:
    """Return the model's price in the package genai-prices, or None if the price is unknown.

    An unknown server may forward requests. If only a model's maker runs the model, the maker's price is
    returned. Other models have no price on an unknown server.
    """
    if find_spec("genai_prices") is None:  # a preview needs no extra
        return None
    from genai_prices.data_snapshot import get_snapshot  # noqa: PLC0415 (a preview needs no extra)

    catalogue = get_snapshot()
    name = model.lower()
    try:
        result = catalogue.find_provider(None, None, url.lower()).find_model(
            name, all_providers=catalogue.providers
        )
    except LookupError:
        makers = () if any(family in name for family in _OPEN_WEIGHTS) else _CLOSED
        models = (
            catalogue.find_provider(None, maker, None).find_model(name.removeprefix(f"{maker}/"))
            for maker in makers
        )
        result = next((candidate for candidate in models if candidate is not None), None)
    if result is None:
        return None
    now = datetime.now(UTC)
    online = result.get_prices(now)
    batch = result.get_prices(now, {"processing": "batch"})
    if online.input_mtok is None or online.output_mtok is None:
        return None
    return Price(online=online, batch=batch, source=f"genai-prices {version('genai-prices')}")


def convert_to_billionths(usd: float) -> int:
    """Convert US dollars to billionths, rounded up after binary rounding errors are removed.

    >>> convert_to_billionths(0.00052), convert_to_billionths(1e-10)
    (520000, 1)
    """
    exact = round(usd * BILLION, 3)
    return int(exact) + (exact > int(exact))


def format_usd(amount: float) -> str:
    """Format an amount of US dollars with cents, or a small amount with four decimals.

    >>> format_usd(1234.5), format_usd(0.00042), format_usd(0)
    ('$1,234.50', '$0.0004', '$0.00')
    """
    return f"${amount:,.4f}" if 0 < amount < 0.1 else f"${amount:,.2f}"
