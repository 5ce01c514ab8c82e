"""Lists of prices and of announced ends: the study's own `prices.toml`, and the package's.

Prices of most models come from the package genai-prices (see `judge.pricing.catalogue`); the list of this
package has what that lacks.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from datetime import date
from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from guard_eval.errors import StudyError
from guard_eval.study.problems import message_of

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
        return PriceList.model_validate(tomllib.loads(path.read_text(encoding="utf-8-sig")))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise StudyError(f"cannot read {path}: {error}; correct or remove it") from error
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        where = ".".join(map(str, problem["loc"]))
        message = message_of(problem)
        raise StudyError(
            f'{path}: {where}: {message}; a model stands there as "NAME" = '
            "{ input = 2.50, cached = 1.25, output = 10.00 } under [models]"
        ) from error


def lists(own: PriceList | None) -> Sequence[PriceList]:
    """Return the lists in the order in which they count: the study's own, if any, and the package's."""
    return (_shipped(),) if own is None else (own, _shipped())


@cache
def _shipped() -> PriceList:
    text = Path(__file__).with_name(_FILE).read_text(encoding="utf-8")
    return PriceList.model_validate(tomllib.loads(text))
