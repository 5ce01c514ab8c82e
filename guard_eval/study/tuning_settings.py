"""The `[tuning]` table of study.toml: how one setting is chosen of each strategy that has several."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, NamedTuple

from pydantic import AfterValidator, Field

from guard_eval.errors import nearest
from guard_eval.study.criteria_settings import SettingsTable, each_once

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

JUDGE = "judge"
"""In place of a metric: the win share against the baseline, by all judges together."""
MORE_IS_BETTER = ("diversity", "mauve", "coherence", "bertscore", JUDGE)
LESS_IS_BETTER = ("perplexity", "rep_2", "rep_3", "rep_4")
NEITHER = ("words", "tokens", "ended")
"""Scores that a condition may limit, and that no setting is chosen by."""
COMPUTED_BY = {
    **dict.fromkeys(("rep_2", "rep_3", "rep_4"), "repetition"),
    **dict.fromkeys(NEITHER, "length"),
}
"""The metric of `metrics.compute` that a score belongs to, unless both have one name."""

_CONDITION = re.compile(r"\s*(\w+)\s*(>=|<=)\s*(-?\d+(?:\.\d+)?)\s*", re.ASCII)


class Condition(NamedTuple):
    """A limit that the score of a chosen setting keeps."""

    score: str
    sign: str
    limit: float

    @classmethod
    def parse(cls, text: str) -> Condition:
        """Read a condition such as `diversity >= 90`."""
        match = _CONDITION.fullmatch(text)
        if match is None:
            raise ValueError("is no condition; write one as: diversity >= 90")
        _check_score(match[1], [*MORE_IS_BETTER, *LESS_IS_BETTER, *NEITHER])
        return cls(match[1], match[2], float(match[3]))

    def __str__(self) -> str:
        """Return the condition in its one spelling."""
        return f"{self.score} {self.sign} {self.limit:g}"

    def holds(self, values: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return whether scores keep the limit; NaN does not."""
        return values >= self.limit if self.sign == ">=" else values <= self.limit


def _check_score(name: str, known: list[str]) -> str:
    if name not in known:
        raise ValueError(f"{name} is no score that a setting can be chosen by: {nearest(name, known)}")
    return name


class Tuning(SettingsTable):
    """How one setting is chosen of each strategy that has several.

    Attributes:
        prompts: Prompts of each dataset that are set apart for the choice, drawn by the seed. No pair has
            them. With 0, the setting is chosen on the prompts that test it, and the report warns.
        maximize: The score whose best setting is chosen: `diversity`, `mauve`, `coherence`, `bertscore`, or
            the least `perplexity`, `rep_2`, `rep_3` or `rep_4`; or `judge`, the win share against
            metrics.baseline by all judges together.
        where: Conditions that a chosen setting meets, such as `diversity >= 90`.
    """

    prompts: Annotated[int, Field(ge=0, le=10_000_000)]
    maximize: Annotated[
        str, AfterValidator(lambda name: _check_score(name, [*MORE_IS_BETTER, *LESS_IS_BETTER]))
    ]
    where: Annotated[
        list[Annotated[str, AfterValidator(lambda text: str(Condition.parse(text)))]],
        AfterValidator(each_once),
    ] = Field(default=[])

    @property
    def conditions(self) -> list[Condition]:
        """Return the conditions."""
        return list(map(Condition.parse, self.where))

    @property
    def direction(self) -> int:
        """Return 1 if more of the score is better, −1 if less is."""
        return -1 if self.maximize in LESS_IS_BETTER else 1

    @property
    def scores(self) -> list[str]:
        """Return the scores that the choice needs, and diversity, which the report shows beside them."""
        named = [self.maximize, *(each.score for each in self.conditions), "diversity"]
        return list(dict.fromkeys(named))
