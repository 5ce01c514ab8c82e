"""Groups of texts of one dataset and one strategy, and the outcome of a metric for a group.

A group's prompts are sorted by id, so the order of the files does not matter. A metric is a function of sums
over prompts. An outcome has the value of the metric, and each prompt's summands in these sums.
"""

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from types import MappingProxyType
from typing import TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from guard_eval.errors import StudyError
from guard_eval.estimate import Floats, Statistic, divide_sums, join_notes
from guard_eval.records import HUMAN, Generation, clean_for_raters

DIFFERING = "reference differs between strategies"
"""The flaw of a reference if a prompt has several references."""


@dataclass(frozen=True)
class Group:
    """One strategy's texts on one dataset.

    Attributes:
        dataset: The dataset.
        strategy: The strategy, or `HUMAN`.
        texts: The strategy's generations, sorted by prompt id and run.
        prompts: The units of the statistics, sorted: all prompts that any strategy continued.
        units: The unit of each prompt, by prompt id. Prompts with the same words are one unit, even if their
            ids differ.
    """

    dataset: str
    strategy: str
    texts: tuple[Generation, ...]
    prompts: tuple[str, ...]
    units: Mapping[str, str]

    @cached_property
    def prompt_indices(self) -> NDArray[np.int64]:
        """The index in `prompts` of each text's prompt, `[texts]`."""
        position = {prompt: index for index, prompt in enumerate(self.prompts)}
        return np.array([position[self.units[text.prompt_id]] for text in self.texts], dtype=np.int64)

    @cached_property
    def run_indices(self) -> list[list[int]]:
        """The indices of the texts of each run. A prompt has one text in each run."""
        runs: dict[int, list[int]] = defaultdict(list)
        for index, text in enumerate(self.texts):
            runs[text.run].append(index)
        return [runs[run] for run in sorted(runs)]

    @cached_property
    def flaw_counts(self) -> Counter[str]:
        """The number of texts with each flaw."""
        flaws = Counter(sorted(flaw for text in self.texts for flaw in text.flaws))
        flaws["empty"] += sum(not text.text.strip() for text in self.texts)
        flaws["prompt not continued"] += len(self.prompts) - len(np.unique(self.prompt_indices))
        return flaws

    def average_runs_by_prompt(self, rows: ArrayLike) -> NDArray[np.float64]:
        """Average the rows of the texts of each prompt, `[texts, m]` → `[prompts, m]`."""
        values = np.asarray(rows, dtype=np.float64)
        sums, runs = np.zeros((2, len(self.prompts), values.shape[1]))
        np.add.at(sums, self.prompt_indices, values)
        for run in self.run_indices:
            runs[np.unique(self.prompt_indices[run])] += 1
        return np.asarray(sums / np.maximum(runs, 1))


def group_texts(generations: Iterable[Generation]) -> list[Group]:
    """Group texts by dataset, in alphabetical order, and by strategy, in the order of the texts.

    Raises:
        StudyError: There are no texts, or a strategy has the name that is reserved for references.
    """
    texts: dict[tuple[str, str], list[Generation]] = defaultdict(list)
    units: dict[str, dict[str, str]] = defaultdict(dict)
    for text in _separate_prompts_with_one_id(list(generations)):
        texts[text.dataset, text.strategy].append(text)
        if text.prompt is not None:
            units[text.dataset][text.prompt_id] = f"words: {clean_for_raters(text.prompt)}"
        units[text.dataset].setdefault(text.prompt_id, text.prompt_id)
    if not texts:
        raise StudyError("there are no texts to measure; name a file with texts")
    strategies = list(dict.fromkeys(strategy for _, strategy in texts))
    if HUMAN in strategies:
        raise StudyError(f"the strategy name {HUMAN!r} is reserved for the references; rename the strategy")
    return [
        _make_group(dataset, strategy, texts[dataset, strategy], units[dataset])
        for dataset, strategy in sorted(texts, key=lambda key: (key[0], strategies.index(key[1])))
    ]


def _separate_prompts_with_one_id(generations: Sequence[Generation]) -> Sequence[Generation]:
    """Give texts another `prompt_id` if their id, or their line, is that of another prompt in another file.

    A prompt and its beginning count as one prompt, because files may cut prompts at different places.
    """
    cleaned = {text.prompt: clean_for_raters(text.prompt) for text in generations if text.prompt is not None}
    wordings: dict[tuple[str, str], list[str]] = defaultdict(list)

    def name_prompt(text: Generation) -> str:
        """Return a suffix for the text's id: the number of its prompt, or else its strategy."""
        if text.prompt is None:
            return f" ({text.strategy})"
        words = cleaned[text.prompt]
        wordings_of_id = wordings[text.dataset, text.prompt_id]
        for number, other in enumerate(wordings_of_id, start=1):
            if words.startswith(other) or other.startswith(words):
                return f" ({number})"
        wordings_of_id.append(words)
        return f" ({len(wordings_of_id)})"

    suffixes = [name_prompt(text) for text in generations]
    return [
        replace(text, prompt_id=text.prompt_id + suffix)
        if len(wordings[text.dataset, text.prompt_id]) > 1
        else text
        for text, suffix in zip(generations, suffixes, strict=True)
    ]


def _make_group(
    dataset: str,
    strategy: str,
    texts: Iterable[Generation],
    units: Mapping[str, str],
) -> Group:
    """Return texts as a group, sorted by prompt and run."""
    ordered = tuple(sorted(texts, key=lambda text: (text.prompt_id, text.run)))
    return Group(dataset, strategy, ordered, tuple(sorted(set(units.values()))), units)


def make_reference_groups(groups: Sequence[Group]) -> list[Group]:
    """Return the references of each dataset as a group of texts with the strategy `HUMAN`.

    If a prompt has different references, the first reference is used and marked with a flaw.
    """
    units = {group.dataset: group.units for group in groups}
    references: dict[str, dict[str, Generation]] = defaultdict(dict)
    for text in chain.from_iterable(group.texts for group in groups):
        if text.reference is not None:
            human = replace(text, strategy=HUMAN, text=text.reference, run=1, flaws=())
            first = references[text.dataset].setdefault(text.prompt_id, human)
            if first.text != text.reference:
                references[text.dataset][text.prompt_id] = replace(first, flaws=(DIFFERING,))
    return [
        _make_group(dataset, HUMAN, texts.values(), units[dataset]) for dataset, texts in references.items()
    ]


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """A metric of one group of texts.

    Attributes:
        metric: One of `scores.METRICS`.
        dataset: The group's dataset.
        strategy: The group's strategy.
        prompt_indices: The indices, in `Group.prompts`, of the prompts that the strategy continued.
        runs: The number of texts for each prompt.
        value: The value, or None if it is undefined. `note` then gives the reason.
        n: The number of texts with a value.
        counts: The number of texts that were left out, cut or repaired, by reason.
        note: A remark that the reader of the value must know.
        signature: The definition of the metric, with the settings.
        parts: Each prompt's summands in the sums, `[prompts, m]`. A prompt without a text has zeros. If
            `parts` is None, there is no interval.
        function: The metric as a function of the sums, `[..., m]` → `[...]`. An undefined value is NaN.
        noise: The variance of the value that does not come from the choice of prompts, but for example from
            the seed of k-means.
    """

    metric: str
    dataset: str
    strategy: str
    prompt_indices: NDArray[np.int64]
    runs: int
    value: float | None
    n: int
    counts: Mapping[str, int]
    note: str
    signature: str
    parts: Floats | None
    function: Statistic
    noise: float


class Facts(TypedDict, total=False):
    """Optional arguments of `make_outcome_from_run_values`, which describes each of them."""

    n: int
    signature: str
    counts: Mapping[str, int]
    note: str
    reason: str
    parts: Floats | None


def make_outcome_from_run_values(
    metric: str,
    group: Group,
    run_values: Sequence[float],
    function: Statistic = divide_sums,
    *,
    n: int = 0,
    signature: str = "",
    counts: Mapping[str, int] = MappingProxyType({}),
    note: str = "",
    reason: str = "the metric is undefined for every text",
    parts: Floats | None = None,
    noise: float = 0.0,
) -> Outcome:
    """Return the outcome of a metric. The outcome's value is the mean of the values of several runs.

    Args:
        metric: The metric's name.
        group: The texts.
        run_values: The value of each run, or one for all runs. An undefined value is not a finite number.
        function: The metric as a function of the sums of `parts`.
        n: The number of texts with a value.
        signature: The definition of the metric, with the settings.
        counts: The number of texts that this metric left out or cut, by reason. The group's counts are added.
        note: A remark that the reader of the value must know.
        reason: The note if all values are undefined.
        parts: Each prompt's summands in the sums, `[prompts, m]`. Without parts, there is no interval.
        noise: The variance of the value that does not come from the choice of prompts.
    """
    defined = [value for value in run_values if math.isfinite(value)]
    if not defined:
        n = 0
        parts = None
        note = reason
    elif len(run_values) > 1:
        note = join_notes(f"mean of {len(defined)} runs", note)
    return Outcome(
        metric=metric,
        dataset=group.dataset,
        strategy=group.strategy,
        prompt_indices=np.unique(group.prompt_indices),
        runs=len(group.run_indices),
        value=statistics.mean(defined) if defined else None,
        n=n,
        counts=dict(group.flaw_counts + Counter(counts)),
        note=note,
        signature=signature,
        parts=parts,
        function=function,
        noise=noise,
    )


def make_outcome_from_sums(
    metric: str,
    group: Group,
    text_summands: ArrayLike,
    function: Statistic = divide_sums,
    **facts: Unpack[Facts],
) -> Outcome:
    """Return the outcome of a metric that is a function of sums. The runs of a prompt are averaged.

    Args:
        metric: The metric's name.
        group: The texts.
        text_summands: Each text's summands in the sums, `[texts, m]`.
        function: The metric as a function of the sums.
        **facts: See `make_outcome_from_run_values`.
    """
    facts["parts"] = parts = group.average_runs_by_prompt(text_summands)
    values = [float(function(parts.sum(axis=0)))] * len(group.run_indices)
    return make_outcome_from_run_values(metric, group, values, function, **facts)


def make_outcome_from_text_values(
    metric: str, group: Group, text_values: ArrayLike, **facts: Unpack[Facts]
) -> Outcome:
    """Return the outcome of a metric that is the mean of the finite `text_values`, `[texts]`."""
    numbers = np.asarray(text_values, dtype=np.float64)
    defined = np.isfinite(numbers)
    rows = np.stack([np.where(defined, numbers, 0.0), defined], axis=1)
    facts["n"] = int(defined.sum())
    return make_outcome_from_sums(metric, group, rows, **facts)
