"""Texts grouped by dataset and strategy, with their prompts in an order that no file decides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from guard_eval.errors import StudyError
from guard_eval.texts.generations import HUMAN, Generation


@dataclass(frozen=True)
class Group:
    """One strategy's texts on one dataset.

    Attributes:
        dataset: The dataset.
        strategy: The strategy, or `HUMAN`.
        texts: Its generations, sorted by prompt id and run.
        prompts: The sorted ids of all prompts of the dataset, whichever strategy continued them.
    """

    dataset: str
    strategy: str
    texts: tuple[Generation, ...]
    prompts: tuple[str, ...]

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """Return the place of each text's prompt among `prompts`, `[texts]`."""
        position = {prompt: index for index, prompt in enumerate(self.prompts)}
        return np.array([position[text.prompt_id] for text in self.texts], dtype=np.int64)

    @cached_property
    def runs(self) -> list[list[int]]:
        """Return the places of the texts of each run, in which a prompt has one text."""
        runs: dict[int, list[int]] = {}
        for index, text in enumerate(self.texts):
            runs.setdefault(text.run, []).append(index)
        return [runs[run] for run in sorted(runs)]

    @cached_property
    def counts(self) -> dict[str, int]:
        """Return how many texts have which flaw."""
        flaws = Counter(sorted(flaw for text in self.texts for flaw in text.flaws))
        flaws["empty"] += sum(not text.text.strip() for text in self.texts)
        flaws["prompt not continued"] += len(self.prompts) - len(np.unique(self.places))
        return nonzero(flaws)

    def sum_by_prompt(self, rows: ArrayLike) -> NDArray[np.float64]:
        """Return rows, one for each text, summed by prompt, of several runs their mean: `[prompts, m]`."""
        values = np.asarray(rows, dtype=np.float64)
        sums, runs = np.zeros((2, len(self.prompts), values.shape[1]))
        np.add.at(sums, self.places, values)
        for run in self.runs:
            runs[np.unique(self.places[run])] += 1
        return np.asarray(sums / np.maximum(runs, 1))


def nonzero(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the counts that are not 0."""
    return {name: count for name, count in counts.items() if count}


def group_texts(generations: Iterable[Generation]) -> list[Group]:
    """Return the groups of generations, datasets in alphabetical order, strategies as they come.

    Raises:
        StudyError: If there are no texts, or if a strategy has the name that stands for people.
    """
    texts: dict[tuple[str, str], list[Generation]] = {}
    prompts: dict[str, set[str]] = {}
    for generation in generations:
        texts.setdefault((generation.dataset, generation.strategy), []).append(generation)
        prompts.setdefault(generation.dataset, set()).add(generation.prompt_id)
    if not texts:
        raise StudyError("there are no texts to measure")
    strategies = list(dict.fromkeys(strategy for _, strategy in texts))
    if HUMAN in strategies:
        raise StudyError(f"a strategy is named {HUMAN!r}, which stands for the references; rename it")
    groups = []
    for dataset, strategy in sorted(texts, key=lambda key: (key[0], strategies.index(key[1]))):
        ordered = sorted(texts[dataset, strategy], key=lambda text: (text.prompt_id, text.run))
        groups.append(Group(dataset, strategy, tuple(ordered), tuple(sorted(prompts[dataset]))))
    return groups


def human_groups(groups: Sequence[Group]) -> list[Group]:
    """Return the references of each dataset as if people were one more strategy.

    Where strategies bring different references of a prompt, the first strategy's is taken, and it is flagged.
    """
    references: dict[str, dict[str, list[Generation]]] = {}
    prompts = {group.dataset: group.prompts for group in groups}
    for group in groups:
        for text in group.texts:
            if text.reference is not None:
                references.setdefault(group.dataset, {}).setdefault(text.prompt_id, []).append(text)
    return [
        Group(
            dataset, HUMAN, tuple(_as_text(texts) for _, texts in sorted(by_prompt.items())), prompts[dataset]
        )
        for dataset, by_prompt in references.items()
    ]


def _as_text(texts: Sequence[Generation]) -> Generation:
    """Return the reference of the texts of a prompt as a text that people wrote."""
    first = texts[0].reference or ""
    differs = any(text.reference != first for text in texts)
    flaws = ("reference differs between strategies",) if differs else ()
    return replace(texts[0], strategy=HUMAN, text=first, run=1, flaws=flaws)
