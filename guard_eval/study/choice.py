"""What [tuning] chose, as tuning.json has it, and what must be said of the search."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from guard_eval.study.criteria_settings import SettingsTable
from guard_eval.study.tuning_settings import JUDGE, Tuning

FILE = "tuning.json"
FEW_PROMPTS = 30
"""With fewer tuning prompts there is a warning."""
SAME_PROMPTS = (
    "The prompts that chose the settings also test them. The best of equal settings is then called better "
    "too often: instead of in 2.5 % of the studies in up to 27 % if one judge chooses and tests, in up to 9 "
    "% if a judge chooses and people test, and in up to 4 % if a metric chooses and raters test."
)
"""The warning of a choice on the prompts that test it (docs/calibration.md)."""
UNEQUAL = "Strategies had unequal numbers of settings to choose from, and more settings are an advantage."
_PARAMETER = re.compile(r"(?:(\w+)\s*=\s*|(?<![\w.]))(-?\d+(?:\.\d+)?(?:e-?\d+)?)\b", re.ASCII)


class TriedSetting(SettingsTable):
    """A setting with its scores on the tuning prompts.

    Attributes:
        name: The system.
        scores: Each score of the rule, and diversity; None if it is undefined.
        meets: Whether it meets the conditions.
        chosen_share: How often it is chosen from resampled prompts.
    """

    name: str
    scores: dict[str, float | None]
    meets: bool
    chosen_share: float


class Search(SettingsTable):
    """The settings of one strategy, and the one that was chosen.

    Attributes:
        strategy: The strategy, or the system that has no settings to choose from.
        chosen: The chosen setting.
        settings: All settings, in the order of study.toml.
        expected_best: The score to expect of the best of 1, 2, … settings, on prompts that did not choose it;
            None where no setting would meet the conditions.
    """

    strategy: str
    chosen: str
    settings: list[TriedSetting]
    expected_best: list[float | None]

    @property
    def extremes(self) -> list[str]:
        """Return the numbers of the chosen setting that are the smallest or largest of several tried."""
        tried = [_numbers(setting.name) for setting in self.settings]
        words = []
        for key, value in _numbers(self.chosen).items():
            values = sorted({each[key] for each in tried if key in each})
            if len(values) > 1 and value in {values[0], values[-1]}:
                which = "largest" if value == values[-1] else "smallest"
                words.append(f"{key} = {value:g} was the {which} tried")
        return words

    @property
    def alternatives(self) -> list[str]:
        """Return how often another setting would be chosen, in words."""
        return [
            f"{each.name} in {100 * each.chosen_share:.0f} %"
            for each in self.settings
            if each.name != self.chosen and each.chosen_share
        ]


class Rule(SettingsTable):
    """What decides the choice besides texts and prompts.

    Attributes:
        tuning: The table of study.toml.
        grids: The settings of each strategy that has several.
        metrics: How scores are computed.
        judges: The judges, if they choose.
        seed: The study's seed.
    """

    tuning: Tuning
    grids: dict[str, list[str]]
    metrics: dict[str, Any]
    judges: list[Any]
    seed: int

    def hash(self, prompts: Sequence[str], texts: Sequence[str]) -> str:
        """Return the SHA-256 of all that a choice depends on: the rule, and the ids of prompts and texts."""
        content = {"rule": self.model_dump(mode="json"), "prompts": sorted(prompts), "texts": sorted(texts)}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


class Choice(SettingsTable):
    """What `measure --tune` chose.

    Attributes:
        rule: The rule by which it chose.
        hash: The SHA-256 of all that the choice depended on.
        prompts: The ids of the prompts that chose.
        searches: One for each strategy, and for each system without settings.
    """

    rule: Rule
    hash: str
    prompts: list[str]
    searches: list[Search]

    @property
    def chosen(self) -> dict[str, str]:
        """Return the chosen setting of each strategy that has several."""
        return {each.strategy: each.chosen for each in self.searches if each.strategy in self.rule.grids}

    @property
    def budget(self) -> str:
        """Return how many settings each strategy had, in words."""
        counts = [f"{each.strategy} {_count(each, self.rule.grids)}" for each in self.searches]
        return f"Settings tried: {', '.join(counts)}"

    @property
    def is_unequal(self) -> bool:
        """Return whether some strategies had more settings to choose from than others."""
        return len({len(each.settings) for each in self.searches}) > 1

    @property
    def instrument(self) -> str:
        """Return what chose, and on which prompts."""
        tuning = self.rule.tuning
        name = "the judge" if tuning.maximize == JUDGE else tuning.maximize
        where = "apart" if tuning.prompts else "that also test them"
        return f"{name} chose the settings on {len(self.prompts)} prompts {where}"

    @property
    def same_prompts(self) -> str:
        """Return what follows if the prompts that chose are those that test; empty if they are apart."""
        return "" if self.rule.tuning.prompts else SAME_PROMPTS

    @property
    def unequal(self) -> str:
        """Return what follows if some strategies had more settings than others; empty if none had."""
        counts = {len(each.settings) for each in self.searches}
        return UNEQUAL if len(counts) > 1 else ""

    def warnings(self) -> Iterator[str]:
        """Yield what makes the choice weak or the comparison unfair, in sentences."""
        tuning = self.rule.tuning
        yield from filter(None, [self.same_prompts, self.unequal])
        if not tuning.where and tuning.maximize != JUDGE:
            yield f"nothing but {tuning.maximize} chose, so it may have chosen dull texts; set tuning.where"
        for search in self.searches:
            if extremes := " and ".join(search.extremes):
                yield f"{search.chosen}: {extremes}, so a better value may lie beyond"
        if len(self.prompts) < FEW_PROMPTS:
            others = ", ".join(chain(*(each.alternatives for each in self.searches)))
            more = f": another sample would choose {others} of the cases" if others else ""
            yield f"only {len(self.prompts)} prompts chose the settings{more}"


def strategy_of(name: str) -> str:
    """Return the strategy of which a system's name is a setting: the name without its parameters.

    >>> strategy_of("top_p(p=0.9)"), strategy_of("guard")
    ('top_p', 'guard')
    """
    return name.partition("(")[0].strip() or name


def _numbers(name: str) -> dict[str, float]:
    """Return the numbers in a setting's name by their keys.

    >>> _numbers("contrastive(k=5, alpha=0.6)"), _numbers("top_p (0.9)")
    ({'k': 5.0, 'alpha': 0.6}, {'value 1': 0.9})
    """
    found = enumerate(_PARAMETER.findall(name), start=1)
    return {key or f"value {place}": float(value) for place, (key, value) in found}


def _count(search: Search, grids: dict[str, list[str]]) -> str:
    return f"{len(search.settings)}" if search.strategy in grids else "1 (it has none to choose)"
