"""What a run did and what it cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from guard_eval.store import Usage
from judge.failures import ErrorKind
from judge.pricing.price import Price


@dataclass(frozen=True, kw_only=True, slots=True)
class RunProgress:
    """Where a run is: so many of `total` presentations have a verdict or have failed.

    Attributes:
        total: Presentations that were left when it began.
        verdicts: Those that have a verdict by now.
        failed: Those that have failed.
        cost_usd: What this run has cost; None where the price is unknown.
        notice: Messages for the user now.
        failures: The failed ones by kind.
    """

    total: int
    verdicts: int
    failed: int
    cost_usd: float | None
    notice: str | None
    failures: Mapping[ErrorKind, int]


@dataclass(kw_only=True)
class Ledger:
    """What one run of one judge did; while it goes on, what it has done so far.

    Attributes:
        price: The price of the judge's tokens, where it is known.
        requests: HTTP requests sent, repeated ones included.
        retries: Those of them that repeated one without an answer; such a one may have been paid, unseen.
        reused: Answers taken from the journal, which cost nothing.
        verdicts: Presentations that have a verdict now and had none before.
        failures: Presentations without a verdict, by kind of failure.
        input_tokens: Tokens the server counted in this run's requests.
        cached_tokens: Those of `input_tokens` that came from the server's cache.
        output_tokens: Tokens the server counted in its answers.
        reasoning_tokens: Those of `output_tokens` that nobody sees.
        unmetered: Answers whose tokens the server did not state; they are missing from tokens and cost.
        notices: Messages for the user.
    """

    price: Price | None = None
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
    notices: tuple[str, ...] = ()
    _usd: float = 0.0

    @property
    def cost_usd(self) -> float | None:
        """Return what the tokens cost, in US dollars; None where the price is unknown."""
        return None if self.price is None else self._usd

    def count(self, usage: Usage) -> None:
        """Add one paid answer."""
        self.unmetered += not usage.metered
        self.input_tokens += usage.input_tokens or 0
        self.cached_tokens += usage.cached_tokens or 0
        self.output_tokens += usage.output_tokens or 0
        self.reasoning_tokens += usage.reasoning_tokens or 0
        self._usd += (self.price and self.price.cost(usage)) or 0.0

    def progress(self, *, total: int, notices: Sequence[str]) -> RunProgress:
        """Return where the run is."""
        return RunProgress(
            total=total,
            verdicts=self.verdicts,
            failed=self.failures.total(),
            cost_usd=self.cost_usd,
            notice="; ".join(notices) or None,
            failures=dict(self.failures),
        )
