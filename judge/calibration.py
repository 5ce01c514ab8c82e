"""Pairs whose answer is known, made of the study's own texts: they measure how good a judge is.

Four checks. A text against itself must be a tie. A text should be preferred to its own words in disorder. The
same pair the other way round should get the same verdict. And a text made longer with what says nothing new
should not be preferred to itself. None of this is a verdict of the study.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from guard_eval.records import BlindPair, Choice, Pair, content_id
from guard_eval.store import Store
from guard_eval.store import pairs as store_pairs
from guard_eval.store.requests import Question
from guard_eval.study.judge_settings import Judge
from judge.questions import Asker

Side = Literal["A", "B"]

ITEMS = 20
"""Pairs of the study from which the checks are made: 7 requests each."""

FILLER = (
    "There is more that could be said about this.",
    "And so it went, as such things do.",
    "In a way, that was all there was to it.",
    "One could go on like this for quite some time.",
)
"""Sentences that say nothing; how many of them, and which come first, follows from the seed."""

_FEWEST_WORDS = 4
_SENTENCE = re.compile(r"(?<=[.!?…])[\"'”’)]*\s+")


@dataclass(frozen=True, kw_only=True, slots=True)
class CalibrationItem:
    """A question whose answer is known.

    Attributes:
        check: What it is for.
        question: What the judge is asked; its pair is the study's pair that it is made of.
        target: The side of the text that the check is about: the whole one, the padded one, or the study's
            first method; of identical texts the one shown first.
    """

    check: str
    question: Question
    target: Side


def make_items(pairs: Sequence[Pair], *, seed: int) -> list[CalibrationItem]:
    """Return the calibration set of a study: the same for the same pairs and seed.

    Texts of too few words cannot be put into disorder; that check is left out for them.
    """
    drawn = sorted(pairs, key=lambda pair: content_id(seed, "calibration", pair.id))[:ITEMS]
    return [
        CalibrationItem(
            check=check,
            target=target,
            question=Question(
                pair_id=pair.id,
                number=number,
                purpose="calibration",
                blind=BlindPair.of(0, pair.prompt, text_a, text_b),
            ),
        )
        for pair in drawn
        for number, (check, target, text_a, text_b) in enumerate(_make_texts(pair, seed))
    ]


def _make_texts(pair: Pair, seed: int) -> Iterator[tuple[str, Side, str, str]]:
    text = (pair.text_a, pair.text_b)[int(content_id(seed, "text", pair.id), 16) % 2]
    yield "identical", "A", text, text
    compared: list[tuple[str, str, str]] = [
        ("shuffled", text, shuffled(text, seed=seed)),
        ("swapped", pair.text_a, pair.text_b),
        ("padded", padded(text, seed=seed), text),
    ]
    for check, target, other in compared:
        if check != "shuffled" or other != text:
            yield check, "A", target, other
            yield check, "B", other, target


def shuffled(text: str, *, seed: int) -> str:
    """Return the words of `text` in an order drawn by the seed, or `text` where they are too few.

    >>> sorted(shuffled("one two three four", seed=1).split())
    ['four', 'one', 'three', 'two']
    """
    words = text.split()
    if len(set(words)) < _FEWEST_WORDS:
        return text
    order = sorted(range(len(words)), key=lambda index: content_id(seed, "word", index, text))
    mixed = [words[index] for index in order]
    return " ".join(mixed if mixed != words else mixed[::-1])


def padded(text: str, *, seed: int) -> str:
    """Return `text`, about half as long again: its own first sentences once more, and filler.

    >>> padded("A cat sat. It slept.", seed=1).startswith("A cat sat. It slept. A cat sat.")
    True
    """
    repeated: list[str] = []
    for sentence in _SENTENCE.split(text.strip()):
        repeated.append(sentence)
        if len(" ".join(repeated)) >= len(text) / 3:
            break
    start = int(content_id(seed, "filler", text), 16)
    filler = [FILLER[(start + index) % len(FILLER)] for index in range(2)]
    return " ".join([text.rstrip(), *repeated, *filler])


def read_unanswered(store: Store, judge: Judge, *, seed: int) -> list[Question]:
    """Return the calibration's questions on which there is no verdict of the judge."""
    questions = [each.question for each in make_items(store_pairs.read(store), seed=seed)]
    outcomes = Asker(judge, seed=seed).conclude_all(store, questions)
    return [each for each, outcome in zip(questions, outcomes, strict=True) if not isinstance(outcome, dict)]


def read_checks(store: Store, judge: Judge, *, seed: int) -> list[Mapping[str, Any]]:
    """Return how the judge did in its calibration; nothing if it was never asked.

    Only answers to the same requests count: of the same texts, criteria, wording and settings.
    """
    items = make_items(store_pairs.read(store), seed=seed)
    outcomes = Asker(judge, seed=seed).conclude_all(store, [each.question for each in items])
    if not any(isinstance(choices, dict) for choices in outcomes):
        return []
    groups: dict[tuple[str, str], list[tuple[CalibrationItem, object]]] = {}
    for item, choices in zip(items, outcomes, strict=True):
        groups.setdefault((item.check, item.question.pair_id), []).append((item, choices))
    return [
        {
            "judge": judge.rater_name,
            "check": check,
            "item": pair_id,
            "criterion": criterion,
            "answers": tuple(
                _name_choice(choices[criterion], item.target)
                for item, choices in group
                if isinstance(choices, dict)
            ),
            "asked": len(group),
        }
        for (check, pair_id), group in groups.items()
        for criterion in judge.criteria
    ]


def _name_choice(choice: Choice, target: Side) -> str:
    return "tie" if choice == "tie" else "target" if choice == target else "other"
