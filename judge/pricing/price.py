"""One model's price, and what tokens cost with it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from guard_eval.store import Usage

BATCH_FACTOR = 0.5
"""What a batch costs where nobody says otherwise: the rebate that came with OpenAI's Batch API."""

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
