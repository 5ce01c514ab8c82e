"""What a check of the paper comes to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """A claim of the paper beside what was computed.

    Attributes:
        name: What `guard-eval replicate --check` calls it.
        subject: What the check is about; checks of one subject stand together.
        where: The label in the paper's TeX, or the appendix.
        claim: What the paper says, in quotation marks where word for word.
        found: What is so, with its figures.
        holds: Whether the claim holds; None where what is published cannot decide.
        source: What the figures were computed from.
        detail: More, a sentence each.
        skipped: Why the check could not be made here; empty where it was made.
    """

    name: str
    subject: str
    where: str
    claim: str
    found: str
    holds: bool | None
    source: str
    detail: tuple[str, ...] = ()
    skipped: str = ""

    @property
    def command(self) -> str:
        """Return the command that makes this check alone."""
        return f"guard-eval replicate --check {self.name}"


class NotHereError(Exception):
    """What a check needs is not on this machine; the message says what, and how to get it."""
