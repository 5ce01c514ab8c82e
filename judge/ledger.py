"""What a run did and what it cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from judge.parsing import ErrorKind, Usage
from judge.prices import Price


@dataclass(frozen=True, kw_only=True, slots=True)
class Ledger:
    """What one run of one judge did.

    Attributes:
        requests: HTTP requests sent, repeated ones included.
        retries: Those of them that repeated one without an answer; such a one may have been paid, unseen.
        reused: Answers taken from the journal, which cost nothing.
        verdicts: Presentations that have a verdict now and had none before.
        failures: Presentations without a verdict, by kind of failure.
        input_tokens: Tokens the server counted in this run's requests.
        output_tokens: Tokens the server counted in its answers.
        unmetered: Answers whose tokens the server did not state; they are missing from tokens and cost.
        cost_usd: US dollars for these tokens; None where the price is unknown.
        notices: Messages for the user.
        cached_tokens: Those of `input_tokens` that came from the server's cache.
        reasoning_tokens: Those of `output_tokens` that nobody sees.
    """

    requests: int
    retries: int
    reused: int
    verdicts: int
    failures: dict[ErrorKind, int]
    input_tokens: int
    output_tokens: int
    unmetered: int
    cost_usd: float | None
    notices: tuple[str, ...]
    cached_tokens: int = 0
    reasoning_tokens: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """Where a run is: so many of `total` presentations have a verdict or have failed.

    Attributes:
        total: Presentations that were left when it began.
        verdicts: Those that have a verdict by now.
        failed: Those that have failed.
        cost_usd: What this run has cost; None where the price is unknown.
        notice: Messages for the user now.
        failures: The failed ones by kind.
        requests: Requests sent.
    """

    total: int
    verdicts: int
    failed: int
    cost_usd: float | None
    notice: str | None = None
    failures: Mapping[ErrorKind, int] = field(default_factory=dict)
    requests: int = 0


@dataclass(kw_only=True)
class Tally:
    """A ledger while it is written."""

    price: Price | None
    requests: int = 0
    retries: int = 0
    reused: int = 0
    verdicts: int = 0
    failures: Counter[ErrorKind] = field(default_factory=Counter)
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    unmetered: int = 0

    @property
    def cost_usd(self) -> float | None:
        """Return what the tokens counted so far cost."""
        if self.price is None:
            return None
        return self.price.usd(self.input_tokens, self.output_tokens, cached=self.cached_tokens)

    def count(self, usage: Usage) -> None:
        """Add one paid answer."""
        self.unmetered += usage.input_tokens is None or usage.output_tokens is None
        self.input_tokens += usage.input_tokens or 0
        self.cached_tokens += usage.cached_tokens or 0
        self.output_tokens += usage.output_tokens or 0
        self.reasoning_tokens += usage.reasoning_tokens or 0

    def progress(self, *, total: int, notices: Sequence[str]) -> Progress:
        """Return where the run is."""
        return Progress(
            total=total,
            verdicts=self.verdicts,
            failed=self.failures.total(),
            cost_usd=self.cost_usd,
            notice="; ".join(notices) or None,
            failures=dict(self.failures),
            requests=self.requests,
        )

    def close(self, notices: tuple[str, ...]) -> Ledger:
        """Return the ledger."""
        return Ledger(
            requests=self.requests,
            retries=self.retries,
            reused=self.reused,
            verdicts=self.verdicts,
            failures=dict(sorted(self.failures.items())),
            input_tokens=self.input_tokens,
            cached_tokens=self.cached_tokens,
            output_tokens=self.output_tokens,
            reasoning_tokens=self.reasoning_tokens,
            unmetered=self.unmetered,
            cost_usd=self.cost_usd,
            notices=notices,
        )
