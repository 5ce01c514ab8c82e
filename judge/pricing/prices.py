"""What a judge's tokens cost, and what all judges may spend.

study.toml goes first, then a `prices.toml` in the study's folder, then this package's own list, then the
package genai-prices. A model that none of them has costs nothing where its server is on this machine or in
this network, and has no price elsewhere.
"""

from __future__ import annotations

import ipaddress
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from functools import cache
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from guard_eval.errors import StudyError
from guard_eval.store import Usage
from guard_eval.study.judge_settings import Judge
from guard_eval.study.problems import message_of, read_toml
from judge.backend import JudgeRequest
from judge.pricing.price import BATCH_FACTOR, Price, catalogue_price
from judge.providers.endpoint import MAKERS

KEYS = "usd_per_million_input_tokens and usd_per_million_output_tokens"
"""The settings that make an unknown price known."""

OWN = "study.toml"
LOCAL = "its server is in this network, and its model in no list of prices"


_FILE = "prices.toml"

Usd = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ListedPrice(_Strict):
    """One model's prices."""

    input: Usd
    output: Usd
    cached: Usd | None = None
    batch_factor: Annotated[float, Field(gt=0, le=1)] | None = None


class PriceList(_Strict):
    """A file of prices; the study's own needs no more than `[models]`.

    Attributes:
        as_of: When it was written.
        source: Where its figures are from.
        batch_factor: What a batch costs, as a part of the price, where neither model nor catalogue says so.
        models: Prices by the model's name.
        snapshots: Names under which a model may change, and what to pin instead.
        shutdown: Models by the day on which their makers switch them off.
        instead: What replaces a model that is switched off, by the beginning of its name.
    """

    as_of: date | None = None
    source: str = ""
    batch_factor: Annotated[float, Field(gt=0, le=1)] | None = None
    models: dict[str, ListedPrice] = {}
    snapshots: dict[str, str] = {}
    shutdown: dict[date, list[str]] = {}
    instead: dict[str, str] = {}


def study_prices(folder: Path) -> PriceList | None:
    """Return the study's own list of prices, or None where there is none.

    Raises:
        StudyError: It cannot be read.
    """
    path = folder / _FILE
    if not path.exists():
        return None
    try:
        return PriceList.model_validate(read_toml(path))
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        where = ".".join(map(str, problem["loc"]))
        message = message_of(problem)
        raise StudyError(
            f'{path}: {where}: {message}; a model is written there as "NAME" = '
            "{ input = 2.50, cached = 1.25, output = 10.00 } under [models]"
        ) from error


def lists(own: PriceList | None) -> Sequence[PriceList]:
    """Return the lists in the order in which they count: the study's own, if any, and the package's."""
    return (_shipped(),) if own is None else (own, _shipped())


@cache
def _shipped() -> PriceList:
    text = Path(__file__).with_name(_FILE).read_text(encoding="utf-8")
    return PriceList.model_validate(tomllib.loads(text))


def price(judge: Judge, *, own: PriceList | None = None) -> Price | None:
    """Return the price of the judge's tokens, or None where it is unknown.

    Args:
        judge: The study's settings for this judge, with its server's address.
        own: The study's own list; see `study_prices`.
    """
    input_usd, output_usd = judge.usd_per_million_input_tokens, judge.usd_per_million_output_tokens
    cached = judge.usd_per_million_cached_tokens
    listed = _listed(judge, own)
    if listed is None:
        if input_usd is None and output_usd is None and is_local(judge.base_url):
            return Price(input=0.0, output=0.0, source=LOCAL, assumed=True)
        if input_usd is None or output_usd is None:
            return None
        listed = Price(input=input_usd, output=output_usd, source=OWN)
    factor = judge.batch_factor or listed.batch_factor
    if input_usd in (None, listed.input) and output_usd in (None, listed.output):
        source = listed.source if None in (input_usd, output_usd) else OWN
        cached = listed.cached if cached is None else cached
        return replace(listed, source=source, cached=cached, batch_factor=factor)
    return Price(
        input=listed.input if input_usd is None else input_usd,
        output=listed.output if output_usd is None else output_usd,
        source=listed.source if None in (input_usd, output_usd) else OWN,
        cached=listed.cached if cached is None and input_usd in (None, listed.input) else cached,
        batch_factor=factor,
    )


def understated(judge: Judge, *, own: PriceList | None = None) -> str | None:
    """Return what to say where the study states less than the lists here do; None elsewhere.

    A study is a stranger's files, and with prices that are too low a budget would let everything through.
    """
    stated, listed = price(judge, own=own), _listed(judge, None)
    if stated is None or listed is None or is_local(judge.base_url):
        return None
    if stated.input >= listed.input and stated.output >= listed.output:
        return None
    return (
        f"{stated.source} states ${stated.input:g} in and ${stated.output:g} out per million tokens, where "
        f"{listed.source} has ${listed.input:g} and ${listed.output:g}: a budget holds only if you pay the "
        "lower price"
    )


def priced(judge: Judge, known: Price) -> Judge:
    """Return `judge` with `known` in its settings, so that the settings suffice without a list."""
    return judge.model_copy(
        update={
            "usd_per_million_input_tokens": known.input,
            "usd_per_million_cached_tokens": known.cached,
            "usd_per_million_output_tokens": known.output,
            "batch_factor": known.batch_factor,
        }
    )


def is_local(url: str | None) -> bool:
    """Return whether a server is on this machine or in this network, as far as its address shows.

    >>> [is_local(url) for url in ("http://127.0.0.1:1/v1", "http://vllm:8000/v1", "https://api.x.ai/v1")]
    [True, True, False]
    """
    host = urlsplit(url).hostname if url else None
    if not host:
        return False
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "." not in host or host.endswith((".local", ".localhost", ".internal", ".lan"))
    return address.is_private or address.is_loopback


def _listed(judge: Judge, own: PriceList | None) -> Price | None:
    """Return the price of a list or of the catalogue."""
    for each in lists(own):
        if (found := each.models.get(judge.model)) is not None:
            source = "the study's prices.toml" if each is own else "the list"
            return Price(
                input=found.input,
                output=found.output,
                cached=found.cached,
                batch_factor=found.batch_factor or each.batch_factor or BATCH_FACTOR,
                source=f"{source} of {each.as_of}" if each.as_of else source,
            )
    return catalogue_price(judge.model, judge.base_url or MAKERS[judge.provider].url)


class Budget:
    """The judge's prices, and what all judges of the study may cost together.

    Attributes:
        limit_usd: That limit, over all runs; None for none.
        times: How many times the sum that was set aside for it a response has cost in this run, at worst.
        unproven: Whether there is a limit, and no response has shown yet what the server charges.
    """

    def __init__(self, price: Price | None, limit_usd: float | None, *, model: str) -> None:
        if limit_usd is not None and price is None:
            raise StudyError(
                f"the price of {model!r} is unknown, so no budget can be held; set {KEYS} in study.toml, or "
                "leave out --budget"
            )
        self.limit_usd = limit_usd
        self._price = price
        self.unproven = limit_usd is not None
        self.times = 1.0

    def most(self, request: JudgeRequest) -> float | None:
        """Return the most a request can cost: no tokeniser makes more tokens than there are bytes."""
        if self._price is None:
            return None
        return self._price.most_usd(len(request.body), request.max_output_tokens)

    def cost(self, usage: Usage) -> float | None:
        """Return what an answer cost; None where its tokens or the price are unknown."""
        return None if self._price is None else self._price.cost(usage)

    def overrun(self, request: JudgeRequest, usage: Usage) -> str | None:
        """Return what to say of the first response that cost more than was set aside; None for others."""
        most, cost = self.most(request), self.cost(usage)
        self.unproven = False
        if not most or cost is None or cost <= most * self.times:
            return None
        first, self.times = self.times == 1.0, cost / most
        if not first:
            return None
        return (
            f"a response cost ${cost:.4f}, where ${most:.4f} was set aside ({usage.output_tokens} tokens, "
            f"of {request.max_output_tokens} allowed): under --budget each request now counts "
            f"{self.times:.1f} times its own sum"
        )

    def used_up(self, most: float | None) -> StudyError:
        """Return the error that ends a run when nothing more fits into the budget."""
        least = (most or 0) * self.times
        return StudyError(
            f"the budget of ${self.limit_usd:g} is used up: what is spent or held leaves less than the "
            f"${least:.4f} that the next request can cost at most; what was answered is saved, and "
            "--budget with a larger sum goes on from here"
        )
