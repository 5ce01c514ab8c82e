"""What a judge's tokens cost, and whether its model will still be there.

study.toml goes first, then a `prices.toml` in the study's folder, then the package's own list. A model in no
list costs nothing where its server is on this machine or in this network, and has no price elsewhere.
"""

from __future__ import annotations

import ipaddress
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import cache
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from guard_eval.errors import StudyError
from guard_eval.store import Usage
from guard_eval.study.judge_settings import Judge
from judge.backend import JudgeRequest

WARN_DAYS = 60
"""How long before a model's shutdown the judge begins to warn."""

KEYS = "usd_per_million_input_tokens and usd_per_million_output_tokens"
"""The settings that make an unknown price known."""

BATCH_FACTOR = 0.5
"""What a batch costs where nobody says otherwise: the rebate that came with the Batch API."""

OWN = "study.toml"
LOCAL = "its server is in this network, and its model in no list of prices"

_FILE = "prices.toml"
_MILLION = 1_000_000

Usd = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Listed(_Strict):
    """One model's prices."""

    input: Usd
    output: Usd
    cached: Usd | None = None
    batch_factor: Annotated[float, Field(gt=0, le=1)] | None = None


class PriceList(_Strict):
    """A file of prices; the study's own needs no more than `[models]`."""

    as_of: date | None = None
    source: str = ""
    batch_factor: Annotated[float, Field(gt=0, le=1)] | None = None
    models: dict[str, _Listed] = {}
    snapshots: dict[str, str] = {}
    shutdown: dict[date, list[str]] = {}


@dataclass(frozen=True, kw_only=True, slots=True)
class Price:
    """US dollars per million tokens, and where the figures are from.

    Attributes:
        input: Of the prompt's tokens.
        output: Of the answer's tokens, reasoning among them.
        source: Who says so.
        cached: Of prompt tokens that the server had in its cache; the input's where it is not known.
        batch_factor: What a batch costs, as a part of that.
        assumed: Nothing states that it is free; the server is merely a local one.
    """

    input: float
    output: float
    source: str
    cached: float | None = None
    batch_factor: float = BATCH_FACTOR
    assumed: bool = False

    def usd(self, input_tokens: int, output_tokens: int, *, cached: int = 0) -> float:
        """Return what so many tokens cost, in US dollars.

        Args:
            input_tokens: Of the prompt, those from the cache included.
            output_tokens: Of the answer, reasoning included.
            cached: How many of the input's came from the cache.

        >>> price = Price(input=2.5, cached=1.25, output=10.0, source="")
        >>> price.usd(1_000_000, 100_000), price.usd(1_000_000, 100_000, cached=400_000)
        (3.5, 3.0)
        >>> price.in_batch().usd(1_000_000, 100_000, cached=400_000)
        1.75
        """
        rebate = 0.0 if self.cached is None else min(cached, input_tokens) * (self.input - self.cached)
        return (input_tokens * self.input - rebate + output_tokens * self.output) / _MILLION

    def cost(self, usage: Usage) -> float | None:
        """Return what an answer cost, in US dollars; None where the server does not state its tokens."""
        if usage.input_tokens is None or usage.output_tokens is None:
            return None
        return self.usd(usage.input_tokens, usage.output_tokens, cached=usage.cached_tokens or 0)

    def in_batch(self) -> Price:
        """Return the price of the same tokens in a batch.

        Tokens from the cache cost there what others do: sources disagree on whether both rebates are given,
        and a sum may be too high and not too low.
        """
        factor = self.batch_factor
        return replace(self, input=factor * self.input, output=factor * self.output, cached=None)


def price(judge: Judge, *, own: PriceList | None = None) -> Price | None:
    """Return the price of the judge's tokens, or None where nobody knows it.

    Args:
        judge: The study's settings for this judge, with its server's address.
        own: The study's own list; see `study_prices`.
    """
    input_usd, output_usd = judge.usd_per_million_input_tokens, judge.usd_per_million_output_tokens
    listed, source, factor = _listed(judge.model, own)
    if listed is not None:
        source = OWN if None not in (input_usd, output_usd) else source
        input_usd = listed.input if input_usd is None else input_usd
        output_usd = listed.output if output_usd is None else output_usd
    elif input_usd is not None and output_usd is not None:
        source = OWN
    elif (input_usd, output_usd) == (None, None) and is_local(judge.base_url):
        return Price(input=0.0, output=0.0, source=LOCAL, assumed=True)
    if input_usd is None or output_usd is None:
        return None
    cached = judge.usd_per_million_cached_tokens
    if cached is None and listed is not None and input_usd == listed.input:
        cached = listed.cached
    return Price(
        input=input_usd,
        output=output_usd,
        source=source,
        cached=cached,
        batch_factor=judge.batch_factor or factor,
    )


def priced(judge: Judge, known: Price) -> Judge:
    """Return `judge` with `known` in its settings, so that whoever has them needs no list."""
    return judge.model_copy(
        update={
            "usd_per_million_input_tokens": known.input,
            "usd_per_million_cached_tokens": known.cached,
            "usd_per_million_output_tokens": known.output,
            "batch_factor": known.batch_factor,
        }
    )


def study_prices(folder: Path) -> PriceList | None:
    """Return the study's own list of prices, or None where there is none.

    Raises:
        StudyError: It cannot be read.
    """
    path = folder / _FILE
    if not path.exists():
        return None
    try:
        return PriceList.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise StudyError(f"cannot read {path}: {error}; correct or remove it") from error
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        where = ".".join(map(str, problem["loc"]))
        message = str(problem["msg"])
        raise StudyError(
            f'{path}: {where}: {message[:1].lower()}{message[1:]}; a model stands there as "NAME" = '
            "{ input = 2.50, cached = 1.25, output = 10.00 } under [models]"
        ) from error


def is_local(url: str | None) -> bool:
    """Return whether a server is on this machine or in this network, as far as its address tells.

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


def warnings(judge: Judge, *, today: date | None = None, own: PriceList | None = None) -> tuple[str, ...]:
    """Return what is wrong with the judge's model: switched off, soon to be, or a name whose model changes.

    Only models of the lists are known; a judge at another server than OpenAI's has no warnings.
    """
    if not at_openai(judge):
        return ()
    found = []
    end = shutdown(judge.model, own=own)
    days = (end - (today or datetime.now(UTC).date())).days if end else WARN_DAYS + 1
    if days <= 0:
        found.append(f"OpenAI announced that {judge.model} is switched off since {end}; name another model")
    elif days <= WARN_DAYS:
        found.append(
            f"OpenAI announced that {judge.model} is switched off on {end}, in {days} "
            f"day{'s' if days > 1 else ''}; finish before, or name another model"
        )
    snapshot = next(
        (each.snapshots[judge.model] for each in _lists(own) if judge.model in each.snapshots), None
    )
    if snapshot:
        found.append(
            f"{judge.model} may change its model under that name; pin a snapshot, such as {snapshot}"
        )
    return tuple(found)


def shutdown(model: str, *, own: PriceList | None = None) -> date | None:
    """Return the day on which OpenAI announced to switch `model` off, where it is known."""
    return next((day for each in _lists(own) for day, names in each.shutdown.items() if model in names), None)


def at_openai(judge: Judge) -> bool:
    """Return whether the judge is asked at OpenAI itself."""
    return judge.base_url is None or judge.base_url.startswith("https://api.openai.com/")


def _listed(model: str, own: PriceList | None) -> tuple[_Listed | None, str, float]:
    """Return a model's entry, which list it is of, and what a batch costs there."""
    for each in _lists(own):
        if (found := each.models.get(model)) is not None:
            source = "the study's prices.toml" if each is own else "the list"
            dated = f"{source} of {each.as_of}" if each.as_of else source
            return found, dated, found.batch_factor or each.batch_factor or BATCH_FACTOR
    return None, "", BATCH_FACTOR


def _lists(own: PriceList | None) -> Sequence[PriceList]:
    return (_shipped(),) if own is None else (own, _shipped())


@cache
def _shipped() -> PriceList:
    text = Path(__file__).with_name(_FILE).read_text(encoding="utf-8")
    return PriceList.model_validate(tomllib.loads(text))


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
                f"the price of {model!r} is unknown, so no budget can be held; set "
                "usd_per_million_input_tokens and usd_per_million_output_tokens in study.toml, or leave out "
                "--budget"
            )
        self.limit_usd = limit_usd
        self._price = price
        self.unproven = limit_usd is not None
        self.times = 1.0

    def most(self, request: JudgeRequest) -> float | None:
        """Return the most a request can cost: no tokeniser makes more tokens than there are bytes."""
        if self._price is None:
            return None
        return self._price.usd(len(request.body), request.max_output_tokens)

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
