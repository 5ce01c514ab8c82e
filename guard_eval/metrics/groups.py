"""Texts by dataset and strategy, with their prompts in an order that no file decides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from guard_eval.errors import StudyError
from guard_eval.texts.generations import HUMAN, Generation


@dataclass(frozen=True)
class Group:
    """One strategy's texts on one dataset.

    Attributes:
        dataset: The dataset.
        strategy: The strategy, or `HUMAN`.
        texts: Its generations, by prompt id.
        prompts: The ids of all prompts of the dataset, whichever strategy continued them, in order.
        run: Which run it is, where the runs are groups of their own.
    """

    dataset: str
    strategy: str
    texts: tuple[Generation, ...]
    prompts: tuple[str, ...]
    run: int = 1

    @property
    def key(self) -> tuple[str, str, int]:
        """Return what tells it from other groups."""
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

    def summed(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return rows, one a text, added up by prompt: `[texts, m]` → `[prompts, m]`."""
        out = np.zeros((len(self.prompts), rows.shape[1]))
        np.add.at(out, self.places, rows)
        return out


def group(generations: Iterable[Generation]) -> list[Group]:
    """Return the groups of `generations`, datasets in alphabetical order, strategies as they come.

    Raises:
        StudyError: There is nothing, or a strategy has the name that stands for people.
    """
    generations = list(generations)
    if not generations:
        raise StudyError("there are no texts to measure")
    if any(generation.strategy == HUMAN for generation in generations):
        raise StudyError(f"a strategy is named {HUMAN!r}, which stands for the references; rename it")
    found: dict[tuple[str, str], list[Generation]] = {}
    for generation in generations:
        found.setdefault((generation.dataset, generation.strategy), []).append(generation)
    strategies = list(dict.fromkeys(generation.strategy for generation in generations))
    prompts: dict[str, set[str]] = {}
    for generation in generations:
        prompts.setdefault(generation.dataset, set()).add(generation.prompt_id)
    return [
        Group(
            dataset,
            strategy,
            tuple(sorted(found[dataset, strategy], key=lambda text: (text.prompt_id, text.run))),
            tuple(sorted(prompts[dataset])),
        )
        for dataset in sorted(prompts)
        for strategy in strategies
        if (dataset, strategy) in found
    ]


def human(groups: Sequence[Group]) -> list[Group]:
    """Return the references of each dataset as if people were one more strategy; none where there is none.

    Where strategies bring different references of a prompt, the first strategy's counts, and it is flagged.
    """
    found = []
    for dataset in dict.fromkeys(one.dataset for one in groups):
        mine = [one for one in groups if one.dataset == dataset]
        texts: dict[str, Generation] = {}
        differing = set()
        for text in (text for one in mine for text in one.texts if text.reference is not None):
            first = texts.setdefault(text.prompt_id, text)
            if first.reference != text.reference:
                differing.add(text.prompt_id)
        references = tuple(
            Generation(
                prompt_id=text.prompt_id,
                dataset=dataset,
                strategy=HUMAN,
                text=text.reference or "",
                prompt=text.prompt,
                reference=text.reference,
                flaws=("reference differs between strategies",) if text.prompt_id in differing else (),
            )
            for _, text in sorted(texts.items())
        )
        if references:
            found.append(Group(dataset, HUMAN, references, mine[0].prompts))
    return found


def nonzero(counts: dict[str, int]) -> dict[str, int]:
    """Return the counts that are not 0."""
    return {name: count for name, count in counts.items() if count}
