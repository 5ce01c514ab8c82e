"""A dry run: what would be sent, where to, and for how much. It opens no connection and needs no key."""

from __future__ import annotations

import json
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from guard_eval.records import BlindPair
from guard_eval.settings import Judge
from judge.cost import Estimate, estimate, warnings
from judge.endpoint import server
from judge.parsing import visible
from judge.prompt import PROMPT_VERSION, request


@dataclass(frozen=True, kw_only=True, slots=True)
class DryRun:
    """What a run would do; every text is printable.

    Attributes:
        model: The judge's model.
        server: Where texts and key would go.
        prompt_version: The wording's hash.
        estimate: Requests, tokens and cost.
        warnings: What speaks against this model.
        example: The first request in full, as it would be sent; None where nothing is left to ask.
    """

    model: str
    server: str
    prompt_version: str
    estimate: Estimate
    warnings: tuple[str, ...]
    example: str | None

    @property
    def summary(self) -> tuple[str, ...]:
        """Return the run in lines to print, without the example."""
        left = self.estimate
        lines = [
            f"judge: {self.model} at {self.server} (prompt {self.prompt_version})",
            f"to ask: {left.requests:,} requests"
            + (f"; {left.reused:,} more are answered already" if left.reused else ""),
            f"tokens: at most {left.input_tokens:,} in, {left.output_tokens:,} out",
        ]
        if left.price is not None:
            lines.append(
                f"cost: about ${left.expected_usd:,.2f}, at worst ${left.worst_usd:,.2f} "
                f"(${left.price.input:g} in, ${left.price.output:g} out per million tokens, "
                f"{left.price.source})"
            )
        return (
            *lines,
            *(f"note: {note}" for note in left.notes),
            *(f"warning: {each}" for each in self.warnings),
        )


def dry_run(
    judge: Judge,
    pairs_left: Sequence[BlindPair],
    *,
    seed: int,
    answered: Container[str] = (),
    environ: Mapping[str, str] | None = None,
    today: date | None = None,
) -> DryRun:
    """Return what judging `pairs_left` would send and cost.

    Args:
        judge: The study's settings for this judge.
        pairs_left: What is left to be shown: with both orders each pair twice, once either way round.
        seed: The study's seed.
        answered: Keys of requests whose answers are in the journal, as `Store.answers` has them.
        environ: The environment; the process's own by default.
        today: The day from which shutdowns are counted; the present one by default.

    Raises:
        StudyError: The judge's address cannot be used.
    """
    there = located(judge, environ)
    return DryRun(
        model=visible(judge.model),
        server=str(there.base_url),
        prompt_version=PROMPT_VERSION,
        estimate=estimate(there, pairs_left, seed=seed, answered=answered),
        warnings=warnings(there, today=today),
        example=_example(there, pairs_left[0], seed) if pairs_left else None,
    )


def located(judge: Judge, environ: Mapping[str, str] | None = None) -> Judge:
    """Return `judge` with the address that the environment gives it.

    Raises:
        StudyError: The address cannot be used.
    """
    return judge.model_copy(update={"base_url": server(judge, environ)})


def _example(judge: Judge, blind: BlindPair, seed: int) -> str:
    body = request(judge, blind, seed)
    parts = [f"[{message['role']}]\n{message['content']}" for message in body.pop("messages")]
    settings = "\n".join(f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in body.items())
    return visible("\n\n".join([f"[request]\n{settings}", *parts]))
