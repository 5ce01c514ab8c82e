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
        position = {prompt: index for index, prompt in enumerate(self.prompts)}
        return np.array([position[text.prompt_id] for text in self.texts], dtype=np.int64)

    @cached_property
    def counts(self) -> dict[str, int]:
        """Return how many texts have which flaw."""
        flaws = Counter(sorted(flaw for text in self.texts for flaw in text.flaws))
        flaws["empty"] += sum(not text.text.strip() for text in self.texts)
        flaws["prompt not continued"] += len(self.prompts) - len(np.unique(self.places))
        return {flaw: count for flaw, count in flaws.items() if count}

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
        StudyError: If there are no texts, or if a strategy has the name that stands for people.
    """
    texts: dict[tuple[str, str], list[Generation]] = {}
    prompts: dict[str, set[str]] = {}
    for generation in generations:
        texts.setdefault((generation.dataset, generation.strategy), []).append(generation)
        prompts.setdefault(generation.dataset, set()).add(generation.prompt_id)
    if not texts:
        raise StudyError("there are no texts to measure")
    if any(strategy == HUMAN for _, strategy in texts):
        raise StudyError(f"a strategy is named {HUMAN!r}, which stands for the references; rename it")
    strategies = list(dict.fromkeys(strategy for _, strategy in texts))
    return [
        Group(
            dataset,
            strategy,
            tuple(sorted(rows, key=lambda text: (text.prompt_id, text.run))),
            tuple(sorted(prompts[dataset])),
        )
        for (dataset, strategy), rows in sorted(
            texts.items(), key=lambda item: (item[0][0], strategies.index(item[0][1]))
        )
    ]


def human_groups(groups: Sequence[Group]) -> list[Group]:
    """Return the references of each dataset as if people were one more strategy.

    Where strategies bring different references of a prompt, the first strategy's is taken, and it is flagged.
    """
    humans = []
    for dataset, prompts in {group.dataset: group.prompts for group in groups}.items():
        first: dict[str, Generation] = {}
        for group in groups:
            for text in group.texts if group.dataset == dataset else ():
                if text.reference is None:
                    continue
                person = Generation(
                    prompt_id=text.prompt_id,
                    dataset=dataset,
                    strategy=HUMAN,
                    text=text.reference,
                    prompt=text.prompt,
                    reference=text.reference,
                )
                if first.setdefault(text.prompt_id, person).reference != text.reference:
                    flaws = ("reference differs between strategies",)
                    first[text.prompt_id] = replace(first[text.prompt_id], flaws=flaws)
        if first:
            humans.append(Group(dataset, HUMAN, tuple(first[name] for name in sorted(first)), prompts))
    return humans
