"""What judging will cost before it is paid, and whether the judge's model will still be there.

Prices and shutdown dates lie in `prices.json`; a price in study.toml goes before them.
"""

from __future__ import annotations

import json
from collections.abc import Container, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cache
from pathlib import Path
from typing import Any

from guard_eval.records import BlindPair
from guard_eval.settings import Judge
from judge.parsing import ASK_AGAIN
from judge.prompt import canonical, keys, request

SAMPLES = 3
"""How often one presentation is asked at most, when an answer came that no verdict can be read from."""

WARN_DAYS = 90
"""How long before a model's shutdown the judge begins to warn."""

_BYTES_PER_TOKEN = 4
_TOKENS_PER_CRITERION = 8
_TOKENS_OF_BRACES = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Price:
    """US dollars per million tokens, and where the figures are from."""

    input: float
    output: float
    source: str

    def usd(self, input_tokens: int, output_tokens: int) -> float:
        """Return what so many tokens cost, in US dollars.

        >>> Price(input=2.5, output=10.0, source="").usd(1_000_000, 100_000)
        3.5
        """
        return (input_tokens * self.input + output_tokens * self.output) / 1_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """What is left to ask, and what that may cost; both costs are None where the model's price is unknown.

    Attributes:
        requests: Requests to be paid if every answer can be read.
        reused: Presentations that cost nothing: the journal has their answer, or another request brings the
            same.
        input_tokens: Upper bound of the prompts' tokens: the UTF-8 bytes of the requests. A byte-level
            tokeniser never makes more tokens than bytes; of English it makes about a quarter.
        output_tokens: Upper bound of one answer each: `max_output_tokens`.
        expected_usd: With four bytes to a token and answers of the bare JSON.
        worst_usd: With both upper bounds and every request asked `SAMPLES` times.
        price: The price these costs are made with.
        notes: What to know of them, a sentence each.
    """

    requests: int
    reused: int
    input_tokens: int
    output_tokens: int
    expected_usd: float | None
    worst_usd: float | None
    price: Price | None
    notes: tuple[str, ...]


def price(judge: Judge) -> Price | None:
    """Return the price of the judge's tokens: study.toml's own, else the table's, else None."""
    own = (judge.usd_per_million_input_tokens, judge.usd_per_million_output_tokens)
    listed = _table()["usd_per_million_tokens"].get(judge.model) if _at_openai(judge) else None
    source = "study.toml"
    if listed is not None and None in own:
        source = f"list of {_table()['as_of']}"
    input_usd = own[0] if own[0] is not None or listed is None else listed["input"]
    output_usd = own[1] if own[1] is not None or listed is None else listed["output"]
    if input_usd is None or output_usd is None:
        return None
    return Price(input=input_usd, output=output_usd, source=source)


def estimate(
    judge: Judge, blinds: Sequence[BlindPair], *, seed: int, answered: Container[str] = ()
) -> Estimate:
    """Return what it takes to judge `blinds`, one request each.

    Args:
        judge: The study's settings for this judge.
        blinds: What is left to be shown, once for each order.
        seed: The study's seed.
        answered: Keys of requests whose answers are in the journal.
    """
    sizes: dict[str, int] = {}
    for blind in blinds:
        names = keys(judge, blind, seed)
        if not any(name in answered for name in names.values()):
            sizes[names["json_schema"]] = len(canonical(request(judge, blind, seed)))
    paid = list(sizes.values())
    input_tokens = sum(paid)
    output_tokens = len(paid) * judge.max_output_tokens
    likely = len(paid) * (_TOKENS_PER_CRITERION * len(judge.criteria) + _TOKENS_OF_BRACES)
    known = price(judge)
    return Estimate(
        requests=len(paid),
        reused=len(blinds) - len(paid),
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        expected_usd=None if known is None else known.usd(-(-input_tokens // _BYTES_PER_TOKEN), likely),
        worst_usd=None if known is None else known.usd(SAMPLES * input_tokens, SAMPLES * output_tokens),
        price=known,
        notes=_notes(judge, known),
    )


def _notes(judge: Judge, known: Price | None) -> tuple[str, ...]:
    own = "usd_per_million_input_tokens and usd_per_million_output_tokens"
    unknown = f"the price of {judge.model!r} is unknown, and so is the cost: set {own} in study.toml"
    worst = (
        "the worst case counts each UTF-8 byte of the requests as a token, max_output_tokens for every "
        f"answer, and {SAMPLES} times each request, for answers that are {', '.join(sorted(ASK_AGAIN))}; not "
        "in it are requests whose answer is lost on its way, which a server may charge"
    )
    dated = (
        f"prices are those of {_table()['as_of']} and may have changed; {own} in study.toml go before them"
    )
    if known is None:
        return (unknown,)
    return (worst,) if known.source == "study.toml" else (worst, dated)


def warnings(judge: Judge, *, today: date | None = None) -> tuple[str, ...]:
    """Return what is wrong with the judge's model: switched off, soon to be, or a name whose model changes.

    Only OpenAI's own models are known; a judge at another server has no warnings.
    """
    if not _at_openai(judge):
        return ()
    said = []
    end = shutdown(judge.model)
    days = (end - (today or datetime.now(UTC).date())).days if end else WARN_DAYS + 1
    if days <= 0:
        said.append(f"OpenAI announced that {judge.model} is switched off since {end}; name another model")
    elif days <= WARN_DAYS:
        said.append(
            f"OpenAI announced that {judge.model} is switched off on {end}, in {days} "
            f"day{'s' if days > 1 else ''}; finish before, or name another model"
        )
    snapshot = _table()["snapshots"].get(judge.model)
    if snapshot:
        said.append(f"{judge.model} may change its model under that name; pin a snapshot, such as {snapshot}")
    return tuple(said)


def shutdown(model: str) -> date | None:
    """Return the day on which OpenAI announced to switch `model` off, where it is known."""
    return next(
        (date.fromisoformat(day) for day, names in _table()["shutdown"].items() if model in names), None
    )


def _at_openai(judge: Judge) -> bool:
    return judge.base_url is None or judge.base_url.startswith("https://api.openai.com/")


@cache
def _table() -> Any:  # noqa: ANN401 (what prices.json says)
    return json.loads(Path(__file__).with_name("prices.json").read_text(encoding="utf-8"))
