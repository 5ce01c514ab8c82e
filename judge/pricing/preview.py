"""A dry run: what would be sent, where to, and for how much. It opens no connection and needs no key."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from guard_eval.records import JudgeSpending
from guard_eval.reporting.escaping import visible
from guard_eval.store import Showing
from guard_eval.study.judge_settings import Judge
from judge.pricing.availability import warnings
from judge.pricing.estimate import Estimate, estimate
from judge.pricing.prices import PriceList, price, understated
from judge.pricing.tokens import counter
from judge.prompts.examples import described, one_sided
from judge.prompts.prompt import prompt_of
from judge.providers.endpoint import key_variable, proxy_of, through, with_server_url
from judge.providers.shapes import first_shape, settings_in, texts_of
from judge.rater import rater_name
from judge.request import RequestBuilder


@dataclass(frozen=True, kw_only=True, slots=True)
class DryRun:
    """What a run would do; every text is printable.

    Attributes:
        name: What the judge is called as a rater.
        model: The judge's model.
        server: Where texts and key would go.
        variable: The environment variable with the key; None where no key is sent.
        style: In which of the interfaces it is asked first, or that it is asked in a batch.
        prompt_version: The wording's hash.
        special: In what the way it is asked is not the paper's; None where it is.
        estimate: Requests, tokens and cost.
        warnings: What speaks against this model.
        example: The first request in full, as it would be sent; None where nothing is left to ask.
    """

    name: str
    model: str
    server: str
    variable: str | None
    style: str
    prompt_version: str
    special: str | None
    estimate: Estimate
    warnings: tuple[str, ...]
    example: str | None

    @property
    def summary(self) -> tuple[str, ...]:
        """Return the run in lines to print, without the example."""
        left = self.estimate
        who = self.name if self.name == self.model else f"{self.name} ({self.model})"
        lines = [
            f"judge: {who} at {self.server} ({self.style}, prompt {self.prompt_version})",
            *((f"asked with {self.special}",) if self.special else ()),
            f"key: {'none is sent' if self.variable is None else f'that in {self.variable}, if it is set'}",
            f"to ask: {left.requests:,} requests"
            + (f"; {left.reused:,} more are answered already" if left.reused else ""),
            f"prompt tokens: {'exactly' if left.exact else 'at most'} {left.input_tokens:,} "
            + ("(by the model's own tokenizer)" if left.exact else "(UTF-8 bytes; the model's are fewer)"),
            f"answer tokens: at most {left.output_tokens:,}",
            *_prices(left),
        ]
        return (
            *lines,
            *(f"note: {note}" for note in left.notes),
            *(f"warning: {each}" for each in self.warnings),
        )

    @property
    def costs(self) -> tuple[tuple[str, str, str], ...]:
        """Return the cost online and in a batch, expected and at worst; nothing where it is unknown or 0."""
        left = self.estimate
        if left.price is None or left.price.assumed:
            return ()
        return (
            (f"{self.name}, online", usd(left.expected_usd), usd(left.worst_usd)),
            (f"{self.name}, in a batch", usd(left.batch_expected_usd), usd(left.batch_worst_usd)),
        )


def usd(amount: float | None) -> str:
    """Return an amount of US dollars for people: to the cent, small ones to four places.

    >>> usd(1234.5), usd(0.00042), usd(0), usd(None)
    ('$1,234.50', '$0.0004', '$0.00', 'unknown')
    """
    if amount is None:
        return "unknown"
    return f"${amount:,.4f}" if 0 < amount < 0.1 else f"${amount:,.2f}"


def dry_run(
    judge: Judge,
    left: Sequence[Showing],
    *,
    seed: int,
    answered: Collection[str] = (),
    so_far: JudgeSpending | None = None,
    own: PriceList | None = None,
    folder: Path | None = None,
    environ: Mapping[str, str] | None = None,
    today: date | None = None,
) -> DryRun:
    """Return what judging what is left would send and cost.

    Args:
        judge: The study's settings for this judge.
        left: What is left to be shown: with both orders each pair twice, once either way round.
        seed: The study's seed.
        answered: Keys of requests whose answers are in the journal, as `Store.answered` has them.
        so_far: What the judge's answers have taken so far, if there are any.
        own: The study's own list of prices.
        folder: The study's, from which a model's folder is seen.
        environ: The environment; the process's own by default.
        today: The day from which shutdowns are counted; the present one by default.

    Raises:
        StudyError: The judge's address cannot be used.
    """
    located = with_server_url(judge, environ)
    variable = key_variable(judge, environ)
    proxy = proxy_of(str(located.base_url), keyed=variable is not None)
    return DryRun(
        name=visible(rater_name(judge)),
        model=visible(judge.model),
        server=f"{located.base_url}{through(proxy)}",
        variable=variable,
        style="batch" if judge.style == "batch" else first_shape(judge).dialect,
        prompt_version=prompt_of(judge).version,
        special=visible(described(judge) or "") or None,
        estimate=estimate(
            judge,
            left,
            seed=seed,
            answered=answered,
            known=price(located, own=own),
            so_far=so_far,
            counter=counter(judge.model, folder=folder, environ=environ),
        ),
        warnings=(
            *warnings(located, today=today, own=own),
            *filter(None, [understated(located, own=own)]),
            *one_sided(judge),
        ),
        example=_example(judge, left[0], seed) if left else None,
    )


def _prices(left: Estimate) -> list[str]:
    known = left.price
    if known is None or known.assumed:
        return []
    cached = "" if known.cached is None else f", ${known.cached:g} cached"
    figures = f"${known.input:g} in{cached}, ${known.output:g} out per million tokens"
    return [f"price: {figures}; in a batch × {known.batch_factor:g} ({known.source})"]


def _example(judge: Judge, showing: Showing, seed: int) -> str:
    body = json.loads(RequestBuilder(judge, seed=seed).build(showing).body)
    messages, values = texts_of(body), settings_in(body)
    parts = [f"[{message['role']}]\n{message['content']}" for message in messages]
    settings = "\n".join(f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in values.items())
    return visible("\n\n".join([f"[POST {first_shape(judge).path}]\n{settings}", *parts]))
