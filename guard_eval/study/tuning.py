"""The `[tuning]` table of study.toml, and its choice: one setting of each strategy, with warnings."""

import math
import re
from collections.abc import Iterator
from typing import Annotated, Literal, Self, get_args

from pydantic import AfterValidator, Field, model_validator

from guard_eval.errors import format_count, suggest_nearest_word
from guard_eval.study.criteria_settings import SettingsTable, refuse_duplicates

JUDGE = "judge"
"""The score that is no metric: the win share against the baseline, by all judges together."""
TUNING_DATABASE = "tuning.db"
"""The name of the database with the judges' verdicts on settings."""
Maximized = Literal[
    "diversity", "mauve", "coherence", "bertscore", "perplexity", "rep_2", "rep_3", "rep_4", "judge"
]
LESS_IS_BETTER = ("perplexity", "rep_2", "rep_3", "rep_4")
_PERCENT = (0.0, 100.0)
RANGES = {
    **dict.fromkeys(get_args(Maximized), _PERCENT),
    "coherence": (-math.inf, 0.0),
    "bertscore": (-100.0, 100.0),
    "perplexity": (1.0, math.inf),
    "words": (0.0, math.inf),
    "tokens": (0.0, math.inf),
    "ended": _PERCENT,
}
"""The scores that conditions may limit, with the smallest and the largest possible value."""


def _normalise_condition(text: str) -> str:
    match = re.fullmatch(r"\s*(\w+)\s*(>=|<=)\s*(-?\d+(?:\.\d+)?)\s*", text, re.ASCII)
    if match is None:
        raise ValueError(f"{text!r} is not a condition; write, for example: diversity >= 90")
    if match[1] not in RANGES:
        raise ValueError(f"{match[1]} is not a score: {suggest_nearest_word(match[1], [*RANGES])}")
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
    where: Annotated[list[Condition], AfterValidator(refuse_duplicates)] = []

    @model_validator(mode="after")
    def _check_conditions_can_be_met(self) -> Self:
        """Check that a score can meet all conditions on it."""
        ranges = RANGES.copy()
        for score, sign, limit in self.conditions:
            low, high = ranges[score]
            if sign == ">=":
                low = max(low, limit)
            else:
                high = min(high, limit)
            if low > high:
                bottom, top = RANGES[score]
                raise ValueError(
                    f"where: no texts meet the conditions on {score}, which is from {bottom:g} to {top:g}"
                )
            ranges[score] = low, high
        return self

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


FILE = "tuning.json"
FEW_PROMPTS = 30
"""With fewer tuning prompts than this, the report warns that other prompts could choose other settings."""
ROUNDS_TO_ZERO = 0.005
"""Shares up to this value are printed as 0 %, so they are left out."""
SAME_PROMPTS = (
    "The prompts that chose the settings also test them. If all settings are equally good, the chosen one is "
    "then called better in too many studies: in up to 20 % if one judge chooses and tests, 10 % if a judge "
    "chooses and people test, and 5 % if a metric chooses and raters test. 2.5 % would be correct."
)
"""The warning that the same prompts choose and test a setting. docs/calibration.md explains the figures."""
UNEQUAL = "Strategies had unequal numbers of settings to choose from, and more settings are an advantage."


class TriedSetting(SettingsTable):
    """One of the settings from which [tuning] chooses, with its scores on the tuning prompts.

    Attributes:
        name: The setting, such as `top_p(p=0.9)`.
        scores: The scores that the rule of [tuning] uses, and diversity. None if a score is undefined.
        meets: Whether the setting meets all conditions, and has the score that is maximized.
        chosen_share: The share of resampled sets of prompts that choose this setting.
    """

    name: str
    scores: dict[str, float | None]
    meets: bool
    chosen_share: float


class Search(SettingsTable):
    """All tried settings of one strategy, and the chosen setting.

    Attributes:
        strategy: The strategy, or a system without settings to choose from.
        chosen: The chosen setting. Empty if no setting meets the conditions.
        settings: All settings, in the order of study.toml.
        expected_best: The expected score of the best of 1, 2, … settings, on prompts that did not choose the
            setting. None if no setting would meet the conditions.
    """

    strategy: str
    chosen: str
    settings: list[TriedSetting]
    expected_best: list[float | None]

    @property
    def extreme_parameter_values(self) -> Iterator[str]:
        """Yield each chosen value at the edge of the tried ones, such as "p = 0.9 was the largest tried"."""
        tried = [_parse_numeric_parameters(setting.name) for setting in self.settings]
        for key, value in _parse_numeric_parameters(self.chosen).items():
            values = sorted({setting[key] for setting in tried if key in setting})
            if len(values) > 1 and value in {values[0], values[-1]}:
                yield f"{key} = {value:g} was the {'largest' if value == values[-1] else 'smallest'} tried"


class Choice(SettingsTable):
    """The settings that `measure --tune` chose, and how they were chosen.

    Attributes:
        tuning: The table [tuning] at the time of the choice.
        rule: The hash of this table and of all tried settings (`Settings.tuning_rule_hash`).
        hash: The hash of everything that can change the choice: the rule, the prompts and the texts.
        prompts: The ids of the tuning prompts.
        searches: A search for each strategy, and for each system without settings.
    """

    tuning: Tuning
    rule: str
    hash: str
    prompts: list[str]
    searches: list[Search]

    @property
    def chosen(self) -> dict[str, str]:
        """Return the chosen setting of each strategy. A system that is not tuned keeps its name."""
        return {search.strategy: search.chosen for search in self.searches}

    @property
    def tuning_budgets_in_words(self) -> str:
        """Return the numbers of tried settings as text, such as "Settings tried: top_p 5, top_k 3"."""
        counts = {search.strategy: len(search.settings) for search in self.searches}
        words = [f"{name} {n}" if n > 1 else f"{name} 1 (nothing to choose)" for name, n in counts.items()]
        return f"Settings tried: {', '.join(words)}"

    @property
    def selection_in_words(self) -> str:
        """Describe how settings were chosen: the metric or judge, and the number of prompts."""
        name = "the judge" if self.tuning.maximize == JUDGE else self.tuning.maximize
        where = "separate prompts" if self.tuning.prompts else "prompts that also test them"
        return f"{name} chose the settings on {len(self.prompts)} {where}"

    @property
    def same_prompts_warning(self) -> str:
        """Return a warning if settings were chosen and tested on the same prompts, otherwise ""."""
        return "" if self.tuning.prompts else SAME_PROMPTS

    @property
    def unequal_budgets_warning(self) -> str:
        """Return a warning if strategies have unequal numbers of settings, otherwise ""."""
        return UNEQUAL if len({len(search.settings) for search in self.searches}) > 1 else ""

    def list_warnings(self) -> Iterator[str]:
        """Yield a sentence for each reason that makes the choice weak or the comparison unfair."""
        yield from filter(None, [self.same_prompts_warning, self.unequal_budgets_warning])
        maximized = self.tuning.maximize
        if not self.tuning.where and maximized != JUDGE:
            yield (
                f"Only {maximized} chose the settings, and {maximized} alone may prefer dull texts. Set a "
                "condition in tuning.where, such as diversity >= 90."
            )
        for search in self.searches:
            if extremes := " and ".join(search.extreme_parameter_values):
                yield f"{search.chosen}: {extremes}. A better value may lie beyond, so try more values."
        if len(self.prompts) < FEW_PROMPTS:
            others = ", ".join(
                f"{setting.name} in {100 * setting.chosen_share:.0f} %"
                for search in self.searches
                for setting in search.settings
                if setting.name != search.chosen and setting.chosen_share > ROUNDS_TO_ZERO
            )
            more = f": another sample would choose {others} of the cases" if others else ""
            yield f"Only {format_count(len(self.prompts), 'prompt')} chose the settings{more}."


def remove_parameters(name: str) -> str:
    """Return the strategy of a system: the system's name without parameters.

    >>> remove_parameters("top_p(p=0.9)"), remove_parameters("dry(base=2) + top_k(k=[5, 9])")
    ('top_p', 'dry + top_k')
    >>> remove_parameters("GPT (new)"), remove_parameters("GPT (new)(T=1 (seed 2))")
    ('GPT (new)', 'GPT (new)')
    """
    return re.sub(r"(?<=\S)\((?:[^()]|\([^()]*\))*\)", "", name)


def _parse_numeric_parameters(name: str) -> dict[str, float]:
    """Return the numeric parameters in a setting's name.

    >>> _parse_numeric_parameters("contrastive(k=5, alpha=0.6)"), _parse_numeric_parameters("top_p (0.9)")
    ({'k': 5.0, 'alpha': 0.6}, {'value 1': 0.9})
    """
    number = r"(?:(\w+)\s*=\s*|(?<![\w.]))(-?\d+(?:\.\d+)?(?:e-?\d+)?)\b"
    pairs = enumerate(re.findall(number, name, re.ASCII), start=1)
    return {key or f"value {number}": float(value) for number, (key, value) in pairs}
