"""Texts grouped by dataset and strategy, with their prompts in an order that no file decides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
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
        run: The number of the run, where each run is a group.
    """

    dataset: str
    strategy: str
    texts: tuple[Generation, ...]
    prompts: tuple[str, ...]
    run: int = 1

    @property
    def key(self) -> tuple[str, str, int]:
        """Return dataset, strategy and run."""
        return self.dataset, self.strategy, self.run

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """Return the place of each text's prompt among `prompts`, `[texts]`."""
        place = {prompt: index for index, prompt in enumerate(self.prompts)}
        return np.array([place[text.prompt_id] for text in self.texts], dtype=np.int64)

    @cached_property
    def counts(self) -> dict[str, int]:
        """Return how many texts have which flaw."""
        flaws = Counter(flaw for text in self.texts for flaw in text.flaws)
        empty = sum(not text.text.strip() for text in self.texts)
        missing = len(self.prompts) - len(np.unique(self.places))
        return dict(sorted(flaws.items())) | nonzero({"empty": empty, "prompt not continued": missing})

    def sum_by_prompt(self, rows: ArrayLike) -> NDArray[np.float64]:
        """Return rows, one for each text, added up by prompt: `[texts, m]` → `[prompts, m]`."""
        values = np.asarray(rows, dtype=np.float64)
        sums = np.zeros((len(self.prompts), values.shape[1]))
        np.add.at(sums, self.places, values)
        return sums

    def by_run(self) -> list[Group]:
        """Return the runs as groups of the same prompts."""
        runs = sorted({text.run for text in self.texts})
        if len(runs) == 1:
            return [self]
        return [
            replace(self, run=run, texts=tuple(text for text in self.texts if text.run == run))
            for run in runs
        ]


def group_texts(generations: Iterable[Generation]) -> list[Group]:
    """Return the groups of generations, datasets in alphabetical order, strategies as they come.

    Raises:
        StudyError: There is nothing, or a strategy has the name that stands for people.
    """
    texts: dict[tuple[str, str], list[Generation]] = {}
    prompts: dict[str, set[str]] = {}
    for generation in generations:
        texts.setdefault((generation.dataset, generation.strategy), []).append(generation)
        prompts.setdefault(generation.dataset, set()).add(generation.prompt_id)
    strategies = dict.fromkeys(strategy for _, strategy in texts)
    if not texts:
        raise StudyError("there are no texts to measure")
    if HUMAN in strategies:
        raise StudyError(f"a strategy is named {HUMAN!r}, which stands for the references; rename it")
    return [
        Group(
            dataset,
            strategy,
            tuple(sorted(texts[dataset, strategy], key=lambda text: (text.prompt_id, text.run))),
            tuple(sorted(prompts[dataset])),
        )
        for dataset in sorted(prompts)
        for strategy in strategies
        if (dataset, strategy) in texts
    ]


def human_groups(groups: Sequence[Group]) -> list[Group]:
    """Return the references of each dataset as if people were one more strategy.

    Where strategies bring different references of a prompt, the first strategy's is taken, and it is flagged.
    """
    humans = []
    for dataset in dict.fromkeys(group.dataset for group in groups):
        of_dataset = [group for group in groups if group.dataset == dataset]
        first: dict[str, Generation] = {}
        differing = set()
        for text in (text for group in of_dataset for text in group.texts if text.reference is not None):
            if first.setdefault(text.prompt_id, text).reference != text.reference:
                differing.add(text.prompt_id)
        references = tuple(
            Generation(
                prompt_id=prompt,
                dataset=dataset,
                strategy=HUMAN,
                text=text.reference or "",
                prompt=text.prompt,
                reference=text.reference,
                flaws=("reference differs between strategies",) if prompt in differing else (),
            )
            for prompt, text in sorted(first.items())
        )
        if references:
            humans.append(Group(dataset, HUMAN, references, of_dataset[0].prompts))
    return humans


def nonzero(counts: dict[str, int]) -> dict[str, int]:
    """Return the counts that are not 0."""
    return {name: count for name, count in counts.items() if count}
