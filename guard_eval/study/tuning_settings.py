"""The `[tuning]` table of study.toml: the rule that chooses one setting of each strategy."""

from __future__ import annotations

import re
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, Field

from guard_eval.errors import suggest_nearest_word
from guard_eval.study.criteria_settings import SettingsTable, refuse_duplicates

JUDGE = "judge"
"""The score that is no metric: the win share against the baseline, by all judges together."""
TUNING_DATABASE = "tuning.db"
"""The name of the database with the judges' verdicts on settings."""
Maximized = Literal[
    "diversity", "mauve", "coherence", "bertscore", "perplexity", "rep_2", "rep_3", "rep_4", "judge"
]
LESS_IS_BETTER = ("perplexity", "rep_2", "rep_3", "rep_4")
LIMITED = (*get_args(Maximized), "words", "tokens", "ended")
"""The scores that conditions may limit."""


def _normalise_condition(text: str) -> str:
    match = re.fullmatch(r"\s*(\w+)\s*(>=|<=)\s*(-?\d+(?:\.\d+)?)\s*", text, re.ASCII)
    if match is None:
        raise ValueError(f"{text!r} is not a condition; write, for example: diversity >= 90")
    if match[1] not in LIMITED:
        raise ValueError(f"{match[1]} is not a score: {suggest_nearest_word(match[1], [*LIMITED])}")
    return " ".join(match.groups())


Condition = Annotated[str, AfterValidator(_normalise_condition)]


class Tuning(SettingsTable):
    """The rule that chooses one setting of each strategy with several settings.

    Attributes:
        prompts: The number of prompts of each dataset that are set apart for the choice. The seed draws them,
            and no pair has them. With 0, the same prompts choose and test the settings, and the report warns.
        maximize: The score that chooses: the setting with the lowest `perplexity`, `rep_2`, `rep_3` or
            `rep_4`, or with the highest other score. `judge` is the win share against metrics.baseline by
            all judges together.
        where: The conditions that the chosen setting meets, such as `diversity >= 90`.
    """

    prompts: Annotated[int, Field(ge=0, le=10_000_000)]
    maximize: Maximized
    where: Annotated[list[Condition], AfterValidator(refuse_duplicates)] = Field(default=[])

    @property
    def conditions(self) -> list[tuple[str, str, float]]:
        """Return the score, the sign and the limit of each condition."""
        parts = [text.split() for text in self.where]
        return [(score, sign, float(limit)) for score, sign, limit in parts]

    @property
    def scores(self) -> list[str]:
        """Return the scores that the choice needs, and diversity, which the report also shows."""
        limited = [score for score, _, _ in self.conditions]
        return list(dict.fromkeys([self.maximize, *limited, "diversity"]))
