"""Checks in words, for a terminal."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence

from guard_eval.replicate.checks.records import Check
from guard_eval.replicate.checks.running import as_recorded

WIDTH = 100
_OUTCOMES = {"holds": "hold", "does not hold": "do not hold", "cannot be decided": "cannot be decided"}
_OUTCOME = {True: "holds", False: "does not hold", None: "cannot be decided"}


def outcome(check: Check) -> str:
    """Return a check's outcome in words.

    >>> outcome(Check(name="a", subject="", where="", claim="", found="", holds=False, source=""))
    'does not hold'
    """
    return "skipped" if check.skipped else _OUTCOME[check.holds]


def lines(check: Check) -> Iterator[str]:
    """Yield a check as lines of text: its outcome, the claim, what was found, and from what."""
    if check.skipped:
        yield f"{check.name}: skipped"
        yield from _wrapped("why", check.skipped)
        return
    changed = "" if as_recorded(check) else "  — NOT what docs/errata.md records"
    yield f"{check.name}: {outcome(check)}{changed}"
    yield from _wrapped("paper", f"{check.claim} ({check.where})")
    yield from _wrapped("found", check.found)
    for sentence in check.detail:
        yield from _wrapped("", sentence)
    yield from _wrapped("from", check.source)


def summary(checks: Sequence[Check]) -> str:
    """Return how many checks came out how, in one paragraph."""
    counts = Counter(outcome(check) for check in checks)
    said = ", ".join(f"{counts[word]} {words}" for word, words in _OUTCOMES.items())
    skipped = [check.name for check in checks if check.skipped]
    changed = [check.name for check in checks if not as_recorded(check)]
    plural = "" if len(checks) == 1 else "s"
    more = f", {len(skipped)} skipped" if skipped else ""
    parts = [f"{len(checks)} check{plural}: {said}{more}."]
    parts.append(
        f"Not as recorded in docs/errata.md: {', '.join(changed)}."
        if changed
        else "All that ran found what docs/errata.md records."
    )
    return " ".join(parts)


def _wrapped(word: str, text: str) -> Iterator[str]:
    head = f"  {word:<6}"
    yield from textwrap.wrap(
        text, WIDTH, initial_indent=head, subsequent_indent=" " * len(head), break_on_hyphens=False
    )
