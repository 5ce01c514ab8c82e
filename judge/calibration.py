"""Pairs whose answer is known, made of the study's own texts: they measure how good a judge is.

Four checks. A text against itself must be a tie. A text should be preferred to its own words in disorder. The
same pair the other way round should get the same verdict. And a text made longer with what says nothing new
should not be preferred to itself. None of this is a verdict of the study.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from guard_eval.errors import StudyError
from guard_eval.records import BlindPair, CheckedItem, CheckName, Pair, content_id
from guard_eval.store import Showing, Store
from guard_eval.study.judge_settings import Judge
from judge.ledger import Ledger
from judge.lookup import look_up
from judge.rater import rater_name
from judge.request import RequestBuilder

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
class CalibrationPair:
    """A pair to ask about.

    Attributes:
        check: What it is for.
        item: The study's pair it is made of, by its id.
        blind: The two texts in the order in which they are shown; its presentation is 0.
        target: The side of the text that the check is about: the whole one, the padded one, or the
            study's first method; of identical texts the one shown first.
    """

    check: CheckName
    item: str
    blind: BlindPair
    target: Side

    @property
    def showing(self) -> Showing:
        """Return what the judge is shown."""
        return Showing(blind=self.blind, sample=0, purpose="calibration")


def questions(pairs: Sequence[Pair], *, seed: int, items: int = ITEMS) -> list[CalibrationPair]:
    """Return the calibration set of a study: the same for the same pairs and seed.

    Texts of too few words cannot be put into disorder; that check is left out for them.

    Args:
        pairs: The study's pairs.
        seed: The study's seed.
        items: From how many of them, drawn by the seed, it is made.
    """
    drawn = sorted(pairs, key=lambda pair: content_id(seed, "calibration", pair.id))[:items]
    return [question for pair in drawn for question in _of(pair, seed)]


def _of(pair: Pair, seed: int) -> Iterator[CalibrationPair]:
    text = (pair.text_a, pair.text_b)[int(content_id(seed, "text", pair.id), 16) % 2]
    blind = BlindPair(presentation=0, prompt=pair.prompt, text_a=text, text_b=text)
    yield CalibrationPair(check="identical", item=pair.id, blind=blind, target="A")
    disordered = shuffled(text, seed=seed)
    if disordered != text:
        yield from _both_orders("shuffled", pair, text, disordered)
    yield from _both_orders("swapped", pair, pair.text_a, pair.text_b)
    yield from _both_orders("padded", pair, padded(text, seed=seed), text)


def _both_orders(check: CheckName, pair: Pair, target: str, other: str) -> Iterator[CalibrationPair]:
    for side, texts in (("A", (target, other)), ("B", (other, target))):
        blind = BlindPair(presentation=0, prompt=pair.prompt, text_a=texts[0], text_b=texts[1])
        yield CalibrationPair(check=check, item=pair.id, blind=blind, target="A" if side == "A" else "B")


def shuffled(text: str, *, seed: int) -> str:
    """Return the words of `text` in an order drawn by the seed, or `text` where they are too few.

    >>> sorted(shuffled("one two three four", seed=1).split())
    ['four', 'one', 'three', 'two']
    """
    words = text.split()
    if len(set(words)) < _FEWEST_WORDS:
        return text
    order = sorted(range(len(words)), key=lambda place: content_id(seed, "word", place, text))
    mixed = [words[place] for place in order]
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
    filler = [FILLER[(start + place) % len(FILLER)] for place in range(2)]
    return " ".join([text.rstrip(), *repeated, *filler])


def left(store: Store, judge: Judge, *, seed: int) -> list[Showing]:
    """Return the calibration's pairs to which the journal has no verdict of the judge, for an estimate.

    Raises:
        StudyError: The study has no pairs.
    """
    showings = [each.showing for each in of_study(store, seed=seed)]
    found = look_up(store, RequestBuilder(judge, seed=seed), showings, any_limit=True)
    return [
        showing for showing, outcome in zip(showings, found, strict=True) if not isinstance(outcome, dict)
    ]


def of_study(store: Store, *, seed: int) -> list[CalibrationPair]:
    """Return the calibration set of a study.

    Raises:
        StudyError: The study has no pairs.
    """
    pairs = store.pairs()
    if not pairs:
        raise StudyError("the study has no pairs yet, of which a calibration could be made")
    return questions(pairs, seed=seed)


def results(store: Store, judge: Judge, *, seed: int) -> list[CheckedItem]:
    """Return what the journal has of the judge's calibration; nothing where it was never asked.

    Only answers to the same requests count: of the same texts, criteria, wording and settings. The token
    limit is none of these, and neither are time-out and concurrency.
    """
    pairs = questions(store.pairs(), seed=seed)
    showings = [each.showing for each in pairs]
    found = look_up(store, RequestBuilder(judge, seed=seed), showings, any_limit=True)
    outcomes: dict[tuple[CheckName, str, str], list[str]] = {}
    orders: dict[tuple[CheckName, str], int] = {}
    for pair, choices in zip(pairs, found, strict=True):
        orders[pair.check, pair.item] = orders.get((pair.check, pair.item), 0) + 1
        for criterion in judge.criteria:
            known = outcomes.setdefault((pair.check, pair.item, criterion), [])
            if isinstance(choices, dict):
                choice = choices[criterion]
                known.append("tie" if choice == "tie" else "target" if choice == pair.target else "other")
    if not any(outcomes.values()):
        return []
    return [
        CheckedItem(
            judge=rater_name(judge),
            check=check,
            item=item,
            criterion=criterion,
            answers=tuple(known),
            asked=orders[check, item],
        )
        for (check, item, criterion), known in outcomes.items()
    ]


def calibrate(store: Store, judge: Judge, *, seed: int, **options: Any) -> Ledger:  # noqa: ANN401
    """Ask the judge about what of the calibration set it gave no verdict on, and return what it took.

    Args:
        store: The study's database.
        judge: The study's settings for this judge.
        seed: The study's seed.
        options: As `judge.run.run_judge` takes them.

    Raises:
        StudyError: Only the user can fix it; what was answered until then is saved.
    """
    from judge.run import run_judge  # noqa: PLC0415 (a report reads results without the connection)

    showings = left(store, judge, seed=seed)
    return run_judge(store, judge, seed=seed, showings=showings, **options)
