"""What a run did and what it cost."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from guard_eval.store import Failure, Usage
from judge.failures import ErrorKind
from judge.pricing.price import Price

_VARIES = re.compile(r"\d+(?:[.,:]\d+)*|\b(?=\w*\d)[\w-]{8,}")


@dataclass(frozen=True, kw_only=True, slots=True)
class FailureReason:
    """How often a judge failed for one reason.

    Attributes:
        judge: The judge's name as a rater.
        kind: The kind of failure, of `judge.failures.ErrorKind`.
        reason: The server's sentence, or ours; an example where numbers and names in it differ.
        count: Showings that failed so, and have no verdict.
    """

    judge: str
    kind: str
    reason: str
    count: int


def failure_reasons(failures: Iterable[Failure]) -> list[FailureReason]:
    """Return why showings have no verdict, by judge, the most frequent first.

    Of a showing's failures the last one counts. Sentences that differ in nothing but numbers, such as seconds
    to wait, or in the name of a request, are one reason.
    """
    latest = {(each.rater, each.presentation): (each.kind, each.detail) for each in failures}
    return counted_reasons(Counter((judge, *why) for (judge, _), why in latest.items()))


def counted_reasons(counts: Mapping[tuple[str, str, str], int]) -> list[FailureReason]:
    """Return the reasons of failures that are counted by judge, kind and sentence; see `failure_reasons`."""
    examples: dict[tuple[str, str, str], str] = {}
    together: Counter[tuple[str, str, str]] = Counter()
    for (judge, kind, detail), count in counts.items():
        key = judge, kind, _VARIES.sub("#", detail)
        examples.setdefault(key, detail)
        together[key] += count
    ordered = sorted(together.items(), key=lambda each: (each[0][0], -each[1], each[0]))
    return [
        FailureReason(judge=key[0], kind=key[1], reason=examples[key], count=count) for key, count in ordered
    ]


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
        reasons: The same by kind and sentence.
        input_tokens: Tokens the server counted in this run's requests.
        cached_tokens: Those of `input_tokens` that came from the server's cache.
        output_tokens: Tokens the server counted in its answers.
        reasoning_tokens: Those of `output_tokens` that the server does not show.
        unmetered: Answers whose tokens the server did not state; they are missing from tokens and cost.
        notices: Messages for the user.
    """

    price: Price | None = None
    requests: int = 0
    retries: int = 0
    reused: int = 0
    verdicts: int = 0
    failures: Counter[ErrorKind] = field(default_factory=Counter)
    reasons: Counter[tuple[str, str]] = field(default_factory=Counter)
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
